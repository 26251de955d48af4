"""Ask tools/get_kube.py for the Kubernetes commands, the way `make kube` does."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from rig.places import ROOT

GET_KUBE = ROOT / "tools" / "get_kube.py"


class BinariesError(Exception):
    """get_kube found no way; the message is what it said."""


def find_binaries(show: Callable[[str], None]) -> Path:
    """The folder with the commands. A build takes minutes, so `show` gets each line at once."""
    said: list[str] = []
    with subprocess.Popen(
        [sys.executable, str(GET_KUBE)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        # One line of output at most, so reading the errors first can't block the script.
        for line in process.stderr:
            said.append(line)
            show(line)
        folder = process.stdout.read().strip()
    if process.returncode != 0:
        raise BinariesError("".join(said).strip())
    return Path(folder)
