"""Queues, gangs, order, reservation and preemption, as tables over the pure scheduler."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from jobyard.api.parts.status import Truth
from jobyard.api.podgroup import (
    GroupCondition,
    GroupConditionType,
    PodGroupStatus,
)
from jobyard.schedule.amounts import Amounts, quantity_text
from jobyard.schedule.deciding import decide
from jobyard.schedule.decision import Decision
from jobyard.schedule.duration import seconds_of_duration
from jobyard.schedule.reasons import Reason
from jobyard.schedule.requests import requested, without_requests
from jobyard.schedule.selecting import selects
from jobyard.schedule.snapshot import (
    Candidate,
    GroupFacts,
    GroupKey,
    Machine,
    Owner,
    QueueFacts,
    Snapshot,
)
from schedule.stories.world import NODE, spec_of

replace = msgspec.structs.replace
STARTED = PodGroupStatus(
    conditions=(GroupCondition(type=GroupConditionType.SCHEDULED, status=Truth.TRUE),)
)


def machine(**amounts: Any) -> Machine:
    return Machine(name=NODE, capacity=Amounts.of({"pods": 100, **amounts}))


def queue(name: str, priority: int = 0, **quota: Any) -> QueueFacts:
    return QueueFacts(name=name, priority=priority, quota=Amounts.of(quota) if quota else None)


def pod(name: str, queue: str = "default", *, here: bool = False, **more: Any) -> Candidate:
    """A pod by itself; what isn't a field of it is what it asks for."""
    fields = {key: more.pop(key) for key in tuple(more) if key in Candidate.__struct_fields__}
    priority = more.pop("priority", 0)
    spec = {**spec_of(more), "priority": priority}
    seen = Candidate(
        uid=name,
        namespace="work",
        name=name,
        spec=spec,
        asked=requested(spec),
        unasked=without_requests(spec),
        queue=queue,
        node=NODE if here else "",
        phase="Running" if here else "Pending",
    )
    return replace(seen, **fields)


def gang(
    name: str, needed: int, pods: int, queue: str = "default", *, here: int = 0, **more: Any
) -> tuple[GroupFacts, list[Candidate]]:
    """A group, and its pods: the first `here` run."""
    fields = {key: more.pop(key) for key in tuple(more) if key in GroupFacts.__struct_fields__}
    key = GroupKey("work", name)
    group = GroupFacts(key=key, uid=name, queue=queue, needed=needed)
    members = [
        pod(f"{name}-{rank}", group=key, role="worker", here=rank < here, **more)
        for rank in range(pods)
    ]
    return replace(group, **fields), members


def decided(
    has: Machine,
    queues: list[QueueFacts],
    pods: list[Candidate],
    groups: list[GroupFacts] | None = None,
    **more: Any,
) -> Decision:
    whole = Snapshot(
        machine=has, queues=tuple(queues), groups=tuple(groups or ()), pods=tuple(pods), **more
    )
    return decide(whole)


def placed(decision: Decision) -> list[str]:
    return [each.pod.name for each in decision.placed]


def evicted(decision: Decision) -> list[str]:
    return sorted(each.pod.name for each in decision.evicted)


def whys(decision: Decision) -> dict[str, str]:
    return {each.pod.name: each.why.reason.value for each in decision.refused}


EXAMPLE = [
    queue("a", 1, cpu=200),
    queue("b", 1, cpu=100),
    queue("c", 2, cpu=50),
    queue("d", 2, cpu=200),
]
THERE = [
    *(pod(name, "a", here=True, cpu=50, priority=5) for name in ("a1", "a2")),
    pod("a3", "a", here=True, cpu=50, priority=1),
    *(pod(name, name[0], here=True, cpu=50) for name in ("b1", "c1", "d1")),
]


@pytest.mark.parametrize(
    ("comes", "goes", "why"),
    [
        ("b2", [], "WaitingForRoom"),
        ("c2", [], "QuotaExceeded"),
        ("d2", ["a3"], "WaitingForPreemption"),
    ],
)
def test_the_documented_example(comes: str, goes: list[str], why: str) -> None:
    found = decided(machine(cpu=300), EXAMPLE, [*THERE, pod(comes, comes[0], cpu=50)])
    assert (placed(found), evicted(found), whys(found)) == ([], goes, {comes: why})


