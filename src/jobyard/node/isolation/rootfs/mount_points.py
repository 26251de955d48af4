"""Where a mount point that doesn't exist comes from, and who takes it away again.

A path below a system folder, or one that may not be written, gets a *mirror*: a folder in memory
that shows the same entries and has room for new ones, visible in the container only. Below the
folders where people work, files that a program creates have to land on the real disk, which rules
out a mirror: there an empty folder is made, and removed once nobody uses it. A list in the data
folder remembers those, so that a crash leaves none behind. A mark on the folder tells every engine
that it was made so: of several that use it, the last removes it.
"""

from __future__ import annotations

import contextlib
import errno
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
        # Nobody's workplace, unless it is the home of who started the engine.
        "root",
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
_MARK: Final = "user.jobyard.made"
# Before the path of an entry that was there already.
_FOUND: Final = "="
# More often in a row nobody removes what was just made: then it can't be made.
_CLAIMS_MAX: Final = 100


def wants_mirror(parent: str, own_folders: tuple[str, ...]) -> bool:
    """Whether something new below `parent`, which exists, is better not made on the disk.

    `own_folders`: the user's home and the folder that the engine was started in.
    """
    for own in own_folders:
        if own != "/" and (parent == own or parent.startswith(own + "/")):
            return False
    return parent in _GATHERING or is_of_system(parent)


def is_below(path: str, folder: str) -> bool:
    """Whether it is the folder itself or something in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def is_of_system(path: str) -> bool:
    """Whether it is below a folder that belongs to the machine's system, and not to data."""
    return path.split("/")[1] in _SYSTEM


class MadeFolders:
    """The list of what the pods of one data folder use on the disk, and of what was made for them.

    Everyone who mounts something over such a folder holds a shared lock on it: removing a folder
    would take the mounts on it away in other mount namespaces too. Engines with other lists may
    make, use and remove the same folders at the same time.
    """

    def __init__(self, data: Path) -> None:
        self._path = data / LIST_NAME
        self._list = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)

    def claim(self, path: str, *, is_folder: bool) -> int:
        """Makes the path where it is missing, and holds it while the descriptor is open."""
        fcntl.flock(self._list, fcntl.LOCK_EX)
        try:
            for _ in range(_CLAIMS_MAX):
                if not os.path.exists(path):
                    self._make(path, is_folder=is_folder)
                # Another engine may remove it until it is locked; then it is recreated.
                with contextlib.suppress(FileNotFoundError):
                    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
                    fcntl.flock(descriptor, fcntl.LOCK_SH)
                    if _is_at(path, descriptor):
                        self._note_found(path)
                        return descriptor
                    os.close(descriptor)
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        finally:
            fcntl.flock(self._list, fcntl.LOCK_UN)

    def _make(self, path: str, *, is_folder: bool) -> None:
        missing = [path]
        while not os.path.lexists(parent := os.path.dirname(missing[-1])):
            missing.append(parent)
        # Remembered before it exists: a crash in between must not leave it behind.
        self._write(missing)
        for one in reversed(missing):
            # If it exists by now, another engine was quicker.
            with contextlib.suppress(FileExistsError, FileNotFoundError):
                if one == path and not is_folder:
                    os.close(os.open(one, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
                else:
                    os.mkdir(one, 0o755)
                # Where there are no marks, only its own list tells of it.
                with contextlib.suppress(OSError):
                    os.setxattr(one, _MARK, b"")

    def _note_found(self, path: str) -> None:
        """The path and what is above it may be another engine's, who leaves them to us."""
        found = [path]
        while _is_marked(parent := os.path.dirname(found[-1])):
            found.append(parent)
        self._write([_FOUND + one for one in found])

    def _write(self, entries: list[str]) -> None:
        os.write(self._list, "".join(f"{one}\0" for one in entries).encode())

    def clear(self) -> bool:
        """Removes all that nobody uses; what isn't empty any more stays, and is forgotten.

        False if something is in use and has to be looked at again.
        """
        fcntl.flock(self._list, fcntl.LOCK_EX)
        try:
            text = self._path.read_bytes().decode(errors="surrogateescape")
            entries = {one for one in text.split("\0") if one}
            paths = {one.removeprefix(_FOUND) for one in entries}
            kept: list[str] = []
            # The deepest first, whoever made them.
            for path in sorted(paths, key=len, reverse=True):
                if path not in entries and not _is_marked(path):
                    # Found there, and no engine has made it.
                    continue
                if any(one.startswith(path + "/") for one in kept) or not _removed(path):
                    kept.append(path)
            os.ftruncate(self._list, 0)
            self._write([one if one in entries else _FOUND + one for one in reversed(kept)])
            return not kept
        finally:
            fcntl.flock(self._list, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._list)


def _is_at(path: str, descriptor: int) -> bool:
    """Whether the open file is still the one of that name."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _is_marked(path: str) -> bool:
    try:
        return os.getxattr(path, _MARK, follow_symlinks=False) is not None
    except OSError:
        return False


def _removed(path: str) -> bool:
    """False only when it is in use and has to be looked at again."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is_at(path, descriptor):
            # Another engine was quicker, and a third may hold what stands there now.
            return False
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


def clear_made_folders(data: Path) -> bool:
    """After a pod, or after a crash: takes away what was made; False if some of it is in use."""
    if not (data / LIST_NAME).exists():
        return True
    made = MadeFolders(data)
    try:
        return made.clear()
    finally:
        made.close()
