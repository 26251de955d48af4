"""What the scheduler looks at: one machine, queues, groups and pods, as they are at one moment.

Made by the shell from its watches, and by tests by hand. Everything is a value; what nobody could
read is not in it, or says so (`Candidate.puzzle`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from jobyard.api.parts.scheduling import DEFAULT_QUEUE
from jobyard.api.podgroup import PodGroupStatus
from jobyard.api.queue import QueueStatus
from jobyard.schedule.amounts import Amounts
from jobyard.schedule.tolerating import Taint

Labels = Mapping[str, str]
ENDED: Final = ("Succeeded", "Failed")
SUCCEEDED: Final = "Succeeded"


class Family(StrEnum):
    """Whose kind of PodGroup."""

    T9K = "scheduler.tensorstack.dev"
    KUBE_BATCH = "scheduling.incubator.k8s.io"


class GroupKey(msgspec.Struct, frozen=True, order=True):
    """Which PodGroup."""

    namespace: str
    name: str
    family: Family = Family.T9K

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Owner(msgspec.Struct, frozen=True):
    """The controller of a pod or group."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A pod as far as placing it goes."""

    uid: str
    namespace: str
    name: str
    spec: Mapping[str, Any]
    # What it asks for, as `requests.requested` adds it up; and why that can't be said.
    asked: Amounts = Amounts()
    puzzle: str = ""
    # Of cpu and memory what a container doesn't ask for, and which one.
    unasked: tuple[tuple[str, str], ...] = ()
    created_at: float = 0.0
    group: GroupKey | None = None
    # Its own; of a pod in a group the group's counts.
    queue: str = DEFAULT_QUEUE
    role: str = ""
    # Of a T9k job, and not something beside them such as its TensorBoard.
    is_replica: bool = False
    owner: Owner = Owner()
    phase: str = "Pending"
    # The node it is bound to; empty: it waits.
    node: str = ""
    is_terminating: bool = False
    # Room is being made for it.
    is_nominated: bool = False
    # Why it waits, as it was told last.
    told: str = ""
    # The devices it holds already.
    devices: tuple[int, ...] = ()

    @property
    def has_ended(self) -> bool:
        return self.phase in ENDED

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What there is, and whether requests beyond it are cut down."""

    name: str
    capacity: Amounts
    labels: Labels = {}
    taints: tuple[Taint, ...] = ()
    is_cordoned: bool = False
    is_relaxed: bool = False


class QueueFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A queue as it stands."""

    name: str
    priority: int = 0
    # Of the resources that it names; None: no limit.
    quota: Amounts | None = None
    is_preemptible: bool = True
    is_closed: bool = False
    max_seconds: float | None = None
    # Label selectors as the object has them; None: all.
    namespaces: Mapping[str, Any] | None = None
    nodes: Mapping[str, Any] | None = None
    status: QueueStatus | None = None


class GroupFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A PodGroup as it stands."""

    key: GroupKey
    uid: str = ""
    queue: str = DEFAULT_QUEUE
    # None: that of its pods.
    priority: int | None = 0
    needed: int = 1
    roles: tuple[tuple[str, int], ...] = ()
    created_at: float = 0.0
    owner: Owner = Owner()
    status: PodGroupStatus | None = None


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All of it, at one moment."""

    machine: Machine
    queues: tuple[QueueFacts, ...] = ()
    groups: tuple[GroupFacts, ...] = ()
    pods: tuple[Candidate, ...] = ()
    # The labels of each namespace.
    namespaces: Mapping[str, Labels] = {}
    now: float = 0.0
    # What tells this look from others, in conditions that change by it.
    cycle: str = ""
    may_preempt: bool = True
