"""String formats that an API server checks, as far as our schemas use them."""

from __future__ import annotations

import datetime

from jobyard.schema.wording import shown


def format_fault(value: str, name: str) -> str | None:
    """What is wrong with a text of that format; None for formats that aren't checked."""
    if name != "date-time" or _is_date_time(value):
        return None
    return f"is {shown(value)}; must be a time such as 2026-01-31T12:00:00Z"


def _is_date_time(value: str) -> bool:
    try:
        parsed = datetime.datetime.fromisoformat(value)
    except ValueError:
        return False
    return parsed.tzinfo is not None and "T" in value
