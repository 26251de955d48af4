"""A BeamJob's status has other phases and conditions than the other jobs': both ways.

Inside, every job has the same status. `ClusterRunning` also carries what the other kinds say
with `Initialized`: unknown while the job is prepared, and why it can't be where it can't.
"""

from __future__ import annotations

import msgspec

from jobyard.api.beamjob import (
    BeamCondition,
    BeamConditionType,
    BeamJobStatus,
    BeamPhase,
    FlinkClusterStatus,
    PodReference,
    PodStatus,
)
from jobyard.api.parts.status import (
    Condition,
    ConditionType,
    JobStatus,
    Phase,
    ReplicaPhase,
    ReplicaSummary,
    TaskStatus,
    Truth,
)
from jobyard.api.parts.value import Value
from jobyard.plan.facts.decision import (
    INVALID_TEMPLATE,
    NAME_TAKEN,
    NOT_UNDERSTOOD,
    QUOTA_EXCEEDED,
    Observed,
)
from jobyard.plan.moments import text_of
from jobyard.plan.reporting.conditions import condition, may_have_pods

SUBMITTING = "batchjob"
_JOB_MANAGER = "flinkcluster-jobmanager"
_TASK_MANAGER = "flinkcluster-taskmanager"
_PHASES = {
    Phase.PENDING: BeamPhase.INITIALIZING,
    Phase.RUNNING: BeamPhase.RUNNING,
    Phase.SUCCEEDED: BeamPhase.SUCCEEDED,
    Phase.FAILED: BeamPhase.FAILED,
    Phase.UNKNOWN: BeamPhase.UNKNOWN,
}
# Of so many task managers each has an entry beside its row, so that a status stays small enough.
FLINK_PODS_MAX = 100
_JOB_PHASES = {beam: job for job, beam in _PHASES.items()}
_SHARED = tuple(field.name for field in msgspec.structs.fields(ReplicaSummary))


class BeamForm:
    """See `StatusForm`."""

    def read(self, stored: Value | None) -> JobStatus | None:
        assert stored is None or isinstance(stored, BeamJobStatus)
        return as_job_status(stored) if stored is not None else None

    def written(self, seen: Observed, status: JobStatus, now: float) -> Value:
        assert status.phase is not None
        stored = seen.status if isinstance(seen.status, BeamJobStatus) else BeamJobStatus()
        rows = {task.type: task for task in status.tasks}
        is_flink = any(role.type == _JOB_MANAGER for role in seen.description.roles)
        flink = FlinkClusterStatus(
            job_manager_status=_pods(rows.get(_JOB_MANAGER)),
            task_manager_status=_pods(rows.get(_TASK_MANAGER))[:FLINK_PODS_MAX],
        )
        return BeamJobStatus(
            phase=_PHASES[status.phase],
            conditions=_conditions(stored, status, rows, now),
            flink_cluster_status=flink if is_flink else None,
            job_status=_pods(rows.get(SUBMITTING)),
            job_url=seen.job_url or stored.job_url,
            **{name: getattr(status, name) for name in _SHARED},
        )

    def not_understood(
        self, stored: Value | None, generation: int, problem: str, now: float
    ) -> Value | None:
        assert stored is None or isinstance(stored, BeamJobStatus)
        return _not_understood(stored or BeamJobStatus(), generation, problem, now)


def as_job_status(beam: BeamJobStatus) -> JobStatus:
    shared = {name: getattr(beam, name) for name in _SHARED}
    wanted = BeamConditionType.CLUSTER_RUNNING
    cluster = next((c for c in beam.conditions if c.type is wanted), None)
    conditions: tuple[Condition, ...] = ()
    if cluster is not None:
        conditions = (
            _condition(ConditionType.INITIALIZED, _initialized(beam, cluster), cluster),
            _condition(ConditionType.RUNNING, cluster.status, cluster),
        )
    phase = _JOB_PHASES.get(beam.phase) if beam.phase is not None else None
    return JobStatus(phase=phase, conditions=conditions, **shared)


def _not_understood(
    stored: BeamJobStatus, generation: int, message: str, now: float
) -> BeamJobStatus | None:
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


