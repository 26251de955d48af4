"""What has to hold of each decision, computed from the world and not from the scheduler's parts."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import msgspec

from jobyard.schedule.amounts import Amounts, total
from jobyard.schedule.decision import Decision
from jobyard.schedule.reasons import Reason
from jobyard.schedule.snapshot import Candidate, GroupKey, QueueFacts
from schedule.stories.world import NODE, World

# Those that wait for room or quota, and for nothing else.
IN_LINE = {
    Reason.WAITING_FOR_ROOM,
    Reason.WAITING_FOR_PREEMPTION,
    Reason.RESERVED,
    Reason.QUOTA_EXCEEDED,
}


class BrokenRuleError(AssertionError):
    """A rule that didn't hold."""


def hold(is_so: bool, rule: str, **found: object) -> None:
    if not is_so:
        raise BrokenRuleError(f"{rule}: {found}")


def queue_of(world: World, pod: Candidate) -> str:
    if pod.group is not None and world.is_member(pod, pod.group):
        return world.groups[pod.group].queue
    return pod.queue


def held(world: World, queue: str | None = None) -> Amounts:
    return total(
        pod.asked for pod in world.running if queue is None or queue_of(world, pod) == queue
    )


def share(world: World, queue: QueueFacts) -> Decimal:
    quota = queue.quota.by_name if queue.quota else {}
    used = held(world, queue.name)
    limits = {**world.machine.capacity.by_name, **quota}
    parts = [
        used[name] / limit if limit else Decimal("inf")
        for name, limit in limits.items()
        if used[name] and (name != "pods" or name in quota)
    ]
    return max(parts, default=Decimal(0))


def check(before: World, decided: Decision, after: World) -> None:
    """`before`: as it was decided on; `after`: with it done."""
    told = Counter(each.pod.uid for each in (*decided.refused, *decided.aside))
    waiting = {p.uid for p in after.pods.values() if not p.node and not p.has_ended}
    hold(set(told) == waiting, "each that waits has a reason", told=told, waiting=waiting)
    hold(max(told.values(), default=1) == 1, "exactly one", told=told)
    again = after.decide()
    hold(
        not (again.placed or again.evicted or again.group_statuses or again.queue_statuses),
        "a second look changes nothing",
        placed=[str(each.pod) for each in again.placed],
        evicted=[str(each.pod) for each in again.evicted],
        groups=again.group_statuses,
        queues=again.queue_statuses,
    )
    hold({r.pod.uid: r for r in again.refused} == _as_told(decided, again), "nor what is told")
    _check_sums(before, decided, after)
    _check_gangs(before, decided, after)
    _check_doors(before, decided)
    _check_evictions(before, decided)
    _check_line(before, decided, after)


def _as_told(decided: Decision, again: Decision) -> dict[str, object]:
    pods = {each.pod.uid: each.pod for each in again.refused}
    return {
        each.pod.uid: msgspec.structs.replace(each, pod=pods[each.pod.uid])
        for each in decided.refused
        if each.pod.uid in pods
    }


def _check_sums(before: World, decided: Decision, after: World) -> None:
    if decided.placed:
        used = held(after)
        hold(used.fits(after.machine.capacity), "never more than the machine", used=used)
        devices = [device for pod in after.running for device in pod.devices]
        hold(len(devices) == len(set(devices)), "no device twice", devices=devices)
    for name in {queue_of(before, each.pod) for each in decided.placed}:
        quota = before.queues[name].quota or Amounts()
        used = held(after, name).only(quota.by_name)
        hold(used.fits(quota), "no quota is passed", queue=name, used=used, quota=quota)


def _members(world: World, key: GroupKey) -> list[Candidate]:
    return [pod for pod in world.pods.values() if world.is_member(pod, key)]


def _is_known(world: World, key: GroupKey) -> bool:
    """Whether it is written down that the gang has started once."""
    status = world.groups[key].status if key in world.groups else None
    return any(
        each.type.value == "GroupScheduled" and each.status.value == "True"
        for each in (status.conditions if status else ())
    )


