"""The controller's cache, queue and sender, each alone."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from typing import Any
from weakref import WeakSet

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobyard.client.request import PODS, Answer, Request, create
from jobyard.client.sender import Sender
from jobyard.controller import lookups
from jobyard.controller.creating import FIRST_BATCH
from jobyard.controller.fairness import Places, Slots
from jobyard.controller.performing import PARALLEL_MAX, SLOTS, Performer, as_it_is
from jobyard.controller.queue import RETRY_MAX_SECONDS, RETRY_SECONDS, ClosedError, WorkQueue
from jobyard.controller.records import JobKey
from jobyard.controller.shelf import Shelf


class Thing(msgspec.Struct, frozen=True):
    """The least that a shelf takes."""

    name: str
    version: str
    uid: str = "u1"
    job_uid: str = "job"
    namespace: str = "default"


def shelf_with(*things: Thing, version: str = "10") -> Shelf[Thing]:
    shelf = Shelf[Thing](lambda _: None)
    shelf.replaced(things, version)
    return shelf


def names(shelf: Shelf[Thing]) -> list[str]:
    return sorted(thing.name for thing in shelf)


# kuberay 715: two pods for one rank, made from a stale cache
def test_what_was_just_made_is_known_before_the_watch_tells_of_it() -> None:
    shelf = shelf_with()
    shelf.absorb(Thing("a", "11"))
    assert names(shelf) == ["a"]
    assert [thing.name for thing in shelf.of_job("job")] == ["a"]


# kubeflow trainer 1306: an expectation that never clears
def test_what_the_watch_does_not_confirm_is_dropped_once_it_has_passed() -> None:
    shelf = shelf_with()
    shelf.absorb(Thing("a", "11"))
    shelf.reached("12")
    assert names(shelf) == []


def test_news_of_the_very_version_that_was_answered_confirm_it_unread() -> None:
    told: list[str] = []
    shelf = Shelf[Thing](lambda thing: told.append(thing.version))
    shelf.replaced([], "10")
    shelf.absorb(Thing("a", "11"))
    assert not shelf.confirmed("default", "a", "12")
    assert not shelf.confirmed("default", "b", "11")
    assert shelf.confirmed("default", "a", "11")
    shelf.reached("20")
    assert names(shelf) == ["a"]
    assert told == ["11"]
    # As far as that the watch has come, so an older answer is one that comes late.
    shelf.absorb(Thing("late", "11"))
    assert names(shelf) == ["a"]


def test_an_answer_that_comes_after_its_deletion_leaves_no_ghost() -> None:
    shelf = shelf_with()
    shelf.changed(Thing("a", "11"))
    shelf.removed(Thing("a", "12"))
    shelf.absorb(Thing("a", "11"))
    assert names(shelf) == []


def test_a_list_drops_what_is_gone_and_keeps_what_is_newer_than_itself() -> None:
    shelf = shelf_with(Thing("gone", "5"), Thing("stays", "6"))
    shelf.absorb(Thing("new", "21"))
    shelf.replaced([Thing("stays", "6")], "20")
    assert names(shelf) == ["new", "stays"]


def test_an_old_event_does_not_undo_a_newer_answer() -> None:
    shelf = shelf_with(Thing("a", "9"))
    shelf.absorb(Thing("a", "15"))
    shelf.changed(Thing("a", "12"))
    thing = shelf.get(("default", "a"))
    assert thing is not None
    assert thing.version == "15"


def test_whoever_has_lost_a_name_to_another_hears_of_it() -> None:
    """Also if a list tells of both at once: of the one that had it no event will come."""
    told: list[str] = []
    shelf = Shelf[Thing](lambda thing: told.append(thing.job_uid))
    shelf.replaced([Thing("a", "5", uid="old", job_uid="mine")], "10")
    told.clear()
    shelf.replaced([Thing("a", "12", uid="new", job_uid="theirs")], "20")
    assert told == ["mine", "theirs"]
    assert not shelf.of_job("mine")
    assert [thing.uid for thing in shelf.of_job("theirs")] == ["new"]


def test_the_end_of_an_object_spares_the_next_one_of_its_name() -> None:
    shelf = shelf_with(Thing("a", "9", uid="old"))
    shelf.absorb(Thing("a", "15", uid="new"))
    shelf.removed(Thing("a", "14", uid="old"))
    thing = shelf.get(("default", "a"))
    assert thing is not None
    assert thing.uid == "new"


# training-operator v1: listing all pods of the namespace at each reconcile
def test_the_objects_of_a_job_are_found_without_looking_at_others() -> None:
    shelf = shelf_with(*(Thing(f"t{n}", "1", job_uid=f"job-{n % 100}") for n in range(1000)))
    assert len(shelf.of_job("job-7")) == 10
    assert len(shelf.of_job("unknown")) == 0


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def queue_test(act: Callable[[WorkQueue[str], Clock], Coroutine[Any, Any, None]]) -> None:
    async def scene() -> None:
        clock = Clock()
        await act(WorkQueue[str](clock), clock)

    asyncio.run(scene())


async def is_idle(queue: WorkQueue[str]) -> bool:
    """Nothing is due: whoever asks has to wait."""
    try:
        async with asyncio.timeout(0.01):
            await queue.next()
    except TimeoutError:
        return True
    return False


def test_a_key_woken_a_hundred_times_is_looked_at_once() -> None:
    async def act(queue: WorkQueue[str], _: Clock) -> None:
        for _n in range(100):
            queue.wake("a")
        assert queue.depth == 1
        assert await queue.next() == "a"
        assert await is_idle(queue)

    queue_test(act)


def test_a_key_is_never_looked_at_twice_at_the_same_time() -> None:
    async def act(queue: WorkQueue[str], _: Clock) -> None:
        queue.wake("a")
        assert await queue.next() == "a"
        queue.wake("a")
        assert await is_idle(queue)
        queue.done("a")
        assert await queue.next() == "a"

    queue_test(act)


def test_a_key_that_is_woken_while_it_rests_waits_for_the_end_of_the_rest() -> None:
    async def act(queue: WorkQueue[str], clock: Clock) -> None:
        queue.wake("a")
        await queue.next()
        queue.done("a", rest_seconds=5)
        queue.wake("a")
        assert await is_idle(queue)
        clock.now += 5
        assert await queue.next() == "a"

    queue_test(act)


# volcano 1029: dropped silently after N retries
def test_a_key_that_fails_comes_again_ever_later_up_to_a_limit() -> None:
    async def act(queue: WorkQueue[str], clock: Clock) -> None:
        queue.wake("a")
        delay = RETRY_SECONDS
        for _n in range(20):
            assert await queue.next() == "a"
            queue.done("a", has_failed=True)
            clock.now += delay * 0.9
            assert await is_idle(queue)
            clock.now += delay * 0.2
            delay = min(delay * 2, RETRY_MAX_SECONDS)

    queue_test(act)


def test_a_closed_queue_gives_out_nothing() -> None:
    async def act(queue: WorkQueue[str], _: Clock) -> None:
        queue.wake("a")
        queue.close()
        with pytest.raises(ClosedError):
            await queue.next()

    queue_test(act)


# Groups take turns


def grouped(act: Callable[[WorkQueue[str], Clock], Coroutine[Any, Any, None]], places: int) -> None:
    """Keys are `group/name` here."""

    async def scene() -> None:
        clock = Clock()
        queue = WorkQueue[str](clock, group_of=lambda key: key.partition("/")[0], places=places)
        await act(queue, clock)

    asyncio.run(scene())


def test_a_group_with_a_thousand_keys_does_not_delay_another_ones() -> None:
    async def act(queue: WorkQueue[str], clock: Clock) -> None:
        for n in range(1000):
            queue.wake(f"busy/{n}")
        clock.now += 1
        queue.wake("quiet/a")
        queue.wake("quiet/b")
        taken = []
        for _ in range(6):
            key = await queue.next()
            taken.append(key)
            queue.done(key)
        assert taken.index("quiet/a") <= 1
        assert taken.index("quiet/b") <= 3

    grouped(act, 100)


def test_within_a_group_the_key_that_is_due_for_longest_comes_first() -> None:
    async def act(queue: WorkQueue[str], clock: Clock) -> None:
        queue.wake_in("a/late", 2)
        queue.wake_in("a/early", 1)
        queue.wake_in("b/only", 3)
        clock.now += 5
        assert [await queue.next() for _ in range(3)] == ["a/early", "b/only", "a/late"]

    grouped(act, 100)


def test_a_group_never_holds_the_last_place() -> None:
    """However long its passes take, and however many such groups there are."""

    async def act(queue: WorkQueue[str], _: Clock) -> None:
        for n in range(100):
            queue.wake(f"a/{n}")
        held = 0
        while not await is_idle(queue):
            held += 1
        assert held == 6, "a third of eighteen"
        for group in "bcde":
            queue.wake(f"{group}/0")
            assert await queue.next() == f"{group}/0"
        assert await is_idle(queue)

    grouped(act, 18)


def test_a_place_that_is_given_back_goes_to_whoever_waits_for_it() -> None:
    async def act(queue: WorkQueue[str], _: Clock) -> None:
        for n in range(3):
            queue.wake(f"a/{n}")
        assert await queue.next() == "a/0"
        waiting = asyncio.create_task(queue.next())
        await until_it_waits()
        assert not waiting.done()
        queue.done("a/0")
        async with asyncio.timeout(5):
            assert await waiting == "a/1"

    grouped(act, 3)


async def until_it_waits() -> None:
    """Every task that can run has run."""
    for _ in range(10):
        await asyncio.get_running_loop().run_in_executor(None, str)


def test_turns_cost_the_same_however_many_groups_there_are() -> None:
    async def act(queue: WorkQueue[str], clock: Clock) -> None:
        for n in range(20_000):
            queue.wake(f"group-{n}/key")
        clock.now += 1
        seen = set()
        async with asyncio.timeout(20):
            for _ in range(20_000):
                key = await queue.next()
                seen.add(key)
                queue.done(key)
        assert len(seen) == 20_000

    grouped(act, 32)


@given(data=st.data())
@settings(max_examples=60)
def test_a_queue_gives_out_what_a_plain_one_would(data: st.DataObject) -> None:
    """Whatever comes in whichever order: nothing is lost, doubled, or given out too early."""

    async def scene() -> None:
        clock = Clock()
        queue = WorkQueue[str](clock, group_of=lambda key: key[0], places=7)
        due: dict[str, float] = {}
        busy: set[str] = set()
        keys = st.sampled_from(["a1", "a2", "a3", "b1", "b2", "c1"])
        for _ in range(data.draw(st.integers(1, 40))):
            match data.draw(st.sampled_from(["wake", "wake_in", "next", "done", "time"])):
                case "wake":
                    key = data.draw(keys)
                    queue.wake(key)
                    due[key] = min(due.get(key, clock.now), clock.now)
                case "wake_in":
                    key, seconds = data.draw(keys), data.draw(st.sampled_from([0.0, 1.0, 2.0]))
                    queue.wake_in(key, seconds)
                    due[key] = min(due.get(key, clock.now + seconds), clock.now + seconds)
                case "time":
                    clock.now += data.draw(st.sampled_from([0.5, 1.0, 3.0]))
                case "done" if busy:
                    key = data.draw(st.sampled_from(sorted(busy)))
                    busy.remove(key)
                    queue.done(key)
                case "next":
                    counts = Counter(key[0] for key in busy)
                    free = 7 - len(busy)
                    may = {
                        key
                        for key, at in due.items()
                        if at <= clock.now and key not in busy and 2 * counts[key[0]] < free
                    }
                    if not may:
                        assert await is_idle(queue)
                        continue
                    key = await queue.next()
                    assert key in may
                    del due[key]
                    busy.add(key)

    asyncio.run(scene())


def test_slots_of_those_who_give_up_go_to_others() -> None:
    async def scene() -> None:
        slots = Slots[str](3)
        async with slots.of("a"):
            waiting = [asyncio.create_task(slots.take(group, 1)) for group in "abab"]
            await until_it_waits()
            # b found one of the free ones at once; the others wait.
            assert [task.done() for task in waiting] == [False, True, False, False]
            waiting[0].cancel()
            await until_it_waits()
            slots.give_back("b", 1)
            await until_it_waits()
        async with asyncio.timeout(5):
            await asyncio.wait(waiting)
        assert [task.cancelled() for task in waiting] == [True, False, False, False]

    asyncio.run(scene())


@given(data=st.data())
@settings(max_examples=100)
def test_places_are_neither_lost_nor_kept_from_those_who_hold_none(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 48))
    places = Places[str](count)
    held: list[tuple[str, int]] = []
    for _ in range(data.draw(st.integers(1, 60))):
        group, wanted = data.draw(st.sampled_from("abcdef")), data.draw(st.integers(1, 16))
        room = places.room_for(group, wanted)
        free = count - sum(places for _, places in held)
        assert room <= min(wanted, free)
        if free and group not in [name for name, _ in held]:
            assert room >= 1
        if room:
            places.take(group, room)
            held.append((group, room))
        elif held:
            places.give_back(*held.pop(data.draw(st.integers(0, len(held) - 1))))
    for group, taken in held:
        places.give_back(group, taken)
    assert places.room_for("new", count) == (count + 2) // 3


# Requests

KEY = JobKey("GenericJob", "default", "job")


class CountingSender:
    """Answers at once, and counts what is under way."""

    def __init__(self, status: int) -> None:
        self._status = status
        self.sent = 0
        self.most = 0
        self._under_way = 0

    async def send(self, request: Request) -> Answer:
        self.sent += 1
        self._under_way += 1
        self.most = max(self.most, self._under_way)
        # Lets the others begin.
        await asyncio.get_running_loop().run_in_executor(None, str, request)
        self._under_way -= 1
        return Answer(self._status, b"{}")

    async def lines(self, request: Request) -> AsyncGenerator[bytes, None]:
        raise AssertionError(f"{request}: nothing is watched here")
        yield b""

    def chunks(self, request: Request) -> AsyncGenerator[bytes, None]:
        return self.lines(request)


class StuckSender(CountingSender):
    """Never answers in the namespaces that are named; the others at once."""

    def __init__(self, *stuck: str) -> None:
        super().__init__(201)
        self._stuck = stuck

    async def send(self, request: Request) -> Answer:
        if any(f"/namespaces/{namespace}/" in request.path for namespace in self._stuck):
            self.sent += 1
            await asyncio.Event().wait()
        return await super().send(request)


def creates(count: int, namespace: str = "default") -> list[Request]:
    return [create(PODS, namespace, {"metadata": {"name": f"p{n}"}}) for n in range(count)]


def performer(sender: Sender) -> Performer:
    return Performer(sender, lambda key: key.namespace)


# training-operator v1, mpi-operator: serial pod creation
def test_pods_are_made_many_at_a_time() -> None:
    sender = CountingSender(201)

    async def scene() -> None:
        answers = await performer(sender)(KEY, creates(200), as_it_is)
        assert len(answers) == 200
        assert all(answer is not None and answer.is_ok for answer in answers)

    asyncio.run(scene())
    assert sender.sent == 200
    assert FIRST_BATCH < sender.most <= PARALLEL_MAX


def test_of_large_requests_few_are_under_way() -> None:
    """An API server shares its processors among all of them and what others ask."""
    most = {}
    for size in (1000, 100_000, 1_300_000):
        sender = CountingSender(201)
        value = {"metadata": {"name": "p"}, "spec": "x" * size}
        requests = [create(PODS, "default", value) for _ in range(100)]
        answers = asyncio.run(performer(sender)(KEY, requests, as_it_is))
        assert len(answers) == sender.sent == 100
        most[size] = sender.most
    assert most == {1000: PARALLEL_MAX, 100_000: PARALLEL_MAX // 4, 1_300_000: 1}


def test_namespaces_in_which_no_request_ends_hold_up_no_other() -> None:
    stuck = [f"stuck-{n}" for n in range(8)]
    sender = StuckSender(*stuck)

    async def scene() -> None:
        perform = performer(sender)
        passes = [
            asyncio.create_task(
                perform(JobKey("GenericJob", name, "job"), creates(1000, name), as_it_is)
            )
            for name in stuck
            for _ in range(3)
        ]
        await until_it_waits()
        async with asyncio.timeout(10):
            key = JobKey("GenericJob", "quiet", "job")
            answers = await perform(key, creates(50, "quiet"), as_it_is)
        assert all(answer is not None and answer.is_ok for answer in answers)
        for task in passes:
            task.cancel()
        await asyncio.wait(passes)

    asyncio.run(scene())
    assert sender.sent - 50 < SLOTS


def test_jobs_of_one_namespace_make_their_pods_side_by_side() -> None:
    """One that makes thousands goes on, and another one's few don't wait for its end."""

    async def scene() -> None:
        sender = CountingSender(201)
        perform = performer(sender)
        large = asyncio.create_task(perform(KEY, creates(5000), as_it_is))
        await until_it_waits()
        before = sender.sent
        await perform(JobKey("GenericJob", "default", "small"), creates(8), as_it_is)
        assert sender.sent - before < 200
        large.cancel()
        await asyncio.wait([large])

    asyncio.run(scene())


class Refusing(CountingSender):
    """Busy, until it is told otherwise."""

    def __init__(self) -> None:
        super().__init__(201)
        self.is_busy = True
        self.refused = asyncio.Event()

    async def send(self, request: Request) -> Answer:
        if self.is_busy and "/busy/" in request.path:
            self.refused.set()
            return Answer(429, b"{}", 30.0)
        return await super().send(request)


def test_whoever_waits_for_another_try_has_no_slot_meanwhile() -> None:
    async def scene() -> None:
        sender = Refusing()
        perform = performer(sender)
        slow = [
            asyncio.create_task(
                perform(JobKey("GenericJob", "busy", f"job-{n}"), creates(1, "busy"), as_it_is)
            )
            for n in range(SLOTS)
        ]
        await sender.refused.wait()
        await until_it_waits()
        sender.is_busy = False
        async with asyncio.timeout(10):
            await perform(JobKey("GenericJob", "busy", "new"), creates(40, "busy"), as_it_is)
        for task in slow:
            task.cancel()
        await asyncio.wait(slow)

    asyncio.run(scene())


class Counted(Sequence[Request]):
    """Requests that count how often they were built, and how many are held."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.alive: WeakSet[Any] = WeakSet()
        self.most = 0

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: Any) -> Any:
        request = Weighed(method="POST", path="/api/v1/namespaces/default/pods", body=b"{}")
        self.alive.add(request)
        self.most = max(self.most, len(self.alive))
        return request


