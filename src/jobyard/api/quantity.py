"""Amounts of resources, as Kubernetes writes them."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import total_ordering

import msgspec

_SUFFIXES = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}
_PARTS = re.compile(r"^([+-]?[0-9.]+)(?:[eE]([+-]?[0-9]+)|([KMGTPE]i|[numkMGTPE]?))$")


@total_ordering
class Quantity(msgspec.Struct, frozen=True):
    """An exact amount."""

    amount: Decimal

    @classmethod
    def of(cls, text: str | int) -> Quantity:
        """Reads what the API server has taken as a quantity."""
        found = _PARTS.match(str(text))
        assert found is not None, text
        digits, exponent, suffix = found.groups()
        if exponent is not None:
            return cls(Decimal(f"{digits}e{exponent}"))
        return cls(Decimal(digits) * _SUFFIXES[suffix])

    def __lt__(self, other: Quantity) -> bool:
        return self.amount < other.amount