def _runs(world: World, key: GroupKey) -> bool:
    return any(
        pod.node and not pod.has_ended and not pod.is_terminating for pod in _members(world, key)
    )


def _has_begun(world: World, key: GroupKey) -> bool:
    """Whether a gang has started, and something of it runs."""
    return _is_known(world, key) and _runs(world, key)


def _stays_away(world: World, key: GroupKey) -> int:
    """How many of a gang that has started once it need not wait for."""
    if not _is_known(world, key):
        return 0
    members = _members(world, key)
    waits = [pod.created_at for pod in members if not pod.node]
    if (
        waits
        and world.now >= max(waits) + 10
        and not any(pod.node and not pod.has_ended for pod in members)
    ):
        return world.groups[key].needed
    return sum(pod.phase == "Failed" and not pod.is_terminating for pod in members)


def _check_gangs(before: World, decided: Decision, after: World) -> None:
    for key in sorted({each.pod.group for each in decided.placed if each.pod.group is not None}):
        if key not in before.groups or (key in before.started and _runs(before, key)):
            continue
        group = after.groups[key]
        there = [
            pod
            for pod in _members(after, key)
            if not pod.is_terminating
            and (pod.phase == "Succeeded" or (pod.node == NODE and not pod.has_ended))
        ]
        away = _stays_away(before, key)
        waits = [pod for pod in _members(after, key) if not pod.node]
        # Who need not wait for all comes with all that are there.
        is_whole = len(there) >= group.needed or (
            len(there) + away >= group.needed and (not waits or away < group.needed)
        )
        hold(is_whole, "no gang starts in part", group=str(key), there=len(there), away=away)
        for role, least in group.roles:
            count = sum(pod.role == role for pod in there)
            hold(count + away >= least, "nor any role of it", group=str(key), role=role)


def _check_doors(before: World, decided: Decision) -> None:
    for each in decided.placed:
        pod, queue = each.pod, before.queues.get(queue_of(before, each.pod))
        hold(queue is not None, "nobody is placed without a queue", pod=str(pod))
        if queue is None or (pod.group is not None and _has_begun(before, pod.group)):
            continue
        is_old = pod.group is not None and _is_known(before, pod.group)
        hold(is_old or not queue.is_closed, "nothing starts in a closed queue", pod=str(pod))
        is_allowed = not queue.namespaces or pod.namespace == "one"
        hold(is_allowed, "only its namespaces use a queue", pod=str(pod))


def _check_evictions(before: World, decided: Decision) -> None:
    by_title: dict[str, str] = {
        **{str(key): group.queue for key, group in before.groups.items()},
        **{str(pod): pod.queue for pod in before.pods.values() if pod.group is None},
    }
    here = {each.pod.uid for each in decided.placed}
    gone: Counter[GroupKey] = Counter()
    for each in decided.evicted:
        winner = before.queues[by_title[each.preemptor]]
        loser = before.queues.get(queue_of(before, each.pod))
        hold(loser is not None and loser.is_preemptible, "only from who may lose", to=str(each.pod))
        assert loser is not None
        hold(loser.priority < winner.priority, "only from lower queues", to=str(each.pod))
        hold(not each.pod.is_terminating, "nobody goes twice", to=str(each.pod))
        hold(each.pod.uid not in here, "nobody comes only to go", to=str(each.pod))
        if each.pod.group is not None and before.is_member(each.pod, each.pod.group):
            gone[each.pod.group] += 1
    for key, count in gone.items():
        there = [p for p in _members(before, key) if p.node and not p.is_terminating]
        placed = sum(each.pod.group == key for each in decided.placed)
        running = [p for p in there if not p.has_ended]
        done = sum(p.phase == "Succeeded" for p in there)
        rest = len(running) + placed - count
        is_spare = rest + done >= before.groups[key].needed
        hold(rest == 0 or is_spare, "whole gangs or spare members", group=str(key), rest=rest)
    _check_few(before, decided)


