"""Pods under a real supervisor, in a cage of plain processes that is as small as can be.

The supervisor is a fork of the test's process. Whatever a test does, it is gone afterwards,
and so is everything that ran in its pods.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import subprocess
import sys
import traceback
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from jobyard.node.isolation.cage import CannotRunError, Spawned
from jobyard.node.logs.container_logs import LogCut, read_logs
from jobyard.node.runtime.supervisor_wire import SupervisorLink
from jobyard.node.shared.folders import PodFolder
from jobyard.node.shared.keeping import read_state
from jobyard.node.shared.order import ContainerOrder, PodOrder, RestartPolicy
from jobyard.node.shared.state import ContainerState, PodState
from jobyard.node.supervisor.life import supervise

DEADLINE_SECONDS = 60.0
T = TypeVar("T")


class PlainCage:
    """Processes in sessions of their own, and nothing more."""

    def __init__(self, used: Callable[[int], int] | None = None, refuses: str = "") -> None:
        self._used = used
        self._refuses = refuses
        self.is_closed = False

    def open(self) -> None:
        if self._refuses:
            raise CannotRunError("FailedCreatePodSandBox", self._refuses)

    def start(self, container: ContainerOrder) -> Spawned:
        # No mount is possible here; a variable tells the command where its message goes.
        for mount in container.mounts:
            if mount.target == container.termination_message_path:
                container.env["MESSAGE"] = mount.source
        return self._spawn(container, container.argv, stdin=container.stdin, tty=container.tty)

    def inside(
        self, pid: int, container: ContainerOrder, argv: tuple[str, ...], *, stdin: bool, tty: bool
    ) -> Spawned:
        return self._spawn(container, argv, stdin=stdin, tty=tty)

    def _spawn(
        self, container: ContainerOrder, argv: tuple[str, ...], *, stdin: bool, tty: bool
    ) -> Spawned:
        if tty:
            master, slave = os.openpty()
            ours = Spawned(pid=0, stdin=os.dup(master), stdout=master)
            theirs = [slave, slave, slave]
        else:
            read_in, write_in = os.pipe() if stdin else (os.open(os.devnull, os.O_RDONLY), -1)
            read_out, write_out = os.pipe()
            read_err, write_err = os.pipe()
            ours = Spawned(pid=0, stdin=write_in, stdout=read_out, stderr=read_err)
            theirs = [read_in, write_out, write_err]
        try:
            process = subprocess.Popen(
                argv,
                env=container.env,
                cwd=container.working_folder or None,
                stdin=theirs[0],
                stdout=theirs[1],
                stderr=theirs[2],
                start_new_session=True,
            )
        except OSError as error:
            for descriptor in {ours.stdin, ours.stdout, ours.stderr} - {-1}:
                os.close(descriptor)
            raise CannotRunError("StartError", f"exec {argv[0]}: {error.strerror}") from error
        finally:
            for descriptor in set(theirs):
                os.close(descriptor)
        # The supervisor waits for it, not this object.
        process.returncode = 0
        return msgspec.structs.replace(ours, pid=process.pid)

    def signal(self, pid: int, number: int) -> None:
        if number == signal.SIGKILL:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, number)
        os.kill(pid, number)

    def was_out_of_memory(self, pid: int) -> bool:
        # The command has ended; what it left in its session ends as well.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        return False

    def used_memory_bytes(self, pid: int) -> int:
        return self._used(pid) if self._used else 0

    def close(self) -> None:
        self.is_closed = True


def shell(script: str, name: str = "main", **fields: Any) -> ContainerOrder:
    """A container that runs a script."""
    env = {"PATH": os.environ["PATH"], **fields.pop("env", {})}
    return ContainerOrder(name=name, argv=("/bin/sh", "-c", script), env=env, **fields)


def python(script: str, name: str = "main", **fields: Any) -> ContainerOrder:
    env = {"PATH": os.environ["PATH"]}
    return ContainerOrder(name=name, argv=(sys.executable, "-c", script), env=env, **fields)


def pod(*containers: ContainerOrder, **fields: Any) -> PodOrder:
    """An order with short times; its policy is Never unless told."""
    fields.setdefault("restart_policy", RestartPolicy.NEVER)
    fields.setdefault("restart_delay_seconds", 0.05)
    return PodOrder(
        uid=str(uuid.uuid4()),
        namespace="default",
        name="pod",
        host_name="pod",
        containers=containers,
        **fields,
    )


class Supervised:
    """A pod whose supervisor is running, or was."""

    def __init__(self, folder: PodFolder, order: PodOrder, pid: int) -> None:
        self.folder = folder
        self.order = order
        self.pid = pid
        self._is_gone = False

    def wait(self, seconds: float = DEADLINE_SECONDS) -> int:
        """Until the supervisor has exited; its exit code."""
        watch = os.pidfd_open(self.pid)
        try:
            poll = select.poll()
            poll.register(watch, select.POLLIN)
            assert poll.poll(seconds * 1000), f"still running: {self.state()}"
        finally:
            os.close(watch)
        self._is_gone = True
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.wait()

    def state(self) -> PodState | None:
        return read_state(self.folder)

    def end(self) -> PodState:
        """How it ended, once it has."""
        assert self.wait() == 0
        state = self.state()
        assert state is not None
        assert state.is_over
        return state

    def clean_up(self) -> None:
        state = self.state()
        if not self._is_gone:
            self.kill()
        for container in (*state.init_containers, *state.containers) if state else ():
            if container.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(container.pid, signal.SIGKILL)

    @asynccontextmanager
    async def link(self) -> AsyncIterator[SupervisorLink]:
        link = await SupervisorLink.open(self.folder, is_starting=True)
        try:
            yield link
        finally:
            await link.close()

    def text(self, container: str = "main", run: int = 0, **cut: Any) -> bytes:
        """What is in the log, now."""
        return asyncio.run(collected(self.folder, container, run, LogCut(**cut)))


async def collected(folder: PodFolder, container: str, run: int, cut: LogCut) -> bytes:
    return b"".join([piece async for piece in read_logs(folder, container, run, cut)])


class Nursery:
    """Starts supervisors in one data folder."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self._all: list[Supervised] = []

    def start(self, order: PodOrder, cage: PlainCage | None = None) -> Supervised:
        folder = PodFolder(self.data, order.uid)
        folder.path.mkdir(parents=True, exist_ok=True)
        folder.order.write_bytes(msgspec.json.encode(order))
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                supervise(folder, order, cage or PlainCage())
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        supervised = Supervised(folder, order, pid)
        self._all.append(supervised)
        return supervised

    def end(self, order: PodOrder, cage: PlainCage | None = None) -> PodState:
        return self.start(order, cage).end()

    def clean_up(self) -> None:
        for supervised in self._all:
            supervised.clean_up()


@contextmanager
def nursery(data: Path) -> Iterator[Nursery]:
    made = Nursery(data)
    try:
        yield made
    finally:
        made.clean_up()


def within_time(work: Coroutine[Any, Any, T]) -> T:
    """Runs a test's coroutine, with an end."""

    async def bounded() -> T:
        async with asyncio.timeout(DEADLINE_SECONDS):
            return await work

    return asyncio.run(bounded())


async def until(link: SupervisorLink, holds: Callable[[PodState], bool]) -> PodState:
    """The first state for which something holds."""
    seen: list[PodState] = []
    async for state in link.states():
        seen.append(state)
        if holds(state):
            return state
    raise AssertionError(f"the supervisor ended before: {seen[-1:]}")


def only(state: PodState) -> ContainerState:
    (container,) = state.containers
    return container
