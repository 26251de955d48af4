"""Where a mount point that doesn't exist comes from, and who takes it away again.

A path below a system folder, or one that may not be written, gets a *mirror*: a folder in memory
that shows the same entries and has room for new ones, visible in the container only. Below the
folders where people work, files that a program creates have to land on the real disk, which rules
out a mirror: there an empty folder is made, and removed once nobody uses it. A list in the data
folder remembers those, so that a crash leaves none behind.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from pathlib import Path
from typing import Final

_SYSTEM: Final = frozenset(
    [
        "bin",
        "boot",
        "dev",
        "etc",
        "lib",
        "lib32",
        "lib64",
        "libx32",
        "opt",
        "proc",
        "run",
        "sbin",
        "snap",
        "sys",
        "usr",
        "var",
    ]
)
# Where others put things; only what is directly in them is mirrored.
_GATHERING: Final = frozenset(("/", "/home", "/media", "/mnt", "/srv"))
LIST_NAME: Final = "made-folders"


def wants_mirror(parent: str, own_folders: tuple[str, ...]) -> bool:
    """Whether something new below `parent`, which exists, is better not made on the disk.

    `own_folders`: the user's home and the folder that the engine was started in.
    """
    for own in own_folders:
        if own != "/" and (parent == own or parent.startswith(own + "/")):
            return False
    return parent in _GATHERING or parent.split("/")[1] in _SYSTEM


class MadeFolders:
    """The list of what was made on the disk for the pods of one data folder.

    Everyone who mounts something over such a folder holds a shared lock on it: removing a folder
    would take the mounts on it away in other mount namespaces too.
    """

    def __init__(self, data: Path) -> None:
        self._path = data / LIST_NAME
        self._list = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)

    def claim(self, path: str, *, is_folder: bool) -> int:
        """Makes the path where it is missing, and holds it while the descriptor is open."""
        fcntl.flock(self._list, fcntl.LOCK_EX)
        try:
            if not os.path.exists(path):
                self._make(path, is_folder=is_folder)
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            return descriptor
        finally:
            fcntl.flock(self._list, fcntl.LOCK_UN)

    def _make(self, path: str, *, is_folder: bool) -> None:
        missing = [path]
        while not os.path.lexists(parent := os.path.dirname(missing[-1])):
            missing.append(parent)
        # Remembered before it exists: a crash in between must not leave it behind.
        os.write(self._list, "".join(f"{one}\0" for one in missing).encode())
        for one in reversed(missing):
            if one == path and not is_folder:
                os.close(os.open(one, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
            else:
                os.mkdir(one, 0o755)

    def clear(self) -> None:
        """Removes all that nobody uses; what isn't empty any more stays, and is forgotten."""
        fcntl.flock(self._list, fcntl.LOCK_EX)
        try:
            text = self._path.read_bytes().decode(errors="surrogateescape")
            # The deepest first, whoever made them.
            paths = sorted({one for one in text.split("\0") if one}, key=len, reverse=True)
            kept: list[str] = []
            for path in paths:
                if any(one.startswith(path + "/") for one in kept) or not _removed(path):
                    kept.append(path)
            os.ftruncate(self._list, 0)
            os.write(self._list, "".join(f"{one}\0" for one in reversed(kept)).encode())
        finally:
            fcntl.flock(self._list, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._list)


def _removed(path: str) -> bool:
    """False only when it is in use and has to be looked at again."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = os.fstat(descriptor)
        with contextlib.suppress(OSError):
            if stat.S_ISDIR(found.st_mode):
                os.rmdir(path)
            elif found.st_size == 0:
                os.unlink(path)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def clear_made_folders(data: Path) -> None:
    """After a pod, or after a crash: takes away what was made and isn't used."""
    if (data / LIST_NAME).exists():
        made = MadeFolders(data)
        made.clear()
        made.close()
