"""Which line of a failed container's last words names the error.

`standing` asks once a container has failed, with the end of its log, its exit code and the reason
that its node gives; rows, events and the commands show the answer. What a program says last is
mostly not why it failed: a launcher reports that a process is gone, a stack is printed, a peer
notices that the connection broke. `signs` has the table of what such lines look like, `log_tail`
reads them; here is how one is chosen: the last of those that tell most. Where nothing is
recognised it is the last line, as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from functools import lru_cache
from typing import Final

import msgspec

from jobyard.plan.facts.failure_signs import Kind, abridged, announces, is_group, weighed
from jobyard.plan.facts.log_tail import (
    ROOT_CAUSE,
    Line,
    Tail,
    mpi_blocks,
    says_what,
    tail_of,
    torchrun_table,
)

WORDS_LENGTH_MAX: Final = 500
# An error after which so many lines were said was one that the program could live with.
_STALE_LINES: Final = 25
_JOINED_LINES_MAX: Final = 6
# Lines of an exception group.
_PARTS_MAX: Final = 60
_MORE: Final = "…"

_NAME: Final = re.compile(r"(?!(?:INFO|DEBUG|WARNING|ERROR)\b)[A-Za-z_][\w.]*(?::|$)")
_DIRECT_CAUSE: Final = "The above exception was the direct cause of the following exception:"
_IGNORED: Final = re.compile(r"Exception ignored (?:in|on|while)\b")
_CALLS: Final = "(most recent call last):"
# What the point of an error may look like.
_SAYING: Final = (Kind.PLAIN, Kind.FOLLOWED, Kind.RAISED)
_TABLE_ROW: Final = re.compile(r"(rank|exitcode|traceback) +: (.+)$")

_SIGNALS: Final = {
    1: "SIGHUP",
    2: "SIGINT",
    3: "SIGQUIT",
    4: "SIGILL",
    5: "SIGTRAP",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    10: "SIGUSR1",
    11: "SIGSEGV",
    12: "SIGUSR2",
    13: "SIGPIPE",
    14: "SIGALRM",
    15: "SIGTERM",
    24: "SIGXCPU",
    25: "SIGXFSZ",
    31: "SIGSYS",
}
# Those that a program brings upon itself: its own words tell more than the signal.
_OWN_FAULTS: Final = frozenset((4, 5, 6, 7, 8, 11, 13, 31))
_SIGNAL_BASE: Final = 128
_KILL: Final = 9
# With any other word of its node, a container didn't end by its program alone.
_PLAIN_REASONS: Final = ("", "Error")


class _Found(msgspec.Struct, frozen=True, kw_only=True):
    """A line that says something about the failure."""

    kind: Kind
    line: int
    # Where all of it ends: of two that tell as much, the later one is shown.
    end: int
    # The line that announced it, before frames that are part of the message.
    head: int | None = None
    # The exception that it was raised from.
    root: int | None = None
    # Where it isn't read from the line but from several.
    words: str = ""


@lru_cache(maxsize=1024)
def last_words(said: str, exit_code: int | None = None, reason: str = "") -> str:
    """The error in one line; where nothing names it, the signal, or the last line.

    `reason` is the node's word for the end, such as OOMKilled. Asked for at every look at a job.
    """
    tail = tail_of(said)
    found = _best(tail)
    kind = Kind.PLAIN if found is None else found.kind
    words = "" if found is None else _words(tail.lines, found)
    number = (exit_code or 0) - _SIGNAL_BASE
    # With a code that a launcher passes on, it is another process that was killed.
    if number in _SIGNALS and reason in _PLAIN_REASONS and kind is not Kind.BLAMED:
        if kind <= Kind.REPORT:
            words = _with(_killed_by(number), "last line", tail.last_spoken)
        elif number not in _OWN_FAULTS:
            words = _with(_killed_by(number), "before that", words)
    elif kind is Kind.REPORT:
        words = _with(words, "last line", tail.last_spoken)
    # Of what nobody understands the end is kept, as of a log.
    return shortened(words, WORDS_LENGTH_MAX) if words else _end(tail.last_line, WORDS_LENGTH_MAX)


def shortened(words: str, length: int) -> str:
    """So much of last words: errors say what they are at their beginning."""
    if words.startswith(_MORE):
        return _end(words, length)
    return words if len(words) <= length else f"{words[: length - 1]}{_MORE}"


def _end(text: str, length: int) -> str:
    return text if len(text) <= length else f"{_MORE}{text[1 - length :]}"


def _killed_by(number: int) -> str:
    if number == _KILL:
        # The memory limit is what everybody thinks of.
        return f"killed by signal {number}, not by its memory limit"
    return f"killed by signal {number} ({_SIGNALS[number]})"


def _with(words: str, title: str, more: str) -> str:
    return f"{words.rstrip('.')}; {title}: {more}" if more and more not in words else words


def _best(tail: Tail) -> _Found | None:
    """The last of those that tell most; of reports the first, since others follow from it."""
    raised = _raised(tail.lines)
    known = tail.noise.union(each.line for each in raised)
    found = [*raised, *_stated(tail.lines, known), *_reported(tail.lines)]
    oldest = tail.spoken[-_STALE_LINES - 1] if len(tail.spoken) > _STALE_LINES else -1
    fresh = [each for each in found if each.end > oldest]
    if not fresh:
        return None
    kind = max(each.kind for each in fresh)
    ends = min if kind is Kind.REPORT else max
    return ends((each for each in fresh if each.kind is kind), key=lambda each: each.end)


def _raised(lines: Sequence[Line]) -> list[_Found]:
    """The exceptions of Python: what stands below the frames of a traceback, less far in."""
    out: list[_Found] = []
    depth: int | None = None
    is_ignored = is_caused = is_open = False
    for n, line in enumerate(lines):
        if line.is_frame:
            depth = line.indent
        elif _IGNORED.match(line.text):
            is_ignored = True
        elif line.text == _DIRECT_CAUSE:
            is_caused = bool(out)
        elif depth is not None and _ends_traceback(line, depth, is_open=is_open):
            depth = None
            if line.kind is not Kind.NOISE:
                head = out[-1].line if is_open and not _NAME.match(line.text) else None
                root = _deepest(out[-1]) if is_caused else None
                kind = Kind.FOLLOWED if is_ignored else _raised_kind(line)
                out.append(_Found(kind=kind, line=n, end=_end_of(lines, n), head=head, root=root))
                is_open = abridged(line.text).endswith(":")
            is_ignored = is_caused = False
    return out


def _deepest(found: _Found) -> int:
    return found.line if found.root is None else found.root


def _raised_kind(line: Line) -> Kind:
    """What is raised is an error whatever it looks like, but others' errors are raised too."""
    return line.kind if line.kind is Kind.REPORT else weighed(Kind.RAISED, line.text)