class Weighed(Request, frozen=True, kw_only=True, weakref=True, eq=False):
    """A request whose end can be seen."""


def test_no_more_requests_are_held_than_there_are_slots() -> None:
    async def scene() -> None:
        requests = Counted(3000)
        taken = await performer(CountingSender(201))(KEY, requests, lambda n, _: n)
        assert taken == [*range(3000)]
        assert requests.most <= SLOTS

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("status", "body", "is_lost"),
    [
        pytest.param(404, {}, True, id="gone"),
        pytest.param(
            200, {"conditions": [{"type": "Ready", "status": "Unknown"}]}, True, id="mute"
        ),
        pytest.param(
            200, {"conditions": [{"type": "Ready", "status": "False"}]}, False, id="in trouble"
        ),
        pytest.param(200, {"conditions": [{"type": "Ready", "status": "True"}]}, False, id="well"),
        pytest.param(200, {}, False, id="new"),
        pytest.param(500, {}, False, id="nobody knows"),
    ],
)
def test_only_a_node_of_which_nothing_is_heard_is_lost(
    status: int, body: dict[str, Any], is_lost: bool
) -> None:
    """On one that says it isn't ready containers may well run: no pod there is removed by force."""
    answer = Answer(status, json.dumps({"status": body}).encode())
    assert lookups.is_lost(answer) is is_lost
