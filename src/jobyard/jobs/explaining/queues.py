"""Queues as people look at them: what they use of their quota, and their gangs in order.

Pure: Queue, PodGroup, Pod and Node objects in, values out. The numbers of use are the scheduler's
own, from the queue's status; which gangs run and which wait is counted from the gangs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Final

import msgspec

from jobyard.api.parts.quantity import Quantity, QuantityError
from jobyard.api.parts.scheduling import DEFAULT_QUEUE
from jobyard.jobs.explaining.reading import JSON, Holds, conditions, count, is_set, part, text
from jobyard.jobs.explaining.reasons import Reason, gang_reason, gang_words
from jobyard.jobs.explaining.seen import GROUP_LABEL, QUEUE_LABEL, SeenPod, pod_of
from jobyard.schedule.amounts import told

RUNNING: Final = "Running"
WAITING: Final = "Waiting"
_ASIDE: Final = (
    Reason.NEVER_FITS,
    Reason.REQUEST_MISSING,
    Reason.NAMESPACE_NOT_ALLOWED,
    Reason.NODE_SELECTOR_MISMATCH,
    Reason.NOT_ENOUGH_MEMBERS,
)


class Use(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One resource of a queue; without a quota, the share is of what all nodes have."""

    used: str
    quota: str | None = None
    share: float | None = None


