"""Objects as the scheduler's watches tell them, and the facts that a decision is made from.

What can't be read here is left out of its watch and reported: an odd queue or group is as good as
none. Of a pod it is kept why, so that it can be told.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from jobyard.api.parts.scheduling import DEFAULT_QUEUE
from jobyard.api.podgroup import GroupCondition, PodGroupSpec, PodGroupStatus
from jobyard.api.queue import QueueSpec, QueueStatus
from jobyard.engine.scheduling.devices import DEVICES
from jobyard.numerals import INT32_MAX, whole_number
from jobyard.plan.lowering.names import REPLICA_TYPE
from jobyard.plan.moments import seconds_of
from jobyard.schedule.amounts import Amounts
from jobyard.schedule.duration import seconds_of_duration
from jobyard.schedule.requests import requested, without_requests
from jobyard.schedule.snapshot import (
    ENDED,
    Candidate,
    Family,
    GroupFacts,
    GroupKey,
    Owner,
    QueueFacts,
)

_PREFIX: Final = "scheduler.tensorstack.dev"
GROUP_LABEL: Final = f"{_PREFIX}/group-name"
QUEUE_LABEL: Final = f"{_PREFIX}/queue"
ROLE_LABEL: Final = f"{_PREFIX}/role"
BATCH_ANNOTATION: Final = "scheduling.k8s.io/group-name"
BATCH_SCHEDULER: Final = "kube-batch"


class _OwnerReference(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    """What is read of an object's metadata."""

    name: str
    uid: str
    namespace: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: Mapping[str, str] | None = None
    annotations: Mapping[str, str] | None = None
    owner_references: tuple[_OwnerReference, ...] = ()

    @property
    def created_at(self) -> float:
        return seconds_of(self.creation_timestamp) if self.creation_timestamp else 0.0

    @property
    def owner(self) -> Owner:
        for each in self.owner_references:
            if each.controller:
                return Owner(each.api_version, each.kind, each.name, each.uid)
        return Owner()


class _PodCondition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""
    message: str | None = None


class _PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = "Pending"
    nominated_node_name: str = ""
    conditions: tuple[_PodCondition, ...] | None = None

    @property
    def told(self) -> str:
        """Why it waits, as it was told last."""
        for each in self.conditions or ():
            if each.type == "PodScheduled" and each.status == "False":
                return each.message or ""
        return ""


class SeenPod(msgspec.Struct, frozen=True):
    """What a placement depends on."""

    metadata: Meta
    spec: dict[str, Any]
    status: _PodStatus = _PodStatus()

    @property
    def is_bound(self) -> bool:
        return bool(self.spec.get("nodeName"))


def candidate_of(seen: SeenPod) -> Candidate:
    meta, labels, notes = seen.metadata, seen.metadata.labels or {}, seen.metadata.annotations or {}
    asked, unasked, puzzle = _asked(seen.spec)
    devices = notes.get(DEVICES, "")
    return Candidate(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        spec=seen.spec,
        asked=asked,
        unasked=unasked,
        puzzle=puzzle,
        created_at=meta.created_at,
        group=_group_of(meta.namespace, labels, notes, seen.spec),
        queue=labels.get(QUEUE_LABEL) or DEFAULT_QUEUE,
        role=labels.get(ROLE_LABEL) or "",
        is_replica=bool(labels.get(REPLICA_TYPE)),
        told=seen.status.told,
        owner=meta.owner,
        phase=seen.status.phase or "Pending",
        node=seen.spec.get("nodeName") or "",
        is_terminating=meta.deletion_timestamp is not None,
        is_nominated=bool(seen.status.nominated_node_name) and seen.status.phase not in ENDED,
        devices=tuple(
            number for n in devices.split(",") if (number := whole_number(n, INT32_MAX)) is not None
        ),
    )


