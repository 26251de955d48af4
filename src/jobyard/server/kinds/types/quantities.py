"""Kubernetes' quantities: `500m`, `2`, `4Gi`, as exact numbers and in their one spelling.

The API server stores a quantity in its canonical spelling, whichever one it was sent, and
compares the numbers. Nothing here knows what the quantities are of. A real server also takes
`1e3000000`, and is busy with it for seconds or for minutes; here numbers have an end.
"""

from __future__ import annotations

import math
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import Any

import msgspec
import re2

from jobyard.numerals import digits_value, signed_number

FORMAT_TEXT = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_PARTS = re2.compile(r"^([+-]?)([0-9]*)(?:\.([0-9]*))?([A-Za-z]*)([+-]?[0-9]*)$")
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = {step: suffix for suffix, step in _BINARY.items()} | {0: ""}
_LARGEST = 2**63 - 1
_NANO = 10**9
_CACHED = 4096
DIGITS_MAX = 1000
# So many digits, a sign, a point and a power.
_LENGTH_MAX = DIGITS_MAX + 24


class QuantityError(ValueError):
    """A text that is no quantity; the message is the API server's."""


class Spelling(StrEnum):
    """Which suffixes a quantity was written with, and is written with again."""

    DECIMAL = "DecimalSI"
    BINARY = "BinarySI"
    EXPONENT = "DecimalExponent"


class Quantity(msgspec.Struct, frozen=True):
    """An exact amount and how it is spelled."""

    amount: Fraction
    spelling: Spelling


def parsed(text: str) -> Quantity:
    """Raises QuantityError."""
    if len(text) > _LENGTH_MAX:
        raise _too_long()
    return _parsed(text)


def _too_long() -> QuantityError:
    return QuantityError(f"quantities of more than {DIGITS_MAX} digits are not taken")


@lru_cache(_CACHED)
def _parsed(text: str) -> Quantity:
    parts = _PARTS.search(text)
    if parts is None or not (parts[2] or parts[3]):
        raise QuantityError(FORMAT_TEXT)
    sign, whole, fraction, suffix, power = (parts[n] or "" for n in range(1, 6))
    number = digits_value(f"{whole}{fraction}", 10, 10**DIGITS_MAX)
    if number is None:
        raise _too_long()
    digits = Fraction(number, 10 ** len(fraction))
    if suffix in _BINARY and not power:
        amount, spelling = digits * 1024 ** _BINARY[suffix], Spelling.BINARY
    elif suffix in _DECIMAL and not power:
        amount, spelling = digits * Fraction(10) ** _DECIMAL[suffix], Spelling.DECIMAL
    elif suffix in ("e", "E") and (exponent := signed_number(power)) is not None:
        if exponent > DIGITS_MAX and digits:
            raise _too_long()
        # Below that it is rounded up to a billionth, whatever the digits are.
        exponent = min(max(exponent, -2 * DIGITS_MAX), DIGITS_MAX)
        amount, spelling = digits * Fraction(10) ** exponent, Spelling.EXPONENT
    else:
        raise QuantityError("unable to parse quantity's suffix")
    # What is asked for is never rounded away.
    amount = Fraction(math.ceil(amount * _NANO), _NANO)
    if spelling is Spelling.BINARY:
        amount = min(amount, Fraction(_LARGEST))
    return Quantity(-amount if sign == "-" else amount, spelling)


def spelled(quantity: Quantity) -> str:
    """The canonical spelling."""
    amount = quantity.amount
    if amount == 0:
        return "0"
    if quantity.spelling is Spelling.BINARY and abs(amount) >= 1024 and amount.denominator == 1:
        number, step = amount.numerator, 0
        while step < len(_BINARY) and number % 1024 == 0:
            number, step = number // 1024, step + 1
        return f"{number}{_BINARY_SUFFIX[step]}"
    nanos, exponent = (amount * _NANO).numerator, -9
    while nanos % 1000 == 0 and (exponent < 18 or quantity.spelling is Spelling.EXPONENT):
        nanos, exponent = nanos // 1000, exponent + 3
    if quantity.spelling is Spelling.EXPONENT:
        return f"{nanos}e{exponent}" if exponent else str(nanos)
    return f"{nanos}{_DECIMAL_SUFFIX[exponent]}"


def canonical(value: Any) -> str:
    """The spelling of what stands in JSON, a text or a number. Raises QuantityError."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise QuantityError(FORMAT_TEXT)
    text = value.strip() if isinstance(value, str) else repr(value)
    return spelled(parsed(text))


def rounded_to_milli(text: str) -> str:
    """Amounts of resources know thousandths at the finest, rounded up."""
    quantity = parsed(text)
    amount = Fraction(math.ceil(quantity.amount * 1000), 1000)
    return spelled(Quantity(amount, quantity.spelling))


def amount_of(text: str) -> Fraction:
    return parsed(text).amount
