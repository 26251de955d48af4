"""Moments as Kubernetes writes them, and as numbers that can be compared.

Inside the deciding part a moment is seconds since 1970; in objects it is RFC 3339 text in
whole seconds. Nothing here asks for the time: it is always an argument.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(maxsize=65536)
def seconds_of(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@lru_cache(maxsize=1024)
def _text(whole_seconds: int) -> str:
    # Years have four digits, which `strftime` doesn't see to.
    return f"{datetime.fromtimestamp(whole_seconds, UTC).replace(tzinfo=None).isoformat()}Z"


def text_of(moment: float) -> str:
    return _text(math.trunc(moment))
