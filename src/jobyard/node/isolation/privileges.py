"""What a container's processes may do: capabilities, no new privileges, the filter of system calls.

A process takes this on right before it becomes the user's command. As root that makes it no more
than root in a container; for an ordinary user, who has no capabilities to begin with, the filter
is what counts. Which privileges a container has is said by its order.
"""

from __future__ import annotations

import contextlib
import os
import resource
from functools import cache
from pathlib import Path
from typing import Final

from jobyard.node.isolation import kernel, seccomp
from jobyard.node.shared.capabilities import CAPABILITIES
from jobyard.node.shared.order import Privileges
from jobyard.numerals import whole_number

# What Docker keeps from containers, so that root there is not the machine's.
_HIDDEN: Final = (
    "/proc/acpi",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/firmware",
)
_READ_ONLY: Final = (
    "/proc/asound",
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/sys",
)
_PROCESSES_MIN: Final = 4096
_PROCESSES_PER_CORE: Final = 512
_NO_LOGIN: Final = "4294967295"


def guard_kernel_views() -> None:
    """Takes from /proc and /sys what would let root change the machine."""
    for path in _READ_ONLY:
        with contextlib.suppress(OSError):
            if path != "/sys":
                kernel.mount(path, path, "", kernel.MS_BIND | kernel.MS_REC)
            kernel.make_read_only(path)
    for path in _HIDDEN:
        with contextlib.suppress(OSError):
            if os.path.isdir(path):
                flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_RDONLY
                kernel.mount("tmpfs", path, "tmpfs", flags, "size=0")
            elif os.path.exists(path):
                kernel.mount(os.devnull, path, "", kernel.MS_BIND)


def forget_login() -> None:
    """Who logged in on the machine is not who logs in inside, and only now may it be changed."""
    with contextlib.suppress(OSError):
        Path("/proc/self/loginuid").write_text(_NO_LOGIN)


def processes_max() -> int:
    """How many processes and threads a container may have: many, and not all that there can be.

    Trainings have some threads for each core in each of their processes.
    """
    numbers = whole_number(Path("/proc/sys/kernel/pid_max").read_text().strip()) or _PROCESSES_MIN
    return min(max(_PROCESSES_MIN, _PROCESSES_PER_CORE * (os.cpu_count() or 1)), numbers // 2)


class Restraint:
    """What a process gives up on its way to the command; see `launching.Restraint`."""

    def __init__(self, privileges: Privileges, processes_max: int = 0) -> None:
        self._privileges = privileges
        # Where no control group counts them; 0: not here.
        self._processes_max = processes_max

    def bound(self) -> None:
        """What holds from now on for this process and all that come of it, whoever they become."""
        privileges = self._privileges
        if self._processes_max:
            _, most = resource.getrlimit(resource.RLIMIT_NPROC)
            limit = min(self._processes_max, most) if most >= 0 else self._processes_max
            resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
        if privileges.is_privileged:
            return
        for number, name in enumerate(CAPABILITIES):
            if name not in privileges.capabilities:
                # One that this kernel doesn't know, or root by name alone.
                with contextlib.suppress(OSError):
                    kernel.prctl(kernel.PR_CAPBSET_DROP, number)
        if privileges.no_new_privileges:
            kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        if privileges.is_filtered and seccomp.is_known():
            # A kernel without filters, or one that wants more rights for it than we have.
            with contextlib.suppress(OSError):
                kernel.filter_calls(_program(privileges.capabilities))

    def shed(self) -> None:
        """The capabilities of this process itself; after it has become whom it runs as."""
        if self._privileges.is_privileged:
            return
        kept = sum(1 << CAPABILITIES.index(name) for name in self._privileges.capabilities)
        with contextlib.suppress(OSError):
            kernel.keep_capabilities(kept)


@cache
def _program(capabilities: tuple[str, ...]) -> bytes:
    return seccomp.program(capabilities)
