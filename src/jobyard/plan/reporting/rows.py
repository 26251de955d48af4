"""The replicas as rows of the status, and how many of them are in each phase.

A status has to fit into what an API server stores. Detail goes first where there is too
much of it: other containers, then messages, then how each replica failed; never a row, its
phase or its counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from jobyard.api.parts.status import (
    MESSAGE_LENGTH_MAX,
    Aggregate,
    ContainerStatus,
    Failure,
    ReplicaPhase,
    ReplicaStatus,
    TaskStatus,
)
from jobyard.plan.facts.ends import End
from jobyard.plan.facts.last_words import shortened
from jobyard.plan.facts.pod_facts import Container, PodPhase
from jobyard.plan.facts.standing import Standing, State
from jobyard.plan.lowering.description import Role
from jobyard.plan.moments import text_of

# What all rows together may take as JSON; the rest of a status is small beside them.
ROWS_BYTES_MAX = 1_000_000
_SHORT_MESSAGE_LENGTH = 64
# One byte each that an API server writes as six.
_ESCAPED = (b"<", b">", b"&")
_ESCAPE_BYTES = 5

_PHASES = {
    State.CREATING: ReplicaPhase.CREATING,
    State.STARTING: ReplicaPhase.PENDING,
    State.RUNNING: ReplicaPhase.RUNNING,
    State.UNKNOWN: ReplicaPhase.UNKNOWN,
    State.SUCCEEDED: ReplicaPhase.SUCCEEDED,
    State.FAILED: ReplicaPhase.FAILED,
    State.LOST: ReplicaPhase.DELETED,
    State.OUTDATED: ReplicaPhase.DELETED,
}


def row_of(
    standing: Standing, *, is_coming: bool, is_condemned: bool, reason: str = ""
) -> ReplicaStatus:
    """A replica's row. `is_coming`: its pod is about to be made, if it isn't there."""
    row = _row_of(standing, is_coming=is_coming, is_condemned=is_condemned)
    waits = not standing.is_live and not standing.is_final and standing.due_at is not None
    restart_time = text_of(standing.due_at) if waits and standing.due_at is not None else None
    if reason or restart_time:
        return msgspec.structs.replace(row, reason=reason, restart_time=restart_time)
    return row


def _row_of(standing: Standing, *, is_coming: bool, is_condemned: bool) -> ReplicaStatus:
    pod, memory = standing.pod, standing.memory
    failure = _failure(standing)
    if pod is None and not standing.has_ended:
        phase = ReplicaPhase.CREATING if is_coming else ReplicaPhase.DELETED
        row = _row(standing, phase, "", standing.restarts, (), failure)
        return msgspec.structs.replace(row, pods_before=standing.pods_before_next)
    if pod is None:
        assert memory.phase is not None
        return _row(
            standing, memory.phase, memory.uid, memory.attempt, memory.containers, memory.failure
        )
    containers = tuple(container_row(container) for container in pod.containers)
    phase = ReplicaPhase.DELETED if is_condemned else _phase(standing)
    return _row(standing, phase, pod.uid, pod.attempt, containers, failure)


def _row(
    standing: Standing,
    phase: ReplicaPhase,
    uid: str,
    attempt: int,
    containers: tuple[ContainerStatus, ...],
    failure: Failure | None,
) -> ReplicaStatus:
    return ReplicaStatus(
        name=standing.pod.name if standing.pod is not None else standing.name,
        uid=uid,
        phase=phase,
        containers=containers,
        attempt=attempt,
        restart_count=standing.restarts,
        pods_before=standing.pods_before,
        failures_in_a_row=standing.failures_in_a_row,
        last_failure=failure,
    )


def _phase(standing: Standing) -> ReplicaPhase:
    if standing.state is not State.LEAVING:
        return _PHASES[standing.state]
    assert standing.pod is not None
    if standing.is_stale_view:
        return ReplicaPhase.DELETED
    if standing.memory.phase is ReplicaPhase.DELETED and standing.memory.uid == standing.pod.uid:
        return ReplicaPhase.DELETED
    # Told to go by somebody else: neither ready nor gone, so its phase is the pod's own.
    is_running = standing.pod.phase is PodPhase.RUNNING
    return ReplicaPhase.RUNNING if is_running else ReplicaPhase.PENDING


def _failure(standing: Standing) -> Failure | None:
    """How it failed the last time, now or before."""
    memory = standing.memory
    if standing.end is None or standing.state not in (State.FAILED, State.LOST):
        return memory.failure
    before = memory.failure if standing.is_recorded else None
    follows = standing.follows or (before.follows if before is not None else "")
    return failure_of(standing.end, follows)


def failure_of(end: End, follows: str = "") -> Failure:
    return Failure(
        attempt=end.attempt,
        exit_code=end.exit_code,
        reason=end.reason,
        message=shortened(end.message.strip(), MESSAGE_LENGTH_MAX),
        time=text_of(end.finished_at),
        follows=follows,
    )


def container_row(container: Container) -> ContainerStatus:
    return ContainerStatus(
        name=container.name,
        state=container.state,
        exit_code=container.exit_code,
        reason=container.reason,
    )


def aggregate_of(tasks: Sequence[TaskStatus]) -> Aggregate:
    counts = Counter(row.phase for task in tasks for row in task.status)
    return Aggregate(**{phase.value.lower(): counts[phase] for phase in ReplicaPhase})


def fitting(tasks: tuple[TaskStatus, ...], roles: Sequence[Role]) -> tuple[TaskStatus, ...]:
    """The rows with as much detail as there is room for."""
    mains = {role.type: role.main_container for role in roles}
    for level in range(_LEVELS):
        slim = tasks if level == 0 else tuple(_slimmer(task, mains, level) for task in tasks)
        if stored_bytes(slim) <= ROWS_BYTES_MAX or level == _LEVELS - 1:
            return slim
    raise AssertionError("the last level is always taken")


_LEVELS = 5


def stored_bytes(value: object) -> int:
    """How long the value is as an API server writes it, which escapes more than need be."""
    encoded = msgspec.json.encode(value)
    return len(encoded) + _ESCAPE_BYTES * sum(encoded.count(each) for each in _ESCAPED)


def _slimmer(task: TaskStatus, mains: dict[str, str], level: int) -> TaskStatus:
    rows = tuple(_slim_rows(task.status, mains.get(task.type, ""), level))
    return msgspec.structs.replace(task, status=rows)


def _slim_rows(rows: Sequence[ReplicaStatus], main: str, level: int) -> Iterator[ReplicaStatus]:
    for row in rows:
        kept = () if level > 1 else tuple(c for c in row.containers if c.name == main)
        yield msgspec.structs.replace(
            row,
            containers=kept,
            reason=row.reason if level <= 1 else "",
            last_failure=_slim_failure(row.last_failure, level),
        )


def _slim_failure(failure: Failure | None, level: int) -> Failure | None:
    if failure is None or level >= _LEVELS - 1:
        return None
    length = {1: MESSAGE_LENGTH_MAX, 2: _SHORT_MESSAGE_LENGTH}.get(level, 0)
    words = shortened(failure.message, length) if length else ""
    return msgspec.structs.replace(
        failure, message=words, reason=failure.reason[:_SHORT_MESSAGE_LENGTH]
    )
