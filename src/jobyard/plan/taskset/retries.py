"""Whether something that failed is tried again, and when: a replica, or the whole.

An end counts while the replica's number of retries is still the number of the attempt that
ended; raising it is what counting means, so no end is counted twice. A delay is counted from
the moment at which the status said that a retry is pending. That moment is rounded up, since
stored times are whole seconds and a retry must not come early.
"""

from __future__ import annotations

import math
from enum import StrEnum

import msgspec

from jobyard.api.parts.taskset_status import RoleReplicaPhase, RoleReplicaStatus, TaskSetPhase
from jobyard.api.taskset import RETRIES_MAX, Retry
from jobyard.plan.facts.standing import Standing, State
from jobyard.plan.moments import seconds_of, text_of

_DELAYED = (RoleReplicaPhase.RETRY_PENDING, TaskSetPhase.RETRY_PENDING)


def retries_max(policy: Retry | None) -> int:
    return min(policy.max_retry_count, RETRIES_MAX) if policy is not None and policy.retry else 0


def delay_seconds(policy: Retry | None) -> int:
    return policy.delay if policy is not None else 0


def due_at(policy: Retry | None, pending_since: str | None, now: float) -> float | None:
    """When the next attempt may start; None: at once. Not pending yet is pending from now."""
    delay = delay_seconds(policy)
    if not delay:
        return None
    return (seconds_of(pending_since) if pending_since else math.ceil(now)) + delay


def transition_time(
    phase: StrEnum, before: StrEnum | None, before_time: str | None, now: float
) -> str:
    """When a phase began: it changes only with the phase."""
    if phase is before and before_time is not None:
        return before_time
    return text_of(math.ceil(now) if phase in _DELAYED else now)


def with_retry(
    standing: Standing, policy: Retry | None, row: RoleReplicaStatus | None, now: float
) -> Standing:
    """Decides about an end that isn't in the status yet; a replica that exited 0 is done."""
    if standing.state is State.MISSING:
        if row is None or row.phase is not RoleReplicaPhase.RETRY_PENDING:
            return standing
        due = due_at(policy, row.transition_time, now)
        return msgspec.structs.replace(standing, due_at=due)
    if not standing.has_ended:
        return standing
    if standing.state is State.SUCCEEDED or standing.restarts >= retries_max(policy):
        return msgspec.structs.replace(standing, is_final=True)
    return msgspec.structs.replace(
        standing,
        restarts=standing.restarts + 1,
        is_newly_counted=True,
        due_at=due_at(policy, None, now),
    )
