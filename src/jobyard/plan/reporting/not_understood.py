"""What the status of a job says when nothing can be decided about it.

Somebody's spec, status or pod was something that nobody had thought of, and the program raised; or
the job can't even be read. Then the job says so, and all else stays as it is: its rows are its
memory, and what runs goes on. Called by the controller; the next decision that succeeds writes a
status as ever.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from jobyard.api.beamjob import BeamCondition, BeamConditionType, BeamJobStatus, BeamPhase
from jobyard.api.parts.status import Condition, ConditionType, JobStatus, Phase, Truth
from jobyard.api.parts.taskset_status import TaskSetPhase, TaskSetState, TaskSetStatus
from jobyard.api.parts.value import Value
from jobyard.plan.facts.decision import NOT_UNDERSTOOD
from jobyard.plan.moments import text_of
from jobyard.plan.reporting.conditions import NO, Holding, condition, conditions_of, may_have_pods

_NOTHING_KNOWN: Mapping[ConditionType, Holding] = {
    ConditionType.INITIALIZED: Holding(NO),
    ConditionType.RUNNING: Holding(NO, "-", "The job could not be initialized."),
    ConditionType.REPLICA_FAILURE: Holding(NO, "-", "No replica is in error."),
    ConditionType.COMPLETED: Holding(NO, "-", "The job has not ended."),
    ConditionType.FAILED: Holding(NO, "-", "The job has not ended."),
    ConditionType.PAUSED: Holding(NO, "-", "The job is not paused."),
}


def not_understood(
    stored: Value | None, type_: type[Value], generation: int, problem: str, now: float
) -> Value | None:
    """The status that tells of `problem`; None for a job that has ended, which stays as it is."""
    message = f"Nothing can be decided about this job: {problem}"
    if issubclass(type_, TaskSetStatus):
        assert stored is None or isinstance(stored, TaskSetStatus)
        return _taskset(stored or TaskSetStatus(), message, now)
    if issubclass(type_, BeamJobStatus):
        assert stored is None or isinstance(stored, BeamJobStatus)
        return _beam(stored or BeamJobStatus(), generation, message, now)
    assert issubclass(type_, JobStatus)
    assert stored is None or isinstance(stored, JobStatus)
    return _job(stored or type_(), generation, message, now)


def _job(stored: JobStatus, generation: int, message: str, now: float) -> JobStatus | None:
    if stored.phase in (Phase.SUCCEEDED, Phase.FAILED):
        return None
    holdings = {
        type_: _said(condition(stored.conditions, type_)) or nothing
        for type_, nothing in _NOTHING_KNOWN.items()
    }
    initialized = condition(stored.conditions, ConditionType.INITIALIZED)
    if may_have_pods(initialized, has_had_one=_has_had_pod(stored)):
        running = holdings[ConditionType.RUNNING].status
        holdings[ConditionType.RUNNING] = Holding(running, NOT_UNDERSTOOD, message)
    else:
        holdings[ConditionType.INITIALIZED] = Holding(NO, NOT_UNDERSTOOD, message)
    return msgspec.structs.replace(
        stored,
        observed_generation=generation,
        phase=stored.phase or Phase.PENDING,
        conditions=conditions_of(stored.conditions, holdings, now),
    )


def _has_had_pod(stored: JobStatus) -> bool:
    return any(row.uid or row.pods_before for task in stored.tasks for row in task.status)


def _said(known: Condition | None) -> Holding | None:
    return Holding(known.status, known.reason, known.message) if known is not None else None


def _beam(stored: BeamJobStatus, generation: int, message: str, now: float) -> BeamJobStatus | None:
    """`ClusterRunning` is where a BeamJob says what the other kinds say with `Initialized`."""
    if stored.phase in (BeamPhase.SUCCEEDED, BeamPhase.FAILED):
        return None
    known = {each.type: each for each in stored.conditions}
    cluster = known.get(BeamConditionType.CLUSTER_RUNNING)
    truth = cluster.status if cluster is not None and stored.start_time else Truth.FALSE
    since = (
        cluster.last_transition_time if cluster is not None and cluster.status is truth else None
    )
    told = BeamCondition(
        type=BeamConditionType.CLUSTER_RUNNING,
        status=truth,
        reason=NOT_UNDERSTOOD,
        message=message,
        last_transition_time=since or text_of(now),
    )
    idle = BeamCondition(
        type=BeamConditionType.JOB_RUNNING,
        status=Truth.FALSE,
        message="The program is submitted once the cluster is ready.",
        last_transition_time=text_of(now),
    )
    return msgspec.structs.replace(
        stored,
        observed_generation=generation,
        phase=stored.phase or BeamPhase.INITIALIZING,
        conditions=(told, known.get(BeamConditionType.JOB_RUNNING, idle)),
    )


def _taskset(stored: TaskSetStatus, message: str, now: float) -> TaskSetStatus | None:
    if stored.phase is TaskSetPhase.COMPLETED:
        return None
    return msgspec.structs.replace(
        stored,
        phase=stored.phase or TaskSetPhase.PENDING,
        phase_message=message,
        transition_time=stored.transition_time or text_of(now),
        state=stored.state or TaskSetState.WAITING,
        state_message=stored.state_message or message,
        created_at=stored.created_at or text_of(now),
    )
