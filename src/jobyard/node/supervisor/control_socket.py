"""The supervisor's end of the control socket: who is connected, what they ask, what they are told.

It decides nothing about the pod: commands go to who made it. A client that reads slowly gets
only the newest state, one that sends nonsense is shown the door, and another user is never let
in. Nobody is waited for.
"""

from __future__ import annotations

import array
import contextlib
import os
import socket
import struct
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from jobyard.node.shared.protocol import PROTOCOL
from jobyard.node.shared.socket_paths import short_path
from jobyard.node.shared.state import PodState
from jobyard.node.supervisor.loop import READ, WRITE, Loop
from jobyard.node.supervisor.messages import (
    LINE_BYTES_MAX,
    Answer,
    Command,
    StateTold,
    decode_command,
    encode_line,
)

_CREDENTIALS: Final = struct.Struct("3i")
_WAITING_MAX: Final = 64
_ACCEPT_AGAIN_SECONDS: Final = 0.2


class Client:
    """One connection."""

    def __init__(self, desk: Desk, connection: socket.socket) -> None:
        self._desk = desk
        self.socket = connection
        self._inbox = b""
        self._outbox: deque[tuple[bytes, tuple[int, ...]]] = deque()
        self._state = b""

    def answer(self, answer: Answer, descriptors: Sequence[int] = ()) -> None:
        """Sends an answer; the descriptors are closed here once they are on their way."""
        if self.socket.fileno() < 0:
            _close_all(descriptors)
            return
        self._outbox.append((encode_line(answer), tuple(descriptors)))
        self.write()

    def tell(self, line: bytes) -> None:
        """Sends a state; one that is still waiting is replaced by it."""
        self._state = line
        self.write()

    def read(self) -> None:
        try:
            data = self.socket.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *lines, self._inbox = (self._inbox + data).split(b"\n")
        if not data or len(self._inbox) > LINE_BYTES_MAX:
            self.close()
            return
        for line in lines:
            try:
                command = decode_command(line)
            except msgspec.DecodeError:
                self.close()
                return
            try:
                self._desk.take(self, command)
            except Exception as error:
                # A fault of ours, or a value nobody thought of: no reason to end the pod.
                traceback.print_exc()
                problem = f"{type(error).__name__}: {error}"
                self.answer(Answer(number=command.number, problem=problem))

    def write(self) -> None:
        """Sends as much as the other side takes."""
        try:
            while self._outbox or self._state:
                if not self._outbox:
                    self._outbox.append((self._state, ()))
                    self._state = b""
                data, descriptors = self._outbox[0]
                sent = self._send(data, descriptors)
                _close_all(descriptors)
                if sent < len(data):
                    self._outbox[0] = (data[sent:], ())
                else:
                    self._outbox.popleft()
        except BlockingIOError:
            self._desk.loop.watch(self.socket.fileno(), READ | WRITE, self.ready)
            return
        except OSError:
            self.close()
            return
        self._desk.loop.watch(self.socket.fileno(), READ, self.ready)

    def ready(self) -> None:
        if self._outbox or self._state:
            self.write()
        if self.socket.fileno() >= 0:
            self.read()

    def close(self) -> None:
        if self.socket.fileno() < 0:
            return
        self._desk.loop.forget(self.socket.fileno())
        self._desk.clients.discard(self)
        for _, descriptors in self._outbox:
            _close_all(descriptors)
        self._outbox.clear()
        self.socket.close()

    def _send(self, data: bytes, descriptors: tuple[int, ...]) -> int:
        if not descriptors:
            return self.socket.send(data)
        rights = array.array("i", descriptors)
        return self.socket.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])


class Desk:
    """The socket that clients connect to."""

    def __init__(self, loop: Loop, path: Path, take: Callable[[Client, Command], None]) -> None:
        self.loop = loop
        self.take = take
        self.clients: set[Client] = set()
        self._path = path
        self._line = b""
        path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        with short_path(path) as name:
            self._socket.bind(name)
        path.chmod(0o600)

    def open(self, state: PodState) -> None:
        """From now on there is something to tell, so clients are let in."""
        self._line = encode_line(StateTold(state=state, protocol=PROTOCOL))
        self._socket.listen(_WAITING_MAX)
        self._listen()

    def _listen(self) -> None:
        self.loop.watch(self._socket.fileno(), READ, self._accept)

    def tell(self, state: PodState) -> None:
        self._line = encode_line(StateTold(state=state, protocol=PROTOCOL))
        for client in list(self.clients):
            client.tell(self._line)

    def let_go(self) -> None:
        """In a forked process: closes the sockets there, and does nothing to this one's."""
        for client in self.clients:
            client.socket.close()
        self._socket.close()

    def close(self) -> None:
        """What a client has not read by now it finds in the pod's folder."""
        for client in list(self.clients):
            client.close()
        self.loop.forget(self._socket.fileno())
        self._path.unlink(missing_ok=True)
        self._socket.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._socket.accept()
        except BlockingIOError:
            return
        except OSError:
            # No descriptors left, most likely: to try again at once would be to try for ever.
            self.loop.forget(self._socket.fileno())
            self.loop.after(_ACCEPT_AGAIN_SECONDS, self._listen)
            return
        connection.setblocking(False)
        if not _is_own(connection):
            connection.close()
            return
        client = Client(self, connection)
        self.clients.add(client)
        self.loop.watch(connection.fileno(), READ, client.ready)
        client.tell(self._line)


def _is_own(connection: socket.socket) -> bool:
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        # The folder's mode has to do.
        return True
    credentials = connection.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(credentials)[1] == os.geteuid())


def _close_all(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
