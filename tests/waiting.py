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
    while True:
        found = await condition()
        if found:
            return found
        await wait_seconds(LOOK_SECONDS)


def until_it_holds(condition: Callable[[], T], what: str, seconds: float = DEADLINE_SECONDS) -> T:
    """The same without asyncio: nothing tells when another process has done something."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"after {seconds} s: {what}"
        look_again()
    return found


def look_again() -> None:
    threading.Event().wait(LOOK_SECONDS)
