"""JSON that a client sends, as values: read as Go's decoder reads it, and within bounds.

Bytes that are no UTF-8 and halves of surrogate pairs become U+FFFD, as on a real server; numbers
that no float can hold are refused, as there; and so is depth, but sooner: everything behind this
walks objects by calling itself. Whether the value is any good is for others to say.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, Final, NoReturn

# Half of what Python's own limit allows for; a real server's is 10,000. No object comes near.
DEPTH_MAX: Final = 200
# No float has more before its point, and integers are read as floats where they are long.
_DIGITS_MAX: Final = 309
_LONG: Final = re.compile(rb"[0-9]{%d}" % _DIGITS_MAX)
_UNDECODED: Final = re.compile("[\udc80-\udcff]")
# An escape of any sort, so that `\\ud800` isn't taken for half of a pair.
_ESCAPE: Final = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_REPLACEMENT: Final = "\\ufffd"

Pairs = Callable[[list[tuple[str, Any]]], Any]


class NoValueError(Exception):
    """The text can't be read as a value; the message has Go's words."""


class TooDeepError(NoValueError):
    """More levels than are walked here."""

    def __init__(self) -> None:
        super().__init__("invalid character '{' exceeded max depth")


def cleaned(text: bytes) -> str:
    """The text as characters, each of which is one."""
    plain = text.decode(json.detect_encoding(text), "surrogateescape")
    if not plain.isascii():
        plain = _UNDECODED.sub("\ufffd", plain)
    if _SURROGATE.search(plain):
        plain = _ESCAPE.sub(lambda found: _REPLACEMENT if found[1] else found[0], plain)
    return plain


def decoder(pairs: Pairs | None = None) -> json.JSONDecoder:
    """A decoder whose numbers have bounds. Made once: to make one takes as long as a small body."""
    return json.JSONDecoder(
        object_pairs_hook=pairs,
        parse_constant=_no_constant,
        parse_int=_integer,
        parse_float=_fraction,
    )


def decoded(text: str, by: json.JSONDecoder) -> Any:
    """Raises NoValueError, and what `json` says about broken text."""
    try:
        value = by.decode(text)
    except RecursionError:
        raise TooDeepError from None
    if text.count("{") + text.count("[") > DEPTH_MAX:
        check_depth(value)
    return value


def is_flat(text: bytes) -> bool:
    """Whether there are so few brackets that nothing can be too deep; that is soon counted."""
    return text.count(b"{") + text.count(b"[") <= DEPTH_MAX


def has_long_number(text: bytes) -> bool:
    """Whether a fast decoder might make a number of it that is none here."""
    return len(text) >= _DIGITS_MAX and _LONG.search(text) is not None


def check_depth(value: Any) -> None:
    """Raises TooDeepError. It doesn't call itself, whatever the depth is."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(DEPTH_MAX):
        if not level:
            return
        level = [
            inner
            for each in level
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, dict | list)
        ]
    if level:
        raise TooDeepError


def _integer(text: str) -> int:
    if len(text) > _DIGITS_MAX:
        raise _out_of_range(text)
    return int(text)


def _fraction(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise _out_of_range(text)
    return number


def _out_of_range(text: str) -> NoValueError:
    return NoValueError(f"json: cannot unmarshal number {text} into Go value of type float64")


def _no_constant(text: str) -> NoReturn:
    raise NoValueError(f"invalid character '{text[0]}' looking for beginning of value")


def fault(problem: json.JSONDecodeError) -> str:
    """Where a text stops being JSON, and how."""
    return f"invalid JSON: {problem.msg} in line {problem.lineno}, column {problem.colno}"
