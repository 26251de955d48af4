"""Numbers in requests as Go's `strconv` reads them, with its words for those it can't read.

Clients show these words to people, so they are those of a real server.
"""

from __future__ import annotations

import re
from typing import Final

from jobyard.numerals import UINT64_MAX, signed_number, whole_number

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")


class NotANumberError(ValueError):
    """The text is no number, or none that fits; the message is Go's."""


def parsed_int(text: str) -> int:
    """`strconv.ParseInt` for 64 bits."""
    number = signed_number(text)
    if number is None:
        raise _fault("ParseInt", text, is_number=_INTEGER.fullmatch(text) is not None)
    return number


def parsed_uint(text: str) -> int:
    """`strconv.ParseUint` for 64 bits; it takes no sign."""
    number = whole_number(text, UINT64_MAX)
    if number is None:
        is_number = text[:1] not in ("+", "-") and _INTEGER.fullmatch(text) is not None
        raise _fault("ParseUint", text, is_number=is_number)
    return number


def _fault(function: str, text: str, *, is_number: bool) -> NotANumberError:
    why = "value out of range" if is_number else "invalid syntax"
    return NotANumberError(f'strconv.{function}: parsing "{text}": {why}')
