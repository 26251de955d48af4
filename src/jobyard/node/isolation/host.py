"""The cage without namespaces: plain processes, gathered by a subreaper.

What a plain process can't have is refused, with the name of what could give it. Network, names
and files are the machine's own.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
from typing import Final, NoReturn

from jobyard.node.isolation import cgroups, init, kernel, processes
from jobyard.node.isolation.cage import CannotRunError, Spawned
from jobyard.node.isolation.descriptors import Held, close_all_but
from jobyard.node.isolation.forking import adopt_orphans
from jobyard.node.isolation.launching import (
    Command,
    await_report,
    execute,
    start_error,
    start_failed,
    tell,
)
from jobyard.node.isolation.pipes import Wiring, wire
from jobyard.node.isolation.runs import Run, Runs, was_out_of_memory
from jobyard.node.isolation.visitors import Door, Visitors
from jobyard.node.shared.folders import PodFolder
from jobyard.node.shared.order import ContainerOrder, Mount, MountType, PodOrder, Redirect

_NEWS_SECONDS: Final = 10.0


class _Run(Run, frozen=True, kw_only=True):
    """Its first process lets others in."""

    door: Door


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
        self._all: Runs[_Run] = Runs(folder)
        self._runs = self._all.by_pid

    def open(self) -> None:
        """Containers share nothing here; whom their first processes lose comes to this one."""
        adopt_orphans()

    def start(self, container: ContainerOrder) -> Spawned:
        if problem := refusal(container):
            raise CannotRunError(
                "CreateContainerConfigError",
                f"container {container.name}: the host runtime can't provide {problem}; "
                "the sandbox runtime does (Linux with user namespaces; see `jobyard doctor`)",
            )
        return self._all.start(container, self._started)

    def _started(self, container: ContainerOrder, group: cgroups.Group | None) -> Spawned:
        with Held() as held:
            wiring = wire(held, stdin=container.stdin, tty=container.tty, owner=container.uid)
            report, told = held.pipe()
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                supervisor = os.getpid()
                try:
                    pid = os.fork()
                except OSError:
                    ours.close()
                    raise
                if pid == 0:
                    _be_first(container, group, wiring, told, (theirs, supervisor))
            held.close(told, *wiring.inner)
            try:
                await_report(held.give(report))
            except CannotRunError:
                os.waitpid(pid, 0)
                ours.close()
                raise
            self._runs[pid] = _Run(order=container, group=group, door=Door(ours))
            return wiring.spawned(pid, held)

    def inside(
        self, pid: int, container: ContainerOrder, argv: tuple[str, ...], *, stdin: bool, tty: bool
    ) -> Spawned:
        run = self._all.of(pid, container)
        with Held() as held:
            try:
                wiring = wire(held, stdin=stdin, tty=tty, owner=container.uid)
                report, told = held.pipe()
                stand_in = run.door.invite(argv, wiring.streams, told, held)
            except ConnectionError as error:
                raise start_error(f"container {container.name} is not running") from error
            except OSError as error:
                raise start_failed(error) from error
            held.close(told, *wiring.inner)
            try:
                if not _has_news(report):
                    os.kill(stand_in, signal.SIGKILL)
                    raise start_error(f"container {container.name} does not take part: stopped?")
                await_report(held.give(report))
            except CannotRunError:
                os.waitpid(stand_in, 0)
                raise
            return wiring.spawned(stand_in, held)

    def signal(self, pid: int, number: int) -> None:
        if any(run.door.signal(pid, number) for run in self._runs.values()):
            return
        with contextlib.suppress(ProcessLookupError):
            if number == signal.SIGKILL and pid in self._runs:
                # Who gathers the others must be the last to go. It may have been stopped.
                os.kill(pid, init.SUPERVISOR_DIED)
                number = signal.SIGCONT
            os.kill(pid, number)

    def forward(self, redirects: tuple[Redirect, ...]) -> None:  # noqa: ARG002
        """Never asked for: ports are those of the machine, and were told to the command."""
        raise OSError(errno.EOPNOTSUPP, "a pod without a network has no ports of its own")

    def was_out_of_memory(self, pid: int) -> bool:
        run = self._runs.pop(pid, None)
        if run is None:
            return False
        run.door.close()
        self._clear_strays(run.door.stand_ins())
        return was_out_of_memory(run)

    def _clear_strays(self, stand_ins: set[int]) -> None:
        """What has come to the supervisor because somebody killed the container's first process."""
        known = stand_ins.union(self._runs, *(run.door.stand_ins() for run in self._runs.values()))
        if strays := set(processes.children_of(os.getpid())) - known:
            processes.kill_descendants_of(os.getpid(), but=known)
        for stray in strays:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(stray, os.WNOHANG)

    def used_memory_bytes(self, pid: int) -> int:
        run = self._all.unlimited(pid)
        if run is None:
            return 0
        return processes.memory_bytes(processes.family_of(pid), run.order.memory_limit_bytes)

    def close(self) -> None:
        for run in self._runs.values():
            run.door.close()
        processes.kill_descendants_of(os.getpid())
        cgroups.clear(self._folder.path)


def _has_news(report: int) -> bool:
    """Within a moment: the first process is the user's, who may have stopped it."""
    poll = select.poll()
    poll.register(report, select.POLLIN)
    return bool(poll.poll(_NEWS_SECONDS * 1000))


def _be_first(
    container: ContainerOrder,
    group: cgroups.Group | None,
    wiring: Wiring,
    told: int,
    around: tuple[socket.socket, int],
) -> NoReturn:
    """The forked process: takes in every orphan of the container. It never gets out of here."""
    try:
        door, supervisor = around
        streams = wiring.streams
        event = group.event if group else -1
        close_all_but(streams.stdin, streams.stdout, streams.stderr, told, event, door.fileno())
        signals = init.listen()
        if group:
            group.join()
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        init.die_with_supervisor(supervisor, init.SUPERVISOR_DIED)
        os.setsid()
        pid = os.fork()
        if pid == 0:
            execute(Command.of(container), streams, told)
        wiring.close_inner()
        os.close(told)
        own = os.getpid()
        init.reign(
            pid,
            signals=signals,
            sweep=lambda: processes.kill_descendants_of(own),
            out_of_memory=event,
            visitors=Visitors(door, lambda argv: Command.of(container, argv)),
        )
    except BaseException as error:
        tell(told, error)
    os._exit(128)
