"""Why a gang waits: its queue, its scheduler's own numbers, and what they mean. Called by `why`."""

from __future__ import annotations

from typing import Final

from jobyard.jobs.explaining.answer import Verdict, sentences
from jobyard.jobs.explaining.reading import conditions, text
from jobyard.jobs.explaining.reasons import Reason, gang_reason
from jobyard.jobs.explaining.replicas import Why
from jobyard.jobs.explaining.seen import Seen
from jobyard.schema.wording import suggestion

# After "it", before what the scheduler says.
_HEADS: Final = {
    Reason.NO_SUCH_QUEUE: "waits for queue {queue}, which doesn't exist",
    Reason.NO_SUCH_GROUP: "waits for its PodGroup, which doesn't exist",
    Reason.NEVER_FITS: "will never fit as it is",
    Reason.REQUEST_MISSING: "is not taken by queue {queue}, since it doesn't say what it needs",
    Reason.NAMESPACE_NOT_ALLOWED: "may not use queue {queue} from namespace {namespace}",
    Reason.NODE_SELECTOR_MISMATCH: "waits for a node that queue {queue} or its pods want",
    Reason.QUEUE_CLOSED: "waits in queue {queue}, which is closed",
    Reason.NOT_ENOUGH_MEMBERS: "waits until enough pods of its gang are there",
    Reason.QUOTA_EXCEEDED: "waits in queue {queue} for a part of the quota",
    Reason.RESERVED: "waits in queue {queue}, since room is reserved for another gang",
    Reason.WAITING_FOR_PREEMPTION: "waits in queue {queue} until those that make room have ended",
    Reason.WAITING_FOR_ROOM: "waits in queue {queue} for room",
}

# What a scheduler says of these names the queue or the group by itself.
_WHOLE: Final = frozenset(
    {
        Reason.NO_SUCH_QUEUE,
        Reason.NO_SUCH_GROUP,
        Reason.REQUEST_MISSING,
        Reason.NAMESPACE_NOT_ALLOWED,
        Reason.NODE_SELECTOR_MISMATCH,
        Reason.QUEUE_CLOSED,
    }
)


def gang_verdict(seen: Seen, found: Why, who: str, names: tuple[str, ...]) -> Verdict:
    """`who` tells of members that wait while others run; empty: the gang waits as a whole."""
    reason, message = _told(seen, found)
    head = _HEADS[reason].format(queue=seen.queue_name or "default", namespace=seen.namespace)
    if message and reason in _WHOLE:
        head = f"waits: {message}"
    elif message:
        head = f"{head}: {message}"
    return Verdict(reason, sentences(who, f"it {head}", _near(seen, reason)), names)


def _told(seen: Seen, found: Why) -> tuple[Reason, str]:
    """The group's own word, if it is still waiting; a group that has started says no more."""
    assert found.reason is not None
    known = group_reason(seen)
    if known is None:
        return found.reason, found.message
    return known, conditions(seen.group)["GroupScheduled"].message or found.message


def group_reason(seen: Seen) -> Reason | None:
    """Why the group as a whole waits, if its scheduler says so in a word of the list."""
    holds = conditions(seen.group).get("GroupScheduled")
    # Also of one that has started once, and of which nothing is left.
    return gang_reason(holds.reason) if holds is not None else None


def _near(seen: Seen, reason: Reason) -> str:
    if reason is not Reason.NO_SUCH_QUEUE or seen.queues is None:
        return ""
    names = [text(queue, "metadata", "name") for queue in seen.queues]
    near = suggestion(seen.queue_name, names).strip(" ()")
    return near or ("" if names else "there are no queues at all")
