"""The status of a job, put together from how its replicas stand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from jobyard.api.parts.status import (
    Condition,
    ConditionType,
    JobStatus,
    Phase,
    Recovery,
    ReplicaStatus,
    TaskStatus,
    TensorboardTrainingStatus,
    TrainingStatus,
)
from jobyard.plan.facts.deadline import Clock
from jobyard.plan.facts.decision import HINDRANCES, QUOTA_EXCEEDED, Observed
from jobyard.plan.facts.outcome import Outcome
from jobyard.plan.facts.standing import Standing, State
from jobyard.plan.lowering.description import Description
from jobyard.plan.lowering.modes import is_debugging
from jobyard.plan.lowering.names import job_selector
from jobyard.plan.moments import text_of
from jobyard.plan.objects.tensorboard import tensorboard_status
from jobyard.plan.reporting.conditions import (
    DEBUG,
    NO,
    UNSCHEDULED,
    YES,
    ConditionValue,
    conditions_of,
    final_conditions,
    listed,
    replica_failure,
    running_text,
    why,
)
from jobyard.plan.reporting.rows import aggregate_of, fitting, row_of

UNSCHEDULED_SECONDS = 60


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided about the job as a whole."""

    phase: Phase
    initialized: ConditionValue
    end: Outcome | None = None
    condemned: frozenset[str] = frozenset()
    # Replicas without a pod are about to get one.
    are_coming: bool = True
    clock: Clock = Clock()
    started_at: float | None = None
    pause_count: int = 0
    attempt: int | None = None
    recovery: Recovery | None = None
    # Replicas that are no longer wanted and still have pods.
    surplus: tuple[Standing, ...] = ()
    # What replicas without a pod wait for, if for more than their own delay.
    waits_for: str = ""


def job_status(
    seen: Observed,
    stored: JobStatus | None,
    standings: Sequence[Standing],
    verdict: Verdict,
    now: float,
) -> JobStatus:
    description = seen.description
    before = stored or JobStatus()
    tasks = _tasks(seen, standings, verdict, before)
    # Condemned pods don't count as ready, and aren't gone yet.
    ready = sum(
        s.pod is not None and s.pod.is_ready and s.is_live and s.pod.name not in verdict.condemned
        for s in standings
    )
    newly = sum(s.uses_limit for s in standings)
    counted = before.restarts
    if counted is None:
        counted = verdict.attempt or 0 if description.is_collective else _earlier(standings)
    is_pausing = verdict.phase is Phase.PAUSED and before.phase is not Phase.PAUSED
    active = verdict.clock.seconds(now) if is_pausing else verdict.clock.earlier_seconds
    ended_at = text_of(now) if verdict.end is not None else None
    return JobStatus(
        observed_generation=seen.generation,
        phase=verdict.phase,
        start_time=text_of(verdict.started_at) if verdict.started_at is not None else None,
        completion_time=ended_at,
        active_seconds=math.trunc(active),
        pause_count=verdict.pause_count,
        replicas=description.replicas,
        ready_replicas=ready,
        ready=f"{ready}/{description.replicas}",
        restarts=counted + newly,
        attempt=verdict.attempt,
        recovery=verdict.recovery,
        selector=",".join(f"{k}={v}" for k, v in job_selector(description.identity).items()),
        conditions=_conditions(seen, before, standings, verdict, now),
        tasks=fitting(tasks, description.roles),
        aggregate=aggregate_of(tasks),
    )


def _earlier(standings: Sequence[Standing]) -> int:
    """Restarts that only the pods still know of, should the status have been lost."""
    return sum(s.restarts - s.is_newly_counted for s in standings)


def _tasks(
    seen: Observed, standings: Sequence[Standing], verdict: Verdict, before: JobStatus
) -> tuple[TaskStatus, ...]:
    earlier = {task.type: task.restart_count for task in before.tasks}
    by_role: dict[str, list[Standing]] = {role.type: [] for role in seen.description.roles}
    for standing in standings:
        by_role[standing.role.type].append(standing)
    leaving: dict[str, list[Standing]] = {role: [] for role in by_role}
    for standing in verdict.surplus:
        leaving[standing.role.type].append(standing)
    return tuple(
        TaskStatus(
            type=type_,
            restart_count=(earlier[type_] if type_ in earlier else _earlier(members))
            + sum(s.is_newly_counted for s in members),
            status=(
                *(_row(seen, s, verdict) for s in members),
                *(row_of(s, is_coming=False, is_condemned=True) for s in leaving[type_]),
            ),
        )
        for type_, members in by_role.items()
    )


