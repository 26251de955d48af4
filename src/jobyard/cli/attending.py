"""A command that attends a run: it hears what the run's engine says, and sees to it that it lives.

The engine is another process. Should it end unasked, the replicas go on, and another one is
started that takes them up; whoever follows the run notices a pause.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Final

from jobyard.cli.output.showing import Show
from jobyard.client.backoff import first_of
from jobyard.client.errors import ClientError
from jobyard.engine.homes import DataFolder, HomeError
from jobyard.engine.runs.birth import Birth, EngineFailedError
from jobyard.engine.runs.link import Link
from jobyard.engine.runs.private import spawn_engine
from jobyard.engine.runs.runs import Run

# One that has lived so long has come up well: what ended it is another matter than before.
_STEADY_SECONDS: Final = 60.0
_TRIES_MAX: Final = 3


class Attendance:
    """The engine of one run, from the side of a command."""

    def __init__(self, run: Run, birth: Birth | None, show: Show) -> None:
        self.run = run
        self.link = Link(run.socket)
        # Set when there is no engine any more, and none can be started.
        self.failed = asyncio.Event()
        self._birth = birth
        self._show = show
        self._is_ending = False
        self._came_up = asyncio.Event()

    async def until_heard(self) -> None:
        """Until the engine knows that somebody attends."""
        await first_of(self._came_up, self.failed)
        if self.failed.is_set():
            raise EngineFailedError(self._log_says_why)

    @property
    def _log_says_why(self) -> str:
        return f"the engine has failed; {self.run.folder.path / 'engine.log'} says why"

    async def keep(self) -> None:
        """Listens to the engine, and starts another when it ends; until the end is asked for."""
        tries = 0
        while True:
            began = asyncio.get_running_loop().time()
            try:
                await self._listen()
            except ClientError as problem:
                why = str(problem)
            if self._is_ending:
                return
            lived = asyncio.get_running_loop().time() - began
            tries = 1 if lived > _STEADY_SECONDS else tries + 1
            if tries > _TRIES_MAX:
                self.failed.set()
                return
            self._show.warn(
                "the engine of this run has ended unexpectedly: the replicas keep running,"
                " and it is started again"
            )
            await self._start_again(why)

    async def _listen(self) -> None:
        async with aclosing(self.link.attend()) as notes:
            async for note in notes:
                self._came_up.set()
                if note:
                    self._show.note_once(note)

    async def _start_again(self, why: str) -> None:
        if self._birth is not None:
            await asyncio.to_thread(self._birth.reap)
        try:
            self._birth = spawn_engine(self.run.folder.path)
            await self._birth.folder()
        except (EngineFailedError, HomeError, OSError) as problem:
            self._show.trouble(f"{problem} (before: {why})")

    async def end(self) -> None:
        """Ends the run with all that is left of it."""
        self._is_ending = True
        await self.link.end()
        if self._birth is not None:
            await asyncio.to_thread(self._birth.reap)


@asynccontextmanager
async def attending(birth: Birth, show: Show) -> AsyncIterator[Attendance]:
    """A run that was just started; whether it ends with the `with` is the caller's to say."""
    run = Run(DataFolder(await birth.folder()))
    async with attending_run(run, birth, show) as attendance:
        yield attendance


@asynccontextmanager
async def attending_run(run: Run, birth: Birth | None, show: Show) -> AsyncIterator[Attendance]:
    """A run whose engine is there."""
    with run.attended():
        attendance = Attendance(run, birth, show)
        keeper = asyncio.create_task(attendance.keep())
        try:
            await attendance.until_heard()
            yield attendance
        finally:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
