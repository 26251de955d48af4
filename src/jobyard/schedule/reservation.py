"""The machine's room in one look: what is free, what is about to be, and for whom it is kept.

Room is kept for the first gang in line that fits the machine and doesn't fit now, and for those for
which others were sent away. Whoever comes later may have only what those don't need: of a resource
of which they lack something that is nothing at all, so that small jobs can't delay a large one.
A member that a started gang lacks doesn't delay who waits for that gang to end; only what was
promised to those for which others go is kept from it, too.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from jobyard.schedule.amounts import GPU, Amounts, told
from jobyard.schedule.snapshot import Candidate, Machine

NO_MORE: Final = Amounts()


class Room(msgspec.Struct, kw_only=True):
    """Changed while the look goes on. A relaxed machine has room for everybody."""

    machine: Machine
    free: Amounts
    # What pods hold that are being stopped.
    coming: Amounts = Amounts()
    reserved: Amounts = Amounts()
    # Of that what others go for.
    promised: Amounts = Amounts()
    holder: str = ""
    devices: list[int] = []

    def has_for(self, need: Amounts, *, is_missing: bool = False) -> bool:
        """Whether it fits now, without touching what is kept from it."""
        kept = self.promised if is_missing else self.reserved
        return self.machine.is_relaxed or need.fits((self.free - kept).or_nothing())

    def will_have_for(
        self, need: Amounts, more: Amounts = NO_MORE, *, is_missing: bool = False
    ) -> bool:
        """The same, once those that are being stopped are gone, and `more` with them."""
        kept = self.promised if is_missing else self.reserved
        return need.fits((self.free + self.coming + more - kept).or_nothing())

    def reserve(self, need: Amounts, holder: str, *, is_promised: bool = False) -> None:
        self.reserved = self.reserved + need
        self.holder = self.holder or holder
        if is_promised:
            self.promised = self.promised + need

    def take(self, pod: Candidate, share: Amounts) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """Gives the pod its room: the devices it gets, and what it doesn't of what it asks for."""
        count = math.trunc(pod.asked[GPU])
        devices = tuple(self.devices[:count])
        del self.devices[: len(devices)]
        self.free = self.free - share
        return devices, self._cuts(pod.asked, len(devices)) if self.machine.is_relaxed else ()

    def _cuts(self, asked: Amounts, devices: int) -> tuple[str, ...]:
        has = self.machine.capacity
        return tuple(
            f"{name}: asks for {told(name, asked[name])}, gets "
            f"{devices if name == GPU else told(name, has[name])}"
            for name in sorted(asked.by_name)
            if asked[name] > (devices if name == GPU else has[name])
        )
