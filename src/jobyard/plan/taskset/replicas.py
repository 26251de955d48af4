"""How each replica of a TaskSet stands: from its pods, and from its row in the status.

A row that is `Completed` is final. A row that names a pod which is no longer there, and no
end of it, tells of a loss: the pod was taken away. Letting go of the pod's uid is what counts
the loss, in the same write of the status, so each is counted once. Whoever decides about
roles calls this; it knows nothing of their policies but the retries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from jobyard.api.parts.status import ContainerState, Failure, ReplicaPhase
from jobyard.api.parts.taskset_status import RoleReplicaPhase, RoleReplicaStatus, TaskSetState
from jobyard.api.taskset import Role as RoleSpec
from jobyard.plan.facts.ends import End, end_of
from jobyard.plan.facts.pod_facts import TOO_OLD, Container, Pod
from jobyard.plan.facts.standing import (
    NOTHING,
    Memory,
    Standing,
    State,
    pods_by_replica,
    standing_of,
)
from jobyard.plan.lowering.description import Role
from jobyard.plan.taskset.attempt import Attempt
from jobyard.plan.taskset.retries import with_retry

# What stands in a row for a replica that failed before its main container could exit.
NO_EXIT_CODE = -1
# A node that refuses pods must not make it a hot loop.
LOST_SECONDS = 5
# In the row of a replica that somebody told to go, while something of it still ran.
BEING_DELETED = "Its pod is being deleted and will be recreated."

_GOING = (State.LEAVING, State.LOST)
_WITHOUT_LIVE_POD = (RoleReplicaPhase.COMPLETED, RoleReplicaPhase.RETRY_PENDING)
OVER = (TaskSetState.SUCCEEDED, TaskSetState.FAILED)


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One replica of a role, in the present attempt of the TaskSet."""

    policy: RoleSpec
    standing: Standing
    # As stored.
    row: RoleReplicaStatus | None = None
    # All of its pods, earlier attempts of the replica too.
    pods: tuple[Pod, ...] = ()
    # Its pod was lost, which is not in the status yet.
    is_lost: bool = False
    # Nothing of an earlier pod runs any more.
    is_free: bool = True

    @property
    def key(self) -> tuple[str, int]:
        return self.policy.name, self.standing.rank

    @property
    def wants_pod(self) -> bool:
        return self.standing.state is State.MISSING or self.standing.is_newly_counted

    @property
    def is_recorded(self) -> bool:
        """Its end is in the status."""
        return _is_ended(self.row)


def _is_ended(row: RoleReplicaStatus | None) -> bool:
    if row is None or row.terminated_info is None:
        return False
    return row.phase is RoleReplicaPhase.COMPLETED and not row.stopped


def members_of(attempt: Attempt) -> Mapping[str, Sequence[Member]]:
    """By role, in order."""
    everywhere = pods_by_replica(attempt.seen.pods)
    here = pods_by_replica(attempt.pods)
    roles = zip(attempt.spec.roles, attempt.seen.description.roles, strict=True)
    return {
        policy.name: [
            msgspec.structs.replace(
                member, is_free=all(p.has_finished for p in everywhere.get(member.key, ()))
            )
            for member in _members(attempt, policy, role, here)
        ]
        for policy, role in roles
    }


def _members(
    attempt: Attempt,
    policy: RoleSpec,
    role: Role,
    pods: Mapping[tuple[str, int], Sequence[Pod]],
) -> Iterator[Member]:
    before = attempt.role_before(role.type)
    rows = before.replica_status if before is not None else ()
    is_closed = before is not None and before.state in OVER
    unit = attempt.usable_unit
    for index in range(role.replicas):
        row = rows[index] if index < len(rows) else None
        own = tuple(_as_replica(pod, role) for pod in pods.get((role.type, index), ()))
        standing = _standing(attempt, role, index, own, row)
        if standing.is_live and unit is not None and _is_orphan(standing, unit.uid):
            standing = msgspec.structs.replace(standing, state=State.OUTDATED)
        if not is_closed and not standing.is_final:
            standing = with_retry(standing, policy.retry_policy, row, attempt.now)
        yield Member(
            policy=policy, standing=standing, row=row, pods=own, is_lost=_is_loss(row, own)
        )


def _standing(
    attempt: Attempt, role: Role, index: int, pods: Sequence[Pod], row: RoleReplicaStatus | None
) -> Standing:
    memory = _memory(row)
    name = attempt.pod_name(role, index, memory.restarts)
    if _is_ended(row):
        standing = standing_of(role, index, name, (), memory)
        return msgspec.structs.replace(standing, is_final=True)
    present = [pod for pod in pods if pod.attempt >= memory.restarts]
    standing = standing_of(role, index, name, present, memory)
    pod = standing.pod
    if pod is not None and pod.too_old and (standing.is_live or standing.state in _GOING):
        # Its time is over, whatever its program makes of that: to be made anew would give it more.
        end = End(attempt=pod.attempt, succeeded=False, reason=TOO_OLD, message=pod.too_old)
        end = msgspec.structs.replace(end, finished_at=attempt.now)
        return msgspec.structs.replace(standing, state=State.FAILED, end=end)
    if standing.state is State.LOST and standing.pod is not None:
        # By the API server's clock: the node's may be wrong.
        due = standing.pod.created_at + LOST_SECONDS
        standing = msgspec.structs.replace(standing, due_at=due)
    return standing


def _memory(row: RoleReplicaStatus | None) -> Memory:
    if row is None:
        return NOTHING
    count, uid, info = row.total_retried_count, row.pod_uid or "", row.terminated_info
    if not _is_ended(row) or info is None:
        was_leaving = row.phase_message == BEING_DELETED
        return Memory(restarts=count, attempt=count, uid=uid, was_leaving=was_leaving)
    failure = Failure(
        attempt=count,
        exit_code=info.exit_code if info.exit_code != NO_EXIT_CODE else None,
        reason=info.reason,
        message=info.exit_message,
        time=row.finish_at,
    )
    phase = ReplicaPhase.FAILED if info.exit_code else ReplicaPhase.SUCCEEDED
    return Memory(restarts=count, attempt=count, uid=uid, phase=phase, failure=failure)


def _is_orphan(standing: Standing, unit_uid: str) -> bool:
    """Its control unit was replaced: its pod is due to be collected with the old one."""
    return standing.pod is not None and standing.pod.owner.uid != unit_uid


def _is_loss(row: RoleReplicaStatus | None, pods: Sequence[Pod]) -> bool:
    if row is None or not row.pod_uid or row.stopped or row.phase in _WITHOUT_LIVE_POD:
        return False
    return all(pod.uid != row.pod_uid for pod in pods)


def _as_replica(pod: Pod, role: Role) -> Pod:
    """With `OnFailure` the kubelet starts a failed container again: that is no end yet."""
    if role.template["spec"].get("restartPolicy") != "OnFailure" or pod.has_finished:
        return pod
    containers = tuple(_as_waiting(c) if c.exit_code else c for c in pod.containers)
    return msgspec.structs.replace(pod, containers=containers)


def _as_waiting(container: Container) -> Container:
    return Container(
        name=container.name,
        state=ContainerState.WAITING,
        reason=container.reason,
        message=container.message,
        started_at=container.started_at,
        id=container.id,
    )


def stopped_end(member: Member) -> Standing | None:
    """How a replica ended that was told to, if its pod still tells."""
    for pod in member.pods:
        end = end_of(pod, member.standing.role)
        if end is not None and pod.attempt == member.standing.restarts:
            return msgspec.structs.replace(member.standing, pod=pod, end=end)
    return None