def test_once_the_victim_is_gone_the_preemptor_has_its_room_and_the_victim_waits() -> None:
    left = [each for each in THERE if each.name != "a3"]
    again = pod("a3", "a", cpu=50, priority=1)
    preemptor = pod("d2", "d", cpu=50, is_nominated=True, created_at=9.0)
    found = decided(machine(cpu=300), EXAMPLE, [*left, again, preemptor])
    assert placed(found) == ["d2"]
    assert whys(found) == {"a3": "WaitingForRoom"}


def test_without_preemption_nobody_goes() -> None:
    pods = [*THERE, pod("d2", "d", cpu=50)]
    found = decided(machine(cpu=300), EXAMPLE, pods, may_preempt=False)
    assert (evicted(found), whys(found)) == ([], {"d2": "WaitingForRoom"})


def test_the_fair_order() -> None:
    queues = [queue("a", cpu=6, memory="8Gi"), queue("b", cpu=8, memory="2Gi")]
    there = [
        pod("a1", "a", here=True, cpu=3, memory="5Gi"),
        pod("b1", "b", here=True, cpu=3, memory="1Gi"),
    ]
    comes = [
        pod("a2", "a", cpu=1, memory="1Gi", created_at=1.0),
        pod("b2", "b", cpu=1, memory="1Gi", created_at=2.0),
    ]
    found = decided(machine(cpu=7, memory="20Gi"), queues, [*there, *comes])
    assert placed(found) == ["b2"]
    assert whys(found) == {"a2": "WaitingForRoom"}


def test_a_gang_starts_whole_or_not_at_all() -> None:
    group, pods = gang("g", 3, 3, cpu=2)
    assert placed(decided(machine(cpu=6), [], pods, [group])) == ["g-0", "g-1", "g-2"]
    found = decided(machine(cpu=8), [], [pod("x", here=True, cpu=3), *pods], [group])
    assert placed(found) == []
    assert found.groups[group.key].message == "needs 3 x cpu 2; 5 of 8 are free"


def test_members_beyond_the_least_number_come_as_they_fit() -> None:
    group, pods = gang("g", 2, 5, cpu=2)
    found = decided(machine(cpu=7), [], pods, [group])
    assert placed(found) == ["g-0", "g-1", "g-2"]
    assert whys(found) == {"g-3": "WaitingForRoom", "g-4": "WaitingForRoom"}


def test_members_that_wait_for_what_is_left_keep_no_room_from_others() -> None:
    group, pods = gang("g", 1, 3, here=1, status=STARTED, cpu=4)
    found = decided(machine(cpu=6), [], [*pods, pod("x", cpu=2, created_at=5.0)], [group])
    assert placed(found) == ["x"]


def test_each_role_has_its_least_number() -> None:
    group, pods = gang("g", 2, 3, roles=(("ps", 1), ("worker", 1)), cpu=1)
    found = decided(machine(cpu=8), [], pods, [group])
    assert found.groups[group.key].message == "role ps: 0 of 1"
    pods[2] = replace(pods[2], role="ps")
    assert sorted(placed(decided(machine(cpu=8), [], pods, [group]))) == ["g-0", "g-1", "g-2"]


def test_a_member_that_restarts_goes_before_all_others() -> None:
    group, pods = gang("g", 3, 3, here=2, status=STARTED, cpu=1)
    large, more = gang("large", 4, 4, queue="high", cpu=1)
    found = decided(
        machine(cpu=4), [queue("high", 9)], [*more, *pods], [large, group], may_preempt=False
    )
    assert placed(found) == ["g-2"]


def test_a_gang_of_which_nothing_is_left_starts_whole_again() -> None:
    group, pods = gang("g", 3, 3, status=STARTED, cpu=2)
    found = decided(machine(cpu=8), [], [pod("x", here=True, cpu=3), *pods], [group])
    assert placed(found) == []
    assert found.groups[group.key].reason is Reason.WAITING_FOR_ROOM
    (scheduled,) = (
        each
        for each in found.group_statuses[group.key].conditions
        if each.type is GroupConditionType.SCHEDULED
    )
    assert scheduled.status is Truth.TRUE, "that never goes back"
    assert scheduled.reason == "WaitingForRoom"


def test_one_whose_peers_are_gone_for_good_waits_for_them_only_for_a_while() -> None:
    group, pods = gang("g", 3, 1, status=STARTED, cpu=2)
    found = decided(machine(cpu=8), [], pods, [group], now=1.0)
    assert whys(found) == {"g-0": "NotEnoughMembers"}
    assert found.look_again_at is not None
    assert placed(decided(machine(cpu=8), [], pods, [group], now=found.look_again_at)) == ["g-0"]


