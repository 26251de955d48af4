"""How long ago something was, in the few characters that kubectl's tables have for it."""

from __future__ import annotations

import math
import re
from datetime import datetime
from typing import Any, Final

UNKNOWN: Final = "<unknown>"
INVALID: Final = "<invalid>"

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_YEAR: Final = 365 * _DAY

# Below how many seconds, in which unit, and the rest in which (0: the rest isn't told).
_STEPS: Final = (
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (48 * _HOUR, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
)
# Go counts nanoseconds in 64 bits; anything longer ago is as long ago as that.
_LONGEST_SECONDS: Final = 2**63 // 10**9

_RFC_3339: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})"
)


def human_duration(duration_seconds: float) -> str:
    """`90s`, `4m5s`, `3h`, `12d`; clocks may differ by less than two seconds."""
    seconds = math.trunc(duration_seconds)
    if seconds < -1:
        return INVALID
    seconds = min(max(seconds, 0), _LONGEST_SECONDS)
    for below, unit, letter, rest_unit, rest_letter in _STEPS:
        if seconds < below:
            rest = seconds % unit // rest_unit if rest_unit else 0
            return f"{seconds // unit}{letter}" + (f"{rest}{rest_letter}" if rest else "")
    return f"{seconds // _YEAR}y"


def moment(timestamp: Any) -> float | None:
    """Seconds since the epoch of a timestamp; None for none and for Go's zero time.

    Raises ValueError for a text that isn't RFC 3339.
    """
    if not isinstance(timestamp, str) or timestamp in ("", "null"):
        return None
    if not _RFC_3339.fullmatch(timestamp):
        raise ValueError(f"{timestamp!r} is not a time as RFC 3339 has it")
    parsed = datetime.fromisoformat(timestamp)
    return None if parsed.year == 1 else parsed.timestamp()


def since(timestamp: Any, now: float) -> str:
    """The cell that tells how long ago a timestamp is."""
    try:
        then = moment(timestamp)
    except ValueError:
        return INVALID
    return UNKNOWN if then is None else human_duration(now - then)


def age(obj: dict[str, Any], now: float) -> str:
    return since(obj["metadata"].get("creationTimestamp"), now)
