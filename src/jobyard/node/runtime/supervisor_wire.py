"""The agent's end of a pod's control socket, and what is known of a pod without a supervisor.

What is said is in `supervisor.words`; the other end is `supervisor.desk`. A link is for one
pod and one event loop. When the supervisor is gone the link says so, and `final_state` knows
how the pod ended; neither starts anything.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import fcntl
import itertools
import os
import socket
import struct
import termios
import time
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from typing import Final

import msgspec

from jobyard.node.logs.file_changes import changes_in
from jobyard.node.shared.folders import PodFolder
from jobyard.node.shared.keeping import final_state as _final_state
from jobyard.node.shared.keeping import is_supervised, read_state, was_started
from jobyard.node.shared.order import Redirect
from jobyard.node.shared.process_end import PeerEnd
from jobyard.node.shared.protocol import ENDS_WITH_WHO_ASKED, told
from jobyard.node.shared.runtime import Inside, Pipes
from jobyard.node.shared.socket_paths import short_path
from jobyard.node.shared.state import PodState
from jobyard.node.supervisor.messages import (
    Answer,
    AttachTo,
    Command,
    ConnectTo,
    ForwardPorts,
    SignalInside,
    StartInside,
    StateTold,
    StopPod,
    decode_word,
    encode_line,
)

__all__ = [
    "CommandFailedError",
    "SupervisorGoneError",
    "SupervisorLink",
    "final_state",
    "is_supervised",
    "read_state",
    "resize",
    "was_started",
]

_FDS_MAX: Final = 16
_LOOK_SECONDS: Final = 0.1


class _Numbered(msgspec.Struct, frozen=True):
    """What every first word has, whatever else it says."""

    protocol: int = 0


class SupervisorGoneError(Exception):
    """There is no supervisor (any more); the pod's folder tells how it ended."""


class CommandFailedError(Exception):
    """The supervisor could not do it; the message says why."""


def final_state(folder: PodFolder) -> PodState | None:
    """How a pod without a supervisor ended; None if it never started, so that it may."""
    return _final_state(folder, time.time())


def resize(pipes: Pipes, columns: int, rows: int) -> None:
    """Tells a process that was started with a terminal how large that is now."""
    size = struct.pack("HHHH", rows, columns, 0, 0)
    with contextlib.suppress(OSError):
        fcntl.ioctl(pipes.stdin, termios.TIOCSWINSZ, size)


