"""Removing folders that containers wrote to, whatever modes they left behind.

An overlay leaves folders of mode 0, and a program may take its own rights away.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path


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
