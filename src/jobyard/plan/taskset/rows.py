"""The replicas of a TaskSet as rows of its status.

A row is the memory of its replica: the end of it, how often it was retried, and which pod
stands for it. A `Completed` row never changes. A row has its share of the room that all have
together; where it needs more, its words go first, then what its pod tells as well, never its
phase, counts, times, names, uid or exit code: for those the schema sees to it that there is room.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import msgspec

from jobyard.api.parts.status import MESSAGE_LENGTH_MAX
from jobyard.api.parts.taskset_status import (
    ROW_BYTES,
    ROWS_BYTES_MAX,
    RoleReplicaPhase,
    RoleReplicaStatus,
    TerminatedInfo,
)
from jobyard.api.taskset import RETRIES_MAX
from jobyard.plan.facts.last_words import shortened
from jobyard.plan.facts.pod_facts import Pod
from jobyard.plan.facts.standing import Standing, State
from jobyard.plan.lowering.names import pod_name
from jobyard.plan.moments import text_of
from jobyard.plan.reporting.conditions import end_text
from jobyard.plan.reporting.rows import stored_bytes
from jobyard.plan.taskset.attempt import Attempt
from jobyard.plan.taskset.replicas import BEING_DELETED, NO_EXIT_CODE, Member, stopped_end
from jobyard.plan.taskset.retries import delay_seconds, retries_max, transition_time

_SHORT_LENGTH = 64
_REASON_LENGTH = 32
_POD_REASON_LENGTH = 128

_P = RoleReplicaPhase


def open_row(attempt: Attempt, member: Member, *, is_coming: bool) -> RoleReplicaStatus:
    """The row of a replica whose role goes on. `is_coming`: its pod is made now."""
    standing, row = member.standing, member.row
    if member.is_recorded:
        assert row is not None
        return row
    if standing.is_final:
        return _ended(attempt, member, standing)
    if is_coming:
        return _without_pod(attempt, member, _P.CREATION_REQUESTED)
    if standing.is_newly_counted:
        return _retrying(attempt, member)
    if standing.state is State.MISSING:
        if row is not None and row.phase is _P.RETRY_PENDING:
            return row
        return _without_pod(attempt, member, _P.PENDING)
    return _with_pod(attempt, member, *_present(member))


def closed_row(attempt: Attempt, member: Member, *, is_over: bool) -> RoleReplicaStatus:
    """The row of a replica whose role has ended; with `is_over` so has the TaskSet."""
    standing, row = member.standing, member.row
    if row is not None and row.phase is _P.COMPLETED:
        return row
    was_stopped = row is not None and row.stopped
    if standing.has_ended and not was_stopped and standing.end is not None:
        # Nothing starts again, so no retry is counted that was only just decided on.
        return _ended(attempt, member, standing)
    known = stopped_end(member)
    if known is not None:
        return msgspec.structs.replace(_ended(attempt, member, known), stopped=True)
    pod = standing.pod
    if pod is None or pod.has_finished or is_over:
        # What is known stays: how an earlier attempt ended, or when this one started.
        before = row or _blank(attempt, member)
        if pod is not None:
            before = _with_pod(attempt, member, before.phase, "")
        told = _timed(attempt, member, before, _P.COMPLETED, "Stopped.")
        ended_at = before.finish_at or text_of(attempt.now)
        return msgspec.structs.replace(told, stopped=True, finish_at=ended_at)
    phase = _P.DELETION_REQUESTED if pod.is_terminating else _P.DELETION_PENDING
    told = _with_pod(attempt, member, phase, "Being stopped, since its role has ended.")
    return msgspec.structs.replace(told, stopped=True)


def _blank(attempt: Attempt, member: Member) -> RoleReplicaStatus:
    standing = member.standing
    return RoleReplicaStatus(
        index=standing.rank,
        name=standing.role.type,
        phase=_P.PENDING,
        total_retried_count=standing.restarts,
        pod_name=attempt.pod_name(standing.role, standing.rank, standing.restarts),
        container_name=standing.role.main_container,
    )


def _timed(
    attempt: Attempt,
    member: Member,
    row: RoleReplicaStatus,
    phase: RoleReplicaPhase,
    message: str,
) -> RoleReplicaStatus:
    before = member.row
    since = transition_time(
        phase,
        before.phase if before is not None else None,
        before.transition_time if before is not None else None,
        attempt.now,
    )
    return msgspec.structs.replace(
        row,
        phase=phase,
        phase_message=message[:MESSAGE_LENGTH_MAX],
        transition_time=since,
    )


def _without_pod(attempt: Attempt, member: Member, phase: RoleReplicaPhase) -> RoleReplicaStatus:
    row = _blank(attempt, member)
    obstacle = attempt.obstacle(row.pod_name)
    said = f"{obstacle.reason}: {obstacle.message}" if obstacle is not None else ""
    return _timed(attempt, member, row, phase, said)


def _with_pod(
    attempt: Attempt, member: Member, phase: RoleReplicaPhase, message: str
) -> RoleReplicaStatus:
    pod = member.standing.pod
    assert pod is not None
    main = pod.container(member.standing.role.main_container)
    started = main.started_at if main is not None else None
    row = _named(_blank(attempt, member), pod, main.id if main is not None else "")
    before = member.row
    if started is None and before is not None and before.pod_uid == pod.uid:
        start_at = before.start_at
    else:
        start_at = text_of(started) if started is not None else None
    row = msgspec.structs.replace(row, start_at=start_at)
    return _timed(attempt, member, row, phase, message)


def _named(row: RoleReplicaStatus, pod: Pod, container_id: str) -> RoleReplicaStatus:
    return msgspec.structs.replace(
        row,
        pod_name=pod.name,
        pod_reason=pod.reason[:_POD_REASON_LENGTH],
        pod_uid=pod.uid,
        pod_ip=pod.ip,
        pod_host_ip=pod.host_ip,
        container_id=container_id,
    )


def _present(member: Member) -> tuple[RoleReplicaPhase, str]:
    """The phase of a replica that has a pod, and what there is to say about it."""
    standing, row = member.standing, member.row
    pod = standing.pod
    assert pod is not None
    if pod.is_terminating:
        if pod.is_out_of_reach:
            # What it does there isn't known: it may have ended long before.
            return _P.DELETION_REQUESTED, "Its pod is being deleted; its node can't be reached."
        return _P.DELETION_REQUESTED, BEING_DELETED
    if standing.state is State.LOST:
        return _P.DELETION_PENDING, f"Lost: {end_text(standing)}; its pod will be recreated."
    if standing.state is State.OUTDATED:
        return _P.DELETION_PENDING, "Its control unit was replaced; its pod will be recreated."
    was_running = row is not None and row.phase is _P.RUNNING and row.pod_uid == pod.uid
    if standing.state is State.RUNNING or was_running:
        return _P.RUNNING, ""
    if standing.state is State.CREATING and pod.unschedulable:
        return _P.PREPARING, f"Unschedulable: {pod.unschedulable}"
    return _P.ASSIGNED if pod.node and pod.ip else _P.PREPARING, ""


def _retrying(attempt: Attempt, member: Member) -> RoleReplicaStatus:
    standing, policy = member.standing, member.policy.retry_policy
    again = f"retry {standing.restarts} of {retries_max(policy)}"
    row = _with_end(_blank(attempt, member), standing)
    said = f"{end_text(standing)}; {again} follows after {delay_seconds(policy)} s."
    return _timed(attempt, member, row, _P.RETRY_PENDING, said)


def _ended(attempt: Attempt, member: Member, standing: Standing) -> RoleReplicaStatus:
    end = standing.end
    assert end is not None
    row = _with_end(_blank(attempt, member), standing)
    row = msgspec.structs.replace(row, total_retried_count=end.attempt)
    said = "Succeeded." if end.succeeded else f"Failed: {end_text(standing)}."
    return _timed(attempt, member, row, _P.COMPLETED, said)


def _with_end(row: RoleReplicaStatus, standing: Standing) -> RoleReplicaStatus:
    end, pod = standing.end, standing.pod
    assert end is not None
    assert pod is not None
    main = pod.container(standing.role.main_container)
    unknown = 0 if end.succeeded else NO_EXIT_CODE
    info = TerminatedInfo(
        # An end that was no success keeps a code that says so.
        exit_code=end.exit_code if end.exit_code is not None else unknown,
        exit_message=shortened(end.message.strip(), MESSAGE_LENGTH_MAX),
        signal=main.signal if main is not None else 0,
        reason=end.reason,
    )
    return msgspec.structs.replace(
        _named(row, pod, main.id if main is not None else ""),
        start_at=text_of(end.started_at) if end.started_at is not None else None,
        finish_at=text_of(end.finished_at),
        terminated_info=info,
    )


def spare_bytes(attempt: Attempt) -> int:
    """What each row may take beyond the least that all of them need."""
    count = least = 0
    for role in attempt.seen.description.roles:
        # By the longest number an attempt can have: rows that are written keep their room.
        name = pod_name(attempt.name, role, role.replicas - 1, (RETRIES_MAX, RETRIES_MAX))
        count += role.replicas
        least += role.replicas * (ROW_BYTES + len(role.type) + len(name))
    return max(0, ROWS_BYTES_MAX - least) // count


def fitted(row: RoleReplicaStatus, spare: int) -> RoleReplicaStatus:
    """The row with as much detail as the spare room allows; the same again if it fits."""
    room = ROW_BYTES + len(row.name) + len(row.pod_name) + spare
    slim = row
    for candidate in chain((row,), _slimmer(row)):
        slim = candidate
        if stored_bytes(slim) < room:
            break
    return slim


def _slimmer(row: RoleReplicaStatus) -> Iterator[RoleReplicaStatus]:
    replace = msgspec.structs.replace
    info = row.terminated_info
    for length in (_SHORT_LENGTH, 0):
        said = row.phase_message[:length]
        if info is not None:
            words = shortened(info.exit_message, length) if length else ""
            info = replace(info, exit_message=words, reason=info.reason[:_REASON_LENGTH])
        reason = row.pod_reason[:_REASON_LENGTH]
        yield replace(row, phase_message=said, pod_reason=reason, terminated_info=info)
    bare = replace(row, phase_message="", terminated_info=info, container_id="", container_name="")
    bare = replace(bare, pod_reason=row.pod_reason[:_REASON_LENGTH])
    yield bare
    bare = replace(bare, pod_ip="", pod_host_ip="")
    yield bare
    info = replace(info, reason="") if info is not None else None
    yield replace(bare, pod_reason="", terminated_info=info)
