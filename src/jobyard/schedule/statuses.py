"""The statuses of PodGroups and queues, as what was decided leaves them.

A condition's time and cycle change only when its status does. `GroupScheduled` never goes back: of
a gang that was started and has to start again its reason says what it waits for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from typing import Final

from jobyard.api.parts.status import Truth
from jobyard.api.podgroup import GroupCondition, GroupConditionType, PodGroupStatus
from jobyard.api.queue import (
    QueueCondition,
    QueueConditionType,
    QueuePodGroups,
    QueuePods,
    QueueStatus,
)
from jobyard.schedule.amounts import PODS, Amounts, told
from jobyard.schedule.groups import Gang, was_scheduled
from jobyard.schedule.moments import text_of
from jobyard.schedule.quota import Account
from jobyard.schedule.reasons import Reason, Why
from jobyard.schedule.snapshot import Snapshot

SUFFICIENT: Final = "SufficientMemberPods"
SCHEDULED: Final = "PodGroupScheduled"
PRESSURE: Final = Decimal("0.9")


def group_status(snapshot: Snapshot, gang: Gang, held: Amounts, why: Why | None) -> PodGroupStatus:
    """`gang` with what was placed; `why`: what it waits for to start."""
    assert gang.facts is not None
    before = gang.facts.status or PodGroupStatus()
    there = gang.alive + len(gang.waiting)
    is_there = there >= gang.needed and not (why and why.reason is Reason.NOT_ENOUGH_MEMBERS)
    # What members have been once counts: some of those that have ended may be gone.
    is_scheduled = was_scheduled(gang.facts.status) or (gang.is_whole and why is None)
    is_there = is_there or (is_scheduled and why is None)
    members = f"{there} of {gang.needed} members are there"
    sufficient = GroupCondition(
        type=GroupConditionType.SUFFICIENT_MEMBER,
        status=_truth(is_there),
        reason=SUFFICIENT if is_there else Reason.NOT_ENOUGH_MEMBERS.value,
        message=why.message if why and not is_there else members,
    )
    if why is None and is_scheduled:
        reason, message = SCHEDULED, f"the gang of {gang.needed} has started"
    elif why is None:
        reason, message = Reason.NOT_ENOUGH_MEMBERS.value, members
    else:
        reason, message = why.reason.value, why.message
    scheduled = GroupCondition(
        type=GroupConditionType.SCHEDULED,
        status=_truth(is_scheduled),
        reason=reason,
        message=message,
    )
    counts = Counter(gang.phases)
    return PodGroupStatus(
        conditions=tuple(
            _since(snapshot, each, before.conditions) for each in (sufficient, scheduled)
        ),
        allocated=_quantities(held),
        pending=counts["Pending"],
        running=counts["Running"],
        succeeded=counts["Succeeded"],
        failed=counts["Failed"],
        unknown=counts["Unknown"],
    )


def _since(
    snapshot: Snapshot, now: GroupCondition, before: Iterable[GroupCondition]
) -> GroupCondition:
    last = next((each for each in before if each.type is now.type), None)
    if last is not None and last.status is not now.status:
        last = None
    return GroupCondition(
        type=now.type,
        status=now.status,
        reason=now.reason,
        message=now.message,
        last_transition_time=last.last_transition_time if last else text_of(snapshot.now),
        transition_id=last.transition_id if last else snapshot.cycle,
    )


def queue_status(snapshot: Snapshot, account: Account, gangs: Iterable[Gang]) -> QueueStatus:
    """`gangs`: all that it has, those of one pod too."""
    facts = account.facts
    counts: Counter[str] = Counter()
    groups = 0
    for gang in gangs:
        counts.update(gang.phases)
        # A pod by itself that has ended is no gang any more.
        groups += gang.facts is not None or bool(gang.waiting or gang.here or gang.leaving)
    pressed = _pressed(account)
    now = (
        QueueCondition(
            type=QueueConditionType.CLOSED,
            status=_truth(facts.is_closed),
            reason="QueueClosed" if facts.is_closed else "QueueOpen",
            message="what hasn't started waits" if facts.is_closed else "",
        ),
        QueueCondition(
            type=QueueConditionType.PRESSURE,
            status=_truth(bool(pressed)),
            reason="QuotaNearlyUsed" if pressed else "EnoughRoom",
            message=pressed,
        ),
    )
    before = {each.type: each for each in (facts.status or QueueStatus()).conditions}
    conditions = []
    for each in now:
        last = before.get(each.type)
        since = last.last_transition_time if last and last.status is each.status else None
        conditions.append(
            QueueCondition(
                type=each.type,
                status=each.status,
                reason=each.reason,
                message=each.message,
                last_transition_time=since or text_of(snapshot.now),
            )
        )
    return QueueStatus(
        conditions=tuple(conditions),
        allocated=_quantities(account.used),
        pod_groups=QueuePodGroups(total=groups),
        pods=QueuePods(
            pending=counts["Pending"],
            running=counts["Running"],
            succeeded=counts["Succeeded"],
            failed=counts["Failed"],
            unknown=counts["Unknown"],
        ),
    )


def _pressed(account: Account) -> str:
    """Of which resources more than nine tenths of the quota are used."""
    quota = account.facts.quota or Amounts()
    return "; ".join(
        f"{told(name, account.used[name])} of {told(name, most)} {name} are used"
        for name, most in sorted(quota.by_name.items())
        if account.used[name] > most * PRESSURE
    )


def _quantities(held: Amounts) -> dict[str, str]:
    return {name: text for name, text in held.texts().items() if name != PODS}


def _truth(holds: bool) -> Truth:
    return Truth.TRUE if holds else Truth.FALSE
