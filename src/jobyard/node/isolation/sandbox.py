"""The cage of namespaces: own processes, mounts, host name and memory segments.

The network is there before: the hub forks the supervisor into it. Each run of a container has a
first process (`init`) in a PID namespace, which furnishes its own mount namespace and then starts
the command. As an ordinary user all of this happens inside the hub's user namespace, and the
command in one more that maps back to the user.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NoReturn

from jobyard.node.isolation import cgroups, init, kernel, nftables, processes
from jobyard.node.isolation.cage import Spawned
from jobyard.node.isolation.descriptors import Held, close_all_but
from jobyard.node.isolation.forking import adopt_orphans, fork_apart
from jobyard.node.isolation.launching import (
    Command,
    await_start,
    execute,
    start_error,
    start_failed,
    tell,
)
from jobyard.node.isolation.pipes import Wiring, wire
from jobyard.node.isolation.privileges import Restraint, forget_login, processes_max
from jobyard.node.isolation.rootfs.furniture import Furniture, Room
from jobyard.node.isolation.rootfs.mount_points import MadeFolders, clear_made_folders
from jobyard.node.isolation.rootfs.scratch import put_away, remove_tree
from jobyard.node.isolation.runs import Run, Runs, was_out_of_memory
from jobyard.node.isolation.users import RealUser, enter_new_user_namespace
from jobyard.node.shared.folders import PodFolder
from jobyard.node.shared.order import ContainerOrder, Mount, PodOrder, Redirect

_SWITCH: Final = Path("/etc/nsswitch.conf")
_NAME: Final = Path("/etc/hostname")
_HOSTS_LINE: Final = re.compile(r"^\s*hosts:.*$", re.MULTILINE)
_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - a mount point
_ROOT: Final = RealUser(uid=0, gid=0)
# As IP numbers them; these are all that services know.
_PROTOCOLS: Final = {"TCP": 6, "UDP": 17, "SCTP": 132}


class _Run(Run, frozen=True, kw_only=True):
    """What it writes over the machine's files is in `scratch`."""

    scratch: Path


