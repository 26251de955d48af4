"""Limits that the kernel enforces: one control group per run of a container, where one may be had.

Version 1 and 2 of control groups, each found by trying: which folder may be written differs too
much between machines to be reasoned about. Without any, limits are left to who polls.
"""

from __future__ import annotations

import contextlib
import os
import select
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from jobyard.node.shared.polling import until

_PERIOD_MICROSECONDS: Final = 100_000
_LIST_NAME: Final = "groups"
_CLEAR_SECONDS: Final = 2.0
_AGAIN_SECONDS: Final = 0.01


class Group:
    """The control groups of one run of a container: one folder, or one per v1 controller."""

    def __init__(
        self, memory: Path | None, cpu: Path | None, pids: Path | None = None, *, is_v2: bool
    ) -> None:
        self._memory = memory
        self._cpu = cpu
        self._pids = pids
        self._is_v2 = is_v2
        self.event = -1

    @property
    def limits_memory(self) -> bool:
        return self._memory is not None

    @property
    def folders(self) -> tuple[Path, ...]:
        every = (self._memory, self._cpu, self._pids)
        return tuple(dict.fromkeys(one for one in every if one is not None))

    def join(self) -> None:
        """Puts the calling process in; what it forks is in it too."""
        for folder in self.folders:
            (folder / "cgroup.procs").write_text("0")

    def watch(self) -> None:
        """From now on `event` is readable once memory ran out; not where the kernel kills all.

        Version 1 kills one process and leaves the others. It tells of it first, so who listens
        may be faster than the kernel, which then counts no kill: the event itself has to count.
        """
        if self._memory is None or self._is_v2:
            return
        event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        control = os.open(self._memory / "memory.oom_control", os.O_RDONLY)
        try:
            (self._memory / "cgroup.event_control").write_text(f"{event} {control}")
            self.event = event
        except OSError:
            os.close(event)
        finally:
            os.close(control)

    def was_out_of_memory(self) -> bool:
        if self._memory is None:
            return False
        if self.event >= 0 and select.select([self.event], [], [], 0)[0]:
            return True
        name = "memory.events" if self._is_v2 else "memory.oom_control"
        try:
            lines = (self._memory / name).read_text().splitlines()
        except OSError:
            return False
        return any(line.startswith("oom_kill ") and line != "oom_kill 0" for line in lines)

    def remove(self) -> None:
        """If nobody is in it any more; else `clear` gets it later."""
        if self.event >= 0:
            os.close(self.event)
            self.event = -1
        for folder in self.folders:
            with contextlib.suppress(OSError):
                folder.rmdir()


def remember(pod: Path, group: Group) -> None:
    """Writes down in a pod's folder which groups it has, for `clear`."""
    with (pod / _LIST_NAME).open("a") as file:
        file.write("".join(f"{folder}\n" for folder in group.folders))


def clear(pod: Path) -> None:
    """Removes the groups of a pod that is over, also those that a crash left behind."""
    try:
        text = (pod / _LIST_NAME).read_text(errors="replace")
    except OSError:
        return
    left = [Path(line) for line in dict.fromkeys(text.splitlines()) if line]

    def are_gone() -> bool:
        for folder in left:
            with contextlib.suppress(OSError):
                folder.rmdir()
        return not any(folder.exists() for folder in left)

    # The last process is killed already; the kernel takes a moment to let go of it, and only
    # version 2 would tell when it has.
    until(are_gone, seconds=_CLEAR_SECONDS, interval_seconds=_AGAIN_SECONDS)


def own_folders(mounts: str, memberships: str) -> dict[str, Path]:
    """Where this process is, by controller; version 2 has the empty name.

    From the texts of /proc/self/mountinfo and /proc/self/cgroup.
    """
    paths: dict[str, str] = {}
    for line in memberships.splitlines():
        _, controllers, path = line.split(":", 2)
        paths.update(dict.fromkeys(controllers.split(","), path))
    found: dict[str, Path] = {}
    for line in mounts.splitlines():
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        _, _, _, root, point = fields.split(" ")[:5]
        names = [""] if kind == "cgroup2" else options.split(",") if kind == "cgroup" else []
        for name in names:
            if name in paths and name not in found:
                found[name] = Path(point) / os.path.relpath(paths[name], root)
    return found


def _own_folders() -> dict[str, Path]:
    try:
        # Names of mount points may be in any encoding.
        mounts = os.fsdecode(Path("/proc/self/mountinfo").read_bytes())
        return own_folders(mounts, os.fsdecode(Path("/proc/self/cgroup").read_bytes()))
    except (OSError, ValueError):
        return {}


