"""Times as Kubernetes writes them: in UTC, to the second or to the microsecond."""

from __future__ import annotations

import datetime
from functools import lru_cache
from typing import Final

import re2

_SECONDS = "2006-01-02T15:04:05Z07:00"
_MICROS = "2006-01-02T15:04:05.000000Z07:00"
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}"
_ZONE = r"(Z|[+-][0-9]{2}:[0-9]{2})$"
_SHAPES = {
    _SECONDS: re2.compile(rf"{_DATE}(\.[0-9]+)?{_ZONE}"),
    # The fraction must be there in full: Go's layout asks for it.
    _MICROS: re2.compile(rf"{_DATE}\.[0-9]{{6}}{_ZONE}"),
}
# The same few moments come again and again, with every write to an object.
_CACHED: Final = 1024


class TimeError(ValueError):
    """A text that is no time; the message is the API server's."""


@lru_cache(_CACHED)
def second_time(text: str) -> str:
    """Raises TimeError."""
    return spelled(_parsed(text, _SECONDS))


def micro_time(text: str) -> str:
    """Raises TimeError."""
    return spelled(_parsed(text, _MICROS), "microseconds")


def spelled(moment: datetime.datetime, timespec: str = "seconds") -> str:
    """A moment in UTC; years have four digits, which `strftime` doesn't see to."""
    return f"{moment.replace(tzinfo=None).isoformat(timespec=timespec)}Z"


def _parsed(text: str, layout: str) -> datetime.datetime:
    if _SHAPES[layout].search(text) is None:
        raise TimeError(_told(text, layout))
    try:
        return datetime.datetime.fromisoformat(text).astimezone(datetime.UTC)
    except (ValueError, OverflowError) as wrong:
        raise TimeError(_told(text, layout)) from wrong


def _told(text: str, layout: str) -> str:
    return f'parsing time "{text}" as "{layout}": cannot parse "{text}" as "2006"'