class Gang(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that start together, or one by itself, in a queue."""

    namespace: str
    name: str
    # PodGroup or Pod.
    kind: str
    state: str
    priority: int = 0
    # How many pods have to fit at once, and how many there are.
    needed: int = 1
    running: int = 0
    pending: int = 0
    reason: str = ""
    message: str = ""
    created: str = ""


class QueueView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One queue."""

    name: str
    priority: int
    closed: bool
    preemptible: bool
    max_duration: str = ""
    resources: Mapping[str, Use] = {}
    # The largest of the shares: the lower it is, the sooner the queue's next gang has its turn.
    dominant_share: float | None = None
    running_gangs: int = 0
    waiting_gangs: int = 0
    # By phase, as the scheduler counts them; empty where no scheduler has written a status.
    pods: Mapping[str, int] = {}
    has_status: bool = False
    # Running ones first, then those that wait, in the order in which they get their turn.
    gangs: tuple[Gang, ...] = ()


def queue_views(
    queues: Iterable[JSON], groups: Iterable[JSON], pods: Iterable[JSON], nodes: Iterable[JSON]
) -> list[QueueView]:
    """By priority, then by name; `pods` are those that may be in a queue without a PodGroup."""
    gangs: dict[str, list[Gang]] = {}
    for queue, gang in (*map(_group, groups), *_singles(pods)):
        if gang is not None:
            gangs.setdefault(queue, []).append(gang)
    capacity = _capacity(nodes)
    views = [
        _view(queue, gangs.get(text(queue, "metadata", "name"), ()), capacity) for queue in queues
    ]
    return sorted(views, key=lambda view: (-view.priority, view.name))


def lacks_pods(queues: Iterable[JSON], groups: Sequence[JSON]) -> bool:
    """Whether a queue's own count of gangs has more in it than PodGroups: single pods."""
    counts: dict[str, int] = {}
    for group in groups:
        name = text(group, "spec", "queue") or DEFAULT_QUEUE
        counts[name] = counts.get(name, 0) + 1
    return any(
        (count(queue, "status", "podGroups", "total") or 0)
        > counts.get(text(queue, "metadata", "name"), 0)
        for queue in queues
    )


def _view(queue: JSON, gangs: Sequence[Gang], capacity: Mapping[str, Decimal]) -> QueueView:
    spec, status = part(queue, "spec"), part(queue, "status")
    uses = _uses(
        _amounts(part(status, "allocated")), _amounts(part(spec, "quota", "requests")), capacity
    )
    shares = [use.share for use in uses.values() if use.share is not None]
    return QueueView(
        name=text(queue, "metadata", "name"),
        priority=count(spec, "priority") or 0,
        closed=is_set(spec, "closed"),
        preemptible=spec.get("preemptible") is not False,
        max_duration=text(spec, "maxDuration"),
        resources=uses,
        dominant_share=max(shares, default=None),
        running_gangs=sum(gang.state == RUNNING for gang in gangs),
        waiting_gangs=sum(gang.state == WAITING for gang in gangs),
        pods={name: number for name, number in part(status, "pods").items() if _is_count(number)},
        has_status=bool(status),
        gangs=tuple(sorted(gangs, key=_turn)),
    )


def _is_count(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


def _turn(gang: Gang) -> tuple[bool, bool, int, str, str, str]:
    # What can't start as it is has no place in the line.
    is_aside = gang.reason in _ASIDE
    who = (gang.namespace, gang.name)
    return (gang.state == WAITING, is_aside, -gang.priority, gang.created, *who)


def _group(group: JSON) -> tuple[str, Gang | None]:
    spec, status = part(group, "spec"), part(group, "status")
    queue = text(spec, "queue") or DEFAULT_QUEUE
    running, pending = count(status, "running") or 0, count(status, "pending") or 0
    over = (count(status, "succeeded") or 0) + (count(status, "failed") or 0)
    if over and not running and not pending:
        return queue, None
    holds = conditions(group).get("GroupScheduled")
    # That it has started once never goes back. One of which nothing is left waits again, and its
    # reason tells for what; a paused one, of which there are no pods at all, is in no line.
    waits_again = holds is not None and gang_reason(holds.reason) is not None
    has_started = holds is not None and holds.is_true and not waits_again
    if has_started and not running and not pending:
        return queue, None
    # Members that wait after the start are one by one: the gang itself has its place.
    state = RUNNING if has_started or running else WAITING
    is_told = holds is not None and not has_started
    roles = [count(role, "minMember") or 0 for role in spec.get("roles") or () if role]
    return queue, Gang(
        namespace=text(group, "metadata", "namespace"),
        name=text(group, "metadata", "name"),
        kind="PodGroup",
        state=state,
        priority=count(spec, "priority") or 0,
        needed=max(1, count(spec, "minMember") or 0, sum(roles)),
        running=running,
        pending=pending,
        reason=holds.reason if is_told and holds is not None else "",
        message=holds.message if is_told and holds is not None else "",
        created=text(group, "metadata", "creationTimestamp"),
    )


def _singles(pods: Iterable[JSON]) -> Iterable[tuple[str, Gang]]:
    """Pods that are gangs of one: with a queue's label, or with none at all."""
    for item in pods:
        labels = part(item, "metadata", "labels")
        seen = pod_of(item)
        if seen.group or text(labels, GROUP_LABEL) or seen.facts.has_finished:
            continue
        yield text(labels, QUEUE_LABEL) or DEFAULT_QUEUE, _single(item, seen)


def _single(item: JSON, seen: SeenPod) -> Gang:
    told_why = seen.scheduled or Holds()
    waits = not seen.is_placed
    known, message = gang_words(told_why.reason, told_why.message)
    reason = known.value if known is not None else told_why.reason
    return Gang(
        namespace=text(item, "metadata", "namespace"),
        name=text(item, "metadata", "name"),
        kind="Pod",
        state=WAITING if waits else RUNNING,
        running=0 if waits else 1,
        pending=1 if waits else 0,
        reason=reason if waits else "",
        message=message if waits else "",
        created=text(item, "metadata", "creationTimestamp"),
    )


def _uses(
    used: Mapping[str, Decimal], quota: Mapping[str, Decimal], capacity: Mapping[str, Decimal]
) -> dict[str, Use]:
    return {
        name: Use(
            used=told(name, used.get(name, Decimal(0))),
            quota=told(name, quota[name]) if name in quota else None,
            share=_share(used.get(name, Decimal(0)), quota.get(name, capacity.get(name))),
        )
        for name in sorted({*used, *quota})
    }


def _share(used: Decimal, most: Decimal | None) -> float | None:
    if most is None:
        return None
    if most <= 0:
        return 1.0 if used else 0.0
    return round(float(used / most), 4)


def _capacity(nodes: Iterable[JSON]) -> dict[str, Decimal]:
    total: dict[str, Decimal] = {}
    for node in nodes:
        for name, amount in _amounts(part(node, "status", "allocatable")).items():
            total[name] = total.get(name, Decimal(0)) + amount
    return total


def _amounts(quantities: Mapping[str, object]) -> dict[str, Decimal]:
    read: dict[str, Decimal] = {}
    for name, amount in quantities.items():
        try:
            read[name] = Quantity.of(str(amount)).amount
        except QuantityError:
            continue
    return read
