"""Where a job is in its life, and when that began.

`Pending` until every replica has started once (of an elastic job, as many as it can work
with), then `Running`, also while single replicas restart.
"""

from __future__ import annotations

from collections.abc import Sequence

from jobyard.api.parts.status import JobStatus, Phase
from jobyard.plan.facts.pod_facts import Pod
from jobyard.plan.facts.standing import Standing, State
from jobyard.plan.lowering.description import Description
from jobyard.plan.moments import seconds_of


def started_at(stored: JobStatus | None, standings: Sequence[Standing], now: float) -> float | None:
    """When the job's first main container started; not later than now, whatever its node says."""
    if stored is not None and stored.start_time:
        return seconds_of(stored.start_time)
    moments = [moment for s in standings if (moment := _main_started_at(s)) is not None]
    return min((*moments, now)) if moments else None


def _main_started_at(standing: Standing) -> float | None:
    pod = standing.pod
    main = pod.container(standing.role.main_container) if pod is not None else None
    if pod is None or main is None or main.started_at is None:
        return None
    return main.started_at + pod.clock_behind


def has_started(stored: JobStatus | None, standings: Sequence[Standing]) -> bool:
    if stored is not None and (stored.start_time or stored.restarts):
        return True
    return any(_has_started_once(standing) for standing in standings)


def _has_started_once(standing: Standing) -> bool:
    return (
        standing.state is State.RUNNING
        or standing.has_ended
        or standing.restarts > 0
        or _main_started_at(standing) is not None
    )


def phase_of(
    description: Description,
    stored: JobStatus | None,
    standings: Sequence[Standing],
    pods: Sequence[Pod],
    *,
    is_paused: bool,
) -> Phase:
    before = (stored.phase if stored is not None else None) or Phase.PENDING
    if is_paused:
        is_quiet = all(pod.is_terminating for pod in pods)
        return Phase.PAUSED if is_quiet else before
    if before is Phase.PAUSED and any(pod.is_terminating for pod in pods):
        return Phase.PAUSED
    # Of a job that has not started yet, those without a pod are known not to run.
    has_run = before in (Phase.RUNNING, Phase.UNKNOWN)
    asked = [s for s in standings if (s.is_live if has_run else not s.is_final)]
    if asked and all(s.state is State.UNKNOWN for s in asked):
        return Phase.UNKNOWN
    if before is Phase.RUNNING:
        return Phase.RUNNING
    enough = description.min_replicas or len(standings)
    has_enough = sum(_has_started_once(standing) for standing in standings) >= enough
    was_paused = stored is not None and bool(stored.pause_count)
    if before in (Phase.PAUSED, Phase.RESUMING) or (before is Phase.UNKNOWN and was_paused):
        # After a pause all start anew, so what counts is what runs now.
        runs = sum(s.state is State.RUNNING or s.has_ended for s in standings)
        return Phase.RUNNING if runs >= enough else Phase.RESUMING
    return Phase.RUNNING if has_enough else Phase.PENDING
