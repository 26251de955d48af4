"""Which job is looked at next: each at most once at a time, however often it was woken.

Wakes coalesce: a job that changes a hundred times while it waits or is looked at gets one
pass. After a pass it rests for a moment that grows with its size, so that a large job costs
passes by time and not by pods. Failed passes come again after a delay that doubles.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

RETRY_SECONDS = 0.05
RETRY_MAX_SECONDS = 30.0


class ClosedError(Exception):
    """The queue gives out no more work."""


class WorkQueue(Generic[K]):
    """Keys, each with the moment from which it may be looked at."""

    def __init__(
        self, clock: Callable[[], float], waited: Callable[[float], None] = lambda _: None
    ) -> None:
        self._clock = clock
        self._waited = waited
        self._heap: list[tuple[float, int, K]] = []
        self._due: dict[K, float] = {}
        # When a key was first woken since its last pass, for the latency.
        self._woken: dict[K, float] = {}
        self._rests_until: dict[K, float] = {}
        self._failures: dict[K, int] = {}
        self._busy: set[K] = set()
        self._count = 0
        self._moved = asyncio.Event()
        self._is_closed = False

    @property
    def depth(self) -> int:
        """Keys that were woken and are not being looked at."""
        return len(self._woken)

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
        while not self._is_closed:
            now = self._clock()
            while self._heap:
                due, _, key = self._heap[0]
                if self._due.get(key) != due or key in self._busy:
                    heapq.heappop(self._heap)
                    continue
                if due > now:
                    break
                heapq.heappop(self._heap)
                del self._due[key]
                self._busy.add(key)
                self._waited(now - self._woken.pop(key, now))
                return key
            await self._until(self._heap[0][0] if self._heap else None)
        raise ClosedError

    def done(self, key: K, *, rest_seconds: float = 0.0, has_failed: bool = False) -> None:
        """A pass is over. What woke the key meanwhile counts from now on."""
        self._busy.discard(key)
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
        heapq.heappush(self._heap, (due, self._count, key))
        self._moved.set()

    async def _until(self, due: float | None) -> None:
        """Until something is planned, or the earliest key is due."""
        self._moved.clear()
        try:
            async with asyncio.timeout(None if due is None else max(0.0, due - self._clock())):
                await self._moved.wait()
        except TimeoutError:
            pass