class SupervisorLink:
    """A connection to one supervisor. Made by `open`; whoever opened it closes it."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._loop = asyncio.get_running_loop()
        self._inbox = b""
        self._descriptors: deque[int] = deque()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[tuple[Answer, dict[str, int]]]] = {}
        self._state: PodState | None = None
        self.protocol = 0
        # It said what can't be read: all that can be known of it is its end.
        self.is_strange = False
        self._changed = asyncio.Event()
        self._is_gone = False
        self._sending = asyncio.Lock()
        self._exit = PeerEnd(connection)
        self._loop.add_reader(connection, self._read)

    @classmethod
    async def open(
        cls, folder: PodFolder, *, is_starting: bool = False, seconds: float = 10
    ) -> SupervisorLink:
        """Connects; waits for a supervisor that is about to listen, not for one that is gone.

        With `is_starting` also for one that has just been forked and has done nothing yet.
        """
        try:
            async with asyncio.timeout(seconds):
                with changes_in(folder.path) as changes:
                    while True:
                        is_alive = is_supervised(folder) or (
                            is_starting and not was_started(folder)
                        )
                        link = await cls._connect(folder)
                        if link is not None:
                            return link
                        if not is_alive:
                            raise SupervisorGoneError(f"pod {folder.uid} has no supervisor")
                        # One that is about to exit gives no sign in its folder.
                        with contextlib.suppress(TimeoutError):
                            async with asyncio.timeout(_LOOK_SECONDS):
                                await changes.wait()
        except TimeoutError:
            text = f"the supervisor of pod {folder.uid} does not answer"
            raise SupervisorGoneError(text) from None

    @classmethod
    async def _connect(cls, folder: PodFolder) -> SupervisorLink | None:
        """A link that was told a state: one that was not may be to a process on its way out."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.setblocking(False)
        try:
            with short_path(folder.control) as name:
                await asyncio.get_running_loop().sock_connect(connection, name)
        except OSError:
            connection.close()
            return None
        except BaseException:
            connection.close()
            raise
        link = cls(connection)
        try:
            await link._changed.wait()
        except BaseException:
            await link.close()
            raise
        if link._state is None and not link.is_strange:
            await link._exit.wait()
            await link.close()
            return None
        return link

    @property
    def state(self) -> PodState | None:
        """The newest that was told."""
        return self._state

    async def states(self) -> AsyncGenerator[PodState, None]:
        """Each state, or only the newest of several; ends when the supervisor is gone.

        The process has exited by then, so `final_state` knows the truth. For one listener.
        """
        told = 0
        while True:
            self._changed.clear()
            if self._state is not None and self._state.revision > told:
                told = self._state.revision
                yield self._state
                continue
            if self._is_gone:
                await self._exit.wait()
                return
            await self._changed.wait()

    async def stop(self, grace_seconds: float, *, is_shutdown: bool = False) -> None:
        """With `is_shutdown` the pod's end will not be called its own."""
        number = next(self._numbers)
        await self._ask(
            StopPod(number=number, grace_seconds=grace_seconds, is_shutdown=is_shutdown)
        )

    async def inside(self, what: Inside) -> Pipes:
        """Starts a process; the descriptors are the caller's."""
        answer, streams = await self._ask(
            StartInside(
                number=next(self._numbers),
                container=what.container,
                argv=what.argv,
                stdin=what.stdin,
                tty=what.tty,
            )
        )
        is_ended = self.protocol >= ENDS_WITH_WHO_ASKED
        return Pipes(pid=answer.pid, ends_with_status=is_ended, **streams)

    async def signal(self, pid: int, number: int) -> None:
        """To a process that `inside` started."""
        await self._ask(SignalInside(number=next(self._numbers), pid=pid, signal=number))

    async def attach(self, container: str) -> int:
        """Where the container's command reads from, -1 if it has no stdin; the caller's."""
        command = AttachTo(number=next(self._numbers), container=container)
        return (await self._ask(command))[1].get("stdin", -1)

    async def connect(self, port: int) -> socket.socket:
        """A connection to a port of the pod."""
        _, streams = await self._ask(ConnectTo(number=next(self._numbers), port=port))
        connection = socket.socket(fileno=streams["socket"])
        connection.setblocking(False)
        return connection

    async def forward(self, redirects: tuple[Redirect, ...]) -> None:
        """What comes to some ports of the pod arrives at others from now on."""
        await self._ask(ForwardPorts(number=next(self._numbers), redirects=redirects))

    async def close(self) -> None:
        """Lets go of the supervisor, which goes on; safe to call twice."""
        self._end()
        self._exit.close()

    async def _ask(self, command: Command) -> tuple[Answer, dict[str, int]]:
        if self.is_strange or command.since > self.protocol:
            raise CommandFailedError(
                f"the pod was started by {told(self.protocol)}, which can't be asked for this;"
                " it goes on as it is"
            )
        future: asyncio.Future[tuple[Answer, dict[str, int]]] = self._loop.create_future()
        self._waiting[command.number] = future
        try:
            async with self._sending:
                if self._is_gone:
                    raise SupervisorGoneError("the supervisor is gone")
                try:
                    await self._loop.sock_sendall(self._socket, encode_line(command))
                except OSError as error:
                    raise SupervisorGoneError(f"the supervisor is gone: {error}") from error
            answer, streams = await future
        except BaseException:
            # An answer that comes anyway finds nobody, and its descriptors are closed.
            self._waiting.pop(command.number, None)
            if future.done() and not future.cancelled() and future.exception() is None:
                _close_all(future.result()[1].values())
            raise
        if answer.problem:
            raise CommandFailedError(answer.problem)
        return answer, streams

    def _read(self) -> None:
        size = socket.CMSG_SPACE(_FDS_MAX * array.array("i").itemsize)
        try:
            data, ancillary, _, _ = self._socket.recvmsg(1 << 18, size, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        except OSError:
            data, ancillary = b"", []
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors = array.array("i")
                descriptors.frombytes(content[: len(content) - len(content) % 4])
                self._descriptors.extend(descriptors)
        if not data:
            self._end()
            return
        *lines, self._inbox = (self._inbox + data).split(b"\n")
        for line in lines:
            self._hear(line)

    def _hear(self, line: bytes) -> None:
        try:
            word = decode_word(line)
        except msgspec.DecodeError:
            # Something new, of somebody newer; without a state nothing can be said of the pod.
            if self._state is None:
                self._be_strange(line)
            return
        if isinstance(word, StateTold):
            self._state = word.state
            self.protocol = word.protocol
            self._changed.set()
            return
        streams = {name: self._descriptors.popleft() for name in word.streams}
        future = self._waiting.pop(word.number, None)
        if future is None or future.done():
            _close_all(streams.values())
        else:
            future.set_result((word, streams))

    def _be_strange(self, line: bytes) -> None:
        self.is_strange = True
        with contextlib.suppress(msgspec.DecodeError):
            self.protocol = msgspec.json.decode(line, type=_Numbered).protocol
        self._changed.set()

    def _end(self) -> None:
        if self._is_gone:
            return
        self._is_gone = True
        self._loop.remove_reader(self._socket)
        self._socket.close()
        _close_all(self._descriptors)
        self._descriptors.clear()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(SupervisorGoneError("the supervisor is gone"))
                # Whoever asked may be gone as well.
                future.exception()
        self._waiting.clear()
        self._changed.set()


def _close_all(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
