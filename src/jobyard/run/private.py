"""An engine for one `jobyard run`: in the same process, and gone with it.

Other commands reach it as they reach a standing one, but only after a moment: a job that is over
before that doesn't pay for a door that nobody uses.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from jobyard.run.engine import Engine, EngineSettings, Say
from jobyard.run.homes import dead_runs, home_of, private, removed, standing
from jobyard.run.leaving import stop_everything

DOOR_SECONDS: Final = 1.0
_log = logging.getLogger(__name__)


@asynccontextmanager
async def private_engine(
    settings: EngineSettings, *, keeps: bool, say: Say
) -> AsyncIterator[Engine]:
    """An engine for one run: nothing is left of it unless `keeps`."""
    home = home_of(os.environ)
    try:
        with standing(home) if keeps else private(home) as folder:
            async with Engine(folder, settings, say) as engine:
                closing = asyncio.Event()
                door = asyncio.create_task(_door(engine, closing, say))
                try:
                    yield engine
                finally:
                    closing.set()
                    await door
    finally:
        await clear_dead_runs(home)


async def _door(engine: Engine, closing: asyncio.Event, say: Say) -> None:
    """Opens the door after a moment, and closes it at the end."""
    try:
        async with asyncio.timeout(DOOR_SECONDS):
            await closing.wait()
    except TimeoutError:
        try:
            # Imported here, and in a thread: an HTTP server is slow to import.
            service = await asyncio.to_thread(_service)
            async with service.open_door(engine):
                await closing.wait()
        except Exception as problem:
            # The top of a task. The run itself needs no door, but who looks for it must know.
            _log.debug("the door of %s", engine.folder.path, exc_info=True)
            say(f"other commands can't reach this run: {problem}")


def _service():  # type: ignore[no-untyped-def]  # noqa: ANN202 - a module
    from jobyard.run import service

    return service


async def clear_dead_runs(home: Path) -> None:
    """Ends and removes what runs that were killed have left behind."""
    with dead_runs(home) as folders:
        for folder in folders:
            await stop_everything(folder.path)
            removed(home, folder)
