"""What a job needs to know of a pod, taken from the pod object once per version of it.

The controller keeps these facts instead of whole objects, which is what lets it hold
thousands of pods; every decision about replicas starts from them. Whose replica a pod is
stands in its labels and annotations, which `pods` and `taskset_pods` put there.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from jobyard.api.parts.status import ContainerState
from jobyard.api.parts.value import REPLICAS_MAX
from jobyard.numerals import INT32_MAX, whole_number
from jobyard.plan.facts.pod_object import (
    Condition,
    ContainerStatus,
    Meta,
    PodObject,
    Status,
    Waiting,
)
from jobyard.plan.lowering.names import (
    ATTEMPT,
    DIGEST,
    JOB_ATTEMPT,
    PODS_BEFORE,
    REPLICA_RANK,
    REPLICA_TYPE,
    REVISION,
    ROLE_INDEX,
    TASK_ROLE,
    TASKSET_UID,
)
from jobyard.plan.moments import seconds_of

__all__ = [
    "COUNT_MAX",
    "TOO_OLD",
    "Container",
    "Meta",
    "Owner",
    "Pod",
    "PodObject",
    "PodPhase",
    "facts_of",
    "owner_of",
    "unreadable_pod",
]

# The condition of a pod that a scheduler takes away for its age, and the reason of that end.
TOO_OLD: Final = "MaxDurationExceeded"
# Reasons of a failed pod that say that the cluster took it away (kubelet, scheduler, node).
_TAKEN_AWAY = frozenset(
    {
        "Evicted",
        "Preempted",
        "Preempting",
        "NodeLost",
        "NodeShutdown",
        "Shutdown",
        "Terminated",
        "NodeAffinity",
        "NodePorts",
        "TopologyAffinityError",
        "UnexpectedAdmissionError",
    }
)
# A node that has no room left for the pod after all: OutOfcpu, OutOfnvidia.com/gpu ...
_NO_ROOM = "OutOf"
# The largest count that is believed: the sum over all replicas of a job still fits a status.
COUNT_MAX = INT32_MAX // REPLICAS_MAX


class PodPhase(StrEnum):
    """A pod's own phase."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


