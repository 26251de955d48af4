"""How often replicas were started again, by two statuses of a job: for the metrics."""

from __future__ import annotations

from jobyard.api.parts.taskset_status import TaskSetStatus


def restarts_between(before: object, after: object) -> int:
    """Of a TaskSet also the retries of the whole, with which its replicas count anew."""
    if not isinstance(after, TaskSetStatus):
        return max(0, _count(after) - _count(before))
    assert before is None or isinstance(before, TaskSetStatus)
    whole = _whole(after) - _whole(before)
    rows = _rows(after) - (0 if whole else _rows(before))
    return max(0, whole) + max(0, rows)


def _count(status: object) -> int:
    return getattr(status, "restarts", None) or 0


def _whole(status: TaskSetStatus | None) -> int:
    return (status.total_retried_count or 0) if status is not None else 0


def _rows(status: TaskSetStatus | None) -> int:
    roles = status.role_status if status is not None else ()
    return sum(row.total_retried_count for role in roles for row in role.replica_status)
