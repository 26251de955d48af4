"""The pods of jobs as the commands see them: whose they are, and what can be read of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from jobyard.numerals import whole_number
from jobyard.plan.facts.pod_facts import COUNT_MAX
from jobyard.plan.lowering.names import (
    ATTEMPT,
    JOB_NAME,
    REPLICA_RANK,
    REPLICA_TYPE,
    ROLE_INDEX,
    TASK_ROLE,
    TASKSET_UID,
)


class _Owner(msgspec.Struct, frozen=True):
    uid: str
    controller: bool = False


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str
    uid: str
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    owner_references: Sequence[_Owner] = ()


class _Container(msgspec.Struct, frozen=True):
    name: str
    image: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    containers: Sequence[_Container] = ()
    init_containers: Sequence[_Container] = ()
    # A server always says it.
    termination_grace_period_seconds: int = 30


class _ContainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    restart_count: int = 0
    state: dict[str, Any] = {}


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = "Pending"
    container_statuses: Sequence[_ContainerStatus] = ()
    init_container_statuses: Sequence[_ContainerStatus] = ()


class LogKey(msgspec.Struct, frozen=True, order=True):
    """One run of one container: each has a log of its own."""

    uid: str
    container: str
    run: int


class JobPod(msgspec.Struct, frozen=True):
    """What is looked at of a pod."""

    metadata: _Meta
    spec: _Spec
    status: _Status = _Status()

    @property
    def replica(self) -> str:
        """`worker-0`, as rows and prefixes have it; what sets the pod apart for anything else."""
        labels = self.metadata.labels
        type_ = labels.get(REPLICA_TYPE) or labels.get(TASK_ROLE)
        if not type_:
            return self.metadata.name.removeprefix(f"{labels.get(JOB_NAME, '')}-")
        rank = labels.get(REPLICA_RANK) or self.metadata.annotations.get(ROLE_INDEX, "")
        if rank and self.metadata.name.endswith(f"-{rank}"):
            return f"{type_}-{rank}"
        # A launcher has no number; a pod that submits has that of its try.
        own = self.metadata.name.removeprefix(f"{labels.get(JOB_NAME, '')}-")
        is_numbered = whole_number(own.removeprefix(f"{type_}-")) is not None
        return own if is_numbered else type_

    def is_of(self, job_uid: str) -> bool:
        """Whether a pod with the job's labels is its own, not that of an earlier one of its name.

        One that nobody owns is taken at its labels' word.
        """
        taskset = self.metadata.annotations.get(TASKSET_UID, "")
        owners = (each.uid for each in self.metadata.owner_references if each.controller)
        return (taskset or next(owners, job_uid)) == job_uid

    @property
    def attempt(self) -> int:
        return whole_number(self.metadata.annotations.get(ATTEMPT, "0"), COUNT_MAX) or 0

    @property
    def logs(self) -> list[LogKey]:
        """The logs that can be read by now, oldest first."""
        return self._in_state("running", "terminated")

    @property
    def running(self) -> list[LogKey]:
        """The logs that go on."""
        return self._in_state("running")

    def _in_state(self, *states: str) -> list[LogKey]:
        statuses = (*self.status.init_container_statuses, *self.status.container_statuses)
        return [
            LogKey(self.metadata.uid, status.name, status.restart_count)
            for status in statuses
            if any(state in status.state for state in states)
        ]

    @property
    def images(self) -> list[str]:
        return [each.image for each in (*self.spec.init_containers, *self.spec.containers)]


class PodList(msgspec.Struct, frozen=True):
    """What a server answers to a list."""

    items: tuple[JobPod, ...] = ()
