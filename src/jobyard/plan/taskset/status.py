"""The status of a TaskSet, put together from its roles and replicas.

What was decided comes in as `Summary`; here it is only written down. Times change only with
phases, so a decision that finds nothing new gives the status that is stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from jobyard.api.parts.taskset_status import (
    RolePhase,
    RoleReplicaPhase,
    RoleReplicaStatus,
    RoleStatus,
    TaskSetPhase,
    TaskSetState,
    TaskSetStatus,
)
from jobyard.plan.moments import text_of
from jobyard.plan.taskset.attempt import Attempt
from jobyard.plan.taskset.replicas import OVER
from jobyard.plan.taskset.retries import transition_time
from jobyard.plan.taskset.roles import Group, goes_with_its_pods
from jobyard.plan.taskset.rows import closed_row, fitted, open_row, spare_bytes

_MESSAGE_LENGTH_MAX = 2000
_NAMED_MAX = 5


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided about the TaskSet as a whole."""

    phase: TaskSetPhase
    # Empty: what the replicas say.
    phase_message: str
    state: TaskSetState
    state_message: str
    # Replicas whose pods are made now, as role and index.
    coming: frozenset[tuple[str, int]] = frozenset()
    # Pods that ended go too, and roles stay in clean-up until they are gone.
    all_go: bool = False


def taskset_status(attempt: Attempt, groups: Sequence[Group], summary: Summary) -> TaskSetStatus:
    before, now = attempt.status, attempt.now
    is_over = summary.phase is TaskSetPhase.COMPLETED
    is_running = summary.state is TaskSetState.RUNNING
    lost = sum(member.is_lost for group in groups for member in group.members)
    unit = attempt.unit
    spare = spare_bytes(attempt)
    roles = tuple(_role(attempt, group, summary, spare) for group in groups)
    message = summary.phase_message or _said(roles)
    return TaskSetStatus(
        phase=summary.phase,
        phase_message=message[:_MESSAGE_LENGTH_MAX],
        transition_time=transition_time(summary.phase, before.phase, before.transition_time, now),
        state=summary.state,
        state_message=summary.state_message[:_MESSAGE_LENGTH_MAX],
        control_unit_uid=unit.uid if unit is not None else before.control_unit_uid,
        created_at=before.created_at or text_of(now),
        start_at=before.start_at or (text_of(now) if is_running else None),
        finish_at=before.finish_at or (text_of(now) if is_over else None),
        total_retried_count=attempt.number,
        preempt_count=(before.preempt_count or 0) + lost,
        role_status=roles,
    )


def _role(attempt: Attempt, group: Group, summary: Summary, spare: int) -> RoleStatus:
    rows = tuple(fitted(row, spare) for row in _rows(attempt, group, summary))
    before = group.before
    if group.end is None:
        has_started = has_started_any(rows) or _was_running(before)
        state = TaskSetState.RUNNING if has_started else TaskSetState.WAITING
        phase = RolePhase.RUNNING if has_started else RolePhase.WAITING
        message = ""
    else:
        state = TaskSetState.SUCCEEDED if group.end.succeeded else TaskSetState.FAILED
        phase = _closed_phase(group, summary)
        message = group.end.text
    return RoleStatus(
        name=group.policy.name,
        phase=phase,
        phase_message=_counts(rows) if group.end is None else _cleaning(phase),
        transition_time=transition_time(
            phase,
            before.phase if before is not None else None,
            before.transition_time if before is not None else None,
            attempt.now,
        ),
        state=state,
        state_message=message or _waiting(state),
        replica_status=rows,
    )


def _rows(attempt: Attempt, group: Group, summary: Summary) -> Iterator[RoleReplicaStatus]:
    is_over = summary.phase is TaskSetPhase.COMPLETED
    for member in group.members:
        if group.end is None:
            yield open_row(attempt, member, is_coming=member.key in summary.coming)
        else:
            yield closed_row(attempt, member, is_over=is_over)


def has_started_any(rows: Sequence[RoleReplicaStatus]) -> bool:
    """Whether a main container of the role runs or ran."""
    return any(
        row.start_at is not None
        or row.total_retried_count > 0
        or row.phase in (RoleReplicaPhase.RUNNING, RoleReplicaPhase.COMPLETED)
        for row in rows
    )


def _was_running(before: RoleStatus | None) -> bool:
    return before is not None and before.state is TaskSetState.RUNNING


def _closed_phase(group: Group, summary: Summary) -> RolePhase:
    is_done = group.before is not None and group.before.phase is RolePhase.COMPLETED
    if is_done or summary.phase is TaskSetPhase.COMPLETED:
        return RolePhase.COMPLETED
    all_go = summary.all_go or goes_with_its_pods(group.policy)
    has_left = not any(
        all_go or not pod.has_finished for member in group.members for pod in member.pods
    )
    return RolePhase.COMPLETED if has_left else RolePhase.CLEANING_PENDING


def _said(roles: Sequence[RoleStatus]) -> str:
    """How the replicas of roles that go on are, and what the first few of them say."""
    rows = [row for role in roles if role.state not in OVER for row in role.replica_status]
    words = [
        f"{row.name}-{row.index}: {row.phase_message.removesuffix('.')}"
        for row in rows
        if row.phase_message and row.phase is not RoleReplicaPhase.COMPLETED
    ]
    more = len(words) - _NAMED_MAX
    told = [*words[:_NAMED_MAX], *([f"and {more} more"] if more > 0 else [])]
    return "; ".join([_counts(rows).removesuffix("."), *told]) + "."


def _counts(rows: Sequence[RoleReplicaStatus]) -> str:
    running = sum(row.phase is RoleReplicaPhase.RUNNING for row in rows)
    ended = [row for row in rows if row.phase is RoleReplicaPhase.COMPLETED]
    failed = sum(bool(row.terminated_info and row.terminated_info.exit_code) for row in ended)
    return (
        f"{running} of {len(rows)} replicas running, {len(ended) - failed} succeeded,"
        f" {failed} failed."
    )


def _cleaning(phase: RolePhase) -> str:
    return "Its pods are being removed." if phase is RolePhase.CLEANING_PENDING else ""


def _waiting(state: TaskSetState) -> str:
    return "Running." if state is TaskSetState.RUNNING else "No replica has started yet."


def taskset_not_understood(
    before: TaskSetStatus | None,
    generation: int,  # noqa: ARG001 - a TaskSet's status has none
    message: str,
    now: float,
) -> TaskSetStatus | None:
    """See `StatusForm.not_understood`."""
    stored = before or TaskSetStatus()
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


def taskset_restarts_between(before: TaskSetStatus | None, after: TaskSetStatus) -> int:
    """Retries of the whole count too; each resets the counts of the replicas."""
    whole = _whole_retries(after) - _whole_retries(before)
    rows = _retries(after) - (0 if whole else _retries(before))
    return max(0, whole) + max(0, rows)


def _whole_retries(status: TaskSetStatus | None) -> int:
    return (status.total_retried_count or 0) if status is not None else 0


def _retries(status: TaskSetStatus | None) -> int:
    roles = status.role_status if status is not None else ()
    return sum(row.total_retried_count for role in roles for row in role.replica_status)
