"""Makes the checks of probes and hooks: a command inside, a TCP connection, an HTTP request.

Each is begun, calls back once with a problem (or with none) and can be cancelled; none is
waited for. What a result means is decided in `probing` and `facts`. Texts are kubelet's.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Callable
from typing import Final, Protocol

from jobyard.node.isolation.cage import Cage, CannotRunError, Spawned
from jobyard.node.shared.order import Check, ContainerOrder, PodOrder
from jobyard.node.supervisor.dialing import Dial
from jobyard.node.supervisor.http_check import HttpCheck
from jobyard.node.supervisor.loop import READ, Loop

# Hooks have no time limit of their own: the container's end is theirs.
ENDLESS_SECONDS: Final = 10 * 365 * 24 * 3600.0
_OUTPUT_BYTES_MAX: Final = 10 * 1024

Done = Callable[[str], None]


class Cancellable(Protocol):
    """Something under way."""

    def cancel(self) -> None: ...


class Checker:
    """Begins checks of one pod's containers."""

    def __init__(self, loop: Loop, cage: Cage, order: PodOrder) -> None:
        self._loop = loop
        self._cage = cage
        self._address = order.address or "127.0.0.1"

    def begin(
        self, container: ContainerOrder, pid: int, check: Check, seconds: float, done: Done
    ) -> Cancellable:
        """Calls `done` later, never before this returns; an empty text means that all is well."""
        if check.argv:
            return ExecCheck(self._loop, self._cage, (pid, container, check.argv), seconds, done)
        if check.http is not None:
            return HttpCheck(self._loop, self._address, check.http, seconds, done)
        port = check.tcp_port

        def dialled(connection: socket.socket | None, problem: str) -> None:
            if connection is not None:
                connection.close()
            done(f"dial tcp {self._address}:{port}: {problem}" if problem else "")

        return Dial(self._loop, [self._address], port, seconds, dialled)


class ExecCheck:
    """A command inside the container; exit code 0 is good."""

    def __init__(
        self,
        loop: Loop,
        cage: Cage,
        what: tuple[int, ContainerOrder, tuple[str, ...]],
        seconds: float,
        done: Done,
    ) -> None:
        self._loop = loop
        self._cage = cage
        self._done: Done | None = done
        self._output = b""
        self._open: set[int] = set()
        self._spawned: Spawned | None = None
        text = f'command "{" ".join(what[2])}" timed out after {seconds:g}s'
        self._timer = loop.after(seconds, lambda: self._cut(text))
        try:
            self._spawned = cage.inside(*what, stdin=False, tty=False)
        except (CannotRunError, OSError) as error:
            problem = str(error) or type(error).__name__
            self._timer.cancel()
            self._timer = loop.after(0, lambda: self._end(problem))
            return
        for descriptor in {self._spawned.stdout, self._spawned.stderr} - {-1}:
            os.set_blocking(descriptor, False)
            self._open.add(descriptor)
            loop.watch(descriptor, READ, lambda d=descriptor: self._read(d))  # type: ignore[misc]
        loop.child(self._spawned.pid, self._ended)

    def cancel(self) -> None:
        self._done = None
        self._cut("")

    def _cut(self, problem: str) -> None:
        if self._spawned is not None:
            with contextlib.suppress(ProcessLookupError):
                self._cage.signal(self._spawned.pid, signal.SIGKILL)
        self._end(problem)

    def _read(self, descriptor: int) -> None:
        try:
            data = os.read(descriptor, 65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._output = (self._output + data)[:_OUTPUT_BYTES_MAX]
        else:
            self._let_go(descriptor)

    def _let_go(self, descriptor: int) -> None:
        self._loop.forget(descriptor)
        os.close(descriptor)
        self._open.discard(descriptor)

    def _ended(self, status: int) -> None:
        self._spawned = None
        for descriptor in list(self._open):
            self._read(descriptor)
        code = os.waitstatus_to_exitcode(status)
        output = self._output.decode(errors="replace").strip()
        self._end("" if code == 0 else output or f"command ended with exit code {code}")

    def _end(self, problem: str) -> None:
        self._timer.cancel()
        for descriptor in list(self._open):
            self._let_go(descriptor)
        done, self._done = self._done, None
        if done is not None:
            done(problem)
