"""Amounts of several resources at once, with no arithmetic on bare numbers elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import msgspec

from jobyard.api.parts.quantity import Quantity

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"
GPU: Final = "nvidia.com/gpu"
NOTHING: Final = Decimal(0)
# What somebody has who has anything of what there is nothing of.
BOUNDLESS: Final = Decimal("Infinity")
_GIB: Final = Decimal(2**30)
_MIB: Final = Decimal(2**20)
_BYTES: Final = ((2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki"))
_MILLI: Final = Decimal("0.001")


class Amounts(msgspec.Struct, frozen=True):
    """How much of each resource; what isn't named is none."""

    by_name: Mapping[str, Decimal] = {}

    @classmethod
    def of(cls, quantities: Mapping[str, Any] | None) -> Amounts:
        """Reads a map of quantities as it stands in a pod."""
        read = {name: Quantity.of(text).amount for name, text in (quantities or {}).items()}
        return cls(read)

    def __getitem__(self, name: str) -> Decimal:
        return self.by_name.get(name, NOTHING)

    def __add__(self, other: Amounts) -> Amounts:
        out = dict(self.by_name)
        for name, amount in other.by_name.items():
            out[name] = out[name] + amount if name in out else amount
        return Amounts(out)

    def __sub__(self, other: Amounts) -> Amounts:
        out = dict(self.by_name)
        for name, amount in other.by_name.items():
            out[name] = out.get(name, NOTHING) - amount
        return Amounts(out)

    def at_least(self, other: Amounts) -> Amounts:
        """Of each resource the larger."""
        names = {**self.by_name, **other.by_name}
        return Amounts({name: max(self[name], other[name]) for name in names})

    def or_nothing(self) -> Amounts:
        """The same, but that there is no less than nothing of a resource."""
        return Amounts({name: max(amount, NOTHING) for name, amount in self.by_name.items()})

    def cut_to(self, most: Amounts) -> Amounts:
        """Of each resource no more than there is at all."""
        return Amounts({name: min(amount, most[name]) for name, amount in self.by_name.items()})

    def only(self, names: Iterable[str]) -> Amounts:
        """Only those resources."""
        return Amounts({name: self.by_name[name] for name in names if name in self.by_name})

    def fits(self, room: Amounts) -> bool:
        """Whether there is room for all of it."""
        has = room.by_name
        return all(amount <= has.get(name, NOTHING) for name, amount in self.by_name.items())

    def beyond(self, room: Amounts) -> tuple[str, ...]:
        """The resources of which this is more than there is room for, in order."""
        return tuple(sorted(name for name, amount in self.by_name.items() if amount > room[name]))

    def largest_part(self, limits: Amounts) -> Decimal:
        """The largest, over resources, of what this is of the limit; what has none doesn't count.

        Something of a resource of which there is nothing is more than any part.
        """
        largest = NOTHING
        for name, amount in self.by_name.items():
            limit = limits.by_name.get(name)
            if amount <= 0 or limit is None:
                continue
            largest = max(largest, amount / limit if limit > 0 else BOUNDLESS)
        return largest

    def texts(self) -> dict[str, str]:
        """As quantities in an object."""
        return {
            name: quantity_text(name, amount)
            for name, amount in sorted(self.by_name.items())
            if amount
        }


def total(parts: Iterable[Amounts]) -> Amounts:
    """The sum. Most pods ask for the same as their neighbours, so equal parts are counted first."""
    counts: dict[int, list[Any]] = {}
    for part in parts:
        seen = counts.get(id(part))
        if seen is None:
            # Kept beside its number, which is good for as long as the object is there.
            counts[id(part)] = [part, 1]
        else:
            seen[1] += 1
    out: dict[str, Decimal] = {}
    for part, count in counts.values():
        for name, amount in part.by_name.items():
            out[name] = out.get(name, NOTHING) + (amount * count if count > 1 else amount)
    return Amounts(out)


def kept(amounts: Amounts) -> Amounts:
    """An equal value that is the same object for all who ask for as much."""
    return _kept(tuple(sorted(amounts.by_name.items())))


@lru_cache(maxsize=4096)
def _kept(items: tuple[tuple[str, Decimal], ...]) -> Amounts:
    return Amounts(dict(items))


@lru_cache(maxsize=4096)
def told(name: str, amount: Decimal) -> str:
    """An amount as people write it: `1.5`, `24Gi`, `512Mi`."""
    if _is_bytes(name):
        unit, suffix = (_GIB, "Gi") if abs(amount) >= _GIB else (_MIB, "Mi")
        return f"{_rounded(amount / unit)}{suffix}"
    return _rounded(amount)


def quantity_text(name: str, amount: Decimal) -> str:
    """An amount exactly, as a quantity: `1500m`, `24Gi`, `8`."""
    if amount == amount.to_integral_value():
        # Numbers without end: a Decimal doesn't divide those of more digits than it computes with.
        whole = math.trunc(amount)
        for unit, suffix in _BYTES if _is_bytes(name) else ():
            if whole % unit == 0:
                return f"{whole // unit}{suffix}"
        return str(whole)
    milli = amount / _MILLI
    # Kubernetes rounds up what is finer than its status tells.
    return f"{milli.to_integral_value(rounding='ROUND_CEILING'):f}m"


def _is_bytes(name: str) -> bool:
    return name == MEMORY or name.startswith(("ephemeral-storage", "hugepages-"))


def _rounded(amount: Decimal) -> str:
    text = f"{amount:.1f}"
    return text.removesuffix(".0")
