"""Why a pod or a group waits: one closed list, and the sentences with their numbers.

The words go into the PodGroup's condition, the pods' condition, the job's and an event, so they are
the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from jobyard.schedule.amounts import NOTHING, PODS, Amounts, told
from jobyard.schedule.moments import minute_of

_NAMES_SHOWN_MAX: Final = 3
_QUEUES_SHOWN_MAX: Final = 8


class Reason(StrEnum):
    """Why something that could be placed waits."""

    NO_SUCH_QUEUE = "NoSuchQueue"
    NO_SUCH_GROUP = "NoSuchGroup"
    QUEUE_CLOSED = "QueueClosed"
    NAMESPACE_NOT_ALLOWED = "NamespaceNotAllowed"
    NEVER_FITS = "NeverFits"
    REQUEST_MISSING = "RequestMissing"
    NOT_ENOUGH_MEMBERS = "NotEnoughMembers"
    QUOTA_EXCEEDED = "QuotaExceeded"
    WAITING_FOR_ROOM = "WaitingForRoom"
    WAITING_FOR_PREEMPTION = "WaitingForPreemption"
    RESERVED = "Reserved"
    NODE_SELECTOR_MISMATCH = "NodeSelectorMismatch"


class Why(msgspec.Struct, frozen=True, gc=False):
    """A reason, and the same in a sentence with numbers."""

    reason: Reason
    message: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}"


class Ahead(msgspec.Struct, frozen=True, gc=False):
    """Somebody who waits for room before others do."""

    title: str
    since: float


class Wish(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is to be placed at once, as messages tell it."""

    count: int
    need: Amounts
    # What each asks for, where all ask for the same.
    each: Amounts | None
    is_gang: bool


def no_such_group(name: str) -> Why:
    return Why(Reason.NO_SUCH_GROUP, f"PodGroup {name} doesn't exist yet")


def no_such_queue(name: str, known: Iterable[str]) -> Why:
    names = sorted(known)
    shown = ", ".join(names[:_QUEUES_SHOWN_MAX])
    more = f" and {len(names) - _QUEUES_SHOWN_MAX} more" if len(names) > _QUEUES_SHOWN_MAX else ""
    return Why(Reason.NO_SUCH_QUEUE, f"queue {name} doesn't exist; there are {shown}{more}")


def queue_closed(name: str) -> Why:
    return Why(Reason.QUEUE_CLOSED, f"queue {name} is closed to what hasn't started yet")


def namespace_not_allowed(queue: str, namespace: str) -> Why:
    text = f"queue {queue} is not for namespace {namespace}: its namespaceSelector doesn't match"
    return Why(Reason.NAMESPACE_NOT_ALLOWED, text)


def queue_elsewhere(queue: str) -> Why:
    text = f"the nodeSelector of queue {queue} doesn't match this machine's labels"
    return Why(Reason.NODE_SELECTOR_MISMATCH, text)


def not_this_node(text: str) -> Why:
    return Why(Reason.NODE_SELECTOR_MISMATCH, f"0/1 nodes are available: {text}.")


def request_missing(queue: str, container: str, resource: str) -> Why:
    text = (
        f"container {container} requests no {resource}, which the quota of queue {queue} counts:"
        f" give it a request"
    )
    return Why(Reason.REQUEST_MISSING, text)


def not_enough_members(there: int, needed: int, roles: Sequence[tuple[str, int, int]]) -> Why:
    """Of each role that lacks members: its name, how many are there, how many it needs."""
    parts = [f"{there} of {needed} members are there"] if there < needed else []
    parts += [f"role {name}: {has} of {wants}" for name, has, wants in roles]
    return Why(Reason.NOT_ENOUGH_MEMBERS, "; ".join(parts))


def never_fits_machine(wish: Wish, free: Amounts, capacity: Amounts) -> Why:
    lacking = wish.need.beyond(capacity)
    if not wish.is_gang:
        return Why(Reason.NEVER_FITS, _insufficient(wish, lacking, free, capacity))
    parts = [
        f"{_needs(wish, name)}; the machine has {told(name, capacity[name])}" for name in lacking
    ]
    return Why(Reason.NEVER_FITS, "; ".join(parts))


