"""Which pods of a job start together."""

from __future__ import annotations

from jobyard.api.parts.run_mode import Elastic
from jobyard.api.parts.scheduling import DEFAULT_QUEUE, Scheduler
from jobyard.plan.lowering.description import Gang, Role


def gang_of(
    scheduler: Scheduler | None, roles: tuple[Role, ...], elastic: Elastic | None = None
) -> Gang | None:
    """All replicas, a launcher included; of an elastic job the fewest it can work with.

    `elastic` is there only where it has an effect.
    """
    if scheduler is None or scheduler.t9k_scheduler is None:
        return None
    chosen = scheduler.t9k_scheduler
    queue = chosen.queue or DEFAULT_QUEUE
    if elastic is not None:
        assert elastic.min_replicas is not None
        return Gang(queue=queue, priority=chosen.priority, min_member=elastic.min_replicas)
    return Gang(
        queue=queue,
        priority=chosen.priority,
        min_member=sum(role.replicas for role in roles),
        roles=tuple((role.type, role.replicas) for role in roles),
    )
