"""How many columns of a terminal a text takes, and what of it fits into so many.

Colours take none, wide characters two. What moves the cursor is not for here: see `printable`.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_COLOUR: Final = re.compile(r"(\x1b\[[0-9;:]*m)")
_RESET: Final = "\x1b[0m"
# What moves the cursor, clears something, or sets the title of the window.
_MOVES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-ln-~]"
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"
    r"|\x1b[PX^_][^\x1b]*(?:\x1b\\)?"
    r"|\x1b(?!\[)[ -/]*[0-~]?"
)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1a\x1c-\x1f\x7f\x80-\x9f]")


def width_of(text: str) -> int:
    """The columns that a line of text takes."""
    return sum(map(_columns, _COLOUR.sub("", text)))


def cut(text: str, columns: int) -> str:
    """The text if it fits, else as much as does, with a sign that there is more."""
    if width_of(text) <= columns:
        return text
    room = max(columns - 1, 0)
    out: list[str] = []
    is_coloured = False
    for part in _COLOUR.split(text):
        if _COLOUR.fullmatch(part):
            out.append(part)
            is_coloured = True
            continue
        for character in part:
            room -= _columns(character)
            if room < 0:
                return "".join(out) + ("…" if columns > 0 else "") + _RESET * is_coloured
            out.append(character)
    raise AssertionError("a text that is too wide has a character too many")


def padded(text: str, columns: int) -> str:
    """The text with blanks up to a width."""
    return text + " " * (columns - width_of(text))


def printable(text: bytes) -> str:
    """A log line as it may be shown: colours stay, and end with the line; nothing else acts.

    Of a progress bar that returns to the start of its line, the last state is shown.
    """
    line = text.decode(errors="replace").rstrip("\r").rpartition("\r")[2]
    shown = _CONTROL.sub("", _MOVES.sub("", line))
    colours: list[str] = _COLOUR.findall(shown)
    return shown + _RESET if colours and colours[-1] not in (_RESET, "\x1b[m") else shown


def telling_lines(text: str) -> list[str]:
    """Those that say something: not the empty ones, nor rulers such as mpirun's."""
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if any(c.isalnum() for c in line)]


def one_line(text: str) -> str:
    """A text of several lines, such as the end of a log, by its first and its last."""
    lines = telling_lines(text)
    return " … ".join(lines if len(lines) < 3 else [lines[0], lines[-1]])


def _columns(character: str) -> int:
    if character < "\u0300":
        return 1
    if unicodedata.combining(character) or unicodedata.category(character) in ("Cf", "Me", "Mn"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
