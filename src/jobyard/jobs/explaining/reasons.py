"""Why a job stands as it does: a closed list of words, the most pressing first.

The words of a scheduler for what waits are those it writes, and stand here as they are; the rest
are for what happens before a pod can be placed and after it was. Their order decides which of
several reasons is told first: what only a person can mend, then what waits for others, then what
passes by itself.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Reason(StrEnum):
    """One word for why; `-o json` has it as `reason`."""

    DELETING = "Deleting"
    # Nobody looks after the job.
    NO_CONTROLLER = "NoController"
    NOT_UNDERSTOOD = "NotUnderstood"
    # What keeps a job from its pods.
    BAD_VARIABLE = "BadVariable"
    NAME_TAKEN = "NameTaken"
    INVALID_TEMPLATE = "InvalidTemplate"
    NAMESPACE_QUOTA = "NamespaceQuota"
    # What keeps containers from starting.
    IMAGE_UNAVAILABLE = "ImageUnavailable"
    VOLUME_MISSING = "VolumeMissing"
    CONTAINER_CONFIG = "ContainerConfig"
    NODE_UNREACHABLE = "NodeUnreachable"
    # A scheduler's words for pods that wait.
    NO_SUCH_QUEUE = "NoSuchQueue"
    NO_SUCH_GROUP = "NoSuchGroup"
    NEVER_FITS = "NeverFits"
    REQUEST_MISSING = "RequestMissing"
    NAMESPACE_NOT_ALLOWED = "NamespaceNotAllowed"
    NODE_SELECTOR_MISMATCH = "NodeSelectorMismatch"
    QUEUE_CLOSED = "QueueClosed"
    NOT_ENOUGH_MEMBERS = "NotEnoughMembers"
    QUOTA_EXCEEDED = "QuotaExceeded"
    RESERVED = "Reserved"
    WAITING_FOR_PREEMPTION = "WaitingForPreemption"
    WAITING_FOR_ROOM = "WaitingForRoom"
    # Another scheduler's own words, or nobody's.
    SCHEDULING_GATED = "SchedulingGated"
    UNSCHEDULABLE = "Unschedulable"
    NO_SCHEDULER = "NoScheduler"
    # What passes by itself.
    STALLED = "Stalled"
    RESTART_DELAY = "RestartDelay"
    REPLICA_FAILED = "ReplicaFailed"
    STOPPING = "Stopping"
    INITIALIZING = "Initializing"
    STARTING = "Starting"
    PREPARING = "Preparing"
    PAUSING = "Pausing"
    PAUSED = "Paused"
    # How it should be, and how it ends.
    DEBUG = "Debug"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


_ORDER: Final = {reason: n for n, reason in enumerate(Reason)}
# One of these holds for the whole gang, not for a pod of it.
OF_GANGS: Final = frozenset(
    {
        Reason.NO_SUCH_QUEUE,
        Reason.NO_SUCH_GROUP,
        Reason.NEVER_FITS,
        Reason.REQUEST_MISSING,
        Reason.NAMESPACE_NOT_ALLOWED,
        Reason.NODE_SELECTOR_MISMATCH,
        Reason.QUEUE_CLOSED,
        Reason.NOT_ENOUGH_MEMBERS,
        Reason.QUOTA_EXCEEDED,
        Reason.RESERVED,
        Reason.WAITING_FOR_PREEMPTION,
        Reason.WAITING_FOR_ROOM,
    }
)


def urgency(reason: Reason) -> int:
    """The lower, the sooner it is told."""
    return _ORDER[reason]


def gang_reason(word: str) -> Reason | None:
    """A scheduler's word, if it is of the list."""
    return next((reason for reason in OF_GANGS if reason.value == word), None)


def gang_words(reason: str, message: str) -> tuple[Reason | None, str]:
    """The same of a pod, where the word may stand before the message.

    Kubernetes' own programs look for the reason `Unschedulable` there.
    """
    word, colon, rest = message.partition(": ")
    before = gang_reason(word) if colon else None
    return (before, rest) if before is not None else (gang_reason(reason), message)
