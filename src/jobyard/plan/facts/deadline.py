"""How long a job has run, pauses aside, and whether that is too long.

The status keeps the seconds of earlier stretches; the current one began when the job first
started or was last resumed, whichever is later.
"""

from __future__ import annotations

import msgspec

from jobyard.api.parts.status import ConditionType, JobStatus, Phase, Truth
from jobyard.plan.facts.outcome import Outcome
from jobyard.plan.moments import seconds_of


class Clock(msgspec.Struct, frozen=True):
    """The time a job has run so far."""

    earlier_seconds: int = 0
    # When the current stretch began; None while paused or not started.
    since: float | None = None

    def seconds(self, now: float) -> float:
        return self.earlier_seconds + (max(0.0, now - self.since) if self.since is not None else 0)


def clock_of(status: JobStatus | None, started_at: float | None) -> Clock:
    """`started_at` is when the first main container started, stored or just seen."""
    if status is None or started_at is None:
        return Clock(0, started_at)
    earlier = status.active_seconds or 0
    paused = next((c for c in status.conditions if c.type is ConditionType.PAUSED), None)
    if paused is None or paused.last_transition_time is None:
        return Clock(earlier, started_at)
    if paused.status is Truth.TRUE:
        return Clock(earlier, None)
    return Clock(earlier, max(started_at, seconds_of(paused.last_transition_time)))


def deadline_at(limit_seconds: int | None, clock: Clock) -> float | None:
    """When the job will have run for too long, if it goes on."""
    if limit_seconds is None or clock.since is None:
        return None
    return clock.since + limit_seconds - clock.earlier_seconds


def deadline_passed(limit_seconds: int) -> Outcome:
    return Outcome(
        Phase.FAILED,
        "DeadlineExceeded",
        f"The job ran longer than its activeDeadlineSeconds of {limit_seconds} s.",
    )
