"""Reads the logs of containers, for people: which lines, from where, and on as they come.

Writing and the form of the files are in `log_files`. A log is read from a place that is found
first (the last n lines, since a time) without reading what lies before it. Two streams that
were written at once come out line by line. Where files have gone before they could be read, a
line says how much is missing. Follows a run until the pod's state says that it ended; the agent
decides which run.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec

from jobyard.node.logs.file_changes import Changes, changes_in
from jobyard.node.logs.log_files import (
    NOBODY,
    STAMP_BYTES,
    LogStream,
    LogWriter,
    end_of,
    last_number,
    numbered,
    numbers_of,
    stamp_of,
)
from jobyard.node.logs.log_places import Place, last_lines, since_place
from jobyard.node.logs.log_text import LogText
from jobyard.node.shared.folders import PodFolder
from jobyard.node.shared.keeping import is_supervised, read_state
from jobyard.node.shared.state import ContainerState, PodState, Stage

__all__ = ["LogCut", "LogStream", "LogWriter", "read_logs", "run_to_read"]

_BLOCK_BYTES = 256 * 1024


class LogCut(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of a log, and how."""

    follow: bool = False
    tail_lines: int | None = None
    # Seconds since the epoch.
    since: float | None = None
    timestamps: bool = False
    limit_bytes: int | None = None


def run_to_read(state: ContainerState, *, previous: bool = False) -> int | None:
    """The newest run that has a log, or the one before it; None if there is no such run.

    As kubelet: while a container waits to run again, the run that ended is both.
    """
    if state.stage is Stage.WAITING:
        return state.run if state.last_end else None
    if not previous:
        return state.run
    return state.run - 1 if state.run else None


async def read_logs(
    folder: PodFolder, container: str, run: int, cut: LogCut | None = None
) -> AsyncGenerator[bytes, None]:
    """The text of one run of a container, in pieces; nothing if there is none (yet)."""
    cut = cut or LogCut()
    path = folder.log(container, run)
    text = LogText(timestamps=cut.timestamps)
    left = cut.limit_bytes
    async for block in _blocks(folder, container, run, path, cut):
        # Files are always ready. Who writes faster than we read would keep everybody else in
        # this process, the server and Ctrl-C included, from ever getting a turn.
        await asyncio.sleep(0)
        shown = text.show(block)
        if left is not None:
            shown = shown[:left]
            left -= len(shown)
        if shown:
            yield shown
        if left == 0:
            return


class _Files:
    """The files of a log, oldest first, all open; whoever makes it closes it."""

    def __init__(self, path: Path, after: int = 0) -> None:
        self.path = path
        self.descriptors: list[int] = []
        while True:
            last, numbers = last_number(path), numbers_of(path)
            newer = [number for number in numbers if number > after]
            is_whole = all(self._open(numbered(path, number)) for number in newer)
            has_growing = self._open(path)
            # A file that was put aside meanwhile would be missing, or there twice; one that went
            # before it was open would be missing without a word.
            if is_whole and last_number(path) == last:
                break
            self.close()
        last = max(after, last)
        # What the newest of these is called, or will be: the file that grows is not there for the
        # moment between its being put aside and the next one's being made.
        self.number = last + has_growing
        # Between what was read before and the first of these.
        self.gap = _gap(path, after, newer[0] - 1 if newer else last)

    def _open(self, path: Path) -> bool:
        """Whether it is there; the one that grows need not be."""
        try:
            self.descriptors.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        except FileNotFoundError:
            return False
        return True

    def is_current(self) -> bool:
        """Whether the last one is still the one that grows."""
        if not self.descriptors:
            return False
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            return True
        here = os.fstat(self.descriptors[-1])
        return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)

    def close(self) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors = []


def _gap(path: Path, after: int, until: int) -> bytes:
    """A record that tells of the files behind `after` up to `until`, which have gone."""
    if until <= after:
        return b""
    last = end_of(path, until)
    lost = last.records - (end_of(path, after).records if after else 0)
    if lost <= 0:
        return b""
    when = last.stamp[:19].decode(errors="replace")
    text = f"jobyard: {lost} lines are missing here, up to {when}Z: the log had no room for them"
    return b"%b %b F %b\n" % (last.stamp, NOBODY, f"{text} (--log-size)".encode())


