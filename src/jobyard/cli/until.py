"""Waiting for what nobody tells: a file that appears, a lock that is let go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from jobyard.client.backoff import wait_seconds

LOOK_SECONDS: Final = 0.05
T = TypeVar("T")


async def until(look: Callable[[], T | None], seconds: float) -> T | None:
    """What `look` finds, as soon as it finds something; None when time is up."""
    try:
        async with asyncio.timeout(seconds):
            while (found := look()) is None:
                await wait_seconds(LOOK_SECONDS)
            return found
    except TimeoutError:
        return None
