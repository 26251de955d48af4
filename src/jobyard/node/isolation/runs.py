"""The containers of a pod that run, each in its control group: what both cages do alike.

A control group is there before its first process, and goes with the last, or at once if none could
be started.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from jobyard.node.isolation import cgroups
from jobyard.node.isolation.cage import Spawned
from jobyard.node.isolation.launching import start_error, start_failed
from jobyard.node.shared.folders import PodFolder
from jobyard.node.shared.order import ContainerOrder


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a container, by the pid of its first process."""

    order: ContainerOrder
    group: cgroups.Group | None


R = TypeVar("R", bound=Run)
Start = Callable[[ContainerOrder, cgroups.Group | None], Spawned]


class Runs(Generic[R]):
    """Those of one pod."""

    def __init__(self, folder: PodFolder, processes_max: int = 0) -> None:
        self._folder = folder
        self._processes_max = processes_max
        self.by_pid: dict[int, R] = {}
        # How many were started.
        self.count = 0

    def start(self, container: ContainerOrder, started: Start) -> Spawned:
        """Makes the control group; `started` makes the process, and enters it in `by_pid`."""
        self.count += 1
        name = f"jobyard-{self._folder.uid}-{container.name}-{self.count}"
        group = cgroups.make(
            name,
            container.memory_limit_bytes,
            container.cpu_limit_millis,
            self._processes_max,
        )
        try:
            if group:
                cgroups.remember(self._folder.path, group)
                group.watch()
            return started(container, group)
        except OSError as error:
            raise start_failed(error) from error
        finally:
            if group and not any(run.group is group for run in self.by_pid.values()):
                group.remove()

    def of(self, pid: int, container: ContainerOrder) -> R:
        """The run that somebody wants to enter."""
        run = self.by_pid.get(pid)
        if run is None:
            raise start_error(f"container {container.name} is not running")
        return run

    def unlimited(self, pid: int) -> R | None:
        """A run whose memory nobody but us counts."""
        run = self.by_pid.get(pid)
        return None if run is None or (run.group and run.group.limits_memory) else run


def was_out_of_memory(run: Run) -> bool:
    """Whether the kernel ended it for its memory; its group has been asked and is removed."""
    if run.group is None:
        return False
    answer = run.group.was_out_of_memory()
    run.group.remove()
    return answer
