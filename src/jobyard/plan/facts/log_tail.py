"""The end of a log as lines: what stands in each, what it is, and which belong together.

For `last_words` alone. Escape sequences and control characters are gone, and so is what others
put before a line (`[rank1]: `, a time); how far in a line stands is kept, because a traceback is
read by it. Of a long text only the end is looked at, of a long line the beginning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from jobyard.plan.facts.failure_signs import Kind, kind_of, without_prefix

# More than a node passes on, which is 4 KiB.
_TEXT_LENGTH_MAX: Final = 8 * 1024
_LINES_MAX: Final = 200
_LINE_LENGTH_MAX: Final = 2000
# The end of a log as a node passes it on; half a character at its start may take more bytes.
_CUT_BYTES: Final = range(2040, 2060)

_ESCAPES: Final = re.compile(
    r"\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]?"
    r"|\x1b\][^\x07\x1b\n\r]*(?:\x07|\x1b\\)?"
    r"|\x1b[PX^_][^\x1b\n\r]*(?:\x1b\\)?"
    r"|\x1b[ -/]{0,8}[0-~]?"
)
# Control characters but for those between lines, and those that turn the direction of writing.
_CONTROL: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)
_FRAME: Final = re.compile(r'File "[^"]*", line \d+(?:, in |$)')
_RULER: Final = re.compile(r"[-=*]{10,}$")
# What Open MPI has to say stands between two rulers.
_MPI: Final = re.compile(
    r"mpirun |mpiexec |prterun |ORTE |PRTE |An ORTE |Open MPI |MPI_ABORT |Primary job +terminated"
    r"|There are not enough slots|A (?:process|request|system call|requested|component) "
)
# torchrun's table of failures ends with this section.
ROOT_CAUSE: Final = "Root Cause (first observed failure):"
_FAILED: Final = re.compile(r"\S+ FAILED$")
_TERMINATE: Final = "terminate called after throwing"
# What is part of an exception group.
_PART: Final = "| "


class Line(msgspec.Struct, frozen=True):
    """A line as it came, and without what others put before it."""

    raw: str
    text: str
    indent: int
    kind: Kind
    is_part: bool

    @property
    def tells(self) -> bool:
        return any(map(str.isalnum, self.text))

    @property
    def is_frame(self) -> bool:
        """Of a traceback of Python, where the exception comes below the frames."""
        return _FRAME.match(self.text) is not None


class Tail(msgspec.Struct, frozen=True):
    """The end of a log."""

    lines: Sequence[Line]
    # Lines that say nothing without others around them.
    noise: frozenset[int]
    # What a program wrote of its own accord, and whole.
    spoken: tuple[int, ...]

    @property
    def last_spoken(self) -> str:
        return self.lines[self.spoken[-1]].raw if self.spoken else ""

    @property
    def last_line(self) -> str:
        """The program's own, or where all is noise, the end of that."""
        telling = (line.raw for line in reversed(self.lines) if line.tells)
        return self.last_spoken or next(telling, "")


def tail_of(said: str) -> Tail:
    text = _CONTROL.sub("", _ESCAPES.sub("", said[-_TEXT_LENGTH_MAX:]))
    # A progress bar returns to the beginning of its line: each state of it is one.
    lines = [_line(raw) for raw in text.splitlines()[-_LINES_MAX:]]
    noise = frozenset(_noise_of(lines))
    first = _first_whole(lines) if _is_cut(said) else 0
    spoken = (
        n
        for n, line in enumerate(lines)
        if n >= first and line.kind is Kind.PLAIN and n not in noise and line.tells
    )
    return Tail(lines, noise, tuple(spoken))


def _is_cut(said: str) -> bool:
    return len(said) < _CUT_BYTES.stop and len(said.encode(errors="replace")) in _CUT_BYTES


def _first_whole(lines: Sequence[Line]) -> int:
    """A log is cut anywhere: what it begins with is no line, or the code of a frame before."""
    return next((n for n, line in enumerate(lines) if n and line.text and not line.indent), 1)


def _line(raw: str) -> Line:
    whole = raw.expandtabs(4).rstrip()
    own = without_prefix(whole[:_LINE_LENGTH_MAX])
    bare = own.lstrip(" ")
    text = bare.removeprefix(_PART)
    return Line(whole.strip(), text, len(own) - len(bare), kind_of(text), text != bare)


def _noise_of(lines: Sequence[Line]) -> Iterator[int]:
    for start, end in mpi_blocks(lines):
        yield from range(start, end)
    table = torchrun_table(lines)
    if table is not None:
        yield from range(*table)
    depth: int | None = None
    for n, line in enumerate(lines):
        if line.is_frame:
            depth = line.indent
            yield n
        elif depth is not None and line.indent > depth:
            # The code of the frame, and the marks below it.
            yield n
        elif line.text:
            depth = None
        if n and says_what(lines, n - 1):
            yield n


def says_what(lines: Sequence[Line], n: int) -> bool:
    """Whether C++ names an exception here, and what it says in the line below."""
    return (
        n + 1 < len(lines)
        and lines[n].text.startswith(_TERMINATE)
        and lines[n + 1].text.startswith("what():")
    )


def mpi_blocks(lines: Sequence[Line]) -> Iterator[tuple[int, int]]:
    """From where to where each goes, without its rulers."""
    rulers = [n for n, line in enumerate(lines) if _RULER.match(line.text)]
    for start, end in pairwise([*rulers, len(lines)]):
        if end > start + 1 and _MPI.match(lines[start + 1].text):
            yield start + 1, end


def torchrun_table(lines: Sequence[Line]) -> tuple[int, int] | None:
    """From where to where it goes; of a long one the beginning may have been cut off."""
    cause = next((n for n, line in enumerate(lines) if line.text == ROOT_CAUSE), None)
    if cause is None:
        return None
    heads = [n for n in range(cause) if _FAILED.match(lines[n].text)]
    rulers = (n for n in range(cause, len(lines)) if _RULER.match(lines[n].text))
    return (heads[-1] if heads else 0), next(rulers, len(lines))
