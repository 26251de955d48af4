"""Keeping the parts of an engine at work: one that fails is started again, after a growing pause.

The parts are level-triggered, and what they remember can be forgotten at any time, so a new one
goes on where the old one was. Knows nothing of what a part does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, MutableMapping
from typing import Final

from jobyard.client.backoff import Backoff

PATIENCE: Final = Backoff(first_seconds=0.5, max_seconds=30.0)
# A part that has worked for so long is as good as new.
GOOD_SECONDS: Final = 60.0
Work = Callable[[], Coroutine[None, None, None]]

_log = logging.getLogger(__name__)


async def kept_going(
    name: str, work: Work, troubles: MutableMapping[str, str], *, patience: Backoff = PATIENCE
) -> None:
    """Until cancelled. `work` makes a new part each time; while there is none, `troubles` says why.

    A part that comes to an end by itself has failed as well: nobody asked it to.
    """
    loop = asyncio.get_running_loop()
    failures = 0
    while True:
        begun = loop.time()
        good = loop.call_later(GOOD_SECONDS, troubles.pop, name, None)
        problem: Exception | None = None
        try:
            await work()
        except Exception as error:
            # The top: whatever it was, the other parts go on.
            problem = error
        finally:
            good.cancel()
        failures = 1 if loop.time() - begun >= GOOD_SECONDS else failures + 1
        seconds = patience.delay_seconds(failures)
        told = reason_of(problem) if problem is not None else "it came to an end"
        troubles[name] = told
        _log.error("%s failed: %s; again in %.1f s", name, told, seconds, exc_info=problem)
        await patience.wait(seconds)


def reason_of(problem: BaseException) -> str:
    """What went wrong first, without the groups that tasks put around it."""
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    return str(problem) or type(problem).__name__