def never_fits_quota(queue: str, wish: Wish, quota: Amounts) -> Why:
    parts = [
        f"{_needs(wish, name)}; the quota of queue {queue} is {told(name, quota[name])}"
        for name in wish.need.only(quota.by_name).beyond(quota)
    ]
    return Why(Reason.NEVER_FITS, "; ".join(parts))


def quota_exceeded(queue: str, wish: Wish, quota: Amounts, used: Amounts) -> Why:
    parts = [
        f"{_needs(wish, name)}; {told(name, used[name])} of {told(name, quota[name])}"
        f" of queue {queue} are used"
        for name in wish.need.only(quota.by_name).beyond((quota - used).or_nothing())
    ]
    return Why(Reason.QUOTA_EXCEEDED, "; ".join(parts))


def quota_reserved(queue: str, holder: str) -> Why:
    return Why(Reason.RESERVED, f"what is left of queue {queue}'s quota is kept for {holder}")


def room_reserved(holder: str, ahead: Sequence[Ahead]) -> Why:
    text = f"the room is kept for {holder}, which is first in line{_line(ahead)}"
    return Why(Reason.RESERVED, text)


def no_room(wish: Wish, free: Amounts, capacity: Amounts, ahead: Sequence[Ahead]) -> Why:
    text = _lacks(wish, free, capacity)
    return Why(Reason.WAITING_FOR_ROOM, f"{text}{_line(ahead)}")


def room_comes(wish: Wish, free: Amounts, capacity: Amounts, leaving: int) -> Why:
    """Of a gang for which others go."""
    pods = "1 pod is" if leaving == 1 else f"{leaving} pods are"
    text = f"{_lacks(wish, free, capacity)}; {pods} going to make room"
    return Why(Reason.WAITING_FOR_PREEMPTION, text)


def _lacks(wish: Wish, free: Amounts, capacity: Amounts) -> str:
    lacking = wish.need.beyond(free)
    if not lacking:
        return f"needs {wish.count} pods' room"
    if wish.is_gang:
        return "; ".join(
            f"{_needs(wish, name)}; {told(name, free.or_nothing()[name])} of"
            f" {told(name, capacity[name])} are free"
            for name in lacking
        )
    return _insufficient(wish, lacking, free, capacity)


def _insufficient(wish: Wish, lacking: Sequence[str], free: Amounts, capacity: Amounts) -> str:
    """Of a pod by itself, in Kubernetes' words."""
    parts = []
    for name in lacking:
        has = capacity[name]
        left = f"{told(name, max(free[name], NOTHING))} of {told(name, has)} free"
        asks = told(name, wish.need[name])
        room = left if has else "the machine has none"
        parts.append(f"1 Insufficient {name} (asks for {asks}, {room})")
    return f"0/1 nodes are available: {', '.join(parts)}."


def _needs(wish: Wish, name: str) -> str:
    if name == PODS:
        return f"needs {wish.count} pods"
    if not wish.is_gang or wish.count == 1:
        return f"needs {name} {told(name, wish.need[name])}"
    if wish.each is not None:
        return f"needs {wish.count} x {name} {told(name, wish.each[name])}"
    return f"needs {name} {told(name, wish.need[name])} for {wish.count} pods"


def _line(ahead: Sequence[Ahead]) -> str:
    if not ahead:
        return ""
    names = [each.title for each in ahead[:_NAMES_SHOWN_MAX]]
    names[0] += f" (since {minute_of(ahead[0].since)})"
    verb = "gang is" if len(ahead) == 1 else "gangs are"
    more = len(ahead) - _NAMES_SHOWN_MAX
    rest = f" and {more} more" if more > 0 else ""
    return f"; {len(ahead)} {verb} ahead: {', '.join(names)}{rest}"