def _condition(type_: ConditionType, status: Truth, cluster: BeamCondition) -> Condition:
    return Condition(
        type=type_,
        status=status,
        reason=cluster.reason,
        message=cluster.message,
        last_transition_time=cluster.last_transition_time,
    )


def _initialized(beam: BeamJobStatus, cluster: BeamCondition) -> Truth:
    if beam.start_time:
        # A conflict found later is the cluster's, and takes nothing back.
        return Truth.TRUE
    if cluster.status is Truth.UNKNOWN:
        return Truth.UNKNOWN
    is_refused = cluster.reason in (NAME_TAKEN, INVALID_TEMPLATE, NOT_UNDERSTOOD)
    return Truth.FALSE if is_refused else Truth.TRUE


def _pods(task: TaskStatus | None) -> tuple[PodStatus, ...]:
    rows = task.status if task is not None else ()
    return tuple(
        PodStatus(phase=row.phase.value, reference=PodReference(name=row.name, uid=row.uid))
        for row in rows
    )


def _conditions(
    stored: BeamJobStatus, status: JobStatus, rows: dict[str, TaskStatus], now: float
) -> tuple[BeamCondition, ...]:
    since = {c.type: (c.status, c.last_transition_time) for c in stored.conditions}
    out = []
    for type_, truth, reason, message in (
        (BeamConditionType.CLUSTER_RUNNING, *_cluster(status, rows)),
        (BeamConditionType.JOB_RUNNING, *(_final(stored) or _job(status, rows))),
    ):
        before, moment = since.get(type_, (None, None))
        out.append(
            BeamCondition(
                type=type_,
                status=truth,
                reason=reason,
                message=message,
                last_transition_time=moment if before is truth else text_of(now),
            )
        )
    return tuple(out)


def _final(stored: BeamJobStatus) -> tuple[Truth, str, str] | None:
    """How the job ended, once that was said."""
    if stored.phase not in (BeamPhase.SUCCEEDED, BeamPhase.FAILED):
        return None
    wanted = BeamConditionType.JOB_RUNNING
    found = next((c for c in stored.conditions if c.type is wanted), None)
    return (found.status, found.reason, found.message) if found is not None else None


def _cluster(status: JobStatus, rows: dict[str, TaskStatus]) -> tuple[Truth, str, str]:
    initialized = condition(status.conditions, ConditionType.INITIALIZED)
    running = condition(status.conditions, ConditionType.RUNNING)
    assert initialized is not None
    assert running is not None
    has_had_one = any(row.uid for task in rows.values() for row in task.status)
    if not may_have_pods(initialized, has_had_one=has_had_one):
        # A full quota is nothing that has to be put right, so it isn't known yet what will be.
        is_full = initialized.reason == QUOTA_EXCEEDED
        truth = Truth.UNKNOWN if is_full else initialized.status
        return truth, initialized.reason, initialized.message
    phases = [
        row.phase for type_, task in rows.items() if type_ != SUBMITTING for row in task.status
    ]
    if phases and all(phase is ReplicaPhase.RUNNING for phase in phases):
        return Truth.TRUE, "-", "All pods of the cluster are running normally."
    if status.phase in (Phase.SUCCEEDED, Phase.FAILED):
        return Truth.FALSE, status.phase.value, "The job has ended."
    return Truth.FALSE, running.reason, running.message


def _job(status: JobStatus, rows: dict[str, TaskStatus]) -> tuple[Truth, str, str]:
    running = condition(status.conditions, ConditionType.RUNNING)
    assert running is not None
    if status.phase in (Phase.SUCCEEDED, Phase.FAILED):
        return Truth.FALSE, running.reason, running.message
    submitting = rows.get(SUBMITTING)
    row = submitting.status[0] if submitting is not None and submitting.status else None
    if row is not None and row.phase is ReplicaPhase.RUNNING:
        return Truth.TRUE, "-", "The program is running."
    if running.reason in (NAME_TAKEN, INVALID_TEMPLATE):
        return Truth.FALSE, running.reason, running.message
    if row is not None and row.uid:
        return Truth.FALSE, "-", f"The submitting pod is {row.phase}."
    return Truth.FALSE, "-", "The program is submitted once the cluster is ready."
