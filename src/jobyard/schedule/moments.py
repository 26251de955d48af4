"""Moments as texts, for statuses and for people; the time itself is always an argument."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(maxsize=1024)
def text_of(moment: float) -> str:
    """As objects have it, in whole seconds."""
    return f"{_at(moment).replace(tzinfo=None).isoformat()}Z"


@lru_cache(maxsize=1024)
def minute_of(moment: float) -> str:
    """`10:02`, for people."""
    return _at(moment).strftime("%H:%M")


def _at(moment: float) -> datetime:
    return datetime.fromtimestamp(math.trunc(moment), UTC)