def test_small_ones_do_not_delay_a_large_one_but_who_needs_none_of_it_passes() -> None:
    group, pods = gang("large", 4, 4, cpu=2)
    small = [pod(f"s{n}", cpu=1, memory="1Gi", created_at=9.0) for n in range(3)]
    other = pod("other", memory="1Gi", created_at=9.0)
    there = [pod("x", here=True, cpu=4)]
    found = decided(machine(cpu=8, memory="9Gi"), [], [*there, *pods, *small, other], [group])
    assert placed(found) == ["other"]
    assert {whys(found)[f"s{n}"] for n in range(3)} == {"Reserved"}


def test_small_ones_do_not_use_up_the_quota_that_a_large_one_waits_for() -> None:
    group, pods = gang("large", 4, 4, queue="a", cpu=2)
    there = pod("x", "a", here=True, cpu=4)
    small = pod("s", "a", cpu=1, created_at=9.0)
    found = decided(machine(cpu=99), [queue("a", cpu=10)], [there, *pods, small], [group])
    assert whys(found)["s"] == "Reserved"
    assert whys(found)["large-0"] == "QuotaExceeded"


def test_spare_members_go_first_and_alone() -> None:
    elastic, members = gang("elastic", 1, 4, here=4, status=STARTED, cpu=2)
    rigid, others = gang("rigid", 2, 2, here=2, status=STARTED, cpu=2)
    comes = pod("top", "high", cpu=4)
    pods, groups = [*members, *others, comes], [elastic, rigid]
    found = decided(machine(cpu=12), [queue("high", 1)], pods, groups)
    assert evicted(found) == ["elastic-2", "elastic-3"]


def test_gangs_go_whole_and_only_if_it_is_enough() -> None:
    rigid, members = gang("rigid", 2, 2, here=2, status=STARTED, cpu=2)
    queues = [queue("high", 1)]
    assert evicted(
        decided(machine(cpu=4), queues, [*members, pod("top", "high", cpu=1)], [rigid])
    ) == ["rigid-0", "rigid-1"]
    kept = replace(queue("safe"), is_preemptible=False)
    there = [*members, pod("x", "safe", here=True, cpu=4)]
    found = decided(machine(cpu=8), [*queues, kept], [*there, pod("top", "high", cpu=5)], [rigid])
    assert evicted(found) == []


def ended(member: Candidate, phase: str = "Failed", *, is_going: bool = False) -> Candidate:
    return replace(member, node=NODE, phase=phase, is_terminating=is_going)


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_those_that_end_because_they_are_sent_away_count_for_nothing(phase: str) -> None:
    """Also with 0: they come anew, and the first of them doesn't start without the others."""
    group, pods = gang("g", 4, 4, status=STARTED, cpu=2)
    pods[1:] = [ended(each, phase, is_going=True) for each in pods[1:]]
    found = decided(machine(cpu=8), [], pods, [group])
    assert (placed(found), whys(found)) == ([], {"g-0": "NotEnoughMembers"})


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_gang_that_starts_anew_beside_members_that_have_ended_starts_whole(phase: str) -> None:
    group, pods = gang("g", 4, 4, status=STARTED, cpu=2)
    pods[3] = ended(pods[3], phase)
    found = decided(machine(cpu=4), [], pods, [group])
    assert (placed(found), set(whys(found).values())) == ([], {"NeverFits"})
    assert placed(decided(machine(cpu=6), [], pods, [group])) == ["g-0", "g-1", "g-2"]


def test_one_that_restarts_after_its_peers_have_failed_runs() -> None:
    group, pods = gang("g", 3, 3, status=STARTED, cpu=2, roles=(("worker", 3),))
    pods[1:] = [ended(each) for each in pods[1:]]
    assert placed(decided(machine(cpu=8), [], pods, [group])) == ["g-0"]


def test_a_member_of_a_whole_gang_whose_peer_is_leaving_has_a_reason_with_words() -> None:
    group, pods = gang("g", 1, 3, status=STARTED, cpu=2)
    pods[0] = ended(pods[0], "Succeeded")
    pods[1] = replace(pods[1], node=NODE, phase="Running", is_terminating=True)
    found = decided(machine(cpu=2), [], pods, [group])
    assert whys(found) == {"g-2": "WaitingForRoom"}
    assert found.refused[0].why.message.startswith("needs cpu 2; 0 of 2 are free")