def _is_cut_short(files: _Files, cut: LogCut, place: Place) -> bool:
    """Whether what has gone belongs to what was asked for."""
    if not files.gap or place != (0, 0) or cut.tail_lines == 0:
        return False
    if cut.tail_lines is not None:
        # Exactly so many may be left.
        return last_lines(files.descriptors, cut.tail_lines - 1) == (0, 0)
    return cut.since is None or files.gap[:STAMP_BYTES] >= stamp_of(math.trunc(cut.since * 1e9))


def _place(files: _Files, cut: LogCut) -> Place:
    place = Place(0, 0)
    if cut.since is not None:
        place = since_place(files.descriptors, stamp_of(math.trunc(cut.since * 1e9)))
    if cut.tail_lines is not None:
        place = max(place, last_lines(files.descriptors, cut.tail_lines))
    return place


async def _blocks(
    folder: PodFolder, container: str, run: int, path: Path, cut: LogCut
) -> AsyncGenerator[bytes, None]:
    """Whole records; with `follow` until the run has ended and everything of it was read."""
    if not cut.follow:
        files = _Files(path)
        try:
            place = _place(files, cut)
            if _is_cut_short(files, cut, place):
                yield files.gap
            reader = _Reader(files, place)
            while block := reader.next():
                yield block
        finally:
            files.close()
        return
    try:
        path.parent.mkdir(exist_ok=True)
    except FileNotFoundError:
        # Either nothing ever wrote a log, or the pod is forgotten: `logs` goes with its folder.
        if not folder.path.exists():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
    with changes_in(path.parent, folder.path) as changes:
        async for block in _followed(folder, container, run, cut, changes):
            yield block


async def _followed(
    folder: PodFolder, container: str, run: int, cut: LogCut, changes: Changes
) -> AsyncGenerator[bytes, None]:
    files = _Files(folder.log(container, run))
    try:
        place = _place(files, cut)
        if _is_cut_short(files, cut, place):
            yield files.gap
        reader = _Reader(files, place)
        while True:
            # Asked before reading: what was written before the end is there to be read.
            has_ended = _has_ended(folder, container, run)
            is_current = files.is_current()
            while block := reader.next():
                yield block
            if not is_current:
                files.close()
                files = _Files(folder.log(container, run), files.number)
                if files.gap:
                    yield files.gap
                reader = _Reader(files, Place(0, 0))
                if files.descriptors:
                    continue
            if has_ended:
                return
            await changes.wait()
    finally:
        files.close()


def _has_ended(folder: PodFolder, container: str, run: int) -> bool:
    # The order matters: a supervisor stores its last state before it lets go of the lock.
    is_alive = is_supervised(folder)
    state = read_state(folder)
    if state is None:
        return not folder.path.exists()
    return not is_alive or is_run_over(state, container, run)


def is_run_over(state: PodState, container: str, run: int) -> bool:
    """Whether no more will be written to the log of this run."""
    if state.is_over:
        return True
    for known in (*state.init_containers, *state.containers):
        if known.name == container:
            is_behind = known.stage is Stage.ENDED or known.last_end is not None
            return known.run > run or (
                known.run == run and known.stage is not Stage.RUNNING and is_behind
            )
    return True


class _Reader:
    """Goes through open files from a place on; a record that is not whole yet stays for later."""

    def __init__(self, files: _Files, place: Place) -> None:
        self._files = files
        self._index, self._offset = place

    def next(self) -> bytes:
        """The next whole records; empty at the end, which need not be the end for good."""
        while self._index < len(self._files.descriptors):
            size = _BLOCK_BYTES
            descriptor = self._files.descriptors[self._index]
            while True:
                block = os.pread(descriptor, size, self._offset)
                whole = block.rfind(b"\n") + 1
                if whole or len(block) < size:
                    break
                size *= 2
            if whole:
                self._offset += whole
                return block[:whole]
            if self._index + 1 == len(self._files.descriptors):
                return b""
            self._index += 1
            self._offset = 0
        return b""
