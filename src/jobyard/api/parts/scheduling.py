"""Which scheduler places a job's pods."""

from __future__ import annotations

from typing import Annotated

from jobyard.api.parts.value import DNS_LABEL_LENGTH_MAX, Value
from jobyard.schema.derive import described

DEFAULT_QUEUE = "default"
Priority = Annotated[int, described(ge=0, le=100)]
# Programs write "" for what isn't said: that is the default queue.
QueueName = Annotated[
    str, described(pattern="^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$", max_length=DNS_LABEL_LENGTH_MAX)
]


class T9kScheduler(Value):
    """The job's place with the T9k Scheduler: all its pods start together or not at all."""

    queue: Annotated[QueueName, described("The queue the job's pods wait in; empty: default.")] = (
        DEFAULT_QUEUE
    )
    priority: Annotated[
        Priority, described("The job's priority within its queue; higher goes first.")
    ] = 0


class Scheduler(Value):
    """Which scheduler places the pods; absent, the cluster's default one."""

    t9k_scheduler: Annotated[
        T9kScheduler | None, described("Queues the job with the T9k Scheduler, as one gang.")
    ] = None