def test_what_was_started_once_goes_on_in_a_closed_queue_also_after_it_was_sent_away() -> None:
    shut = replace(queue("shut"), is_closed=True)
    group, pods = gang("old", 2, 2, "shut", status=STARTED, cpu=1)
    new, others = gang("new", 2, 2, "shut", cpu=1)
    found = decided(machine(cpu=8), [shut], [*pods, *others], [group, new])
    assert placed(found) == ["old-0", "old-1"]
    assert set(whys(found).values()) == {"QueueClosed"}


def test_pods_of_a_job_of_that_name_before_are_no_members() -> None:
    api = ("batch.tensorstack.dev/v1beta1", "GenericJob", "g")
    group, old = gang("g", 2, 2, here=2, owner=Owner(*api, "new"), cpu=1)
    old = [replace(each, owner=Owner(*api, "old")) for each in old]
    found = decided(machine(cpu=8), [], old, [group])
    (_, scheduled) = found.group_statuses[group.key].conditions
    assert (scheduled.status, scheduled.reason) == (Truth.FALSE, "NotEnoughMembers")


def test_who_asks_for_nothing_does_not_mind_a_quota_that_was_lowered() -> None:
    there = pod("x", "low", here=True, cpu=2)
    free, more = pod("free", "low", cpu=0), pod("more", "low", cpu=1)
    found = decided(machine(cpu=4), [queue("low", cpu=1)], [there, free, more])
    assert (placed(found), whys(found)) == (["free"], {"more": "QuotaExceeded"})
    assert found.refused[0].why.message == "needs cpu 1; 2 of 1 of queue low are used"


def test_nobody_starts_in_room_that_is_on_its_way_to_others_only_to_be_sent_away() -> None:
    leaves = replace(pod("x", here=True, cpu=4, memory="2Gi"), is_terminating=True)
    first = pod("first", "high", cpu=6, created_at=1.0)
    second = pod("second", "high", cpu=2, memory="7Gi", created_at=2.0)
    low = pod("low", memory="2Gi", created_at=3.0)
    has = machine(cpu=8, memory="8Gi")
    found = decided(has, [queue("high", 5)], [leaves, first, second, low])
    assert (placed(found), evicted(found)) == ([], [])
    assert whys(found) == {
        "first": "WaitingForRoom", "second": "WaitingForRoom", "low": "Reserved",
    }  # fmt: skip


def test_a_restart_does_not_take_room_that_is_on_its_way_to_a_higher_queue() -> None:
    """It would be sent away for it, with all of its gang."""
    group, members = gang("g", 2, 2, here=1, status=STARTED, cpu=1)
    leaves = replace(pod("x", here=True, cpu=2), is_terminating=True)
    found = decided(
        machine(cpu=4), [queue("high", 5)], [leaves, *members, pod("top", "high", cpu=3)], [group]
    )
    assert (placed(found), evicted(found)) == ([], [])
    assert whys(found) == {"g-1": "Reserved", "top": "WaitingForRoom"}


def test_many_who_ask_in_vain_for_the_room_of_many_are_answered_at_once() -> None:
    """In proportion to their number: each sums up whom it may send away only once."""
    there = [pod(f"l{n}", here=True, cpu=1) for n in range(400)]
    there += [pod(f"k{n}", "high", here=True, cpu=1) for n in range(600)]
    comes = [pod(f"h{n}", "high", cpu=700) for n in range(400)]
    asked = 0

    def counted(self: Amounts, other: Amounts) -> Amounts:
        nonlocal asked
        asked += 1
        return add(self, other)

    add = Amounts.__add__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Amounts, "__add__", counted)
        found = decided(machine(cpu=1000, pods=9999), [queue("high", 5)], [*there, *comes])
    assert not found.evicted
    assert asked < 20 * len(comes), asked


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("", None), ("0", None), (None, None), ("2h45m", 9900), ("1w", 604800), ("1m500ms", 60.5),
     ("9" * 40 + "y", None)],
)  # fmt: skip
def test_how_long_is_too_long(text: str | None, seconds: float | None) -> None:
    assert seconds_of_duration(text) == seconds


