"""Who is next: queue priority, then the lower dominant share, then the gang's priority, then age.

Shares change with each gang that is placed, so the line is asked anew for each. Among queues of one
priority those stand first for which others were sent away, so that these can't take the room back;
then members of gangs that have started and lack somebody.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from enum import IntEnum

import msgspec

from jobyard.schedule.groups import Gang
from jobyard.schedule.snapshot import Candidate


class Claim(IntEnum):
    """What an entry of the line asks for, the most urgent first."""

    # A member that a started gang lacks.
    MISSING = 0
    # A gang that hasn't started.
    START = 1
    # A member beyond what its gang needs: it takes what is left, and waits for nothing.
    EXTRA = 2


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One place in the line: pods that are placed together."""

    gang: Gang
    claim: Claim
    pods: tuple[Candidate, ...]
    is_nominated: bool = False

    @property
    def rank(self) -> tuple[int, int, float, str, float, str]:
        """Its place within its queue."""
        gang, first = self.gang, self.pods[0]
        return (
            -1 if self.is_nominated else min(self.claim, Claim.START),
            -gang.priority,
            gang.created_at,
            gang.title,
            first.created_at,
            first.uid,
        )


Key = tuple[int, int, Decimal, int, float, str]


class Line:
    """The entries of all queues; `share` and `priority` of a queue are asked when they count."""

    def __init__(
        self,
        entries: Iterable[Entry],
        priority: Callable[[str], int],
        share: Callable[[str], Decimal],
    ) -> None:
        self._priority = priority
        self._share = share
        self._queues: dict[str, deque[Entry]] = {}
        for entry in sorted(entries, key=lambda entry: entry.rank):
            self._queues.setdefault(entry.gang.queue, deque()).append(entry)
        self._heap: list[tuple[Key, str]] = []
        for name in self._queues:
            self._push(name)

    def __iter__(self) -> Iterator[Entry]:
        while self._heap:
            _, name = heapq.heappop(self._heap)
            entry = self._queues[name].popleft()
            yield entry
            # Only now: what became of it may have changed its queue's share.
            self._push(name)

    def next_in_queue(self, entries: Iterable[Entry]) -> None:
        """Puts more of the gang that was just placed behind it."""
        for entry in reversed(tuple(entries)):
            self._queues[entry.gang.queue].appendleft(entry)

    def _push(self, name: str) -> None:
        waiting = self._queues[name]
        if not waiting:
            return
        entry = waiting[0]
        level, priority, *_ = entry.rank
        gang = entry.gang
        key = (
            -self._priority(name),
            level,
            self._share(name),
            priority,
            gang.created_at,
            gang.title,
        )
        heapq.heappush(self._heap, (key, name))