def make(name: str, memory_bytes: int, cpu_millis: int, processes_max: int = 0) -> Group | None:
    """A group with these limits (0: none), or None where the machine doesn't let us.

    The number of processes is limited where it can be, beside the others or alone.
    """
    if not memory_bytes and not cpu_millis and not processes_max:
        return None
    own = _own_folders()
    wanted = _Limits(memory_bytes, cpu_millis, processes_max)
    if "" in own:
        fewer = replace(wanted, processes_max=0)
        for limits in dict.fromkeys((wanted, fewer)):
            if limits.controllers and (group := _make_v2(own[""], name, limits)):
                return group
    memory = cpu = pids = None
    if memory_bytes and "memory" in own:
        memory = _made(own["memory"] / name, _memory_v1(memory_bytes))
    if cpu_millis and "cpu" in own:
        cpu = _made(own["cpu"] / name, _cpu_v1(cpu_millis))
    if processes_max and "pids" in own:
        pids = _made(own["pids"] / name, {"pids.max": str(processes_max)})
    return Group(memory, cpu, pids, is_v2=False) if memory or cpu or pids else None


def _memory_v1(limit: int) -> dict[str, str]:
    # Swap is not to be had beyond the limit. Kernels without swap accounting lack the file.
    return {"memory.limit_in_bytes": str(limit), "?memory.memsw.limit_in_bytes": str(limit)}


def _cpu_v1(millis: int) -> dict[str, str]:
    quota = max(1000, millis * _PERIOD_MICROSECONDS // 1000)
    return {"cpu.cfs_period_us": str(_PERIOD_MICROSECONDS), "cpu.cfs_quota_us": str(quota)}


class _Limits(msgspec.Struct, frozen=True):
    """What a group of version 2 is to limit; 0: not."""

    memory_bytes: int
    cpu_millis: int
    processes_max: int

    @property
    def controllers(self) -> list[str]:
        wanted = {"memory": self.memory_bytes, "cpu": self.cpu_millis, "pids": self.processes_max}
        return [controller for controller, limit in wanted.items() if limit]

    @property
    def settings(self) -> dict[str, str]:
        out: dict[str, str] = {}
        if self.memory_bytes:
            out |= {
                "memory.max": str(self.memory_bytes),
                "?memory.swap.max": "0",
                "?memory.oom.group": "1",
            }
        if self.cpu_millis:
            quota = max(1000, self.cpu_millis * _PERIOD_MICROSECONDS // 1000)
            out["cpu.max"] = f"{quota} {_PERIOD_MICROSECONDS}"
        if self.processes_max:
            out["pids.max"] = str(self.processes_max)
        return out


def _make_v2(own: Path, name: str, limits: _Limits) -> Group | None:
    """Below the nearest group that may have children with these controllers.

    A group with processes of its own can't hand out controllers, so the place is rarely the
    group that this process is in, but one above it that was delegated to the user.
    """
    for parent in (own, *own.parents):
        if not (parent / "cgroup.procs").exists():
            break
        if not os.access(parent, os.W_OK) or not os.access(parent / "cgroup.procs", os.W_OK):
            continue
        if not _hands_on(parent, limits.controllers):
            continue
        folder = _made(parent / name, limits.settings)
        if folder and _can_be_joined(folder):
            return Group(
                folder if limits.memory_bytes else None,
                folder if limits.cpu_millis else None,
                folder if limits.processes_max else None,
                is_v2=True,
            )
    return None


def _hands_on(parent: Path, controllers: list[str]) -> bool:
    """Whether children of a group have these controllers, possibly from now on."""
    control = parent / "cgroup.subtree_control"
    try:
        if not set(controllers) <= set((parent / "cgroup.controllers").read_text().split()):
            return False
        missing = set(controllers) - set(control.read_text().split())
        if missing:
            control.write_text(" ".join(f"+{one}" for one in sorted(missing)))
    except OSError:
        return False
    return True


def _can_be_joined(folder: Path) -> bool:
    """Moving a process needs rights on a group above both places; only trying tells."""
    child = os.fork()
    if child == 0:
        try:
            (folder / "cgroup.procs").write_text("0")
        except OSError:
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        with contextlib.suppress(OSError):
            folder.rmdir()
    return status == 0


def _made(folder: Path, settings: dict[str, str]) -> Path | None:
    """A new group with its settings; those that begin with `?` may fail."""
    try:
        folder.mkdir()
    except OSError:
        return None
    try:
        for name, value in settings.items():
            path = folder / name.removeprefix("?")
            try:
                path.write_text(value)
            except OSError:
                if not name.startswith("?"):
                    raise
    except OSError:
        with contextlib.suppress(OSError):
            folder.rmdir()
        return None
    return folder