def _check_few(before: World, decided: Decision) -> None:
    """Without any one of those that go it would not be enough."""
    preemptors = {each.preemptor for each in decided.evicted}
    if len(preemptors) != 1 or decided.placed:
        return
    (title,) = preemptors
    need = total(
        each.pod.asked
        for each in decided.refused
        if each.is_nominated and title in (str(each.pod), str(each.pod.group))
    )
    coming = total(pod.asked for pod in before.running if pod.is_terminating)
    freed = total(each.pod.asked for each in decided.evicted)
    free = before.machine.capacity - held(before) + coming + freed
    hold(need.fits(free.or_nothing()), "nobody goes in vain", need=need, free=free)
    for unit in {each.pod.group or each.pod.uid for each in decided.evicted}:
        part = total(
            each.pod.asked for each in decided.evicted if unit in (each.pod.group, each.pod.uid)
        )
        is_enough = need.fits((free - part).or_nothing())
        # Others that were first in line may have needed it.
        others = any(
            each.why.reason in IN_LINE and title not in (str(each.pod), str(each.pod.group))
            for each in decided.refused
        )
        hold(others or not is_enough, "as few as needed", unit=str(unit), title=title)


def _check_line(before: World, decided: Decision, after: World) -> None:
    """Who is first in line doesn't fit, and nobody of a lower queue took what it lacks."""
    free = after.machine.capacity - held(after)
    line: dict[str, list[Candidate]] = {}
    for each in decided.refused:
        if each.why.reason in IN_LINE:
            line.setdefault(str(each.pod.group or each.pod), []).append(each.pod)
    whys = {each.pod.uid: each.why for each in decided.refused}
    ranked = sorted(line.values(), key=lambda pods: _rank(after, pods))
    for pods in ranked:
        queue = after.queues[queue_of(after, pods[0])]
        need, quota = _need(after, pods), queue.quota or Amounts()
        if need is None:
            continue
        why = whys[pods[0].uid]
        if why.reason is Reason.RESERVED and "quota" in why.message:
            # Somebody else of its queue is before it.
            continue
        if why.reason is Reason.QUOTA_EXCEEDED:
            spare = quota - held(after, queue.name)
            is_free = need.only(quota.by_name).fits(spare)
            hold(not is_free, "nobody waits for a quota that is free", pods=str(pods[0]))
            continue
        hold(not need.fits(free), "the first in line waits for room only", pods=str(pods[0]))
        lacking = need.beyond(free)
        for each in decided.placed:
            other = after.queues[queue_of(after, each.pod)]
            begun = each.pod.group is not None and _has_begun(before, each.pod.group)
            if other.priority < queue.priority and not begun:
                taken = each.pod.asked.only(lacking)
                hold(not any(taken.by_name.values()), "none behind it takes it", by=str(each.pod))
        return


def _rank(world: World, pods: list[Candidate]) -> tuple[object, ...]:
    group = world.groups.get(pods[0].group) if pods[0].group else None
    queue = world.queues[queue_of(world, pods[0])]
    begun = pods[0].group is not None and _has_begun(world, pods[0].group)
    lacks = begun and group is not None and _alive(world, group.key) < group.needed
    nominated = any(pod.is_nominated for pod in pods)
    priority = group.priority or 0 if group else 0
    created = group.created_at if group else pods[0].created_at
    title = str(group.key) if group else str(pods[0])
    level = 0 if nominated else 1 if lacks else 2
    return (-queue.priority, level, share(world, queue), -priority, created, title)


def _alive(world: World, key: GroupKey) -> int:
    return sum(
        pod.phase == "Succeeded" or bool(pod.node and not pod.has_ended)
        for pod in _members(world, key)
        if not pod.is_terminating
    )


def _need(world: World, pods: list[Candidate]) -> Amounts | None:
    """What has to fit at once; None of those that wait only for what is left over."""
    key = pods[0].group
    if key is None:
        return pods[0].asked
    missing = world.groups[key].needed - _alive(world, key)
    if missing <= 0:
        return None
    if _has_begun(world, key):
        return pods[0].asked
    return total(pod.asked for pod in pods[:missing])
