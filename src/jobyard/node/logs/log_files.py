"""A container's log on disk: how a line looks, how files follow one another, how they are written.

One record is one line of the file, in the form of Kubernetes' container runtimes:
`<time> stdout|stderr F|P <text>`; P is a part of a line that had no end yet. All headers have
the same length. The file that grows is `<run>.log`; when it is full it becomes `<run>.log.<n>`
with n counting up, and the oldest go. What went is counted in `<run>.log.ends`, so that a reader
can say what is missing. Bytes are never decoded. Reading for people is `container_logs`; this
knows neither asyncio nor pods.
"""

from __future__ import annotations

import contextlib
import os
import time
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from jobyard.numerals import whole_number

HEADER_BYTES: Final = len(b"2006-01-02T15:04:05.000000000Z stdout F ")
STAMP_BYTES: Final = len(b"2006-01-02T15:04:05.000000000Z")
STREAM_AT: Final = STAMP_BYTES + 1
TAG_AT: Final = HEADER_BYTES - 2
# A longer line is stored in parts. Until then it is held back, so that it stays in one piece
# whatever the other stream does.
LINE_BYTES_MAX: Final = 128 * 1024


# In place of a stream, in what a reader says itself.
NOBODY: Final = b"reader"
_COUNT_BYTES: Final = 19
_END_BYTES: Final = _COUNT_BYTES + 1 + STAMP_BYTES + 1


class LogStream(StrEnum):
    """The two ways out of a process, by names of the same length."""

    STDOUT = "stdout"
    STDERR = "stderr"


def stamp_of(nanoseconds: int) -> bytes:
    """A time as it stands in a record; stamps compare as the times do."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).encode() + b".%09dZ" % rest


def numbers_of(path: Path) -> list[int]:
    """The full files beside a log, oldest first."""
    prefix = path.name + "."
    try:
        names = os.listdir(path.parent)
    except FileNotFoundError:
        return []
    ends = (whole_number(name[len(prefix) :]) for name in names if name.startswith(prefix))
    return sorted(end for end in ends if end is not None)


def last_number(path: Path) -> int:
    """That of the file which was put aside last, whether it is still there or not."""
    try:
        ends = _ends(path).stat().st_size // _END_BYTES
    except OSError:
        ends = 0
    return max([ends, *numbers_of(path)])


def remove_log(path: Path) -> None:
    """All of one run's: what still grew, what was put aside, and its ends."""
    for part in (path, _ends(path), *(numbered(path, number) for number in numbers_of(path))):
        part.unlink(missing_ok=True)


def numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


class LogEnd(NamedTuple):
    """How a full file ended: how many records there are up to here, and when the last was made."""

    records: int
    stamp: bytes


def end_of(path: Path, number: int) -> LogEnd:
    """That of a full file, also of one that has gone; nothing is known of logs without ends."""
    try:
        with _ends(path).open("rb") as file:
            file.seek((number - 1) * _END_BYTES)
            record = file.read(_END_BYTES)
    except (OSError, ValueError):
        record = b""
    count = whole_number(record[:_COUNT_BYTES].decode(errors="replace"))
    if len(record) < _END_BYTES or count is None:
        return LogEnd(0, b"")
    return LogEnd(count, record[_COUNT_BYTES + 1 : -1])


def _ends(path: Path) -> Path:
    return path.with_name(f"{path.name}.ends")


