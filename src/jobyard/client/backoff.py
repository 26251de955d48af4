"""How long to wait between attempts, and the waiting itself.

`retrying` and `watching` ask here. The delay is a pure function of the count of failures and
a number from the dice; clock and dice are fields, so that a simulation can put in its own.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import msgspec

Wait = Callable[[float], Awaitable[None]]
Dice = Callable[[], float]

# A server that asks for more than this is asked again earlier: it may have meant minutes
# of maintenance that are over in seconds.
RETRY_AFTER_SECONDS_MAX: Final = 60.0


async def wait_seconds(seconds: float) -> None:
    """Let time pass; a cancellation ends it at once."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.Event().wait()


async def first_of(*events: asyncio.Event) -> None:
    """Until one of them is set."""
    waiting = [asyncio.ensure_future(each.wait()) for each in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """Delays that double from `first_seconds` to `max_seconds`, each cut by up to a half."""

    first_seconds: float = 0.2
    max_seconds: float = 30.0
    wait: Wait = wait_seconds
    # From 0 to 1, so that many clients that failed together don't come back together.
    dice: Dice = random.random

    def delay_seconds(self, failures: int, asked_seconds: float | None = None) -> float:
        """The delay after so many failures in a row, and no less than the server asked for."""
        assert failures >= 1, f"{failures} failures give no reason to wait"
        # The exponent is bounded: a float overflows after a thousand failures.
        whole = min(self.max_seconds, self.first_seconds * 2.0 ** min(failures - 1, 32))
        delay = whole * (1 - self.dice() / 2)
        if asked_seconds is None:
            return delay
        # The jitter comes on top here: earlier than asked would be refused again.
        return min(asked_seconds, RETRY_AFTER_SECONDS_MAX) + min(delay, self.first_seconds)

    async def after(self, failures: int, asked_seconds: float | None = None) -> None:
        """Wait before the next attempt."""
        await self.wait(self.delay_seconds(failures, asked_seconds))


PATIENCE: Final = Backoff()
