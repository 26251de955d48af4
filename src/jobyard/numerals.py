"""Numbers that stand in texts, read within bounds: the one place where a text becomes a number.

Annotations, labels, arguments, query parameters and settings are whatever somebody wrote. Python's
own `int` takes the digits of every script, blanks and underscores, needs time that grows with the
square of the length, and raises beyond 4300 digits. Here only ASCII digits count, as in Go, which
is what reads the same texts on a cluster; and what is no number within the bounds is None, so that
who asks has to say what is done about it. A test finds conversions elsewhere.
"""

from __future__ import annotations

import re
from typing import Final

INT32_MAX: Final = 2**31 - 1
INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
UINT64_MAX: Final = 2**64 - 1
PORT_MAX: Final = 65535

# As many as the largest number of 64 bits has; texts within that are converted in no time.
_DIGITS_MAX: Final = 20
_FRACTION: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
# More than any float needs to be told from its neighbours.
_FRACTION_LENGTH_MAX: Final = 1100


def whole_number(text: str, most: int = INT64_MAX) -> int | None:
    """A number from 0 to `most` (of 64 bits at the most), of digits alone."""
    if len(text) > _DIGITS_MAX:
        # Zeros before a number make it no larger.
        text = text.lstrip("0") or "0"
    if len(text) > _DIGITS_MAX or not (text.isascii() and text.isdecimal()):
        return None
    value = int(text)
    return value if value <= most else None


def signed_number(text: str, least: int = INT64_MIN, most: int = INT64_MAX) -> int | None:
    """The same with a sign before it or none, as Go's `strconv.ParseInt` takes it."""
    value = whole_number(text[1:] if text[:1] in ("+", "-") else text, UINT64_MAX)
    if value is None:
        return None
    value = -value if text[0] == "-" else value
    return value if least <= value <= most else None


def port_number(text: str) -> int | None:
    """The number of a port that somebody can listen on."""
    return whole_number(text, PORT_MAX) or None


def decimal_number(text: str) -> float | None:
    """A decimal number, with or without a point and an exponent; it may be infinite."""
    if len(text) > _FRACTION_LENGTH_MAX or not _FRACTION.fullmatch(text):
        return None
    return float(text)


def digits_value(digits: str, base: int, most: int = UINT64_MAX) -> int | None:
    """A number from 0 to `most` by its digits in a base; the caller has looked at the digits."""
    digits = digits.lstrip("0") or "0"
    # In no base has a number more digits than bits.
    if len(digits) > most.bit_length():
        return None
    value = int(digits, base)
    return value if value <= most else None