_PHASES = {"": PodPhase.PENDING, **{phase.value: phase for phase in PodPhase}}
_SHOWN_LENGTH_MAX = 50


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one container."""

    name: str
    state: ContainerState
    reason: str = ""
    message: str = ""
    exit_code: int | None = None
    signal: int = 0
    started_at: float | None = None
    finished_at: float | None = None
    id: str = ""


class Owner(msgspec.Struct, frozen=True):
    """The controller that a child belongs to."""

    kind: str = ""
    name: str = ""
    uid: str = ""


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    """One pod of a job. `role` is empty for a pod that is no replica (TensorBoard)."""

    name: str
    namespace: str
    uid: str
    version: str
    owner: Owner
    # The job it belongs to: its owner, or the owner's owner for a TaskSet's control unit.
    job_uid: str = ""
    digest: str = ""
    role: str = ""
    rank: int = 0
    attempt: int = 0
    # Which attempt of the job it was made in.
    job_attempt: int = 0
    # How many pods its replica had before it.
    pods_before: int = 0
    revision: str = ""
    phase: PodPhase = PodPhase.PENDING
    reason: str = ""
    message: str = ""
    created_at: float = 0.0
    node: str = ""
    ip: str = ""
    host_ip: str = ""
    scheduler: str = ""
    is_ready: bool = False
    # Why a scheduler found no place; None when none has looked at it.
    unschedulable: str | None = None
    # When deletion was asked for, and when the pod's grace is over.
    deletion_asked_at: float | None = None
    deletion_due_at: float | None = None
    was_taken_away: bool = False
    # Its queue allows no pod of its age; in words.
    too_old: str = ""
    # When that was; None where nothing says so.
    taken_away_at: float | None = None
    # By how much its node's clock is behind the API server's, as far as the pod itself shows it:
    # no node can have taken it on before it was given to it.
    clock_behind: float = 0.0
    # NotReady was set by the node controller, not by the kubelet: the node has fallen silent.
    is_out_of_reach: bool = False
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    # Why the pod, or its phase, can't be read: nothing is known then of how it stands.
    problem: str = ""

    @property
    def is_terminating(self) -> bool:
        return self.deletion_asked_at is not None

    @property
    def has_finished(self) -> bool:
        """Nothing of it runs any more."""
        return self.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)

    @property
    def still_runs(self) -> bool:
        """Something of it runs, or is yet to start.

        A kubelet tells the end of each container some moments before the pod's phase, so
        between the two a pod that has not finished may have nothing that runs.
        """
        every = (*self.containers, *self.init_containers)
        has_ended = all(c.state is ContainerState.TERMINATED for c in every)
        return not self.has_finished and not (self.containers and has_ended)

    def container(self, name: str) -> Container | None:
        return next((c for c in self.containers if c.name == name), None)


def facts_of(pod: PodObject) -> Pod:
    meta, status = pod.metadata, pod.status
    labels, annotations = meta.labels or {}, meta.annotations or {}
    conditions = {condition.type: condition for condition in status.conditions}
    scheduled = conditions.get("PodScheduled")
    due = seconds_of(meta.deletion_timestamp) if meta.deletion_timestamp else None
    owner = owner_of(meta)
    # A TaskSet's template may have labels of the other family, which say nothing there.
    is_task = owner.kind == "ConfigMap"
    role = labels.get(TASK_ROLE if is_task else REPLICA_TYPE) or ""
    rank = (annotations.get(ROLE_INDEX) if is_task else labels.get(REPLICA_RANK)) or "0"
    containers = tuple(_container(c) for c in status.container_statuses)
    disrupted = conditions.get("DisruptionTarget")
    too_old = conditions.get(TOO_OLD)
    phase = _PHASES.get(status.phase)
    is_thrown_out = phase is PodPhase.FAILED and _says_taken_away(status.reason)
    return Pod(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        version=meta.resource_version,
        owner=owner,
        job_uid=annotations.get(TASKSET_UID, "") if is_task else owner.uid,
        digest=annotations.get(DIGEST, ""),
        role=role,
        # A person may write anything into a label.
        rank=whole_number(rank, INT32_MAX) or 0,
        attempt=_count(annotations.get(ATTEMPT)),
        job_attempt=_count(annotations.get(JOB_ATTEMPT)),
        pods_before=_count(annotations.get(PODS_BEFORE)),
        revision=annotations.get(REVISION, ""),
        phase=PodPhase.UNKNOWN if phase is None else phase,
        reason=status.reason,
        message=status.message,
        created_at=seconds_of(meta.creation_timestamp) if meta.creation_timestamp else 0.0,
        node=pod.spec.node_name,
        ip=status.pod_ip,
        host_ip=status.host_ip,
        scheduler=pod.spec.scheduler_name,
        is_ready=_holds(conditions.get("Ready")),
        unschedulable=scheduled.message or scheduled.reason
        if scheduled and scheduled.status == "False"
        else None,
        deletion_asked_at=due - meta.deletion_grace_period_seconds if due is not None else None,
        deletion_due_at=due,
        was_taken_away=_holds(disrupted) or is_thrown_out,
        too_old=(too_old.message or TOO_OLD) if too_old is not None and _holds(too_old) else "",
        taken_away_at=_last_end(containers)
        if is_thrown_out
        else _moment(disrupted.last_transition_time)
        if disrupted is not None
        else None,
        clock_behind=_clock_behind(meta, status, scheduled),
        is_out_of_reach=_is_out_of_reach(conditions.get("Ready")),
        containers=containers,
        init_containers=tuple(_container(c) for c in status.init_container_statuses),
        problem=_no_phase(status.phase) if phase is None else "",
    )


def unreadable_pod(meta: Meta, problem: str) -> Pod:
    """A pod of which only the metadata can be read; it is there, and nobody knows how it is."""
    bare = facts_of(PodObject(meta, status=Status(phase=PodPhase.UNKNOWN.value)))
    return msgspec.structs.replace(bare, problem=f"the pod can't be read: {problem}")


def _no_phase(text: str) -> str:
    shown = text if len(text) <= _SHOWN_LENGTH_MAX else f"{text[:_SHOWN_LENGTH_MAX]}…"
    return f"its phase is {shown!r}, which is none of a pod's"


def _count(text: str | None) -> int:
    # Most are not there, or none yet: this is asked three times for each version of each pod.
    return 0 if text is None or text == "0" else whole_number(text, COUNT_MAX) or 0


def _holds(condition: Condition | None) -> bool:
    return condition is not None and condition.status == "True"


def _says_taken_away(reason: str) -> bool:
    return reason in _TAKEN_AWAY or reason.startswith(_NO_ROOM)


def _is_out_of_reach(ready: Condition | None) -> bool:
    """Kubernetes' node controller turns the condition over and leaves the reason empty.

    A kubelet always gives one: ContainersNotReady, PodCompleted ... (MarkPodsNotReady in
    pkg/controller/util/node, GeneratePodReadyCondition in pkg/kubelet/status).
    """
    return ready is not None and ready.status == "False" and not ready.reason


def _clock_behind(meta: Meta, status: Status, scheduled: Condition | None) -> float:
    given = scheduled.last_transition_time if _holds(scheduled) and scheduled else None
    given = given or meta.creation_timestamp
    if given is None or status.start_time is None:
        return 0.0
    return max(0.0, seconds_of(given) - seconds_of(status.start_time))


def _last_end(containers: tuple[Container, ...]) -> float | None:
    """Who is thrown out with its pod ends last; what had ended before did so by itself."""
    moments = [c.finished_at for c in containers if c.finished_at is not None]
    return max(moments, default=None)


def owner_of(meta: Meta) -> Owner:
    for reference in meta.owner_references:
        if reference.get("controller"):
            return Owner(str(reference["kind"]), str(reference["name"]), str(reference["uid"]))
    return Owner()


def _container(status: ContainerStatus) -> Container:
    name, state, id_ = status.name, status.state, status.container_id
    if (ended := state.terminated) is not None:
        return Container(
            name=name,
            state=ContainerState.TERMINATED,
            reason=ended.reason,
            message=ended.message,
            exit_code=ended.exit_code,
            signal=ended.signal,
            started_at=_moment(ended.started_at),
            finished_at=_moment(ended.finished_at),
            id=id_,
        )
    if (running := state.running) is not None:
        return Container(
            name=name,
            state=ContainerState.RUNNING,
            started_at=_moment(running.started_at),
            id=id_,
        )
    waiting = state.waiting or Waiting()
    return Container(
        name=name,
        state=ContainerState.WAITING,
        reason=waiting.reason,
        message=waiting.message,
        id=id_,
    )


def _moment(text: str | None) -> float | None:
    return seconds_of(text) if text else None