def _ends_traceback(line: Line, depth: int, *, is_open: bool) -> bool:
    """Other processes may write in between: it must look like an exception, or go on with one."""
    if line.indent > depth or not line.text:
        return False
    if line.indent == depth:
        return line.kind is Kind.RAISED
    return bool(_NAME.match(line.text)) or (is_open and line.tells)


def _end_of(lines: Sequence[Line], n: int) -> int:
    """Of an exception group, where the last of its parts stands."""
    end = n
    for line in lines[n + 1 : n + 1 + _PARTS_MAX] if is_group(lines[n].text) else ():
        if not line.is_part and not line.text.startswith("+-"):
            break
        end += 1
    return end


def _stated(lines: Sequence[Line], known: Set[int]) -> Iterator[_Found]:
    """Lines that say by themselves what they are."""
    for n, line in enumerate(lines):
        if line.kind > Kind.PLAIN and n not in known:
            kind = line.kind
            if says_what(lines, n):
                kind = weighed(kind, lines[n + 1].text)
            yield _Found(kind=kind, line=n, end=_end_of(lines, n))


def _reported(lines: Sequence[Line]) -> Iterator[_Found]:
    """What launchers say of the process that failed."""
    for start, end in mpi_blocks(lines):
        kind = lines[start].kind
        if kind is not Kind.NOISE:
            kind = Kind.ERROR if kind is Kind.PLAIN else kind
            yield _Found(kind=kind, line=start, end=start, words=_point(lines[start:end]))
    table = torchrun_table(lines)
    if table is not None:
        yield from _root_cause(lines, *table)


def _point(lines: Sequence[Line]) -> str:
    """The first paragraph of a block, or the first two where one announces the other."""
    first, *others = "\n".join(line.text for line in lines).split("\n\n")
    more = f" {others[0]}" if others and announces(first) else ""
    return abridged(" ".join(f"{first}{more}".split("\n")))


def _root_cause(lines: Sequence[Line], start: int, end: int) -> Iterator[_Found]:
    """torchrun's table in one line; an exception that it quotes is found by itself."""
    texts = [line.text for line in lines[start:end]]
    rows = {}
    for text in texts[texts.index(ROOT_CAUSE) :]:
        if (row := _TABLE_ROW.match(text)) is not None:
            rows[row[1]] = " ".join(row[2].split())
    told = ", ".join(f"{name} {rows[name]}" for name in ("rank", "exitcode") if name in rows)
    if told:
        # Of a long table the line with the script's name may be cut off.
        who = texts[0] if texts[0].endswith(" FAILED") else "torchrun"
        by_signal = rows.get("traceback", "").startswith("Signal ")
        kind = Kind.BLAMED if by_signal else Kind.REPORT
        yield _Found(kind=kind, line=start, end=start, words=f"{who}: {told}")


def _words(lines: Sequence[Line], found: _Found) -> str:
    words = found.words or _joined(lines, found.line, found.end)
    if found.head is not None:
        words = f"{abridged(lines[found.head].text)} {words}"
    root = "" if found.root is None else _joined(lines, found.root, found.root)
    return _with(words, "caused by", root)


def _joined(lines: Sequence[Line], n: int, end: int) -> str:
    """A line, with what it only announces."""
    words = abridged(lines[n].text)
    if announces(words):
        more = _paragraph(lines[n + 1 : n + 2 + 2 * _JOINED_LINES_MAX])
    else:
        parts = lines[n + 1 : end + 1]
        more = [line.text for line in parts if line.kind is Kind.RAISED]
    return " ".join(filter(None, (words, *map(abridged, more[:_JOINED_LINES_MAX]))))


def _paragraph(lines: Sequence[Line]) -> list[str]:
    """The lines up to an empty one, or to another thing."""
    out: list[str] = []
    for line in lines:
        is_other = line.kind not in _SAYING and line.tells
        is_stack = line.is_frame or line.text.endswith(_CALLS)
        if is_other or is_stack or (out and not line.text):
            break
        if line.tells:
            out.append(line.text)
    return out
