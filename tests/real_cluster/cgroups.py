"""The control group that all pods are in: made before the node starts, removed after it ended.

Its name is that of the run's own folder (see `folder_prefix`), so that runs beside each other don't
meet; what a run that was killed left behind is known by a pid that is gone. Knows both versions,
also at once: with version 1 there is a tree for each controller, with version 2 one for all, and
some machines have both.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_START = "jobyard-node-"
# Nobody in here can do anything about these.
NOT_OURS = (errno.EBUSY, errno.EROFS, errno.EACCES, errno.EPERM)


def trees() -> tuple[Path, ...]:
    """Where each hierarchy is mounted."""
    mounts = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    return tuple(Path(mount[1]) for mount in mounts if mount[2] in ("cgroup", "cgroup2"))


def folder_prefix() -> str:
    """How the name of this run's folder begins."""
    return f"{_START}{os.getpid()}-"


@contextmanager
def made(name: str) -> Iterator[None]:
    """The group, in all trees, for the time of a `with` block; all below it must have ended."""
    _sweep()
    try:
        _make(name)
        yield
    finally:
        remove(name)


def hindrance() -> str:
    """Why the group can't be made, if it is the machine that doesn't let us; else empty.

    In a container, version 2 often has our own processes in the topmost group that we see, and the
    kernel then passes nothing on to groups below it.
    """
    if not trees():
        return "this machine has no control groups"
    name = f"{folder_prefix()}try"
    try:
        _make(name)
    except OSError as error:
        if error.errno not in NOT_OURS:
            raise
        return f"this machine gives no control groups away: {error.strerror}"
    finally:
        remove(name)
    return ""


def remove(name: str) -> None:
    """Remove the group and all below it; an error if a process is still in one."""
    for tree in trees():
        for folder, _, _ in os.walk(tree / name, topdown=False):
            Path(folder).rmdir()


def _sweep() -> None:
    """Groups of runs that are gone; those in which something still runs are left alone."""
    names = {path.name for tree in trees() for path in tree.glob(f"{_START}*")}
    for name in names:
        pid = name.removeprefix(_START).partition("-")[0]
        if not Path("/proc", pid).exists():
            with suppress(OSError):
                remove(name)


def _make(name: str) -> None:
    for tree in trees():
        (tree / name).mkdir()
        _pass_controllers_on(tree)


def _pass_controllers_on(tree: Path) -> None:
    """Version 2 gives a group only what its parent passes on; kubelet does so further down."""
    available = tree / "cgroup.controllers"
    if not available.exists():
        return
    passed_on = tree / "cgroup.subtree_control"
    for controller in available.read_text().split():
        if controller not in passed_on.read_text().split():
            passed_on.write_text(f"+{controller}")
