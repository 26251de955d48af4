"""When a finished job is deleted."""

from __future__ import annotations

from jobyard.plan.moments import seconds_of


def expires_at(completion_time: str | None, ttl_seconds: int | None) -> float | None:
    if completion_time is None or ttl_seconds is None:
        return None
    return seconds_of(completion_time) + ttl_seconds
