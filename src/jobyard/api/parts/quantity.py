"""Amounts of resources, as Kubernetes writes them.

A text says how large a number is before it is one: `1e3000000` has ten characters, and to write it
out takes minutes. An API server takes such texts for a pod, so they are read here too, but as no
more than `AMOUNT_MAX`, of which nobody has as much.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache, total_ordering
from typing import Final

import msgspec

from jobyard.numerals import signed_number

_SUFFIXES: Final = {
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
_PARTS: Final = re.compile(
    r"([+-]?)([0-9]*)\.?([0-9]*)(?:[eE]([+-]?[0-9]+)|([KMGTPE]i|[numkMGTPE]?))"
)
# More than 10 to the 30th: beyond what any suffix makes of 18 digits, and soon computed with.
_WHOLE_DIGITS_MAX: Final = 36
AMOUNT_MAX: Final = Decimal(10**_WHOLE_DIGITS_MAX)
# What is asked for is never rounded away: Kubernetes takes less than that for that.
_LEAST: Final = Decimal("1e-9")
# The point where no suffix makes it more than that.
_ZEROS_MAX: Final = 36
_DIGITS_MAX: Final = 40
# An API server cuts amounts with a binary suffix down to 63 bits.
_BINARY_MAX: Final = Decimal(2**63 - 1)
# Longer ones are no amounts that come again.
_KEPT_LENGTH_MAX: Final = 32


class QuantityError(ValueError):
    """A text that no API server takes for a quantity."""


@total_ordering
class Quantity(msgspec.Struct, frozen=True):
    """An amount; exact, but for those that are beyond all bounds."""

    amount: Decimal

    @classmethod
    def of(cls, text: str | float) -> Quantity:
        """Reads a quantity; raises QuantityError for what an API server doesn't take for one."""
        text = str(text)
        return _kept(text) if len(text) <= _KEPT_LENGTH_MAX else _read(text)

    def __lt__(self, other: Quantity) -> bool:
        return self.amount < other.amount


def _read(text: str) -> Quantity:
    found = _PARTS.fullmatch(text)
    sign, whole, fraction, power, suffix = found.groups("") if found else ("",) * 5
    # The API server takes powers of 64 bits.
    exponent = signed_number(power or "0")
    if not (whole or fraction) or exponent is None:
        shown = text if len(text) <= _KEPT_LENGTH_MAX else f"{text[:_KEPT_LENGTH_MAX]}…"
        raise QuantityError(f'"{shown}" is not a quantity, such as 500m, 2 or 4Gi')
    amount = _bounded(f"{whole}{fraction}", exponent - len(fraction)) * _SUFFIXES[suffix]
    amount = min(amount, _BINARY_MAX if suffix.endswith("i") else AMOUNT_MAX)
    amount = max(amount, _LEAST) if amount else amount
    return Quantity(-amount if sign == "-" else amount)


def _bounded(digits: str, power: int) -> Decimal:
    """The number `digits` times ten to the power, looked at before it is computed."""
    digits = digits.lstrip("0")
    if not digits:
        return Decimal(0)
    # How many of the digits stand before the point; below 0, how many zeros stand after it.
    size = len(digits) + power
    if size > _WHOLE_DIGITS_MAX:
        return AMOUNT_MAX
    size = max(size, -_ZEROS_MAX)
    kept = digits[:_DIGITS_MAX]
    return Decimal(f"{kept}e{size - len(kept)}")


_kept: Final = lru_cache(maxsize=4096)(_read)
