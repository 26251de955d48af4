"""How a process gets into a container that has no namespaces: its first process forks it.

Only so do the visitor and all that it leaves running belong to the container, and end with it,
whoever else has died by then. The supervisor asks through a socket, the `door`. What it waits
for is a stand-in, a child of its own that ends as the visitor does; a visitor whose stand-in was
killed is killed as well. Nothing here knows orders.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
from collections.abc import Callable
from typing import Final, NoReturn

import msgspec

from jobyard.node.isolation.descriptors import Held, close_all_but
from jobyard.node.isolation.launching import Command, Streams, execute

_MESSAGE_BYTES_MAX: Final = 256
_STATUS_BYTES: Final = 4


class _Come(msgspec.Struct, frozen=True, tag="come"):
    """Descriptors come with it: three streams, the report of the start, the end, the words."""

    number: int
    tty: bool


class _Signal(msgspec.Struct, frozen=True, tag="signal"):
    number: int
    signal: int


_decode: Final = msgspec.json.Decoder(_Come | _Signal).decode


class Door:
    """The supervisor's end."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._socket.setblocking(False)
        self._count = 0
        # The number of each visitor, by the pid of its stand-in.
        self._numbers: dict[int, int] = {}

    def invite(self, argv: tuple[str, ...], streams: Streams, told: int, held: Held) -> int:
        """Returns the pid of the stand-in; OSError if the first process is gone."""
        self._forget_ended()
        self._count += 1
        words = held.take(os.memfd_create("argv"))
        # A word may be as long as the kernel allows, which no message is.
        with os.fdopen(os.dup(words), "wb") as file:
            file.write(msgspec.json.encode([os.fsencode(word) for word in argv]))
        os.lseek(words, 0, os.SEEK_SET)
        ended, ending = held.pipe()
        given = [streams.stdin, streams.stdout, streams.stderr, told, ending, words]
        message = msgspec.json.encode(_Come(self._count, streams.is_terminal))
        socket.send_fds(self._socket, [message], given)
        held.close(ending)
        pid = os.fork()
        if pid == 0:
            _stand_in(ended)
        self._numbers[pid] = self._count
        return pid

    def signal(self, pid: int, number: int) -> bool:
        """Whether it is a stand-in's pid; then the signal is for whom it stands."""
        visitor = self._numbers.get(pid)
        if visitor is None:
            return False
        with contextlib.suppress(OSError):
            self._socket.send(msgspec.json.encode(_Signal(visitor, number)))
        return True

    def stand_ins(self) -> set[int]:
        self._forget_ended()
        return set(self._numbers)

    def close(self) -> None:
        self._socket.close()

    def _forget_ended(self) -> None:
        for pid in list(self._numbers):
            try:
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                del self._numbers[pid]


def _stand_in(ended: int) -> NoReturn:
    """No word about the end means that the first process was killed, and the visitor with it."""
    try:
        close_all_but(ended)
        told = os.read(ended, _STATUS_BYTES)
        code = os.waitstatus_to_exitcode(int.from_bytes(told, "little")) if told else 137
        os._exit(code if code >= 0 else 128 - code)
    finally:
        os._exit(137)


class Visitors:
    """The first process's end: forks, tells of ends, and keeps count."""

    def __init__(self, door: socket.socket, command: Callable[[tuple[str, ...]], Command]) -> None:
        self._door = door
        self._command = command
        self._door.setblocking(False)
        # By number: the pid, and where its end is told.
        self._pids: dict[int, int] = {}
        self._ends: dict[int, int] = {}

    def watch(self, poll: select.poll) -> None:
        """The door, and the stand-ins: that one is gone is an error of the pipe to it."""
        poll.register(self._door.fileno(), select.POLLIN)
        for ending in self._ends.values():
            poll.register(ending, 0)

    def look(self, ready: set[int]) -> None:
        """Does what is asked, and kills those that nobody waits for any more."""
        for number, ending in list(self._ends.items()):
            if ending in ready:
                self._signal(number, signal.SIGKILL)
                os.close(self._ends.pop(number))
        if self._door.fileno() in ready:
            self._take()

    def ended(self, pid: int, status: int) -> None:
        for number, known in list(self._pids.items()):
            if known == pid:
                del self._pids[number]
                if (ending := self._ends.pop(number, -1)) >= 0:
                    with contextlib.suppress(OSError):
                        os.write(ending, status.to_bytes(_STATUS_BYTES, "little"))
                    os.close(ending)

    def _take(self) -> None:
        try:
            text, given, _, _ = socket.recv_fds(self._door, _MESSAGE_BYTES_MAX, 8)
        except OSError:
            return
        with Held() as held:
            for descriptor in given:
                held.take(descriptor)
            if not text:
                return
            match _decode(text):
                case _Come(number, tty):
                    self._fork(number, given, held, tty=tty)
                case _Signal(number, which):
                    self._signal(number, which)

    def _fork(self, number: int, given: list[int], held: Held, *, tty: bool) -> None:
        stdin, stdout, stderr, told, ending, words = given
        pid = os.fork()
        if pid == 0:
            streams = Streams(stdin=stdin, stdout=stdout, stderr=stderr, is_terminal=tty)
            with os.fdopen(words, "rb") as file:
                read = msgspec.json.decode(file.read(), type=tuple[bytes, ...])
            execute(self._command(tuple(os.fsdecode(word) for word in read)), streams, told)
        self._pids[number] = pid
        self._ends[number] = held.give(ending)

    def _signal(self, number: int, which: int) -> None:
        # One that was reaped is not in the table, so the pid can't be another's.
        if (pid := self._pids.get(number)) is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, which)
