"""The cage without namespaces: plain processes, gathered by a subreaper.

What a plain process can't have is refused, with the name of what could give it. Network, names
and files are the machine's own.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from typing import NoReturn

import msgspec

from jobyard.node.cage import CannotRunError, Spawned
from jobyard.node.folders import PodFolder
from jobyard.node.isolation import cgroups, init, kernel, processes
from jobyard.node.isolation.descriptors import close_all_but
from jobyard.node.isolation.launching import Command, await_report, execute, start_error, tell
from jobyard.node.isolation.pipes import Wiring, wire
from jobyard.node.order import ContainerOrder, Mount, MountType, PodOrder, Redirect


class _Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a container, by the pid of its subreaper; `guests` came in by `inside`."""

    order: ContainerOrder
    group: cgroups.Group | None
    guests: list[int]


def refusal(container: ContainerOrder) -> str:
    """What of the order only another runtime can do; empty if it can be run here."""
    if container.root_folder:
        return f"the root folder {container.root_folder}"
    for mount in container.mounts:
        if mount.target == container.termination_message_path:
            # Its message is the log's end, if anything.
            continue
        if not _is_there(mount):
            return f"a volume at {mount.target}"
    return ""


def _is_there(mount: Mount) -> bool:
    if mount.type == MountType.TMPFS:
        return os.path.isdir(mount.target)
    try:
        return os.path.samefile(mount.source, mount.target)
    except OSError:
        return False


class HostCage:
    """See `Cage`."""

    def __init__(self, folder: PodFolder, order: PodOrder) -> None:
        self._folder = folder
        self._order = order
        self._runs: dict[int, _Run] = {}
        self._count = 0

    def open(self) -> None:
        """Containers of a pod share nothing here that has to be made."""

    def start(self, container: ContainerOrder) -> Spawned:
        if problem := refusal(container):
            raise CannotRunError(
                "CreateContainerConfigError",
                f"container {container.name}: the host runtime can't provide {problem}; "
                "the sandbox runtime does (Linux with user namespaces; see `jobyard doctor`)",
            )
        self._count += 1
        name = f"jobyard-{self._folder.uid}-{container.name}-{self._count}"
        group = cgroups.make(name, container.memory_limit_bytes, container.cpu_limit_millis)
        if group:
            cgroups.remember(self._folder.path, group)
            group.watch()
        wiring = wire(stdin=container.stdin, tty=container.tty, owner=container.uid)
        report, told = os.pipe()
        supervisor = os.getpid()
        pid = os.fork()
        if pid == 0:
            _be_first(Command.of(container), group, wiring, told, supervisor)
        os.close(told)
        wiring.close_inner()
        try:
            await_report(report)
        except CannotRunError:
            os.waitpid(pid, 0)
            wiring.close_outer()
            if group:
                group.remove()
            raise
        self._runs[pid] = _Run(order=container, group=group, guests=[])
        return wiring.spawned(pid)

    def inside(
        self, pid: int, container: ContainerOrder, argv: tuple[str, ...], *, stdin: bool, tty: bool
    ) -> Spawned:
        run = self._runs.get(pid)
        if run is None:
            raise start_error(f"container {container.name} is not running")
        wiring = wire(stdin=stdin, tty=tty, owner=container.uid)
        report, told = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                if run.group:
                    run.group.join()
                execute(Command.of(container, argv), wiring.streams, told)
            finally:
                os._exit(128)
        os.close(told)
        wiring.close_inner()
        try:
            await_report(report)
        except CannotRunError:
            os.waitpid(child, 0)
            wiring.close_outer()
            raise
        with contextlib.suppress(OSError, AttributeError):
            # By descriptor: when the container ends, the number may be somebody else's.
            run.guests.append(os.pidfd_open(child))
        return wiring.spawned(child)

    def signal(self, pid: int, number: int) -> None:
        if number == signal.SIGKILL:
            # Not the subreaper: it exits by itself once it has taken in all the others.
            processes.kill_descendants_of(pid)
            number = init.SUPERVISOR_DIED
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    def forward(self, redirects: tuple[Redirect, ...]) -> None:  # noqa: ARG002
        """Never asked for: ports are those of the machine, and were told to the command."""
        raise OSError(errno.EOPNOTSUPP, "a pod without a network has no ports of its own")

    def was_out_of_memory(self, pid: int) -> bool:
        run = self._runs.pop(pid, None)
        if run is None:
            return False
        _dismiss(run)
        if run.group is None:
            return False
        answer = run.group.was_out_of_memory()
        run.group.remove()
        return answer

    def used_memory_bytes(self, pid: int) -> int:
        run = self._runs.get(pid)
        if run is None or (run.group and run.group.limits_memory):
            return 0
        everyone = (pid, *processes.descendants_of(pid))
        return processes.memory_bytes(everyone, run.order.memory_limit_bytes)

    def close(self) -> None:
        for run in self._runs.values():
            _dismiss(run)
        cgroups.clear(self._folder.path)


def _dismiss(run: _Run) -> None:
    """Ends what was started beside the container's command."""
    for guest in run.guests:
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(guest, signal.SIGKILL)
        os.close(guest)
    run.guests.clear()


def _be_first(
    command: Command, group: cgroups.Group | None, wiring: Wiring, told: int, supervisor: int
) -> NoReturn:
    """The forked process: takes in every orphan of the container. It never gets out of here."""
    try:
        streams = wiring.streams
        event = group.event if group else -1
        close_all_but(streams.stdin, streams.stdout, streams.stderr, told, event)
        signals = init.listen()
        if group:
            group.join()
        with contextlib.suppress(OSError):
            kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        init.die_with_supervisor(supervisor, init.SUPERVISOR_DIED)
        os.setsid()
        pid = os.fork()
        if pid == 0:
            execute(command, streams, told)
        wiring.close_inner()
        os.close(told)
        own = os.getpid()
        init.reign(
            pid,
            signals=signals,
            sweep=lambda: processes.kill_descendants_of(own),
            out_of_memory=event,
        )
    except BaseException as error:
        tell(told, error)
    os._exit(128)
