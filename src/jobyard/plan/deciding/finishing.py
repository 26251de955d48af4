"""The end of a job, and what still happens after it.

The status says that the job has ended before anything is cleaned up. From then on it is
final: only the rows follow what becomes of the pods, and the job itself goes when its time
to live is over.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from jobyard.api.parts.status import ConditionType, JobStatus, ReplicaPhase, TaskStatus
from jobyard.plan.deciding.cleanup import clean_up
from jobyard.plan.deciding.phases import started_at
from jobyard.plan.deciding.pods import delete_of, overdue
from jobyard.plan.deciding.supporting import supporting_of
from jobyard.plan.facts.deadline import clock_of
from jobyard.plan.facts.decision import Delete, Event, EventReason, Observed, Plan, earliest
from jobyard.plan.facts.outcome import Outcome
from jobyard.plan.facts.standing import Standing, memories_of, pods_by_replica, standing_of
from jobyard.plan.moments import seconds_of
from jobyard.plan.reporting.conditions import (
    INITIALIZED,
    YES,
    ConditionValue,
    condition,
    may_have_pods,
)
from jobyard.plan.reporting.events import changes, ends, named
from jobyard.plan.reporting.rows import aggregate_of, fitting, row_of
from jobyard.plan.reporting.status import Verdict, job_status

_RUNNING = ReplicaPhase.RUNNING
_LIVE = (
    ReplicaPhase.CREATING,
    ReplicaPhase.PENDING,
    ReplicaPhase.RUNNING,
    ReplicaPhase.UNKNOWN,
)


def ending(
    seen: Observed,
    stored: JobStatus | None,
    standings: tuple[Standing, ...],
    end: Outcome,
    now: float,
) -> tuple[Plan, JobStatus]:
    """The moment a job ends."""
    # Nothing starts again, so no restart is counted that was only just decided on.
    settled = tuple(_settled(standing) for standing in standings)
    began = started_at(stored, standings, now)
    verdict = Verdict(
        phase=end.phase,
        initialized=_initialized(stored, standings),
        end=end,
        are_coming=False,
        clock=clock_of(stored, began),
        started_at=began,
        pause_count=(stored.pause_count or 0) if stored is not None else 0,
        attempt=stored.attempt if stored is not None else None,
    )
    status = job_status(seen, stored, settled, verdict, now)
    deletes = tuple(_goes_at_end(seen, standings))
    events = (
        *ends(seen.description, settled, status.restarts or 0),
        *changes(stored, status, end),
        *_cleaned(deletes),
    )
    again = expires_at(status.completion_time, seen.description.ttl_seconds_after_finished)
    return Plan(events=events, deletes=deletes, look_again_at=again), status


def _goes_at_end(seen: Observed, standings: tuple[Standing, ...]) -> Iterator[Delete]:
    """What is cleaned up, and sidecars that go on beside an ended main container."""
    cleaned = list(clean_up(seen))
    yield from cleaned
    known = {delete.uid for delete in cleaned}
    for standing in standings:
        pod = standing.pod
        if pod is None or not standing.has_ended or pod.uid in known:
            continue
        if pod.still_runs and not pod.is_terminating:
            yield delete_of(pod)


def _settled(standing: Standing) -> Standing:
    if not standing.is_newly_counted:
        nothing_due = msgspec.structs.replace(standing, due_at=None, is_undecided=False)
        return nothing_due if standing.due_at is not None else standing
    return msgspec.structs.replace(
        standing,
        restarts=standing.restarts - 1,
        failures_in_a_row=standing.memory.failures_in_a_row,
        is_newly_counted=False,
        uses_limit=False,
        due_at=None,
        is_final=True,
    )


def _initialized(stored: JobStatus | None, standings: tuple[Standing, ...]) -> ConditionValue:
    before = condition(stored.conditions, ConditionType.INITIALIZED) if stored else None
    is_whole = all(standing.has_had_pod for standing in standings)
    if before is None or (is_whole and may_have_pods(before, has_had_one=True)):
        # Its pods can have been made and have ended since the status was written.
        return ConditionValue(YES, "-", INITIALIZED)
    return ConditionValue(before.status, before.reason, before.message)


def _cleaned(deletes: tuple[Delete, ...]) -> tuple[Event, ...]:
    pods = [delete.name for delete in deletes if delete.kind == "Pod"]
    return (Event(EventReason.CLEANED_UP, f"Deleted {named(pods)}."),) if pods else ()


def after_the_end(seen: Observed, stored: JobStatus, now: float) -> tuple[Plan, JobStatus]:
    """Rows of replicas that still ran then follow their pods; nothing else changes any more.

    They are the rows as stored: whatever the spec says by now, these are the replicas there were.
    """
    expires = expires_at(stored.completion_time, seen.description.ttl_seconds_after_finished)
    if expires is not None and expires <= now:
        return Plan(ends_job=True), stored
    standings = tuple(_as_stored(seen, stored))
    tasks = _followed(stored.tasks, standings)
    running = {row.uid for task in tasks for row in task.status if row.phase is _RUNNING}
    ready = sum(s.pod is not None and s.pod.is_ready and s.pod.uid in running for s in standings)
    status = msgspec.structs.replace(
        stored,
        tasks=fitting(tasks, seen.description.roles),
        aggregate=aggregate_of(tasks),
        ready_replicas=ready,
        ready=f"{ready}/{stored.replicas}",
        observed_generation=seen.generation,
    )
    supporting = supporting_of(seen, only_outliving=True)
    late = overdue([pod for pod in seen.pods if pod.role], seen.lost_nodes, now)
    plan = Plan(
        supporting=supporting.creates,
        deletes=(*supporting.deletes, *_goes_at_end(seen, standings), *late.deletes),
        nodes_to_ask=late.nodes_to_ask,
        look_again_at=earliest(expires, late.look_again_at),
    )
    return plan, status


def _followed(
    tasks: tuple[TaskStatus, ...], standings: tuple[Standing, ...]
) -> tuple[TaskStatus, ...]:
    """The rows, of which those that were live are as their pods are by now."""
    by_replica = {(standing.role.type, standing.rank): standing for standing in standings}
    return tuple(
        msgspec.structs.replace(
            task,
            status=tuple(
                row_of(by_replica[task.type, rank], is_coming=False, is_condemned=False)
                if row.phase in _LIVE
                else row
                for rank, row in enumerate(task.status)
            ),
        )
        for task in tasks
    )


def _as_stored(seen: Observed, stored: JobStatus) -> Iterator[Standing]:
    roles = {role.type: role for role in seen.description.roles}
    pods = pods_by_replica([pod for pod in seen.pods if pod.role])
    memories = memories_of(stored.tasks)
    for task in stored.tasks:
        for rank, row in enumerate(task.status):
            of_replica = pods.get((task.type, rank), ())
            memory = memories[task.type][rank]
            yield standing_of(roles[task.type], rank, row.name, of_replica, memory)


def expires_at(completion_time: str | None, ttl_seconds: int | None) -> float | None:
    """When a finished job is deleted."""
    if completion_time is None or ttl_seconds is None:
        return None
    return seconds_of(completion_time) + ttl_seconds