def test_who_is_too_old_goes_and_a_job_is_paused_once() -> None:
    short = replace(queue("short"), max_seconds=10.0)
    job = Owner("batch.tensorstack.dev/v1beta1", "GenericJob", "g", "uid")
    group, members = gang("g", 2, 2, here=2, queue="short", status=STARTED, owner=job, cpu=1)
    members = [replace(each, owner=job, is_replica=True) for each in members]
    plain = pod("plain", "short", here=True, created_at=5.0)
    found = decided(machine(cpu=4), [short], [*members, plain], [group], now=12.0)
    assert [each.job for each in found.paused] == [job]
    assert (found.removed, found.look_again_at) == ((), 15.0)
    later = decided(machine(cpu=4), [short], [plain], now=15.0)
    assert [each.pod.name for each in later.removed] == ["plain"]


@pytest.mark.parametrize(
    ("kind", "is_replica", "goes"),
    [
        ("GenericJob", True, "paused"),
        ("GenericJob", False, "removed"),
        ("BeamJob", True, "removed"),
    ],
)
def test_a_job_without_a_queue_of_its_own_is_paused_too(
    kind: str, is_replica: bool, goes: str
) -> None:
    """It is in the default queue, each pod by itself."""
    job = Owner("batch.tensorstack.dev/v1beta1", kind, "g", "uid")
    old = [pod(f"g-{n}", here=True, owner=job, is_replica=is_replica) for n in range(2)]
    short = replace(queue("default"), max_seconds=10.0)
    found = decided(machine(cpu=4), [short], old, now=12.0)
    gone = {"paused": len(found.paused), "removed": len(found.removed)}
    assert gone == {"paused": 0, "removed": 0, goes: 1 if goes == "paused" else 2}


def test_a_clock_that_was_set_back_lets_nobody_wait_for_hours() -> None:
    group, pods = gang("g", 3, 1, status=STARTED, cpu=2, created_at=5000.0)
    assert placed(decided(machine(cpu=8), [], pods, [group], now=100.0)) == ["g-0"]


@pytest.mark.parametrize(
    ("selector", "holds"),
    [
        (None, True),
        ({}, True),
        ({"matchLabels": {"team": "a"}}, True),
        ({"matchLabels": {"team": "b"}}, False),
        ({"matchExpressions": [{"key": "team", "operator": "In", "values": ["a"]}]}, True),
        ({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}, False),
    ],
)
def test_selectors(selector: Any, holds: bool) -> None:
    assert selects(selector, {"team": "a"}) is holds


def test_what_is_odd_costs_only_itself() -> None:
    group, members = gang("odd", 2**31, 2, priority=10**30, cpu=1)
    huge = pod("huge", cpu="1e3000000")
    unread = pod("unread", puzzle="what is that?")
    none = replace(queue("none"), quota=Amounts.of({"cpu": 0}))
    poor = pod("poor", "none", cpu=1)
    plain = pod("plain", cpu=1)
    pods = [huge, unread, poor, *members, plain]
    found = decided(machine(cpu=4), [none], pods, [group])
    assert placed(found) == ["plain"]
    assert [each.pod.name for each in found.aside] == ["unread"]
    assert whys(found) == {
        "huge": "NeverFits", "poor": "NeverFits",
        "odd-0": "NotEnoughMembers", "odd-1": "NotEnoughMembers",
    }  # fmt: skip


def test_relaxed_a_queue_or_group_that_is_not_there_keeps_nobody_waiting() -> None:
    has = replace(machine(cpu=1), is_relaxed=True)
    lost = replace(pod("lost", cpu=9), group=GroupKey("work", "none"))
    pods = [pod("far", "nowhere", cpu=9), lost]
    found = decided(has, [], pods, now=1.0)
    assert (placed(found), whys(found)) == (["far"], {"lost": "NoSuchGroup"})
    assert found.look_again_at is not None
    assert "lost" in placed(decided(has, [], pods, now=found.look_again_at))


@pytest.mark.parametrize(
    ("name", "amount", "text"),
    [("cpu", "1500m", "1500m"), ("cpu", "50", "50"), ("memory", "3Gi", "3Gi"),
     ("memory", "1500", "1500"),
     ("memory", "1536Mi", "1536Mi"), ("cpu", "1u", "1m"), ("cpu", "1e40", "1" + "0" * 36),
     # More digits than a Decimal divides.
     ("memory", "1234567890123456789012345671e5", "1234567890123456789012345671" + "0" * 5)],
)  # fmt: skip
def test_amounts_in_statuses_are_exact(name: str, amount: str, text: str) -> None:
    assert quantity_text(name, Amounts.of({name: amount})[name]) == text
