"""A process inside a container, as the server speaks with it: streams, a terminal, an exit code.

Works on the file descriptors that a runtime gave, which belong to the session from then on.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import signal
import struct
import termios
from collections.abc import AsyncGenerator, Callable
from typing import Final

from jobyard.kubelet import Stream
from jobyard.node.shared.runtime import Pipes
from jobyard.numerals import INT32_MAX, whole_number

BLOCK_BYTES: Final = 64 * 1024
_STATUS_BYTES: Final = 64


class ProcessSession:
    """One process. With a terminal there is one stream out, and `stdin` is its master."""

    def __init__(self, pipes: Pipes, *, has_terminal: bool) -> None:
        self._pipes = pipes
        self._has_terminal = has_terminal
        self._open = {descriptor for descriptor in self._descriptors() if descriptor >= 0}
        self._readers = self._streams()
        self._tasks: dict[asyncio.Task[bytes], Stream] = {}
        self._exit_code: int | None = None
        for descriptor in self._open:
            os.set_blocking(descriptor, False)

    def _descriptors(self) -> tuple[int, ...]:
        pipes = self._pipes
        return (pipes.stdin, pipes.stdout, pipes.stderr, pipes.status)

    def _streams(self) -> dict[Stream, int]:
        out = {Stream.STDOUT: self._pipes.stdout, Stream.STDERR: self._pipes.stderr}
        if self._has_terminal:
            first = self._pipes.stdout if self._pipes.stdout >= 0 else self._pipes.stdin
            out = {Stream.STDOUT: first}
        return {stream: descriptor for stream, descriptor in out.items() if descriptor >= 0}

    async def read(self) -> tuple[Stream, bytes] | None:
        """The next piece of output; None once all streams have ended."""
        while self._readers or self._tasks:
            for stream, descriptor in self._readers.items():
                if stream not in self._tasks.values():
                    self._tasks[asyncio.create_task(_read(descriptor))] = stream
            done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            task = done.pop()
            stream = self._tasks.pop(task)
            data = task.result()
            if data:
                return stream, data
            self._readers.pop(stream, None)
        return None

    async def write(self, data: bytes) -> None:
        """Waits while the process doesn't read; a process that reads no more is no error."""
        if self._pipes.stdin in self._open:
            await _write(self._pipes.stdin, data)

    async def end_input(self) -> None:
        """Nothing more will be written."""
        if self._has_terminal:
            # A terminal is told so by a character; closing it would take the output away.
            await self.write(b"\x04")
            return
        self._close(self._pipes.stdin)

    def resize(self, columns: int, rows: int) -> None:
        """The user's terminal has another size."""
        if self._has_terminal and self._pipes.stdin in self._open:
            size = struct.pack("HHHH", rows, columns, 0, 0)
            with contextlib.suppress(OSError):
                fcntl.ioctl(self._pipes.stdin, termios.TIOCSWINSZ, size)

    async def wait(self) -> int:
        """The exit code, 128 + n for signal n."""
        if self._exit_code is None:
            text = b""
            while self._pipes.status in self._open:
                data = await _read(self._pipes.status)
                text += data
                if not data or len(text) > _STATUS_BYTES:
                    break
            code = whole_number(text.decode(errors="replace").strip(), INT32_MAX)
            # No code: whoever should have told it is gone, and the process with it.
            self._exit_code = 137 if code is None else code
        return self._exit_code

    async def close(self) -> None:
        """Ends what still runs; safe to call twice. Cancelled, it ends the process all the same."""
        try:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            if self._pipes.pid > 0 and self._exit_code is None and self._pipes.status in self._open:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0):
                        await self.wait()
        finally:
            self._tasks.clear()
            self._readers.clear()
            self._end()

    def _end(self) -> None:
        must_kill = self._pipes.pid > 0 and not self._pipes.ends_with_status
        if must_kill and self._exit_code is None and self._open:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self._pipes.pid, signal.SIGKILL)
        for descriptor in list(self._open):
            self._close(descriptor)

    def _close(self, descriptor: int) -> None:
        if descriptor in self._open:
            self._open.discard(descriptor)
            os.close(descriptor)


class AttachedSession:
    """A container's own process: output comes from its log, input goes to `stdin`."""

    def __init__(
        self, pieces: AsyncGenerator[bytes, None], exit_code: Callable[[], int], stdin: int = -1
    ) -> None:
        self._pieces = pieces
        self._exit_code = exit_code
        self._stdin = stdin
        if stdin >= 0:
            os.set_blocking(stdin, False)
        self._ended = asyncio.Event()

    async def read(self) -> tuple[Stream, bytes] | None:
        """The next lines; None once the container's run has ended."""
        try:
            return Stream.STDOUT, await anext(self._pieces)
        except StopAsyncIteration:
            self._ended.set()
            return None

    async def write(self, data: bytes) -> None:
        """Lost where the container has no input."""
        if self._stdin >= 0:
            await _write(self._stdin, data)

    async def end_input(self) -> None:
        """The container may still be written to by another who attaches."""
        if self._stdin >= 0:
            os.close(self._stdin)
            self._stdin = -1

    def resize(self, columns: int, rows: int) -> None:
        """Its terminal, if it has one, is not the user's."""

    async def wait(self) -> int:
        """How the run ended."""
        await self._ended.wait()
        return self._exit_code()

    async def close(self) -> None:
        """Lets go of the log; the container goes on."""
        try:
            await self._pieces.aclose()
        finally:
            await self.end_input()
            self._ended.set()


async def _read(descriptor: int) -> bytes:
    """What is there, at least a byte; nothing at the end. A terminal ends with an error."""
    while True:
        try:
            return os.read(descriptor, BLOCK_BYTES)
        except BlockingIOError:
            await _ready(descriptor)
        except OSError as error:
            if error.errno == errno.EIO:
                return b""
            raise


async def _write(descriptor: int, data: bytes) -> None:
    """All of it, or as much as the process took before it closed its end."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            await _ready(descriptor, for_writing=True)
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.EIO):
                raise
            return


async def _ready(descriptor: int, *, for_writing: bool = False) -> None:
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    # A copy: reader and writer of a terminal may be one descriptor, and may wait at once.
    copy = os.dup(descriptor)
    add = loop.add_writer if for_writing else loop.add_reader
    remove = loop.remove_writer if for_writing else loop.remove_reader
    try:
        add(copy, event.set)
        try:
            await event.wait()
        finally:
            remove(copy)
    finally:
        os.close(copy)
