"""Places that groups share, so that no group keeps the others waiting, however much it wants.

A group gets another place only while twice as many are free as it holds. So one group alone has
a third of them, two that are busy have a quarter or more each, and whoever comes next finds some
free, also if what a few others have begun never ends. (Dynamic thresholds, as switches use them
for their buffers.) Groups that wait get their turns one after the other.

The queue shares its workers in this way, the performer its requests; a group is a namespace there.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, Self, TypeVar

G = TypeVar("G", bound=Hashable)


class Places(Generic[G]):
    """A number of places, and who holds how many. Alone, a group gets a third of them."""

    def __init__(self, count: int) -> None:
        assert count >= 1, f"{count} places are none"
        self._free = count
        self._held: Counter[G] = Counter()

    def has_one_for(self, group: G) -> bool:
        return 2 * self._held[group] < self._free

    def take(self, group: G) -> None:
        assert self._free > 0, "a place is taken that isn't there"
        self._free -= 1
        self._held[group] += 1

    def give_back(self, group: G) -> None:
        assert self._held[group] > 0, f"{group} gives back what it doesn't hold"
        self._free += 1
        self._held[group] -= 1
        if not self._held[group]:
            # Namespaces come and go.
            del self._held[group]


class Turns(Generic[G]):
    """Groups that want something, each once, in the order in which their turns come."""

    def __init__(self) -> None:
        self._ring: OrderedDict[G, None] = OrderedDict()

    def enter(self, group: G) -> None:
        """Behind all others; one that is here already keeps its turn."""
        self._ring.setdefault(group)

    def leave(self, group: G) -> None:
        del self._ring[group]

    def next(self, may: Callable[[G], bool]) -> G | None:
        """The first that may, which has its next turn after all others.

        Those that are passed over hold places, so there are no more of them than places.
        """
        found = next((group for group in self._ring if may(group)), None)
        if found is not None:
            self._ring.move_to_end(found)
        return found


class Slots(Generic[G]):
    """Places that are waited for: `async with slots.of(group)`."""

    def __init__(self, count: int) -> None:
        self._places = Places[G](count)
        self._turns = Turns[G]()
        self._waiting: dict[G, deque[asyncio.Future[None]]] = {}

    def of(self, group: G) -> Slot[G]:
        return Slot(self, group)

    async def take(self, group: G) -> None:
        if group not in self._waiting and self._places.has_one_for(group):
            self._places.take(group)
            return
        mine = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(group, deque()).append(mine)
        self._turns.enter(group)
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                # It was given to us in the very moment in which nobody wanted it any more.
                self.give_back(group)
            raise

    def give_back(self, group: G) -> None:
        self._places.give_back(group)
        while (following := self._turns.next(self._places.has_one_for)) is not None:
            waiting = self._waiting[following]
            future = waiting.popleft()
            if not waiting:
                del self._waiting[following]
                self._turns.leave(following)
            if not future.done():
                self._places.take(following)
                future.set_result(None)


class Slot(Generic[G]):
    """One of the places, for the time of an `async with`."""

    def __init__(self, slots: Slots[G], group: G) -> None:
        self._slots = slots
        self._group = group
        self._is_held = False

    async def __aenter__(self) -> Self:
        await self._take()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._give_back()

    async def without(self, wait: Awaitable[None]) -> None:
        """Let others have the place while there is nothing to do but to wait."""
        self._give_back()
        await wait
        await self._take()

    async def _take(self) -> None:
        await self._slots.take(self._group)
        self._is_held = True

    def _give_back(self) -> None:
        if self._is_held:
            self._is_held = False
            self._slots.give_back(self._group)
