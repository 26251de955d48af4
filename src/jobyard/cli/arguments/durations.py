"""Spans of time on the command line: `90`, `30s`, `10m`, `1h30m`."""

from __future__ import annotations

import re
from typing import Any, Final

import click

from jobyard.numerals import decimal_number

_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(d|h|ms|m|s)")
_PLAIN: Final = re.compile(r"[0-9]+(\.[0-9]+)?")
# A hundred years; a clock that counts them in nanoseconds is not at its end.
_SECONDS_MAX: Final = 100 * 365 * 86400.0
_SECONDS: Final = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


class Duration(click.ParamType[float]):
    """Seconds, from a number or from numbers with units."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        text = str(value).strip()
        spelled = f"{text}s" if _PLAIN.fullmatch(text) else text
        parts = _PART.findall(spelled)
        seconds = sum((decimal_number(number) or 0.0) * _SECONDS[unit] for number, unit in parts)
        if not parts or _PART.sub("", spelled) or seconds > _SECONDS_MAX:
            self.fail(f"{text!r} is not a span of time, such as 90, 30s, 10m or 1h30m", param, ctx)
        return seconds
