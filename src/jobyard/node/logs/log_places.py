"""Finds where to begin in a log, reading as little of it as that takes.

Works on open files, oldest first. Nothing here changes a file or waits.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from jobyard.node.logs.log_files import HEADER_BYTES, STAMP_BYTES, STREAM_AT, TAG_AT

_BLOCK_BYTES: Final = 64 * 1024
_FULL: Final = ord("F")


class Place(NamedTuple):
    """The beginning of a record: which file, and how far into it."""

    file: int
    offset: int


def since_place(descriptors: Sequence[int], stamp: bytes) -> Place:
    """The first record that is not older than a stamp."""
    for index, descriptor in enumerate(descriptors):
        size = os.fstat(descriptor).st_size
        # Halves the range in which the record begins; clocks that went back are not our concern.
        low, high = 0, size
        while low < high:
            middle = (low + high) // 2
            start = _next_record(descriptor, middle, size)
            if start < size and os.pread(descriptor, STAMP_BYTES, start) < stamp:
                low = start + 1
            else:
                high = middle
        start = _next_record(descriptor, low, size)
        if start < size:
            return Place(index, start)
    return _end(descriptors)


def _end(descriptors: Sequence[int]) -> Place:
    if not descriptors:
        return Place(0, 0)
    last = len(descriptors) - 1
    return Place(last, os.fstat(descriptors[last]).st_size)


def _next_record(descriptor: int, offset: int, size: int) -> int:
    """Where the first record begins that starts at or after an offset; `size` if none does."""
    if offset == 0:
        return 0
    offset -= 1
    while offset < size:
        block = os.pread(descriptor, _BLOCK_BYTES, offset)
        found = block.find(b"\n")
        if found >= 0:
            return offset + found + 1
        if not block:
            break
        offset += len(block)
    return size


def last_lines(descriptors: Sequence[int], count: int) -> Place:
    """Where the last `count` lines begin; a line without an end counts as one.

    Goes through the records backwards. A line's first record is the one whose neighbour before
    it, of the same stream, ends a line; when streams alternate within a line it is broken there
    as it is when shown.
    """
    if count <= 0:
        return _end(descriptors)
    place = _end(descriptors)
    seen = 0
    # The stream of the record behind the one that is looked at.
    behind = b""
    for index in range(len(descriptors) - 1, -1, -1):
        for offset, header in _headers_backwards(descriptors[index]):
            stream = header[STREAM_AT : TAG_AT - 1]
            if header[TAG_AT] == _FULL or stream != behind:
                # This record ends a line, so the one behind it begins one.
                if seen == count:
                    return place
                seen += 1
            behind = stream
            place = Place(index, offset)
    return place


def _headers_backwards(descriptor: int) -> Iterator[tuple[int, bytes]]:
    """The records of a file from its end to its beginning, as offset and header."""
    start = os.fstat(descriptor).st_size
    # Read, but of a record whose beginning was not.
    rest = b""
    while start > 0:
        block_start = max(0, start - _BLOCK_BYTES)
        block = os.pread(descriptor, start - block_start, block_start) + rest
        lines = block.split(b"\n")
        # Behind the last end of a record: nothing, or one that is being written.
        offset = block_start + len(block) - len(lines.pop())
        rest = b""
        if block_start > 0 and lines:
            rest = lines.pop(0) + b"\n"
        elif block_start > 0:
            rest = block
        for line in reversed(lines):
            offset -= len(line) + 1
            if len(line) >= HEADER_BYTES:
                yield offset, line[:HEADER_BYTES]
        start = block_start