def _asked(spec: Mapping[str, Any]) -> tuple[Amounts, tuple[tuple[str, str], ...], str]:
    """What a pod asks for, and what it should have; or why that can't be said."""
    try:
        return requested(spec), without_requests(spec), ""
    except Exception as problem:
        # It costs this pod its place, and nobody else.
        return Amounts(), (), f"{type(problem).__name__}: {problem}"


def _group_of(
    namespace: str, labels: Mapping[str, str], notes: Mapping[str, str], spec: Mapping[str, Any]
) -> GroupKey | None:
    if name := labels.get(GROUP_LABEL):
        return GroupKey(namespace, name)
    # Others leave the same annotation to Volcano.
    if spec.get("schedulerName") == BATCH_SCHEDULER and (name := notes.get(BATCH_ANNOTATION)):
        return GroupKey(namespace, name, Family.KUBE_BATCH)
    return None


class SeenQueue(msgspec.Struct, frozen=True):
    """A queue, read."""

    metadata: Meta
    spec: QueueSpec
    status: QueueStatus | None = None


def queue_of(seen: SeenQueue) -> QueueFacts:
    spec = seen.spec
    quota = spec.quota.requests if spec.quota is not None else None
    return QueueFacts(
        name=seen.metadata.name,
        priority=spec.priority,
        quota=Amounts.of(quota) if quota else None,
        is_preemptible=spec.preemptible,
        is_closed=spec.closed,
        max_seconds=seconds_of_duration(spec.max_duration),
        namespaces=spec.namespace_selector,
        nodes=spec.node_selector,
        status=seen.status,
    )


class SeenGroup(msgspec.Struct, frozen=True):
    """A PodGroup of T9k's, read."""

    metadata: Meta
    spec: PodGroupSpec
    status: PodGroupStatus | None = None


def group_of(seen: SeenGroup) -> GroupFacts:
    spec, meta = seen.spec, seen.metadata
    return GroupFacts(
        key=GroupKey(meta.namespace, meta.name),
        uid=meta.uid,
        queue=spec.queue or DEFAULT_QUEUE,
        priority=spec.priority,
        needed=spec.needed,
        roles=tuple((role.name, role.min_member) for role in spec.roles),
        created_at=meta.created_at,
        owner=meta.owner,
        status=seen.status,
    )


class _BatchSpec(msgspec.Struct, frozen=True, rename="camel"):
    min_member: int = 1
    queue: str = ""


class _BatchStatus(msgspec.Struct, frozen=True):
    """What we write there ourselves; the kind takes anything."""

    conditions: tuple[GroupCondition, ...] = ()
    allocated: dict[str, str] | None = None
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    unknown: int = 0


class SeenBatchGroup(msgspec.Struct, frozen=True):
    """A PodGroup of kube-batch's, read."""

    metadata: Meta
    spec: _BatchSpec = _BatchSpec()
    status: msgspec.Raw = msgspec.Raw(b"null")


def batch_group_of(seen: SeenBatchGroup) -> GroupFacts:
    meta = seen.metadata
    return GroupFacts(
        key=GroupKey(meta.namespace, meta.name, Family.KUBE_BATCH),
        uid=meta.uid,
        queue=seen.spec.queue or DEFAULT_QUEUE,
        # It names a PriorityClass, whose number its pods have.
        priority=None,
        needed=max(1, seen.spec.min_member),
        created_at=meta.created_at,
        owner=meta.owner,
        status=_batch_status(seen.status),
    )


def _batch_status(raw: msgspec.Raw) -> PodGroupStatus | None:
    try:
        found = msgspec.json.decode(raw, type=_BatchStatus | None)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return msgspec.convert(msgspec.structs.asdict(found), PodGroupStatus) if found else None


class SeenNamespace(msgspec.Struct, frozen=True):
    """A namespace, of which only the labels matter."""

    metadata: Meta


def labels_of(seen: SeenNamespace) -> Mapping[str, str]:
    return seen.metadata.labels or {}