class LogWriter:
    """Writes the log of one run. What the disk won't take now is kept and tried again."""

    def __init__(self, path: Path, bytes_max: int, files_max: int) -> None:
        self._path = path
        self._bytes_max = bytes_max
        self._files_max = max(files_max, 1)
        self._held = dict.fromkeys(LogStream, b"")
        self._unwritten = b""
        # The file ends within a record, because the disk took only a part of it.
        self._is_torn = False
        # Of all files of this log, and of the newest record.
        self._records = 0
        self._stamp = b""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._number = last_number(path)
        self._open()

    @property
    def is_stuck(self) -> bool:
        """The disk did not take everything: read no more from the process, `retry` later."""
        return bool(self._unwritten)

    def holds(self, stream: LogStream) -> bool:
        """Whether there is the beginning of a line that nobody can read yet."""
        return bool(self._held[stream])

    def feed(self, stream: LogStream, data: bytes, nanoseconds: int) -> None:
        """Takes output of the process and stores the lines that are complete."""
        lines = (self._held[stream] + data).split(b"\n")
        rest = lines.pop()
        stamp = stamp_of(nanoseconds)
        full = b"%b %b F " % (stamp, stream.encode())
        part = b"%b %b P " % (stamp, stream.encode())
        records = b""
        if lines:
            if max(map(len, lines)) <= LINE_BYTES_MAX:
                records = full + (b"\n" + full).join(lines) + b"\n"
            else:
                records = b"".join(_in_parts(line, full, part) for line in lines)
        while len(rest) > LINE_BYTES_MAX:
            records += part + rest[:LINE_BYTES_MAX] + b"\n"
            rest = rest[LINE_BYTES_MAX:]
        self._held[stream] = rest
        if records:
            self._store(records)

    def flush(self, stream: LogStream, nanoseconds: int) -> None:
        """Stores the beginning of a line, as such."""
        held, self._held[stream] = self._held[stream], b""
        if held:
            self._store(b"%b %b P %b\n" % (stamp_of(nanoseconds), stream.encode(), held))

    def retry(self) -> bool:
        """Whether the disk has taken everything."""
        self._store(b"")
        return not self._unwritten

    def close(self) -> None:
        os.close(self._file)

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(self._path, flags, 0o600)
        self._size = os.fstat(self._file).st_size

    def _store(self, records: bytes) -> None:
        rest = self._unwritten + records if self._unwritten else records
        try:
            while rest:
                if self._is_torn:
                    room = rest.index(b"\n") + 1
                elif self._size and self._size + len(rest) > self._bytes_max:
                    room = rest.rfind(b"\n", 0, max(self._bytes_max - self._size, 0)) + 1
                    if not room:
                        self._rotate()
                        continue
                elif len(rest) > self._bytes_max:
                    first = rest.index(b"\n") + 1
                    room = max(rest.rfind(b"\n", 0, self._bytes_max) + 1, first)
                else:
                    room = len(rest)
                while room:
                    written = os.write(self._file, rest[:room])
                    self._count(rest, written)
                    self._size += written
                    room -= written
                    self._is_torn = room > 0
                    rest = rest[written:]
        except OSError:
            # Full, or over a quota. Whatever it is, the process must not lose its output.
            self._unwritten = rest
        else:
            self._unwritten = b""

    def _count(self, records: bytes, written: int) -> None:
        self._records += records.count(b"\n", 0, written)
        last = records.rfind(b"\n", 0, max(written - 1, 0)) + 1
        if last or not self._is_torn:
            self._stamp = records[last : last + STAMP_BYTES]

    def _rotate(self) -> None:
        number = self._number + 1
        # It may be away already, if the disk refused the file that was to take its place.
        with contextlib.suppress(FileNotFoundError):
            self._path.rename(numbered(self._path, number))
        # Before the oldest go: a file that is not there has an end, for readers to find.
        self._write_end(number)
        old = self._file
        self._open()
        self._number = number
        os.close(old)
        kept = self._files_max - 1
        for number in numbers_of(self._path)[: -kept or None]:
            numbered(self._path, number).unlink(missing_ok=True)

    def _write_end(self, number: int) -> None:
        """In its place, so that to do it again after a failure changes nothing."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        file = os.open(_ends(self._path), flags, 0o600)
        try:
            record = b"%0*d %b\n" % (_COUNT_BYTES, self._records, self._stamp)
            os.pwrite(file, record, (number - 1) * _END_BYTES)
        finally:
            os.close(file)


def _in_parts(line: bytes, full: bytes, part: bytes) -> bytes:
    records = b""
    while len(line) > LINE_BYTES_MAX:
        records += part + line[:LINE_BYTES_MAX] + b"\n"
        line = line[LINE_BYTES_MAX:]
    return records + full + line + b"\n"
