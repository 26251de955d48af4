"""Build CoreDNS once, for the tests that run a whole cluster.

Prints one line on standard output: the path of the command. It is built from the Go module in
`tools/coredns/`, which pins the version and names the few plugins that a cluster's names need.
Standard library only, because it runs before anything is installed.
"""

import hashlib
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from cache_folder import cache_root, locked
from get_kube import MODULE_FOLDER as KUBE_FOLDER
from get_kube import UnavailableError, build, pins_of, usable_go, ways_out

MODULE_FOLDER = Path(__file__).resolve().parent / "coredns"
PACKAGE = "jobyard.dev/tools/coredns"


def version_of(go_mod: str) -> str:
    """The version that go.mod asks for, such as `v1.14.7`."""
    found = re.search(r"^require github\.com/coredns/coredns (v[\d.]+)$", go_mod, re.MULTILINE)
    assert found is not None, "go.mod must require coredns"
    return found[1]


def obtain(environment: Mapping[str, str]) -> Path:
    """The path of the command, after building it if need be."""
    version = version_of((MODULE_FOLDER / "go.mod").read_text())
    # Which plugins there are, and of which versions, is in these files.
    made_of = b"".join((MODULE_FOLDER / name).read_bytes() for name in ("main.go", "go.sum"))
    digest = hashlib.sha256(made_of).hexdigest()[:12]
    folder = cache_root(environment) / "coredns" / f"{version}-{digest}"
    place = folder / "coredns"
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name(f"{folder.name}.lock")):
        if not os.access(place, os.X_OK):
            go = usable_go(environment, pins_of((KUBE_FOLDER / "go.mod").read_text()))
            print(f"get_coredns: building CoreDNS {version} into {folder}", file=sys.stderr)
            command = (go, "build", "-trimpath", "-ldflags", "-s -w")
            build(command, {"coredns": PACKAGE}, MODULE_FOLDER, folder, environment)
    return place


def main() -> int:
    try:
        place = obtain(os.environ)
    except UnavailableError as problem:
        pins = pins_of((KUBE_FOLDER / "go.mod").read_text())
        print(f"get_coredns: {problem}\n{ways_out(pins)}", file=sys.stderr)
        return 1
    print(place)
    return 0


if __name__ == "__main__":
    sys.exit(main())
