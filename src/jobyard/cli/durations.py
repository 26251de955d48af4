"""Spans of time on the command line: `90`, `30s`, `10m`, `1h30m`."""

from __future__ import annotations

import re
from typing import Any, Final

import click

_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(d|h|ms|m|s)")
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
        if re.fullmatch(r"\d+(\.\d+)?", text):
            return float(text)
        if not text or _PART.sub("", text):
            self.fail(f"{text!r} is not a span of time, such as 90, 30s, 10m or 1h30m", param, ctx)
        return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
