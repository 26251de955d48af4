"""Which scheduler places a job's pods."""

from __future__ import annotations

from typing import Annotated

from jobyard.api.value import Name, Value
from jobyard.schema.derive import described

Priority = Annotated[int, described(ge=0, le=100)]


class T9kScheduler(Value):
    """The job's place with the T9k Scheduler: all its pods start together or not at all."""

    queue: Annotated[Name, described("The queue the job's pods wait in.")] = "default"
    priority: Annotated[
        Priority, described("The job's priority within its queue; higher goes first.")
    ] = 0


class Scheduler(Value):
    """Which scheduler places the pods; absent, the cluster's default one."""

    t9k_scheduler: Annotated[
        T9kScheduler | None, described("Queues the job with the T9k Scheduler, as one gang.")
    ] = None
