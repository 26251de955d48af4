"""The engine of one `jobyard run`, in a process of its own.

What prints may block, be closed or die: that is another process, and the jobs don't notice. The
engine ends the run when it is asked to. Left to itself it goes on until all jobs are over, and
leaves what there is to know of them in its folder. Killed, it leaves the replicas running, and the
next engine on its folder takes them up.

The first engine of a run is forked, before there is a loop or a thread: to start Python again
takes longer than a short job runs. It loads what it needs while the command still looks at its
files, and is told then what to run. Later ones are started by `python -m` and this module's name.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from enum import Enum, auto
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import msgspec

from jobyard.engine.homes import (
    DataFolder,
    HomeError,
    claims_of,
    home_of,
    new_run,
    removed,
    standing,
    usable,
)
from jobyard.engine.problem import EngineError
from jobyard.engine.runs.birth import Birth, Prepared, Word
from jobyard.engine.runs.runs import RECORD, SOCKET, Record

if TYPE_CHECKING:
    from jobyard.engine.engine import Engine
    from jobyard.engine.runs.link import Desk

# Other commands reach it as they reach a standing engine, but only after a moment: a job that is
# over before that doesn't pay for a door that nobody uses.
DOOR_SECONDS: Final = 1.0
# Whoever started it speaks up at once, or is dead.
ATTENDANCE_SECONDS: Final = 60.0
_log = logging.getLogger(__name__)


@contextmanager
def prepared() -> Iterator[Prepared]:
    """Forked before there is a loop or a thread, and dropped at the end unless it has begun."""
    hears, asked = os.pipe()
    heard, told = os.pipe()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    pid = os.fork()
    if not pid:
        # Nothing of the command's own end may happen here: no buffers, no exit handlers.
        try:
            os.setsid()
            for number in (asked, heard):
                os.close(number)
            _become_engine(hears, told)
        except BaseException:
            os._exit(1)
        os._exit(0)
    for number in (hears, told):
        os.close(number)
    engine = Prepared(pid, heard, asked)
    try:
        yield engine
    finally:
        engine.drop()


def _become_engine(hears: int, told: int) -> None:
    """A new run, in the folder of `up` if it keeps its jobs."""
    _load()
    with open(hears, "rb") as asked:
        text = asked.read()
    if not text:
        # The command has ended: there was nothing to run, or it was killed.
        return
    record = msgspec.json.decode(text, type=Record)
    home = home_of(os.environ)
    first = record.jobs[0].partition("/")[2] if record.jobs else "run"
    where = standing(home) if record.keeps else new_run(home, first)
    _be_engine(where, record, told, is_new=True)


def _load() -> None:
    """What an engine imports, while the command still looks at its files."""
    import jobyard.engine.engine
    import jobyard.engine.engine_log
    import jobyard.engine.runs.link  # noqa: F401


def spawn_engine(folder: Path) -> Birth:
    """Another engine for a run that has lost its own."""
    heard, told = os.pipe()
    try:
        child = subprocess.Popen(  # noqa: S603 - ourselves
            # What lies in the caller's folder is no module of ours.
            [sys.executable, "-P", "-m", __name__, str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=told,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    finally:
        os.close(told)
    # It goes on without us; who waits for it does so by its number.
    child.returncode = 0
    return Birth(child.pid, heard)


class _End(Enum):
    # Somebody asked for it: nothing is left.
    ASKED = auto()
    # Nobody was there, and all jobs are over: what there is to know of them is kept.
    OVER = auto()
    # It can't go on, or was told to leave: the replicas go on.
    LEFT = auto()


def _be_engine(
    where: AbstractContextManager[DataFolder], record: Record, told: int, *, is_new: bool
) -> None:
    """Runs the engine to its end; what keeps it from coming up is told."""
    try:
        with where as folder:
            _turn_away(folder.path)
            end = asyncio.run(_serve(folder, record, told, is_new=is_new))
            if record.keeps:
                # From now on it is the folder of `up` and no more.
                for name in (RECORD, SOCKET):
                    (folder.path / name).unlink(missing_ok=True)
            elif end is _End.ASKED:
                removed(home_of(os.environ), folder)
    except (EngineError, HomeError) as problem:
        _tell(told, Word(problem=str(problem)))
    except Exception as problem:
        # The top of a process.
        _log.exception("the engine of a run")
        text = f"the engine has failed: {type(problem).__name__}: {problem}"
        _tell(told, Word(problem=text, is_fault=not isinstance(problem, OSError)))


def _tell(told: int, word: Word) -> None:
    """Once; who started us may be gone, or have heard already."""
    with suppress(OSError):
        os.write(told, msgspec.json.encode(word))
        os.close(told)


def _turn_away(folder: Path) -> None:
    """From the terminal, which may close, and from pipes, which may block."""
    with usable(folder):
        log = os.open(folder / "engine.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(log)
    os.close(nothing)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


async def _serve(folder: DataFolder, record: Record, told: int, *, is_new: bool) -> _End:
    # Imported here: the command that forks us needs none of it.
    from jobyard.engine.engine import Engine, EngineSettings
    from jobyard.engine.engine_log import keep_log
    from jobyard.engine.runs.link import Desk, Notes
    from jobyard.node.agent.disk_use import DISK_BYTES_DEFAULT
    from jobyard.node.shared.order import LOG_BYTES_DEFAULT
    from jobyard.node.shared.private_network import DEFAULT_NETWORK, network_of

    settings = EngineSettings(
        is_strict=record.is_strict,
        runtime=record.runtime,
        claims={name: Path(path) for name, path in record.claims.items()},
        images=record.images,
        claims_kept=claims_of(home_of(os.environ)),
        network=network_of(record.network) if record.network else DEFAULT_NETWORK,
        log_bytes=record.log_bytes or LOG_BYTES_DEFAULT,
        disk_bytes=record.disk_bytes or DISK_BYTES_DEFAULT,
        capacity=record.capacity,
        may_preempt=record.may_preempt,
        is_durable=False,
    )
    leaving = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, leaving.set)
    keep_log(folder.path)
    notes = Notes()
    async with Engine(folder, settings, notes.say) as engine:
        if not is_new:
            # Whoever takes a run up asks for logs at once: of pods that the node doesn't know yet.
            await engine.ready()
        # From the first attendance on it is a run that others are told of.
        desk = Desk(engine.sender, notes, partial(record.write, folder.path))
        async with desk.open(folder.path / SOCKET):
            _tell(told, Word(folder=str(folder.path)))
            closing = asyncio.Event()
            door = asyncio.create_task(_door(engine, closing, notes.say))
            try:
                end = await _until_ended(engine, desk, leaving)
            finally:
                closing.set()
                await door
        engine.stops_everything = end is not _End.LEFT
    # Who came while the doors were being closed has seen all of it, and asked for the end.
    return _End.ASKED if end is _End.OVER and desk.ending.is_set() else end


async def _until_ended(engine: Engine, desk: Desk, leaving: asyncio.Event) -> _End:
    asked = asyncio.create_task(desk.ending.wait())
    cannot = asyncio.create_task(engine.failed.wait())
    told = asyncio.create_task(leaving.wait())
    over = asyncio.create_task(_until_over(engine, desk))
    tasks = (asked, cannot, told, over)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if asked.done():
            return _End.ASKED
        if cannot.done() or told.done():
            return _End.LEFT
        return _End.OVER if over.result() else _End.ASKED
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _until_over(engine: Engine, desk: Desk) -> bool:
    """Until nobody attends and no job is left to run; whether there was one at all."""
    from jobyard.engine.unfinished import until_none_is_unfinished

    with suppress(TimeoutError):
        async with asyncio.timeout(ATTENDANCE_SECONDS):
            await desk.is_attended.wait()
    while True:
        await desk.is_left.wait()
        over = asyncio.create_task(until_none_is_unfinished(engine.sender))
        back = asyncio.create_task(desk.is_attended.wait())
        try:
            await asyncio.wait((over, back), return_when=asyncio.FIRST_COMPLETED)
            if over.done() and not desk.is_attended.is_set():
                return over.result()
        finally:
            for task in (over, back):
                task.cancel()
            await asyncio.gather(over, back, return_exceptions=True)


async def _door(engine: Engine, closing: asyncio.Event, say: Callable[[str], None]) -> None:
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
    from jobyard.engine import service

    return service


def main(folder: str) -> NoReturn:
    """The engine of a run that has lost its own, with what that was started with."""
    told = os.dup(sys.stdout.fileno())
    path = Path(folder)
    record = Record.read(path)
    if record is None:
        _tell(told, Word(problem=f"{path / RECORD} can't be read: nobody knows how to go on"))
        sys.exit(1)
    os.environ.update(record.environment)
    with suppress(OSError):
        os.chdir(record.folder)
    _be_engine(DataFolder(path), record, told, is_new=False)
    sys.exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
