"""`python -m real_cluster [PYTEST ARGUMENTS]`: run these tests enclosed, and leave nothing.

`python -m real_cluster --can` runs nothing: it ends with 77, and a line that says why, if there
can't be a node on this machine whatever is installed.

pytest and all that it starts live in namespaces of their own (see `enclosure`), so the cluster
can have the machine for itself, and is gone when they are. Afterwards this looks whether that is
true.
"""

import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from cache_folder import cache_root, locked

from real_cluster import cgroups, ingredients
from real_cluster.enclosure import enclosed, left_behind, traces

TESTS = Path(__file__).parent
# What other test drivers end with for "skipped": neither right nor wrong.
CANNOT = 77


def main() -> int:
    if os.geteuid() != 0:
        print("real_cluster: a node needs root: namespaces, mounts, cgroups", file=sys.stderr)
        return CANNOT
    # So that the enclosure is taken down in order; a second signal is not waited for.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with locked(cache_root(os.environ) / "real-cluster.lock"):
        if reason := cgroups.hindrance():
            print(f"real_cluster: there can't be a node here: {reason}", file=sys.stderr)
            return CANNOT
        if sys.argv[1:] == ["--can"]:
            return 0
        gathered = ingredients.gather()
        folder = Path(tempfile.mkdtemp(prefix=cgroups.folder_prefix()))
        before = traces(folder)
        try:
            ingredients.save(gathered, folder / "ingredients.json")
            code = _run(folder)
            if code != 0:
                _keep_logs(folder)
        finally:
            shutil.rmtree(folder)
        if left := left_behind(before, traces(folder)):
            print("\nleft behind:", *sorted(left), sep="\n  ", file=sys.stderr)
            return code or 1
        print("left behind: nothing (processes, mounts, cgroups, addresses, kernel settings)")
    return code


def _run(folder: Path) -> int:
    with cgroups.made(folder.name):
        return enclosed(
            (
                *(sys.executable, "-m", "pytest", "-p", "no:xdist"),
                f"--basetemp={folder / 'tests'}",
                str(TESTS),
                *sys.argv[1:],
            ),
            folder,
        )


def _keep_logs(folder: Path) -> None:
    kept = Path(tempfile.mkdtemp(prefix="jobyard-node-logs-"))
    for log in (*folder.glob("*.log"), *folder.glob("plane/*.log")):
        shutil.copy(log, kept)
    print(f"real_cluster: what the cluster's programs said is in {kept}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