def _row(seen: Observed, standing: Standing, verdict: Verdict) -> ReplicaStatus:
    is_condemned = standing.pod is not None and standing.pod.name in verdict.condemned
    reason = ""
    if standing.state is not State.RUNNING and not is_condemned and verdict.end is None:
        reason = why(standing, seen).reason
    return row_of(standing, is_coming=verdict.are_coming, is_condemned=is_condemned, reason=reason)


def _conditions(
    seen: Observed,
    before: JobStatus,
    standings: Sequence[Standing],
    verdict: Verdict,
    now: float,
) -> tuple[Condition, ...]:
    paused = (
        ConditionValue(YES, "-", "The job is paused.")
        if verdict.phase is Phase.PAUSED
        else ConditionValue(NO, "-", "The job is not paused.")
    )
    if verdict.end is not None:
        holdings = final_conditions(verdict.initialized, verdict.end, standings, paused)
    else:
        holdings = {
            ConditionType.INITIALIZED: verdict.initialized,
            ConditionType.RUNNING: _running(seen, standings, verdict, now),
            ConditionType.REPLICA_FAILURE: replica_failure(standings, verdict.phase),
            ConditionType.COMPLETED: _completed(seen.description),
            ConditionType.FAILED: ConditionValue(NO, "-", "The job has not ended."),
            ConditionType.PAUSED: paused,
        }
    return conditions_of(before.conditions, holdings, now)


def _completed(description: Description) -> ConditionValue:
    if is_debugging(description.run_mode):
        return ConditionValue(NO, DEBUG, "The job doesn't end by itself in debug mode.")
    return ConditionValue(NO, "-", "The job has not ended.")


def _running(
    seen: Observed, standings: Sequence[Standing], verdict: Verdict, now: float
) -> ConditionValue:
    is_running = verdict.phase is Phase.RUNNING
    if verdict.phase is Phase.PAUSED:
        return ConditionValue(NO, "-", "The job is paused.")
    if verdict.initialized.status is NO and verdict.initialized.reason != QUOTA_EXCEEDED:
        return ConditionValue(NO, "-", "The job could not be initialized.")
    # Also while others run: a replica that can't come is worth a word.
    reason = _reason(seen, standings, now)
    text = running_text(standings, seen, verdict.waits_for)
    # What stands in a replica's way is told with it; the rest concerns all of them.
    told = {("Pod", standing.name) for standing in standings} if seen.obstacles else ()
    others = [
        f"{each.reason}: {each.message}"
        for key, each in seen.obstacles.items()
        if key not in told and each.reason in HINDRANCES
    ]
    if others:
        text += f"; {listed(others)}"
    schedulers = _idle_schedulers(standings, now)
    if reason == UNSCHEDULED and schedulers:
        text += f"; no scheduler named {schedulers} has looked at them: is it running?"
    return ConditionValue(YES if is_running else NO, reason, text)


def _reason(seen: Observed, standings: Sequence[Standing], now: float) -> str:
    found = {obstacle.reason for obstacle in seen.obstacles.values()}
    for reason in HINDRANCES:
        if reason in found:
            return reason
    return UNSCHEDULED if any(_is_unscheduled(s, now) for s in standings) else "-"


def _is_unscheduled(standing: Standing, now: float) -> bool:
    pod = standing.pod
    return (
        standing.state is State.CREATING
        and pod is not None
        and now - pod.created_at >= UNSCHEDULED_SECONDS
    )


def _idle_schedulers(standings: Sequence[Standing], now: float) -> str:
    names = [
        s.pod.scheduler
        for s in standings
        if _is_unscheduled(s, now) and s.pod is not None and s.pod.unschedulable is None
    ]
    return ", ".join(dict.fromkeys(filter(None, names)))


def unscheduled_at(standings: Sequence[Standing], now: float) -> float | None:
    """When the next pod will have waited for too long."""
    moments = [
        s.pod.created_at + UNSCHEDULED_SECONDS
        for s in standings
        if s.state is State.CREATING and s.pod is not None
    ]
    return min((moment for moment in moments if moment > now), default=None)


def of_type(status: JobStatus, type_: type[JobStatus], seen: Observed) -> JobStatus:
    """The same in the kind's own type, with what only that has."""
    fields = msgspec.structs.asdict(status)
    if issubclass(type_, TrainingStatus):
        fields["backoff_count"] = status.restarts
    board = seen.description.tensorboard
    if issubclass(type_, TensorboardTrainingStatus) and board is not None:
        fields["tensorboard"] = tensorboard_status(
            board, seen.description.identity, seen.pods, seen.obstacles
        )
    return type_(**fields)
