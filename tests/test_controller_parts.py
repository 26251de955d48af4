"""The controller's cache, queue and sender, each alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

import msgspec
import pytest

from jobyard.client.request import PODS, Answer, Request, create
from jobyard.controller.performing import FIRST_BATCH, PARALLEL_MAX, Performer
from jobyard.controller.queue import RETRY_MAX_SECONDS, RETRY_SECONDS, ClosedError, WorkQueue
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


def creates(count: int) -> list[Request]:
    return [create(PODS, "default", {"metadata": {"name": f"p{n}"}}) for n in range(count)]


# training-operator v1, mpi-operator: serial pod creation
def test_pods_are_made_many_at_a_time() -> None:
    sender = CountingSender(201)

    async def scene() -> None:
        answers = await Performer(sender)(creates(200))
        assert all(answer is not None and answer.is_ok for answer in answers)

    asyncio.run(scene())
    assert sender.sent == 200
    assert FIRST_BATCH < sender.most <= PARALLEL_MAX


def test_a_template_that_is_refused_costs_a_few_calls_and_not_thousands() -> None:
    sender = CountingSender(422)

    async def scene() -> None:
        answers = await Performer(sender)(creates(5000))
        assert len(answers) == 5000
        assert answers[FIRST_BATCH:] == [None] * (5000 - FIRST_BATCH)

    asyncio.run(scene())
    assert sender.sent == FIRST_BATCH
