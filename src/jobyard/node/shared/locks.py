"""Files that are locked by the process that owns something, for as long as it lives.

A lock of the process, not of the open file: what the process forks does not hold it on when it
is killed. The price is that a process which opens the file of its own lock and closes it again
lets go; `is_taken` and `holder_of` must not be asked about a lock of one's own.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from pathlib import Path
from typing import Final

# Linux' `struct flock`: type, whence, start, length, pid.
_FLOCK: Final = "hhqqi4x"


def take(path: Path) -> int | None:
    """The lock, until the descriptor is closed; None if another process has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def holder_of(path: Path) -> int:
    """The pid of the other process that has it, else 0; found out without ever taking it.

    Also 0 if that process is in another PID namespace, where it has no number of ours; `is_taken`
    knows. Only on Linux, as all that runs pods.
    """
    return _asked(path)[1]


def _asked(path: Path) -> tuple[bool, int]:
    """Whether another process has it, and its pid if that can be known."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False, 0
    try:
        question = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, question)
    finally:
        os.close(descriptor)
    kind, *_, pid = struct.unpack(_FLOCK, answer)
    is_taken = kind != fcntl.F_UNLCK
    return is_taken, int(pid) if is_taken else 0


if sys.platform == "linux":

    def is_taken(path: Path) -> bool:
        """Whether another process has it."""
        return _asked(path)[0]

else:

    def is_taken(path: Path) -> bool:
        """Whether another process has it; only trying tells."""
        descriptor = take(path) if path.exists() else -1
        if descriptor is not None and descriptor >= 0:
            os.close(descriptor)
        return descriptor is None