class SandboxCage:
    """See `Cage`. `user`: whom commands run as when the supervisor is root only by mapping."""

    def __init__(self, folder: PodFolder, order: PodOrder, user: RealUser | None = None) -> None:
        self._folder = folder
        self._order = order
        self._user = user
        self._data = folder.path.parent.parent
        self._scratch = folder.path / "scratch"
        # What has to be looked up before mounts hide it.
        kept = order.kept_folders
        if kept is None:
            kept = (os.getcwd(), os.environ.get("HOME", ""), "/tmp")  # noqa: S108 - the machine's
        self._own_folders = _folders(kept)
        self._hidden_folders = _folders((str(self._data), *order.hidden_folders))
        self._switch_file = ""
        self._name_file = ""
        self._all: Runs[_Run] = Runs(folder, processes_max())
        self._runs = self._all.by_pid

    def open(self) -> None:
        adopt_orphans()
        kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWUTS | kernel.CLONE_NEWIPC)
        # Mounts of the machine come and go here too, and none of ours gets out.
        kernel.mount("", "/", "", kernel.MS_REC | kernel.MS_SLAVE)
        kernel.set_host_name(self._order.host_name)
        if os.path.isdir(_SHARED_MEMORY) and not str(self._data).startswith(_SHARED_MEMORY):
            flags = kernel.MS_NOSUID | kernel.MS_NODEV
            kernel.mount("tmpfs", _SHARED_MEMORY, "tmpfs", flags, "mode=1777")
        self._switch_file = self._written_switch_file()
        self._name_file = self._written_name_file()

    def _written_switch_file(self) -> str:
        """Names come from our hosts file and from DNS; other sources know nothing of pods."""
        if not self._order.hosts_file or not _SWITCH.exists():
            return ""
        # Comments may be in any encoding; whoever wrote them needs them no more.
        text = _SWITCH.read_text(errors="replace")
        lines = _HOSTS_LINE.findall(text)
        if [line.split() for line in lines] == [["hosts:", "files", "dns"]]:
            return ""
        text = _HOSTS_LINE.sub("", text) + "\nhosts: files dns\n"
        path = self._folder.path / "nsswitch.conf"
        path.write_text(text)
        return str(path)

    def _written_name_file(self) -> str:
        """Programs that read the file and not the kernel find the pod's name as well."""
        if not _NAME.exists():
            return ""
        path = self._folder.path / "hostname"
        try:
            path.write_text(f"{self._order.host_name}\n")
            path.chmod(0o644)
        except OSError:
            # A full disk, mostly; what asks the kernel has the name all the same.
            return ""
        return str(path)

    def _mounts(self, container: ContainerOrder) -> tuple[Mount, ...]:
        files = {
            "/etc/hosts": self._order.hosts_file,
            str(_NAME): self._name_file,
            "/etc/resolv.conf": self._order.resolver_file,
            "/etc/nsswitch.conf": self._switch_file,
        }
        taken = {os.path.normpath(one.target) for one in container.mounts}
        ours = (
            Mount(target=target, source=source)
            for target, source in files.items()
            if source and target not in taken
        )
        return (*ours, *container.mounts)

    def start(self, container: ContainerOrder) -> Spawned:
        return self._all.start(container, self._started)

    def _started(self, container: ContainerOrder, group: cgroups.Group | None) -> Spawned:
        with Held() as held:
            wiring = wire(held, stdin=container.stdin, tty=container.tty, owner=container.uid)
            report, told = held.pipe()
            pid = fork_apart(lambda: kernel.unshare(kernel.CLONE_NEWPID))
            if pid == 0:
                self._be_first(container, group, wiring, told)
            held.close(told, *wiring.inner)
            await_start(held.give(report), pid)
            scratch = self._scratch / str(self._all.count)
            self._runs[pid] = _Run(order=container, group=group, scratch=scratch)
            return wiring.spawned(pid, held)

    def _be_first(
        self, container: ContainerOrder, group: cgroups.Group | None, wiring: Wiring, told: int
    ) -> NoReturn:
        """The forked process: number 1 of its namespace. It never gets out of here."""
        try:
            streams = wiring.streams
            event = group.event if group else -1
            close_all_but(streams.stdin, streams.stdout, streams.stderr, told, event)
            signals = init.listen()
            if group:
                group.join()
            command = Command.of(container)
            forget_login()
            self._furnish(container, command.folder)
            if self._user:
                enter_new_user_namespace(inner=self._user, outer=_ROOT)
            kernel.prctl(kernel.PR_SET_NAME, b"jobyard-init")
            init.die_with_supervisor(0, signal.SIGKILL)
            if _is_deserted(told):
                os._exit(137)
            pid = os.fork()
            if pid == 0:
                execute(command, streams, told, self._restraint(container))
            wiring.close_inner()
            os.close(told)
            init.reign(pid, signals=signals, sweep=_kill_all, out_of_memory=event)
        except BaseException as error:
            tell(told, error)
        os._exit(128)

    def _restraint(self, container: ContainerOrder) -> Restraint:
        # In a user namespace of the container's own, the kernel counts who is in there.
        return Restraint(container.privileges, processes_max() if self._user else 0)

    def _furnish(self, container: ContainerOrder, working_folder: str) -> None:
        scratch = self._scratch / str(self._all.count)
        scratch.mkdir(parents=True, exist_ok=True)
        wanted = Furniture(
            mounts=self._mounts(container),
            working_folder=working_folder,
            root_folder=os.path.realpath(container.root_folder) if container.root_folder else "",
            scratch=str(scratch),
            own_folders=self._own_folders,
            hidden_folders=self._hidden_folders,
            is_mapped=self._user is not None,
            is_privileged=container.privileges.is_privileged,
        )
        Room(wanted, MadeFolders(self._data)).furnish()

    def inside(
        self, pid: int, container: ContainerOrder, argv: tuple[str, ...], *, stdin: bool, tty: bool
    ) -> Spawned:
        run = self._all.of(pid, container)
        with Held() as held:
            try:
                wiring = wire(held, stdin=stdin, tty=tty, owner=container.uid)
                report, told = held.pipe()
                there = [held.take(one) for one in self._namespaces_of(pid)]
                child = fork_apart(lambda: kernel.setns(there[0], kernel.CLONE_NEWPID))
            except (FileNotFoundError, ProcessLookupError) as error:
                raise start_error(f"container {container.name} is not running") from error
            except OSError as error:
                raise start_failed(error) from error
            if child == 0:
                command, restraint = Command.of(container, argv), self._restraint(container)
                _be_inside(there[1:], run.group, command, wiring, told, restraint)
            held.close(told, *wiring.inner)
            await_start(held.give(report), child)
            return wiring.spawned(child, held)

    def _namespaces_of(self, pid: int) -> Iterator[int]:
        """That of processes, and then those that its first process made for itself."""
        for kind in ("pid", "mnt", "user") if self._user else ("pid", "mnt"):
            yield os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY)

    def signal(self, pid: int, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    def forward(self, redirects: tuple[Redirect, ...]) -> None:
        here = self._order.address
        rules = tuple(
            nftables.is_for(here, _PROTOCOLS[each.protocol], each.port)
            + nftables.redirect(each.target)
            for each in redirects
        )
        # What the pod says to itself passes by the first.
        nftables.install(
            *(
                nftables.Chain(name, hook, nftables.DESTINATION_PRIORITY, rules)
                for name, hook in (("in", nftables.PREROUTING), ("own", nftables.OUTPUT))
            )
        )

    def was_out_of_memory(self, pid: int) -> bool:
        run = self._runs.pop(pid, None)
        if run is None:
            return False
        put_away(run.scratch)
        return was_out_of_memory(run)

    def used_memory_bytes(self, pid: int) -> int:
        run = self._all.unlimited(pid)
        if run is None:
            return 0
        # Those that came in by `inside` are children of this process, not of the first one there.
        everyone = processes.in_namespace_of(pid, below=os.getpid())
        return processes.memory_bytes(everyone, run.order.memory_limit_bytes)

    def close(self) -> None:
        cgroups.clear(self._folder.path)
        remove_tree(self._scratch)
        clear_made_folders(self._data)


def _folders(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Those that are there, by their real names; never the root, which is no place of anybody's."""
    real = (os.path.realpath(one) for one in paths if os.path.isabs(one))
    return tuple(dict.fromkeys(one for one in real if one != "/" and os.path.isdir(one)))


def _be_inside(
    namespaces: list[int],
    group: cgroups.Group | None,
    command: Command,
    wiring: Wiring,
    told: int,
    restraint: Restraint,
) -> NoReturn:
    """The forked process of `inside`: goes where the container is, and becomes the command."""
    try:
        if group:
            group.join()
        for namespace in namespaces:
            kernel.setns(namespace)
        execute(command, wiring.streams, told, restraint)
    except BaseException as error:
        tell(told, error)
    os._exit(128)


def _is_deserted(pipe: int) -> bool:
    """Whether nobody reads the pipe any more: the supervisor died meanwhile."""
    poll = select.poll()
    poll.register(pipe, 0)
    return bool(poll.poll(0))


def _kill_all() -> None:
    """Everyone else in this PID namespace."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
