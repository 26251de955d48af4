"""Processes that clients start beside a container's command, and connections they ask for.

Their streams go to the client and are the supervisor's no more; it only waits for the end and
writes the exit code where the client can read it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from typing import Final

from jobyard.node.isolation.cage import Cage, CannotRunError
from jobyard.node.shared.order import ContainerOrder, PodOrder
from jobyard.node.supervisor.control_socket import Client
from jobyard.node.supervisor.dialing import Dial
from jobyard.node.supervisor.loop import READ, Loop
from jobyard.node.supervisor.messages import Answer, ConnectTo, SignalInside, StartInside

_CONNECT_SECONDS: Final = 10.0


class Guests:
    """All of one pod."""

    def __init__(self, loop: Loop, cage: Cage, order: PodOrder) -> None:
        self._loop = loop
        self._cage = cage
        self._order = order
        # The container that a process is in.
        self._containers: dict[int, str] = {}

    def start(
        self, client: Client, command: StartInside, container: ContainerOrder, pid: int
    ) -> None:
        """Beside the command that has this pid."""
        ends: tuple[int, ...] = ()
        try:
            ends = os.pipe2(os.O_CLOEXEC)
            spawned = self._cage.inside(
                pid, container, command.argv, stdin=command.stdin, tty=command.tty
            )
        except (CannotRunError, OSError) as error:
            for descriptor in ends:
                os.close(descriptor)
            client.answer(Answer(number=command.number, problem=str(error)))
            return
        status, report = ends
        self._containers[spawned.pid] = container.name
        self._loop.child(spawned.pid, lambda code: self._ended(spawned.pid, report, code))
        # Nobody reads how it ends: who asked for it has gone, and it goes too.
        self._loop.watch(report, READ, lambda: self._deserted(spawned.pid, report))
        given = {
            "stdin": spawned.stdin,
            "stdout": spawned.stdout,
            "stderr": spawned.stderr,
            "status": status,
        }
        streams = {name: descriptor for name, descriptor in given.items() if descriptor >= 0}
        answer = Answer(number=command.number, streams=tuple(streams), pid=spawned.pid)
        client.answer(answer, tuple(streams.values()))

    def signal(self, client: Client, command: SignalInside) -> None:
        if command.pid in self._containers:
            with contextlib.suppress(ProcessLookupError):
                self._cage.signal(command.pid, command.signal)
        client.answer(Answer(number=command.number))

    def connect(self, client: Client, command: ConnectTo) -> None:
        addresses = ["127.0.0.1", *([self._order.address] if self._order.address else []), "::1"]

        def dialled(connection: socket.socket | None, problem: str) -> None:
            if connection is None:
                text = f"port {command.port}: {problem}"
                client.answer(Answer(number=command.number, problem=text))
            else:
                answer = Answer(number=command.number, streams=("socket",))
                client.answer(answer, (connection.detach(),))

        Dial(self._loop, addresses, command.port, _CONNECT_SECONDS, dialled)

    def end_in(self, container: str) -> None:
        """Its command has ended, so everything in it ends."""
        for pid, name in self._containers.items():
            if name == container:
                with contextlib.suppress(ProcessLookupError):
                    self._cage.signal(pid, signal.SIGKILL)

    def _deserted(self, pid: int, report: int) -> None:
        self._loop.forget(report)
        with contextlib.suppress(ProcessLookupError):
            self._cage.signal(pid, signal.SIGKILL)

    def _ended(self, pid: int, report: int, status: int) -> None:
        del self._containers[pid]
        self._loop.forget(report)
        code = os.waitstatus_to_exitcode(status)
        with contextlib.suppress(OSError):
            os.write(report, b"%d" % (code if code >= 0 else 128 - code))
        os.close(report)
