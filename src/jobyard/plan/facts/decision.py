"""What goes into a decision about a job, and what comes out of it.

`Observed` is a snapshot: the job, its children, what stood in the way the last time. `Plan`
is all that is to be done about it, in the order in which a shell has to do it:

1. make the supporting objects, and try the probes without storing them;
2. write the status, if it differs, on the version of the job that was observed;
3. delete, and make pods: what the status has announced;
4. tell the events.

Whoever carries a plan out stops at the first step that fails and observes anew. The order is
what makes counting safe: a restart is in the status before its pod is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from jobyard.api.parts.value import Value
from jobyard.plan.facts.pod_facts import Pod
from jobyard.plan.lowering.description import JSON, Description


class Obstacle(msgspec.Struct, frozen=True):
    """Why an object could not be made: a word, and a sentence with the API server's own."""

    reason: str
    message: str
    # Whether it may pass without a change of the job: what is forbidden today, for want of a
    # service account or by a policy, may be allowed tomorrow.
    may_pass: bool = False


class PodWarning(msgspec.Struct, frozen=True):
    """What the last Warning event about a pod says."""

    reason: str
    message: str


NAME_TAKEN = "NameTaken"
INVALID_TEMPLATE = "InvalidTemplate"
BAD_VARIABLE = "BadVariable"
# The program raised, or the job can't be read: nothing that the job's own rules would know.
NOT_UNDERSTOOD = "NotUnderstood"
# The namespace is full: nothing about the job has to be put right, and it continues by itself.
QUOTA_EXCEEDED = "QuotaExceeded"
# What can stand in a job's way that is worth an event.
HINDRANCES = (NAME_TAKEN, INVALID_TEMPLATE, QUOTA_EXCEEDED)

# Kind and name of a child; the namespace is the job's.
ChildKey = tuple[str, str]


class Child(msgspec.Struct, frozen=True, kw_only=True):
    """A supporting object that is there and belongs to the job."""

    kind: str
    name: str
    uid: str
    digest: str = ""
    is_terminating: bool = False


class Wanted(msgspec.Struct, frozen=True):
    """A supporting object as it should be. It is built when needed: there can be thousands."""

    digest: str
    build: Callable[[], JSON]


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a decision depends on, besides the time."""

    description: Description
    # Supporting objects, in the order in which they are made.
    wanted: Mapping[ChildKey, Wanted]
    generation: int = 0
    is_deleting: bool = False
    # The status as stored, in the kind's own type.
    status: Value | None = None
    pods: tuple[Pod, ...] = ()
    children: Mapping[ChildKey, Child] = {}
    obstacles: Mapping[ChildKey, Obstacle] = {}
    # The API server would take the job's pods: it was asked.
    is_probed: bool = False
    lost_nodes: frozenset[str] = frozenset()
    # By uid, of pods that were asked about.
    pod_warnings: Mapping[str, PodWarning] = {}
    # The job's page in its cluster's own UI, for the kinds that have one.
    job_url: str = ""


class EventType(StrEnum):
    """Whether an event is something to worry about."""

    NORMAL = "Normal"
    WARNING = "Warning"


class EventReason(StrEnum):
    """What an event is about, in a word to search for; ends and obstacles bring their own."""

    SPEC_ADVICE = "SpecAdvice"
    CREATED_PODS = "CreatedPods"
    STARTED = "Started"
    REPLICA_FAILED = "ReplicaFailed"
    REPLICA_LOST = "ReplicaLost"
    RESTARTING = "Restarting"
    GANG_RECREATED = "GangRecreated"
    PAUSED = "Paused"
    RESUMING = "Resuming"
    SCALED = "Scaled"
    CLEANED_UP = "CleanedUp"
    # Of a kind whose roles, and the whole, are tried again.
    ROLE_SUCCEEDED = "RoleSucceeded"
    ROLE_FAILED = "RoleFailed"
    RETRYING = "Retrying"
    RETRIED = "Retried"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Event(msgspec.Struct, frozen=True):
    """Something a person would want to know, about the job."""

    reason: str
    message: str
    type: EventType = EventType.NORMAL


class Delete(msgspec.Struct, frozen=True, kw_only=True):
    """An object to delete: this one, not another of its name."""

    kind: str
    name: str
    uid: str
    # None leaves it to the object's own.
    grace_seconds: int | None = None
    # Foreground waits for what the object owns; None leaves it to the kind.
    propagation: str | None = None


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done now, in the order of the fields, and when to look again."""

    # Objects are built as they are looked at (`plan.manifests`).
    supporting: Sequence[JSON] = ()
    probes: Sequence[JSON] = ()
    # None: as stored.
    status: Value | None = None
    deletes: tuple[Delete, ...] = ()
    pods: Sequence[JSON] = ()
    events: tuple[Event, ...] = ()
    # Deletes the job itself: its time is over.
    ends_job: bool = False
    # Nodes whose state would help the next decision.
    nodes_to_ask: tuple[str, ...] = ()
    # Uids of pods whose events would tell why they don't start.
    pods_to_ask: tuple[str, ...] = ()
    # Asks the job's cluster for the address of its page.
    asks_for_job_url: bool = False
    look_again_at: float | None = None

    @property
    def is_empty(self) -> bool:
        """Nothing to do but perhaps to look again."""
        idle = msgspec.structs.replace(
            self, look_again_at=None, nodes_to_ask=(), pods_to_ask=(), asks_for_job_url=False
        )
        return idle == Plan()


def earliest(*moments: float | None) -> float | None:
    return min((moment for moment in moments if moment is not None), default=None)


def child_key(manifest: Mapping[str, Any]) -> ChildKey:
    return manifest["kind"], manifest["metadata"]["name"]
