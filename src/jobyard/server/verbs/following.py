"""A watch on the loop: its lines as they come, its bookmarks and its end in time.

Whoever sends a watch to a client iterates over `followed`; the HTTP shell and clients in the same
process alike.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from typing import Final

from jobyard.server.verbs.watch import Watch

BOOKMARK_SECONDS: Final = 60.0
# The last bookmark comes this long before the end, so that a client resumes from near it.
LAST_BOOKMARK_SECONDS: Final = 2.0
# A real server ends a watch after 30 to 60 minutes if the client doesn't say when.
TIMEOUT_SECONDS: Final = 2700.0


async def followed(watch: Watch) -> AsyncGenerator[bytes, None]:
    """Whole lines, as many at a time as there are, until the watch ends."""
    loop = asyncio.get_running_loop()
    more = asyncio.Event()
    watch.wake = more.set
    seconds = watch.timeout_seconds
    end = loop.time() + (TIMEOUT_SECONDS if seconds is None else seconds)
    marks = _marks(loop.time(), end)
    mark = next(marks)
    try:
        while True:
            more.clear()
            while lines := watch.take():
                yield lines
            if watch.ended or loop.time() >= end:
                return
            if loop.time() >= mark:
                watch.mark()
                mark = next(marks)
                continue
            timer = loop.call_at(min(end, mark), more.set)
            try:
                await more.wait()
            finally:
                timer.cancel()
    finally:
        watch.wake = None
        watch.drop()


def _marks(now: float, end: float) -> Iterator[float]:
    """When bookmarks are due: every minute, and once shortly before the end."""
    last = end - LAST_BOOKMARK_SECONDS
    moment = now + BOOKMARK_SECONDS
    while moment < last:
        yield moment
        moment += BOOKMARK_SECONDS
    if last > now:
        yield last
    yield float("inf")
