"""Random stories of the scheduler: rules after each decision, and bugs put in on purpose.

A decision is one step. A failure names its seed and step; `JOBYARD_STORY=SEED` plays one alone.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from rig.selection import all_is_asked_for

from jobyard.schedule import gang, groups, looking, preemption, reservation, statuses
from jobyard.schedule.amounts import Amounts
from jobyard.schedule.looking import Look
from jobyard.schedule.order import Entry, Line
from jobyard.schedule.quota import Account
from jobyard.schedule.reservation import Room
from jobyard.schedule.selecting import selects
from schedule.stories.driver import Story, tell
from schedule.stories.rules import BrokenRuleError
from schedule.stories.world import World

STEPS = 1_000_000 if all_is_asked_for() else 6_000
SHARDS = 20 if all_is_asked_for() else 2
STORY_STEPS = 60
# A mutant that no story of these finds is not found.
SEEDS_MAX = 150
Patch = pytest.MonkeyPatch
replace = msgspec.structs.replace


@pytest.mark.long
@pytest.mark.parametrize("shard", range(SHARDS))
def test_each_decision_keeps_the_rules(shard: int) -> None:
    if asked := os.environ.get("JOBYARD_STORY"):
        tell(int(asked), STORY_STEPS)
        return
    dice = random.Random(f"{os.environ['JOBYARD_SEED']}/{shard}")
    steps = 0
    while steps < STEPS // SHARDS:
        steps += tell(dice.getrandbits(30), STORY_STEPS)


@pytest.mark.long
def test_of_two_hundred_gangs_none_starts_in_part_and_none_starves() -> None:
    """Submitted, deleted and restarted at random; the story tells its seed if it fails."""
    story = Story(random.Random(f"{os.environ['JOBYARD_SEED']}/many").getrandbits(30))
    while story.world.submitted < 200:
        story.step()
    story.settle()


def test_the_same_seed_is_the_same_story() -> None:
    worlds = []
    for _ in range(2):
        world = World(3)
        for _ in range(40):
            world.submit()
            world.apply(world.decide())
            world.end_one()
        worlds.append(world)
    assert worlds[0].pods == worlds[1].pods


# Bugs. Each changes one thing that a policy takes care of.


def gangs_start_with_whoever_fits(patch: Patch) -> None:
    patch.setattr(
        looking, "starting", lambda each, barred: (gang.lacked(each, barred)[0][:1], None)
    )


def roles_are_not_counted(patch: Patch) -> None:
    whole = gang.lacked

    def blind(each: Any, barred: Any) -> Any:
        count = max(0, each.needed - each.alive - 1)
        return whole(each, barred)[0][: count or 1], []

    patch.setattr(gang, "lacked", blind)
    patch.setattr(looking, "starting", lambda each, barred: (blind(each, barred)[0], None))


def quotas_are_forgotten(patch: Patch) -> None:
    patch.setattr(Account, "refuses", lambda self, wish: None)


def quotas_are_not_used_up(patch: Patch) -> None:
    patch.setattr(Account, "take", lambda self, need: None)


def room_is_not_used_up(patch: Patch) -> None:
    take = Room.take

    def careless(self: Room, pod: Any, share: Amounts) -> Any:
        return take(self, pod, Amounts())

    patch.setattr(Room, "take", careless)


def nothing_is_reserved(patch: Patch) -> None:
    patch.setattr(Room, "reserve", lambda self, need, holder, **how: None)


def who_leaves_is_gone(patch: Patch) -> None:
    held = Look.held

    def early(self: Look, gangs: Any) -> Amounts:
        staying = [replace(each, leaving=[]) for each in gangs]
        return held(self, staying)

    patch.setattr(Look, "held", early)


def _victims(patch: Patch, change: Callable[[int], int]) -> None:
    whole = preemption.victims

    def other(field: Any, below: int, enough: Any) -> Any:
        return whole(field, change(below), enough)

    patch.setattr(looking, "victims", other)


def equals_are_preempted(patch: Patch) -> None:
    _victims(patch, lambda below: below + 1)


def nobody_is_spared(patch: Patch) -> None:
    units = preemption._units

    def all_of_them(field: Any, queue: str, **how: Any) -> Any:
        return units(field, queue, **how)

    def stubborn(field: Any, below: int, enough: Any) -> Any:
        free = {
            name: replace(each, facts=replace(each.facts, is_preemptible=True))
            for name, each in field.accounts.items()
        }
        return preemption.victims(replace(field, accounts=free), below, enough)

    patch.setattr(preemption, "_units", all_of_them)
    patch.setattr(looking, "victims", stubborn)


def more_go_than_needed(patch: Patch) -> None:
    patch.setattr(preemption, "_needed_ones", lambda chosen, freed, enough: chosen)


def gangs_lose_single_members(patch: Patch) -> None:
    units = preemption._units

    def torn(field: Any, queue: str, *, is_whole: bool) -> Any:
        return [
            replace(each, pods=each.pods[:1]) for each in units(field, queue, is_whole=is_whole)
        ]

    patch.setattr(preemption, "_units", torn)


def some_go_in_vain(patch: Patch) -> None:
    whole = preemption.victims

    def eager(field: Any, below: int, enough: Any) -> Any:
        return whole(field, below, enough) or whole(
            field, below, lambda freed: any(freed.by_name.values())
        )

    patch.setattr(looking, "victims", eager)


def shares_are_not_looked_at(patch: Patch) -> None:
    whole = Line.__init__

    def unfair(self: Line, entries: Any, priority: Any, share: Any) -> None:
        whole(self, entries, priority, lambda name: Amounts()["none"])

    patch.setattr(Line, "__init__", unfair)


def queue_priority_is_upside_down(patch: Patch) -> None:
    whole = Line.__init__

    def reverse(self: Line, entries: Any, priority: Any, share: Any) -> None:
        whole(self, entries, lambda name: -priority(name), share)

    patch.setattr(Line, "__init__", reverse)


def the_younger_go_first(patch: Patch) -> None:
    rank = Entry.rank.fget

    def upside_down(self: Entry) -> Any:
        level, priority, created, *rest = rank(self)  # type: ignore[misc]
        return (level, priority, -created, *rest)

    patch.setattr(Entry, "rank", property(upside_down))


def restarts_wait_for_the_whole_gang(patch: Patch) -> None:
    patch.setattr(groups, "_judge_start", lambda each, now: None)


def closed_queues_take_everybody(patch: Patch) -> None:
    door = Look._at_the_door

    def open_door(self: Look, each: Any, queue: Any) -> Any:
        return door(self, each, replace(queue, is_closed=False))

    patch.setattr(Look, "_at_the_door", open_door)


def every_namespace_may_come(patch: Patch) -> None:
    patch.setattr(looking, "selects", lambda selector, labels: selects(None, labels))


def victims_come_back_first(patch: Patch) -> None:
    rank = Entry.rank.fget

    def forgetful(self: Entry) -> Any:
        return rank(replace(self, is_nominated=False))  # type: ignore[misc]

    patch.setattr(Entry, "rank", property(forgetful))


def some_are_told_nothing(patch: Patch) -> None:
    waits = Look._waits

    def silent(self: Look, entry: Entry, why: Any, **how: Any) -> None:
        if how or entry.gang.facts is None or len(entry.pods) < 3:
            waits(self, entry, why, **how)

    patch.setattr(Look, "_waits", silent)


def statuses_change_all_the_time(patch: Patch) -> None:
    since = statuses._since

    def restless(snapshot: Any, now: Any, before: Any) -> Any:
        return since(snapshot, now, ())

    patch.setattr(statuses, "_since", restless)


def devices_are_given_twice(patch: Patch) -> None:
    take = reservation.Room.take

    def generous(self: Room, pod: Any, share: Amounts) -> Any:
        kept = list(self.devices)
        given = take(self, pod, share)
        self.devices = kept
        return given

    patch.setattr(reservation.Room, "take", generous)


def who_ends_when_it_goes_stays_a_member(patch: Patch) -> None:
    put = groups._put

    def blind(each: Any, pod: Any, machine: str) -> None:
        put(each, replace(pod, is_terminating=pod.is_terminating and not pod.has_ended), machine)

    patch.setattr(groups, "_put", blind)


def one_that_has_ended_lets_the_others_come_one_by_one(patch: Patch) -> None:
    judge = groups._judge_start

    def hasty(each: Any, now: float) -> None:
        judge(each, now)
        if groups.was_scheduled(each.facts.status) and (each.succeeded or each.failed):
            each.has_started = each.has_started or not each.leaving

    patch.setattr(groups, "_judge_start", hasty)


def the_dead_count_for_their_namesakes(patch: Patch) -> None:
    patch.setattr(groups, "_is_of_an_earlier_job", lambda each, pod: False)


MUTANTS = (
    gangs_start_with_whoever_fits, roles_are_not_counted, quotas_are_forgotten,
    quotas_are_not_used_up, room_is_not_used_up, nothing_is_reserved, who_leaves_is_gone,
    equals_are_preempted, nobody_is_spared, more_go_than_needed, gangs_lose_single_members,
    some_go_in_vain, shares_are_not_looked_at, queue_priority_is_upside_down, the_younger_go_first,
    restarts_wait_for_the_whole_gang, closed_queues_take_everybody, every_namespace_may_come,
    victims_come_back_first, some_are_told_nothing, statuses_change_all_the_time,
    devices_are_given_twice, who_ends_when_it_goes_stays_a_member,
    one_that_has_ended_lets_the_others_come_one_by_one, the_dead_count_for_their_namesakes,
)  # fmt: skip


@pytest.mark.parametrize("mutate", MUTANTS, ids=lambda each: each.__name__)
def test_the_stories_find(mutate: Callable[[Patch], None], monkeypatch: Patch) -> None:
    mutate(monkeypatch)
    for seed in range(SEEDS_MAX):
        try:
            tell(seed, STORY_STEPS)
        except BrokenRuleError:
            return
    pytest.fail(f"no story of {SEEDS_MAX} found it")
