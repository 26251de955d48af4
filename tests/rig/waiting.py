"""Waiting in tests: with a deadline for the whole, and a look now and then where nothing tells."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from jobyard.client.backoff import wait_seconds

DEADLINE_SECONDS = 60
LOOK_SECONDS = 0.02
# What takes longer is looked at less often: each look takes time from what is waited for.
LOOK_SECONDS_MAX = 0.2
LOOKS_SHARE = 0.1
T = TypeVar("T")


def run(work: Awaitable[T]) -> T:
    """Run to the end within the deadline, and leave no task behind."""

    async def bounded() -> T:
        async with asyncio.timeout(DEADLINE_SECONDS):
            result = await work
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return result

    return asyncio.run(bounded())


async def until(condition: Callable[[], Awaitable[T]]) -> T:
    """Ask until the answer is true; the deadline of `run` bounds it."""
    begun = time.monotonic()
    while True:
        found = await condition()
        if found:
            return found
        await wait_seconds(_pause_seconds(begun))


def until_it_holds(condition: Callable[[], T], what: str, seconds: float = DEADLINE_SECONDS) -> T:
    """The same without asyncio: nothing tells when another process has done something."""
    begun = time.monotonic()
    while not (found := condition()):
        assert time.monotonic() < begun + seconds, f"after {seconds} s: {what}"
        look_again(_pause_seconds(begun))
    return found


def _pause_seconds(begun: float) -> float:
    waited = time.monotonic() - begun
    return min(max(waited * LOOKS_SHARE, LOOK_SECONDS), LOOK_SECONDS_MAX)


def look_again(seconds: float = LOOK_SECONDS) -> None:
    threading.Event().wait(seconds)
