"""Removing folders that containers wrote to, whatever modes they left behind.

An overlay leaves folders of mode 0, and a program may take its own rights away. To remove a large
one takes a while, which a supervisor hasn't: it gives the layer of a run that has ended another
name, and `disk_keeper` removes it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import Final

_AWAY: Final = "over-"


def put_away(path: Path) -> None:
    """Nobody will use the folder again."""
    with contextlib.suppress(OSError):
        path.rename(path.with_name(_AWAY + path.name))


def all_put_away(pod: Path) -> list[Path]:
    """The layers of a pod's runs that have ended, in its folder."""
    return list((pod / "scratch").glob(f"{_AWAY}*"))


def remove_tree(path: Path) -> None:
    """The folder with all in it; what still can't be removed stays, silently."""
    shutil.rmtree(path, ignore_errors=True)
    if not path.exists():
        return
    with contextlib.suppress(OSError):
        os.chmod(path, 0o700)
    for folder, names, _ in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                os.chmod(os.path.join(folder, name), 0o700, follow_symlinks=False)
    shutil.rmtree(path, ignore_errors=True)
