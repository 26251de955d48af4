"""Places that groups share, so that no group keeps the others waiting, however much it wants.

A group gets another place only while twice as many are free as it holds. So one group alone has
a third of them, two that are busy have a quarter or more each, and whoever comes next finds some
free, also if what a few others have begun never ends. (Dynamic thresholds, as switches use them
for their buffers.) What is large takes several places at once. Groups that wait get their turns one
after the other.

The queue shares its workers in this way, the performer its requests; a group is a namespace there.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, NamedTuple, Self, TypeVar

G = TypeVar("G", bound=Hashable)


class Places(Generic[G]):
    """A number of places, and who holds how many. Alone, a group gets a third of them."""

    def __init__(self, count: int) -> None:
        assert count >= 1, f"{count} places are none"
        self._free = count
        self._held: Counter[G] = Counter()

    def room_for(self, group: G, wanted: int = 1) -> int:
        """With how many places it can begin what wants so many: none means that it waits.

        Who holds none gets a third of what is free, and doesn't wait for more.
        """
        held = self._held[group]
        if not held:
            return min(wanted, (self._free + 2) // 3)
        return wanted if 2 * (held + wanted - 1) < self._free else 0

    def has_one_for(self, group: G) -> bool:
        return self.room_for(group) > 0

    def take(self, group: G, count: int = 1) -> None:
        assert 1 <= count <= self._free, f"{count} places are taken where {self._free} are free"
        self._free -= count
        self._held[group] += count

    def give_back(self, group: G, count: int = 1) -> None:
        assert self._held[group] >= count, f"{group} gives back what it doesn't hold"
        self._free += count
        self._held[group] -= count
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
        self._waiting: dict[G, deque[_Waiting]] = {}

    def of(self, group: G, wanted: int = 1) -> Slot[G]:
        return Slot(self, group, wanted)

    def take_at_once(self, group: G, wanted: int) -> int:
        """How many it got: none, if it has to wait for its turn."""
        room = 0 if group in self._waiting else self._places.room_for(group, wanted)
        if room:
            self._places.take(group, room)
        return room

    async def take(self, group: G, wanted: int) -> int:
        """How many it got."""
        if room := self.take_at_once(group, wanted):
            return room
        mine = _Waiting(wanted, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(group, deque()).append(mine)
        self._turns.enter(group)
        try:
            return await mine.got
        except asyncio.CancelledError:
            if mine.got.done() and not mine.got.cancelled():
                # It was given to us in the very moment in which nobody wanted it any more.
                self.give_back(group, mine.got.result())
            raise

    def give_back(self, group: G, count: int) -> None:
        self._places.give_back(group, count)
        while self._waiting:
            following = self._turns.next(lambda group: self._room(group) > 0)
            if following is None:
                return
            room, waiting = self._room(following), self._waiting[following]
            first = waiting.popleft()
            if not waiting:
                del self._waiting[following]
                self._turns.leave(following)
            if not first.got.done():
                self._places.take(following, room)
                first.got.set_result(room)

    def _room(self, group: G) -> int:
        return self._places.room_for(group, self._waiting[group][0].wanted)


class _Waiting(NamedTuple):
    wanted: int
    got: asyncio.Future[int]


class Slot(Generic[G]):
    """Some of the places, for the time of an `async with`."""

    def __init__(self, slots: Slots[G], group: G, wanted: int) -> None:
        self._slots = slots
        self._group = group
        self._wanted = wanted
        self._held = 0

    async def __aenter__(self) -> Self:
        self._held = self._slots.take_at_once(self._group, self._wanted)
        if not self._held:
            await self._take()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._give_back()

    async def without(self, wait: Awaitable[None]) -> None:
        """Let others have the places while there is nothing to do but to wait."""
        self._give_back()
        await wait
        await self._take()

    async def _take(self) -> None:
        self._held = await self._slots.take(self._group, self._wanted)

    def _give_back(self) -> None:
        if held := self._held:
            self._held = 0
            self._slots.give_back(self._group, held)
