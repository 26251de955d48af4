"""Amounts of several resources at once, with no arithmetic on bare numbers elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

import msgspec

from jobyard.api.parts.quantity import Quantity

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"
GPU: Final = "nvidia.com/gpu"
NOTHING: Final = Decimal(0)
_GIB: Final = Decimal(2**30)
_MIB: Final = Decimal(2**20)


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
        names = {**self.by_name, **other.by_name}
        return Amounts({name: self[name] + other[name] for name in names})

    def __sub__(self, other: Amounts) -> Amounts:
        names = {**self.by_name, **other.by_name}
        return Amounts({name: self[name] - other[name] for name in names})

    def at_least(self, other: Amounts) -> Amounts:
        """Of each resource the larger."""
        names = {**self.by_name, **other.by_name}
        return Amounts({name: max(self[name], other[name]) for name in names})

    def cut_to(self, most: Amounts) -> Amounts:
        """Of each resource no more than there is at all."""
        return Amounts({name: min(amount, most[name]) for name, amount in self.by_name.items()})

    def beyond(self, room: Amounts) -> tuple[str, ...]:
        """The resources of which this is more than there is room for, in order."""
        return tuple(sorted(name for name, amount in self.by_name.items() if amount > room[name]))


def total(parts: Iterable[Amounts]) -> Amounts:
    out = Amounts()
    for part in parts:
        out = out + part
    return out


def told(name: str, amount: Decimal) -> str:
    """An amount as people write it: `1.5`, `24Gi`, `512Mi`."""
    if name == MEMORY or name.startswith(("ephemeral-storage", "hugepages-")):
        unit, suffix = (_GIB, "Gi") if abs(amount) >= _GIB else (_MIB, "Mi")
        return f"{_rounded(amount / unit)}{suffix}"
    return _rounded(amount)


def _rounded(amount: Decimal) -> str:
    text = f"{amount:.1f}"
    return text.removesuffix(".0")
