"""What a cluster is made of, gathered before it is enclosed: in there, nothing can be fetched.

The tools find everything in their caches, or build it there, which takes minutes the first time.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@dataclass(frozen=True, slots=True)
class Ingredients:
    """Where each program and image is."""

    # etcd, kube-apiserver and so on.
    control_plane: Path
    # kubelet and kube-proxy.
    node: Path
    coredns: Path
    # The archive of each image, by name.
    images: Mapping[str, Path]


def gather() -> Ingredients:
    """Ask each tool, and let it say what it does meanwhile."""
    rows = (line.split(None, 1) for line in _said("get_images.py").splitlines())
    return Ingredients(
        control_plane=Path(_said("get_kube.py").strip()),
        node=Path(_said("get_kube.py", "--node").strip()),
        coredns=Path(_said("get_coredns.py").strip()),
        images={name: Path(file) for name, file in rows},
    )


def save(ingredients: Ingredients, path: Path) -> None:
    path.write_text(json.dumps(asdict(ingredients), default=str))


def load(path: Path) -> Ingredients:
    """Read what `save` wrote."""
    fields = json.loads(path.read_text())
    return Ingredients(
        control_plane=Path(fields["control_plane"]),
        node=Path(fields["node"]),
        coredns=Path(fields["coredns"]),
        images={name: Path(file) for name, file in fields["images"].items()},
    )


def _said(tool: str, *arguments: str) -> str:
    command = [sys.executable, str(TOOLS / tool), *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
