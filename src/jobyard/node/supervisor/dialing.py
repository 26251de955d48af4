"""Opens TCP connections from within the pod's network, without waiting for them.

For probes and for clients that want a port of the pod. Only addresses: to look up a name
would mean to wait.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Sequence

from jobyard.node.supervisor.loop import WRITE, Loop

Dialled = Callable[[socket.socket | None, str], None]


class Dial:
    """One attempt; calls once, with a connection or with the reason why there is none."""

    def __init__(
        self, loop: Loop, addresses: Sequence[str], port: int, seconds: float, done: Dialled
    ) -> None:
        self._loop = loop
        self._left = list(addresses)
        self._port = port
        self._done: Dialled | None = done
        self._socket: socket.socket | None = None
        self._timer = loop.after(seconds, lambda: self._end(None, "i/o timeout"))
        # From the loop, so that nobody is called back before knowing whom they called.
        self._begin = loop.after(0, self._next)

    def cancel(self) -> None:
        self._done = None
        self._end(None, "")

    def _next(self) -> None:
        address = self._left.pop(0)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            self._socket = socket.socket(family, socket.SOCK_STREAM)
            self._socket.setblocking(False)
            number = self._socket.connect_ex((address, self._port))
        except OSError as error:
            number = error.errno or errno.EIO
        except OverflowError:
            # No port has such a number.
            number = errno.EINVAL
        if number in (0, errno.EINPROGRESS) and self._socket is not None:
            self._loop.watch(self._socket.fileno(), WRITE, self._ready)
        else:
            self._fail(number)

    def _ready(self) -> None:
        assert self._socket is not None
        number = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if number:
            self._fail(number)
            return
        connection, self._socket = self._socket, None
        self._loop.forget(connection.fileno())
        self._end(connection, "")

    def _fail(self, number: int) -> None:
        self._let_go()
        if self._left:
            self._next()
        else:
            self._end(None, f"connect: {os.strerror(number).lower()}")

    def _let_go(self) -> None:
        if self._socket is not None:
            self._loop.forget(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def _end(self, connection: socket.socket | None, problem: str) -> None:
        self._timer.cancel()
        self._begin.cancel()
        self._let_go()
        done, self._done = self._done, None
        if done is not None:
            done(connection, problem)
        elif connection is not None:
            connection.close()
