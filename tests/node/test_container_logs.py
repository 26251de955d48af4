"""Logs of containers: what was written is what is read, whatever it is and however it is cut."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rig.selection import all_is_asked_for

from jobyard.node.logs import container_logs, log_files
from jobyard.node.logs.container_logs import LogCut, read_logs, run_to_read
from jobyard.node.logs.log_files import (
    LogStream,
    LogWriter,
    last_number,
    numbered,
    numbers_of,
    stamp_of,
)
from jobyard.node.shared.folders import PodFolder
from jobyard.node.shared.keeping import take_lock, write_state
from jobyard.node.shared.state import ContainerState, End, PodState, Stage
from node.supervised import collected, within_time

SECOND = 10**9
OUT, ERR = LogStream.STDOUT, LogStream.STDERR
END = End(exit_code=0, reason="Completed", started_at=1, finished_at=2)


@pytest.fixture
def folder(tmp_path: Path) -> PodFolder:
    made = PodFolder(tmp_path, "abc")
    made.path.mkdir(parents=True)
    return made


def writer_of(folder: PodFolder, bytes_max: int = 2**20, files_max: int = 5) -> LogWriter:
    return LogWriter(folder.log("main", 0), bytes_max, files_max)


def text(folder: PodFolder, **cut: Any) -> bytes:
    return within_time(collected(folder, "main", 0, LogCut(**cut)))


def written(folder: PodFolder, lines: int, **limits: int) -> None:
    """Line n at second n, on both streams by turns."""
    writer = writer_of(folder, **limits)
    for n in range(lines):
        writer.feed((OUT, ERR)[n % 2], b"line %d\n" % n, n * SECOND)
    writer.close()


def test_a_record_is_in_the_form_of_container_runtimes(folder: PodFolder) -> None:
    writer = writer_of(folder)
    writer.feed(OUT, b"one\ntwo", 1_700_000_000 * SECOND + 5)
    writer.feed(ERR, b"oops\n", 1_700_000_001 * SECOND)
    writer.flush(OUT, 1_700_000_002 * SECOND)
    writer.close()
    assert folder.log("main", 0).read_bytes() == (
        b"2023-11-14T22:13:20.000000005Z stdout F one\n"
        b"2023-11-14T22:13:21.000000000Z stderr F oops\n"
        b"2023-11-14T22:13:22.000000000Z stdout P two\n"
    )


def test_a_line_that_comes_in_pieces_is_one_line(folder: PodFolder) -> None:
    writer = writer_of(folder)
    for piece in (b"a", b"b\nc", b"d", b"\n", b"\n", b"e"):
        writer.feed(OUT, piece, 0)
    writer.flush(OUT, 0)
    writer.close()
    assert text(folder) == b"ab\ncd\n\ne"
    assert text(folder, timestamps=True).count(b"Z ") == 4


def test_the_other_stream_never_gets_into_a_line(folder: PodFolder) -> None:
    writer = writer_of(folder)
    writer.feed(OUT, b"half of ", 0)
    writer.feed(ERR, b"a warning\n", 0)
    writer.feed(OUT, b"a line\n50 %", 0)
    writer.flush(OUT, 0)
    writer.feed(ERR, b"another\n", 0)
    writer.feed(OUT, b" 100 %\n", 0)
    writer.close()
    assert text(folder) == b"a warning\nhalf of a line\n50 %\nanother\n 100 %\n"


@pytest.mark.parametrize("size", [127, 128, 129, 1000])
def test_a_very_long_line_stays_whole(
    folder: PodFolder, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(log_files, "LINE_BYTES_MAX", 64)
    writer = writer_of(folder)
    writer.feed(OUT, b"short\n" + b"x" * size + b"\nshort\n" + b"y" * size, 0)
    writer.feed(OUT, b"z\n", 0)
    writer.close()
    assert text(folder) == b"short\n" + b"x" * size + b"\nshort\n" + b"y" * size + b"z\n"
    assert max(map(len, folder.log("main", 0).read_bytes().split(b"\n"))) <= 64 + 40


@given(
    pieces=st.lists(st.tuples(st.sampled_from(LogStream), st.binary(max_size=40)), max_size=30),
    flushes=st.sets(st.integers(0, 29)),
    bytes_max=st.integers(50, 500),
)
@settings(max_examples=200 if all_is_asked_for() else 50, deadline=None)
def test_any_bytes_of_a_stream_come_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory,
    pieces: list[tuple[LogStream, bytes]],
    flushes: set[int],
    bytes_max: int,
) -> None:
    """Alone on a log, so that nothing breaks a line: byte by byte, across any number of files."""
    for stream in LogStream:
        folder = PodFolder(tmp_path_factory.mktemp("logs"), "abc")
        writer = writer_of(folder, bytes_max, 10_000)
        own = [piece for other, piece in pieces if other is stream]
        for n, piece in enumerate(own):
            writer.feed(stream, piece, n)
            if n in flushes:
                writer.flush(stream, n)
        writer.flush(stream, 99)
        writer.close()
        whole = b"".join(own)
        assert text(folder) == whole
        # With its end, where it has one; what a line is, no other character decides.
        lines = [line for line in re.split(rb"(?<=\n)", whole) if line]
        for count in (0, 1, 2, 5):
            assert text(folder, tail_lines=count) == b"".join(lines[-count:] if count else [])


def test_files_are_rotated_and_the_oldest_go(folder: PodFolder) -> None:
    written(folder, 1000, bytes_max=1000, files_max=4)
    path = folder.log("main", 0)
    numbers = numbers_of(path)
    assert len(numbers) == 3
    assert numbers[0] > 1
    assert all(0 < part.stat().st_size <= 1000 for part in path.parent.glob("0.log.[0-9]*"))
    note, *lines = text(folder).splitlines()
    assert note.startswith(b"jobyard: %d lines are missing here" % (1000 - len(lines)))
    assert lines == [b"line %d" % n for n in range(1000 - len(lines), 1000)]
    assert len(lines) > 50


def test_a_file_that_goes_while_the_files_are_opened_is_told_of(
    folder: PodFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer puts a file aside and then removes the oldest; a reader comes in between."""
    written(folder, 1000, bytes_max=1000, files_max=4)
    path = folder.log("main", 0)
    full = numbers_of(path)
    listed = iter([full])

    def listed_before(path: Path) -> list[int]:
        found = next(listed, None)
        if found is None:
            return numbers_of(path)
        numbered(path, found[0]).unlink()
        return found

    monkeypatch.setattr(container_logs, "numbers_of", listed_before)
    note, *lines = text(folder).splitlines()
    assert numbers_of(path) == full[1:]
    assert note.startswith(b"jobyard: %d lines are missing here" % (1000 - len(lines)))
    assert lines == [b"line %d" % n for n in range(1000 - len(lines), 1000)]


