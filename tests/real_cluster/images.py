"""Images for the cluster: those of tools/get_images.py, and one for CoreDNS.

Nothing is pulled: whatever pods name is imported before they are made.
"""

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from images.archive import Config, write_archive
from images.layers import write_layer

from real_cluster.node import SOCKET

COREDNS_IMAGE = "jobyard/coredns:tests"
# containerd's word for "of Kubernetes".
CONTAINERD_NAMESPACE = "k8s.io"


def coredns_archive(folder: Path, command: Path) -> Path:
    """An image with the one file that CoreDNS is."""
    tree = folder / "coredns"
    tree.mkdir()
    shutil.copy2(command, tree / "coredns")
    layer = write_layer(tree, folder / "coredns-layer.tar")
    archive = folder / "coredns.tar"
    config = Config(entrypoint=("/coredns",))
    write_archive(archive, [COREDNS_IMAGE], config, [layer])
    return archive


def start_import(files: Iterable[Path], log: Path) -> subprocess.Popen[bytes]:
    """Begin to import; images are large, and much else can start meanwhile.

    One after another: images share layers, and two imports of one would be in each other's way.
    """
    each = f"ctr --address={SOCKET} --namespace={CONTAINERD_NAMESPACE} images import"
    with log.open("wb") as output:
        return subprocess.Popen(
            ["sh", "-ec", f'for file; do {each} "$file"; done', "import", *sorted(map(str, files))],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
