"""Restarts as the metrics count them, from one status to the next."""

from __future__ import annotations

import pytest

from jobyard.api.kinds import kind_named
from jobyard.api.parts.status import JobStatus
from jobyard.api.parts.taskset_status import (
    RolePhase,
    RoleReplicaPhase,
    RoleReplicaStatus,
    RoleStatus,
    TaskSetStatus,
)
from jobyard.plan.table import decisions_of


def taskset(whole: int, *rows: int) -> TaskSetStatus:
    replicas = tuple(
        RoleReplicaStatus(index=n, phase=RoleReplicaPhase.RUNNING, total_retried_count=count)
        for n, count in enumerate(rows)
    )
    role = RoleStatus(name="w", phase=RolePhase.RUNNING, replica_status=replicas)
    return TaskSetStatus(total_retried_count=whole, role_status=(role,))


@pytest.mark.parametrize(
    ("before", "after", "count"),
    [
        pytest.param(None, JobStatus(restarts=0), 0, id="a new job"),
        pytest.param(JobStatus(restarts=1), JobStatus(restarts=3), 2, id="two of a job"),
        pytest.param(None, taskset(0, 0, 0), 0, id="a new TaskSet"),
        pytest.param(taskset(0, 1, 0), taskset(0, 1, 2), 2, id="a replica, twice"),
        pytest.param(taskset(0, 2, 2), taskset(1, 0, 0), 1, id="the whole"),
        pytest.param(taskset(0, 2, 2), taskset(1, 1, 0), 2, id="the whole, then a replica"),
    ],
)
def test_only_what_is_new_counts(before: object, after: object, count: int) -> None:
    kind = kind_named("TaskSet" if isinstance(after, TaskSetStatus) else "GenericJob")
    assert kind is not None
    assert decisions_of(kind).restarts_between(before, after) == count