def test_with_one_file_there_is_only_one(folder: PodFolder) -> None:
    written(folder, 100, bytes_max=500, files_max=1)
    parts = {part.name for part in folder.log("main", 0).parent.iterdir()}
    assert parts == {"0.log", "0.log.ends"}
    note, *lines = text(folder).splitlines()
    assert lines[-1] == b"line 99"
    assert note.startswith(b"jobyard: %d lines are missing here" % (100 - len(lines)))


@pytest.mark.parametrize("files_max", [1, 2, 5])
@pytest.mark.parametrize(
    ("cut", "is_told"),
    [
        pytest.param({}, True, id="all"),
        pytest.param({"tail_lines": 2}, False, id="lines that are there"),
        pytest.param({"tail_lines": 90}, True, id="lines that are not"),
        pytest.param({"tail_lines": 0}, False, id="no line"),
        pytest.param({"since": 98}, False, id="since a time after it"),
        pytest.param({"since": 1}, True, id="since a time before it"),
        pytest.param({"timestamps": True}, True, id="with stamps"),
    ],
)
def test_what_rotation_has_taken_is_told_to_who_asked_for_it(
    folder: PodFolder, files_max: int, cut: dict[str, Any], is_told: bool
) -> None:
    written(folder, 100, bytes_max=500, files_max=files_max)
    lines = text(folder, **cut).splitlines()
    notes = [line for line in lines if b"jobyard: " in line]
    assert len(notes) == is_told
    if is_told:
        rest = len(lines) - 1
        assert lines[0] == notes[0]
        when = stamp_of((99 - rest) * SECOND)
        told = b"jobyard: %d lines are missing here, up to %bZ: the log had no room for them"
        assert told % (100 - rest, when[:19]) in notes[0]
        if cut.get("timestamps"):
            assert notes[0].startswith(when + b" jobyard: ")


def test_exactly_what_is_left_is_nothing_missing(folder: PodFolder) -> None:
    written(folder, 100, bytes_max=500, files_max=2)
    left = len(text(folder).splitlines()) - 1
    assert b"jobyard" not in text(folder, tail_lines=left)
    assert b"jobyard" in text(folder, tail_lines=left + 1)


