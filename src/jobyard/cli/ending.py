"""How a command that waits for jobs comes to its end, and with which exit code."""

from __future__ import annotations

import asyncio
import signal
from typing import Final

from jobyard.cli.output.showing import Show
from jobyard.engine.runs.birth import EngineFailedError
from jobyard.jobs.following import Following
from jobyard.jobs.log_lines import DRAIN_SECONDS
from jobyard.jobs.view import JobView, stopped

FAILED: Final = 1
# As in sysexits.h: it may be tried again, and nothing is lost.
CANNOT_GO_ON: Final = 75
TIMED_OUT: Final = 124
# As a shell tells of a program that SIGHUP ended.
HUNG_UP: Final = 129
INTERRUPTED: Final = 130


class Ends:
    """What may end the waiting before the jobs are over."""

    def __init__(self, failed: asyncio.Event | None = None) -> None:
        self.stopped = asyncio.Event()
        self.hung_up = asyncio.Event()
        self.failed = failed or asyncio.Event()

    def listen(self) -> None:
        """To the signals of whoever called us."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.stopped.set)
        loop.add_signal_handler(signal.SIGHUP, self.hung_up.set)


async def until_ended(
    following: Following,
    ends: Ends,
    show: Show,
    timeout: float | None = None,
    *,
    stops_jobs: bool = True,
) -> tuple[int, list[JobView]]:
    """Until all jobs have ended, or something else ends the waiting: the exit code, and how they
    stand. Ctrl-C and time that is up stop the jobs if `stops_jobs`; a closed terminal doesn't."""
    work = asyncio.ensure_future(following.until_over())
    asked = [
        asyncio.ensure_future(each.wait()) for each in (ends.stopped, ends.hung_up, ends.failed)
    ]
    try:
        await asyncio.wait((work, *asked), timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if ends.failed.is_set():
            raise EngineFailedError(
                "the engine has failed, its log says why; the replicas keep running:"
                " `jobyard attach` takes them up again"
            )
        views = following.views()
        if work.done():
            work.result()
            return (0 if all(view.has_succeeded for view in views) else FAILED), views
        if ends.hung_up.is_set():
            return HUNG_UP, views
        code = INTERRUPTED if ends.stopped.is_set() else TIMED_OUT
        if not stops_jobs:
            return code, views
        what = "interrupted" if ends.stopped.is_set() else f"{timeout:g} s have passed"
        show.warn(f"{what}: stopping the jobs (press Ctrl-C to stop them at once)")
        ends.stopped.clear()
        # What they say on their way out is shown too.
        left = await following.stop_jobs(ends.stopped)
        if not left:
            await _finished(work, ends.stopped)
        return code, [view if view.uid in left else stopped(view) for view in views]
    finally:
        for each in (work, *asked):
            each.cancel()
        await asyncio.wait((work, *asked))


async def _finished(work: asyncio.Future[None], hurry: asyncio.Event) -> None:
    """When all jobs are gone, the end of their logs is still to be read; not for ever."""
    asked = asyncio.ensure_future(hurry.wait())
    await asyncio.wait((work, asked), timeout=DRAIN_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    await asyncio.wait((asked,))
