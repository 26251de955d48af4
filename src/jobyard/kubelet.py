"""The words in which a server asks a node for logs, processes inside and connections.

`server.kubelet` has the questions, `node.kubelet_service` the answers; neither knows the other.
Only values, errors and the shape of a running process are here: no I/O, and nothing else of
the package is imported.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Protocol

import msgspec


class KubeletError(Exception):
    """The node can't do what was asked; becomes a Status with this code and text."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which lines of which container; the empty name means the only (or the default) one."""

    container: str = ""
    follow: bool = False
    previous: bool = False
    # Ours: the nth run of the container, from 0; None means the newest (or `previous`).
    run: int | None = None
    # Ours: another attempt of the replica, whose pod had the same name.
    attempt: int | None = None
    timestamps: bool = False
    tail_lines: int | None = None
    since_seconds: int | None = None
    # Seconds since the epoch.
    since_time: float | None = None
    limit_bytes: int | None = None


class ExecOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A process to start inside a running container."""

    command: tuple[str, ...]
    container: str = ""
    stdin: bool = False
    stdout: bool = True
    stderr: bool = True
    tty: bool = False


class Stream(IntEnum):
    """The two ways out of a process."""

    STDOUT = 1
    STDERR = 2


class Session(Protocol):
    """A running process with its three streams; whoever opened it closes it."""

    async def read(self) -> tuple[Stream, bytes] | None:
        """The next piece of output; None once both streams have ended."""
        ...

    async def write(self, data: bytes) -> None:
        """Waits while the process doesn't read."""
        ...

    async def end_input(self) -> None: ...

    def resize(self, columns: int, rows: int) -> None: ...

    async def wait(self) -> int:
        """The exit code, 128 + n for signal n."""
        ...

    async def close(self) -> None:
        """Ends what still runs; safe to call twice."""
        ...