def test_a_disk_that_is_full_when_a_file_is_put_aside_loses_no_count(
    folder: PodFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.pwrite
    failures = iter([True, True, False] * 1000)

    def full(*arguments: Any) -> int:
        if next(failures):
            raise OSError(28, "No space left on device")
        return real(*arguments)

    monkeypatch.setattr(log_files.os, "pwrite", full)
    writer = writer_of(folder, 500, 2)
    for n in range(100):
        writer.feed(OUT, b"line %d\n" % n, n * SECOND)
        while writer.is_stuck:
            writer.retry()
    writer.close()
    note, *lines = text(folder).splitlines()
    assert lines == [b"line %d" % n for n in range(100 - len(lines), 100)]
    assert note.startswith(b"jobyard: %d lines are missing here" % (100 - len(lines)))


@pytest.mark.parametrize(
    ("cut", "want"),
    [
        pytest.param({"tail_lines": 0}, range(0), id="no line"),
        pytest.param({"tail_lines": 1}, range(99, 100), id="the last line"),
        pytest.param({"tail_lines": 60}, range(40, 100), id="lines of several files"),
        pytest.param({"tail_lines": 1000}, range(100), id="more lines than there are"),
        pytest.param({"since": 0}, range(100), id="since the beginning"),
        pytest.param({"since": 37}, range(37, 100), id="since a line"),
        pytest.param({"since": 36.5}, range(37, 100), id="since a moment between two lines"),
        pytest.param({"since": 99}, range(99, 100), id="since the last line"),
        pytest.param({"since": 100}, range(0), id="since the end"),
        pytest.param({"since": 50, "tail_lines": 3}, range(97, 100), id="the later of both"),
        pytest.param({"since": 98, "tail_lines": 50}, range(98, 100), id="the later of both, too"),
    ],
)
@pytest.mark.parametrize("bytes_max", [500, 10**6])
def test_a_part_of_a_log_is(
    folder: PodFolder, cut: dict[str, Any], want: range, bytes_max: int
) -> None:
    written(folder, 100, bytes_max=bytes_max, files_max=1000)
    assert text(folder, **cut).splitlines() == [b"line %d" % n for n in want]


def test_a_limit_is_exact_and_stamps_are_in_front(folder: PodFolder) -> None:
    written(folder, 100, bytes_max=500, files_max=1000)
    assert text(folder, limit_bytes=9) == b"line 0\nli"
    assert text(folder, limit_bytes=0) == b""
    assert text(folder, timestamps=True, tail_lines=1) == stamp_of(99 * SECOND) + b" line 99\n"


def test_the_end_of_a_large_log_is_found_without_reading_it(
    folder: PodFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = writer_of(folder, bytes_max=10**9)
    block = b"".join(b"%0100d\n" % n for n in range(10_000))
    for n in range(60):
        writer.feed(OUT, block, n * SECOND)
    writer.close()
    assert folder.log("main", 0).stat().st_size > 80 * 10**6
    bytes_read = 0
    pread = os.pread

    def counted(descriptor: int, size: int, offset: int) -> bytes:
        nonlocal bytes_read
        data = pread(descriptor, size, offset)
        bytes_read += len(data)
        return data

    monkeypatch.setattr(os, "pread", counted)
    assert len(text(folder, tail_lines=100)) == 100 * 101
    assert bytes_read < 2**18
    assert len(text(folder, since=59)) == len(block)
    assert bytes_read < 2**18 + 3 * len(block)


def test_half_a_record_is_not_shown(folder: PodFolder) -> None:
    written(folder, 3)
    with folder.log("main", 0).open("ab") as file:
        file.write(b"2023-11-14T22:13:20.00000")
    assert text(folder).endswith(b"line 2\n")
    assert text(folder, tail_lines=1) == b"line 2\n"
    assert text(folder, since=2) == b"line 2\n"


def test_no_log_is_an_empty_text(folder: PodFolder) -> None:
    assert text(folder) == b""
    assert text(folder, tail_lines=3, since=3) == b""


@pytest.mark.parametrize("follow", [False, True])
def test_a_log_that_is_long_leaves_others_their_turn(
    folder: PodFolder, monkeypatch: pytest.MonkeyPatch, follow: bool
) -> None:
    monkeypatch.setattr(container_logs, "_BLOCK_BYTES", 1024)
    written(folder, 2000)
    ended = ContainerState(name="main", stage=Stage.ENDED, end=END)
    write_state(folder, PodState(uid="abc", containers=(ended,), is_over=True))
    turns = blocks = 0

    async def ticking() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def reading() -> None:
        nonlocal blocks
        ticker = asyncio.create_task(ticking())
        async for _ in read_logs(folder, "main", 0, LogCut(follow=follow)):
            blocks += 1
        ticker.cancel()

    within_time(reading())
    assert blocks > 20
    assert turns >= blocks


def test_a_full_disk_loses_nothing(folder: PodFolder) -> None:
    """The limit of this process on the size of files stands for a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    writer = writer_of(folder)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
        for n in range(10):
            writer.feed(OUT, b"line %d\n" % n, n * SECOND)
        assert writer.is_stuck
        assert not writer.retry()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert folder.log("main", 0).stat().st_size == 100
    assert writer.retry()
    assert not writer.is_stuck
    writer.close()
    assert text(folder).splitlines() == [b"line %d" % n for n in range(10)]


class Follower:
    """Follows a log beside a writer, both in one event loop."""

    def __init__(self, folder: PodFolder, **cut: Any) -> None:
        self.folder = folder
        self.text = b""
        self._grown = asyncio.Event()
        self._task = asyncio.create_task(self._follow(LogCut(follow=True, **cut)))

    async def _follow(self, cut: LogCut) -> None:
        async for piece in read_logs(self.folder, "main", 0, cut):
            self.text += piece
            self._grown.set()

    async def until(self, end: bytes) -> None:
        while not self.text.endswith(end):
            self._grown.clear()
            await self._grown.wait()

    async def end(self) -> bytes:
        await self._task
        return self.text


def stored(folder: PodFolder, **container: Any) -> None:
    state = ContainerState(name="main", **container)
    write_state(folder, PodState(uid=folder.uid, containers=(state,)))


def held(folder: PodFolder) -> int:
    """A process that has the pod's lock, as a supervisor has."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        take_lock(folder)
        os.write(write, b"x")
        os.close(write)
        signal.pause()
        os._exit(0)
    os.read(read, 1)
    os.close(read)
    os.close(write)
    return pid


@pytest.fixture
def supervisor(folder: PodFolder) -> Any:
    pid = held(folder)
    yield pid
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


@pytest.mark.usefixtures("supervisor")
def test_following_shows_lines_as_they_come_and_ends_with_the_run(folder: PodFolder) -> None:
    async def work() -> None:
        stored(folder, stage=Stage.RUNNING)
        follower = Follower(folder)
        writer = writer_of(folder)
        for n in range(5):
            writer.feed(OUT, b"line %d\n" % n, n)
            await follower.until(b"line %d\n" % n)
        writer.feed(OUT, b"no end", 6)
        writer.flush(OUT, 6)
        await follower.until(b"no end")
        writer.feed(OUT, b" after all\n", 6)
        stored(folder, stage=Stage.ENDED, end=END)
        assert (await follower.end()).endswith(b"line 4\nno end after all\n")

    within_time(work())


@pytest.mark.usefixtures("supervisor")
@pytest.mark.parametrize("files_max", [1, 3, 1000])
def test_following_goes_on_in_the_next_file(folder: PodFolder, files_max: int) -> None:
    async def work() -> None:
        stored(folder, stage=Stage.RUNNING)
        follower = Follower(folder)
        writer = writer_of(folder, 200, files_max)
        for n in range(50):
            writer.feed(OUT, b"line %d\n" % n, n)
            await follower.until(b"line %d\n" % n)
        stored(folder, stage=Stage.RUNNING, run=1, last_end=END)
        assert (await follower.end()).splitlines() == [b"line %d" % n for n in range(50)]

    within_time(work())


@pytest.mark.usefixtures("supervisor")
def test_a_follower_that_is_behind_misses_nothing_that_is_kept(folder: PodFolder) -> None:
    async def work() -> None:
        stored(folder, stage=Stage.RUNNING)
        follower = Follower(folder)
        writer = writer_of(folder, 200, 1000)
        for n in range(500):
            # Several files at a time, before the follower gets to see any of them.
            writer.feed(OUT, b"line %d\n" % n, n)
            if n % 100 == 0:
                await follower.until(b"line %d\n" % n)
        stored(folder, stage=Stage.WAITING, last_end=END)
        assert (await follower.end()).splitlines() == [b"line %d" % n for n in range(500)]

    within_time(work())


@pytest.mark.usefixtures("supervisor")
@pytest.mark.parametrize("files_max", [3, 1000])
def test_a_follower_that_comes_while_no_file_grows_misses_nothing(
    folder: PodFolder, files_max: int
) -> None:
    """The last one was put aside, and the next is made, filled and put aside before it looks."""

    async def work() -> None:
        written(folder, 10, bytes_max=200, files_max=files_max)
        path = folder.log("main", 0)
        path.rename(numbered(path, last_number(path) + 1))
        stored(folder, stage=Stage.RUNNING)
        follower = Follower(folder)
        await follower.until(b"line 9\n")
        writer = writer_of(folder, 200, files_max)
        for n in range(10, 16):
            writer.feed(OUT, b"line %d\n" % n, n * SECOND)
        stored(folder, stage=Stage.WAITING, last_end=END)
        lines = (await follower.end()).splitlines()
        told = [line for line in lines if not line.startswith(b"jobyard: ")]
        assert told[-7:] == [b"line %d" % n for n in range(9, 16)]

    within_time(work())


@pytest.mark.usefixtures("supervisor")
@pytest.mark.parametrize("files_max", [1, 3])
def test_a_follower_that_was_overtaken_is_told_what_it_missed(
    folder: PodFolder, files_max: int
) -> None:
    """Between what is shown and what is told nothing is lost, and the last line comes."""

    async def work() -> None:
        stored(folder, stage=Stage.RUNNING)
        follower = Follower(folder)
        writer = writer_of(folder, 200, files_max)
        for n in range(500):
            writer.feed(OUT, b"line %d\n" % n, n * SECOND)
            if n % 100 == 0:
                await follower.until(b"line %d\n" % n)
        stored(folder, stage=Stage.WAITING, last_end=END)
        at = notes = 0
        for line in (await follower.end()).splitlines():
            if found := re.match(rb"jobyard: (\d+) lines are missing here, up to (\S+):", line):
                at += int(found[1])
                notes += 1
                assert found[2] == stamp_of((at - 1) * SECOND)[:19] + b"Z"
            else:
                assert line == b"line %d" % at
                at += 1
        assert at == 500
        assert notes == 5

    within_time(work())


def test_following_ends_when_nobody_writes_any_more(folder: PodFolder) -> None:
    """A supervisor that was killed left a state in which the container runs."""
    pid = held(folder)
    stored(folder, stage=Stage.RUNNING)
    written(folder, 3)

    async def work() -> bytes:
        follower = Follower(folder)
        await follower.until(b"line 2\n")
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return await follower.end()

    assert within_time(work()) == b"line 0\nline 1\nline 2\n"


def test_following_what_is_forgotten_brings_nothing_back(tmp_path: Path) -> None:
    folder = PodFolder(tmp_path, "abc")
    assert within_time(collected(folder, "main", 0, LogCut(follow=True))) == b""
    assert not folder.path.exists()


@pytest.mark.usefixtures("supervisor")
def test_two_hundred_followers_need_one_descriptor_of_the_kernel(folder: PodFolder) -> None:
    async def work() -> None:
        stored(folder, stage=Stage.RUNNING)
        writer = writer_of(folder)
        followers = [Follower(folder) for _ in range(200)]
        writer.feed(OUT, b"hello\n", 0)
        for follower in followers:
            await follower.until(b"hello\n")
        links = [os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.exists()]
        assert not [link for link in links if "inotify" in link][1:]
        stored(folder, stage=Stage.ENDED, end=END)
        for follower in followers:
            assert await follower.end() == b"hello\n"

    within_time(work())


@pytest.mark.parametrize(
    ("state", "newest", "previous"),
    [
        pytest.param(ContainerState(name="c"), None, None, id="never ran"),
        pytest.param(ContainerState(name="c", stage=Stage.RUNNING), 0, None, id="first run"),
        pytest.param(
            ContainerState(name="c", stage=Stage.RUNNING, run=2, last_end=END), 2, 1, id="third run"
        ),
        pytest.param(ContainerState(name="c", run=2, last_end=END), 2, 2, id="waits to run again"),
        pytest.param(ContainerState(name="c", stage=Stage.ENDED, run=2, end=END), 2, 1, id="ended"),
    ],
)
def test_the_run_to_read_of_a_container_that(
    state: ContainerState, newest: int | None, previous: int | None
) -> None:
    assert run_to_read(state) == newest
    assert run_to_read(state, previous=True) == previous
