"""Carries what a container writes from its pipes into its log.

What the disk won't take is left in the pipe, so that the process waits instead of losing it.
At the end everything that is in the pipe is taken, and the writer may still have to find room
for it; who holds the pipe open longer than a moment (a process that got away) is not waited for.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import termios
import time
from collections.abc import Callable
from typing import Final

from jobyard.node.logs.log_files import LogStream, LogWriter
from jobyard.node.supervisor.loop import READ, Loop, Timer

_READ_BYTES: Final = 256 * 1024
_PIPE_BYTES: Final = 256 * 1024
# How long the beginning of a line is held back.
_PARTIAL_SECONDS: Final = 0.2
# How long after the end of the command its pipes may stay open.
_LINGER_SECONDS: Final = 0.2
_RETRY_SECONDS: Final = 1.0
# Linux' fcntl, without a name in Python 3.11's `fcntl` on other systems.
_SET_PIPE_SIZE: Final = 1031


class Output:
    """One stream of a running container; calls `closed` once, when nothing more will come."""

    def __init__(
        self,
        loop: Loop,
        descriptor: int,
        stream: LogStream,
        writer: LogWriter,
        closed: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._descriptor = descriptor
        self._stream = stream
        self._writer = writer
        self._closed = closed
        self._partial: Timer | None = None
        self._timer: Timer | None = None
        os.set_blocking(descriptor, False)
        with contextlib.suppress(OSError):
            # Fewer, larger reads. The kernel refuses a user with very many pipes.
            fcntl.fcntl(descriptor, _SET_PIPE_SIZE, _PIPE_BYTES)
        loop.watch(descriptor, READ, self._ready)

    @property
    def is_open(self) -> bool:
        return self._descriptor >= 0

    def finish(self) -> None:
        """The command has ended: only what it left is of interest."""
        if self.is_open:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.after(_LINGER_SECONDS, self._give_up)

    def _ready(self) -> None:
        if self._writer.is_stuck and not self._writer.retry():
            self._loop.forget(self._descriptor)
            self._timer = self._loop.after(_RETRY_SECONDS, self._resume)
            return
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            # EIO: nobody has the other side of the terminal open any more.
            data = b""
        if not data:
            self._close()
            return
        self._take(data)

    def _resume(self) -> None:
        self._loop.watch(self._descriptor, READ, self._ready)

    def _take(self, data: bytes) -> None:
        self._writer.feed(self._stream, data, time.time_ns())
        if not self._writer.holds(self._stream):
            if self._partial is not None:
                self._partial.cancel()
                self._partial = None
        elif self._partial is None:
            self._partial = self._loop.after(_PARTIAL_SECONDS, self._flush)

    def _flush(self) -> None:
        self._partial = None
        self._writer.flush(self._stream, time.time_ns())

    def _give_up(self) -> None:
        """Takes exactly what is there now, however fast somebody goes on writing."""
        with contextlib.suppress(OSError):
            answer = fcntl.ioctl(self._descriptor, termios.FIONREAD, struct.pack("i", 0))
            left = struct.unpack("i", answer)[0]
            while left > 0 and (data := os.read(self._descriptor, min(left, _READ_BYTES))):
                left -= len(data)
                self._writer.feed(self._stream, data, time.time_ns())
        self._close()

    def _close(self) -> None:
        for timer in (self._partial, self._timer):
            if timer is not None:
                timer.cancel()
        self._loop.forget(self._descriptor)
        os.close(self._descriptor)
        self._descriptor = -1
        self._writer.flush(self._stream, time.time_ns())
        self._closed()
