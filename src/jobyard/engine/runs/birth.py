"""An engine of a run as whoever starts it sees it: prepared, being started, there or not.

The command holds these; the process behind them is that of `private`. One pipe tells a prepared
process what to run, another tells where the engine is, or why it isn't.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

import msgspec

from jobyard.engine.homes import HomeError
from jobyard.engine.runs.runs import Record


class Word(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a new engine tells whoever started it: where it is, or why it isn't."""

    folder: str = ""
    problem: str = ""
    # Whether the problem is ours, and not the machine's or the caller's.
    is_fault: bool = False


class EngineFailedError(Exception):
    """The engine of a run could not be started; the message says why."""


class Birth:
    """An engine that is being started."""

    def __init__(self, pid: int, told: int) -> None:
        self.pid = pid
        self._told = told

    async def folder(self) -> Path:
        """Where it is, once it can be asked; HomeError or EngineFailedError if it never can."""
        text = await asyncio.to_thread(self._word)
        if not text:
            raise EngineFailedError("the engine ended before it had come up")
        word = msgspec.json.decode(text, type=Word)
        if word.problem:
            raise EngineFailedError(word.problem) if word.is_fault else HomeError(word.problem)
        return Path(word.folder)

    def _word(self) -> bytes:
        with open(self._told, "rb") as told:
            return told.read()

    def reap(self) -> None:
        """Once it has ended; one that was not our child is nobody's to wait for."""
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


class Prepared:
    """A process that can become the engine of a run: it has loaded all of it, and waits."""

    def __init__(self, pid: int, heard: int, asked: int) -> None:
        self._pid = pid
        self._heard = heard
        self._asked: int | None = asked

    def begin(self, record: Record) -> Birth:
        """It becomes the engine of that run."""
        assert self._asked is not None, "an engine begins once"
        # Before anything is closed: a name in it may be no text.
        said = msgspec.json.encode(record)
        with suppress(BrokenPipeError), open(self._asked, "wb") as asked:
            asked.write(said)
        self._asked = None
        return Birth(self._pid, self._heard)

    def drop(self) -> None:
        """It isn't wanted, unless it has begun; it has done nothing that would be lost."""
        if self._asked is None:
            return
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        for number in (self._asked, self._heard):
            os.close(number)
        self._asked = None
