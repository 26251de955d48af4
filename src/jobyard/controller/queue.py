"""Which job is looked at next: each at most once at a time, however often it was woken.

Wakes coalesce: a job that changes a hundred times while it waits or is looked at gets one
pass. After a pass it rests for a moment that grows with its size, so that a large job costs
passes by time and not by pods. Failed passes come again after a delay that doubles.

Groups of keys, such as the jobs of one namespace, take turns (`fairness`); within a group the
key that is due for longest comes first.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from jobyard.controller.fairness import Places, Turns

K = TypeVar("K", bound=Hashable)

RETRY_SECONDS = 0.05
RETRY_MAX_SECONDS = 30.0
# As good as no limit.
PLACES_MAX = 2**31


class ClosedError(Exception):
    """The queue gives out no more work."""


class WorkQueue(Generic[K]):
    """Keys, each with the moment from which it may be looked at."""

    def __init__(
        self,
        clock: Callable[[], float],
        waited: Callable[[float], None] = lambda _: None,
        *,
        group_of: Callable[[K], Hashable] = lambda _: "",
        places: int = PLACES_MAX,
    ) -> None:
        """`places` is how many keys may be looked at at a time, by all groups together."""
        self._clock = clock
        self._waited = waited
        self._group_of = group_of
        self._places = Places[Hashable](places)
        # Planned keys, until they are due; then they stand with others of their group.
        self._coming: list[tuple[float, int, K]] = []
        self._ripe: dict[Hashable, list[tuple[float, int, K]]] = {}
        self._turns = Turns[Hashable]()
        self._due: dict[K, float] = {}
        # When a key was first woken since its last pass, for the latency.
        self._woken: dict[K, float] = {}
        self._rests_until: dict[K, float] = {}
        self._failures: dict[K, int] = {}
        self._busy: set[K] = set()
        self._count = 0
        self._moved = asyncio.Event()
        # Of many who wait for work one looks out for it: all of them would wake for each key.
        self._lookout = asyncio.Lock()
        self._is_closed = False

    @property
    def depth(self) -> int:
        """Keys that were woken and are not being looked at."""
        return len(self._woken)

    @property
    def due_since(self) -> float | None:
        """The moment from which the key that waits for longest could have been looked at."""
        now = self._clock()
        waiting = [heap[0][0] for heap in (*self._ripe.values(), self._coming) if heap]
        return min((due for due in waiting if due <= now), default=None)

    def wake(self, key: K) -> None:
        now = self._clock()
        self._woken.setdefault(key, now)
        self._plan(key, max(now, self._rests_until.get(key, 0.0)))

    def wake_in(self, key: K, seconds: float) -> None:
        """At the latest then; an earlier wake stays."""
        self._plan(key, self._clock() + max(0.0, seconds))

    def close(self) -> None:
        """Whoever waits for work, or asks for it later, gets ClosedError."""
        self._is_closed = True
        self._moved.set()

    async def next(self) -> K:
        async with self._lookout:
            while not self._is_closed:
                now = self._clock()
                self._ripen(now)
                key = self._first()
                if key is not None:
                    self._waited(now - self._woken.pop(key, now))
                    return key
                await self._until(self._coming[0][0] if self._coming else None)
        raise ClosedError

    def _ripen(self, now: float) -> None:
        """Keys that have become due stand in line with those of their group."""
        while self._coming and self._coming[0][0] <= now:
            entry = heapq.heappop(self._coming)
            if not self._is_stale(entry):
                group = self._group_of(entry[2])
                heapq.heappush(self._ripe.setdefault(group, []), entry)
                self._turns.enter(group)

    def _first(self) -> K | None:
        """The key whose turn it is; it is being looked at from now on."""
        while (group := self._turns.next(self._places.has_one_for)) is not None:
            heap = self._ripe[group]
            entry = heapq.heappop(heap)
            if not heap:
                del self._ripe[group]
                self._turns.leave(group)
            if self._is_stale(entry):
                continue
            key = entry[2]
            del self._due[key]
            self._busy.add(key)
            self._places.take(group)
            return key
        return None

    def _is_stale(self, entry: tuple[float, int, K]) -> bool:
        """It was planned anew since, or somebody looks at it now."""
        due, _, key = entry
        return self._due.get(key) != due or key in self._busy

    def done(self, key: K, *, rest_seconds: float = 0.0, has_failed: bool = False) -> None:
        """A pass is over. What woke the key meanwhile counts from now on."""
        self._busy.remove(key)
        self._places.give_back(self._group_of(key))
        # There is a place now for one that had to wait.
        self._moved.set()
        now = self._clock()
        if has_failed:
            failures = self._failures.get(key, 0) + 1
            self._failures[key] = failures
            delay = min(RETRY_SECONDS * 2 ** min(failures - 1, 16), RETRY_MAX_SECONDS)
            self._rests_until[key] = now + min(delay, 1.0)
            self._plan(key, now + delay)
        else:
            self._failures.pop(key, None)
            self._rests_until[key] = now + rest_seconds
        due = self._due.pop(key, None)
        if due is not None:
            # Planned while it was looked at; a wake waits for the end of the rest.
            is_woken = key in self._woken
            self._plan(key, max(due, self._rests_until[key]) if is_woken else due)

    def forget(self, key: K) -> None:
        """A key that is of no use any more; one that is woken later is like new."""
        for kept in (self._rests_until, self._failures):
            kept.pop(key, None)

    def _plan(self, key: K, due: float) -> None:
        if self._due.get(key, float("inf")) <= due:
            return
        self._due[key] = due
        if key not in self._busy:
            self._push(key, due)

    def _push(self, key: K, due: float) -> None:
        self._count += 1
        heapq.heappush(self._coming, (due, self._count, key))
        self._moved.set()

    async def _until(self, due: float | None) -> None:
        """Until something is planned, or the earliest key is due."""
        self._moved.clear()
        try:
            async with asyncio.timeout(None if due is None else max(0.0, due - self._clock())):
                await self._moved.wait()
        except TimeoutError:
            pass
