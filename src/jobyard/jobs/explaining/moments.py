"""Moments and spans of time, as people say them."""

from __future__ import annotations

from datetime import UTC, datetime

from jobyard.jobs.explaining.reading import seconds

_DAY = 86400


def span(length: float) -> str:
    """`0 s`, `12 s`, `3 min`, `2 h 10 min`, `3 d 4 h`."""
    whole = max(round(length), 0)
    if whole < 120:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    if whole < _DAY:
        return _two(whole // 3600, "h", whole % 3600 // 60, "min")
    return _two(whole // _DAY, "d", whole % _DAY // 3600, "h")


def _two(large: int, unit: str, small: int, small_unit: str) -> str:
    return f"{large} {unit} {small} {small_unit}" if small else f"{large} {unit}"


def clock_text(moment: str) -> str:
    """`10:02:05 UTC` of a moment as Kubernetes writes it; what is none, as it is."""
    found = seconds(moment)
    if found is None:
        return moment
    return f"{datetime.fromtimestamp(found, UTC):%H:%M:%S} UTC"


def day_text(moment: str) -> str:
    """The same with the day before it."""
    found = seconds(moment)
    if found is None:
        return moment
    return f"{datetime.fromtimestamp(found, UTC):%Y-%m-%d %H:%M:%S} UTC"
