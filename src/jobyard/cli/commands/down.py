"""`jobyard down`: stops the engine and everything it runs."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final

import click

from jobyard.cli.arguments.durations import Duration
from jobyard.cli.arguments.options import data_dir_option, output_option
from jobyard.cli.output.saying import say, say_json
from jobyard.cli.until import until
from jobyard.engine.homes import DataFolder, HomeError, home_of, standing

# A process that was killed may have to wait for a disk.
KILLED_SECONDS: Final = 30.0
# An engine is there before it can be spoken to, and another `down` stays until all is stopped.
ANNOUNCED_SECONDS: Final = 3.0


@click.command("down")
@data_dir_option
@click.option(
    "--timeout", type=Duration(), default="30s", show_default=True, metavar="30s",
    help="How long the engine has to stop before it is killed.",
)  # fmt: skip
@click.option("--keep-jobs", is_flag=True, help="Stop only the engine; jobs keep running.")
@output_option()
def command(data_dir: Path | None, timeout: float, keep_jobs: bool, output: str) -> None:
    """Stop the engine and all replicas; none of their processes is left.

    What is stored stays: `jobyard up` continues from there.
    """
    folder = DataFolder(data_dir.absolute()) if data_dir else standing(home_of(os.environ))
    try:
        pid, count = _stopped(folder, timeout, keep_jobs)
    except HomeError as problem:
        raise click.ClickException(str(problem)) from problem
    if output == "json":
        say_json({"folder": str(folder.path), "pid": pid, "podsStopped": count})
        return
    if pid:
        say(f"the engine (pid {pid}) has stopped")
    else:
        nowhere = "" if folder.path.is_dir() else f", and there is no {folder.path}"
        say(f"no engine is running{nowhere}")
    if count is not None:
        say(f"stopped {count} {'pod' if count == 1 else 'pods'}; nothing is running any more")


def _stopped(folder: DataFolder, seconds: float, keep_jobs: bool) -> tuple[int | None, int | None]:
    """The pid of the engine and the number of pods that were stopped; None: not looked for."""
    pid = asyncio.run(engine_in(folder))
    if pid:
        asyncio.run(stop_engine(folder, pid, seconds))
    if keep_jobs or not folder.path.is_dir():
        return pid or None, None
    # Imported here: --keep-jobs needs none of it.
    from jobyard.engine.runs.leaving import stop_everything

    with folder:
        return pid or None, asyncio.run(stop_everything(folder.path))


async def engine_in(folder: DataFolder) -> int:
    """The pid of the engine that works there, 0 if none does.

    One that is still starting has a moment to come up; one that doesn't is known by its lock.
    """

    def look() -> int | None:
        presence = folder.presence
        if presence is not None:
            return presence.pid
        return None if folder.is_in_use else 0

    found = await until(look, ANNOUNCED_SECONDS)
    return folder.holder if found is None else found


async def stop_engine(folder: DataFolder, pid: int, seconds: float) -> None:
    """Asks the engine to stop; one that doesn't is killed, which loses nothing.

    One that has ended by itself meanwhile is what was wanted.
    """
    with suppress(ProcessLookupError):
        if hasattr(os, "pidfd_open"):
            await _ended(folder, pid, seconds)
        else:
            await _ended_without_pidfd(folder, pid, seconds)


async def _ended(folder: DataFolder, pid: int, seconds: float) -> None:
    process = os.pidfd_open(pid)
    try:
        # The number may be another's by now; as long as it has the lock, it is the
        # engine. One that has it no longer is about to end.
        if folder.holder == pid:
            signal.pidfd_send_signal(process, signal.SIGTERM)
        try:
            async with asyncio.timeout(seconds):
                await _readable(process)
        except TimeoutError:
            if folder.holder == pid:
                signal.pidfd_send_signal(process, signal.SIGKILL)
                await _readable(process)
    finally:
        os.close(process)


async def _readable(descriptor: int) -> None:
    """A process's descriptor is, when the process has ended."""
    ready = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


async def _ended_without_pidfd(folder: DataFolder, pid: int, seconds: float) -> None:
    """Its lock is all that can be looked at; nothing says when it is let go."""

    def is_free() -> bool | None:
        return None if folder.is_in_use else True

    os.kill(pid, signal.SIGTERM)
    if await until(is_free, seconds) is None:
        os.kill(pid, signal.SIGKILL)
        await until(is_free, KILLED_SECONDS)
