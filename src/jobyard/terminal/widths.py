"""How many columns of a terminal a text takes, and what of it fits into so many.

Colours, which are marks here, take none, wide characters two. What moves the cursor is not for
here: see `sequences`.
"""

from __future__ import annotations

import unicodedata
from typing import Final

from jobyard.terminal.sequences import MARK, RESET, harmless, marked

# The two ways to end all colours.
_ENDS: Final = (RESET, marked(""))


def width_of(text: str) -> int:
    """The columns that a line of text takes."""
    return sum(map(_columns, MARK.sub("", text)))


def cut(text: str, columns: int) -> str:
    """The text if it fits, else as much as does, with a sign that there is more."""
    if width_of(text) <= columns:
        return text
    room = max(columns - 1, 0)
    out: list[str] = []
    is_coloured = False
    for part in MARK.split(text):
        if MARK.fullmatch(part):
            out.append(part)
            is_coloured = True
            continue
        for character in part:
            room -= _columns(character)
            if room < 0:
                return "".join(out) + ("…" if columns > 0 else "") + RESET * is_coloured
            out.append(character)
    raise AssertionError("a text that is too wide has a character too many")


def padded(text: str, columns: int) -> str:
    """The text with blanks up to a width."""
    return text + " " * (columns - width_of(text))


def last_state(text: bytes) -> bytes:
    """Of a line that was written over, as a progress bar does it, what stands there in the end."""
    return text.rstrip(b"\r").rpartition(b"\r")[2]


def printable(text: bytes) -> str:
    """A log line as a terminal may show it: colours stay, and end with the line; nothing else acts.

    Of a progress bar that returns to the start of its line, the last state is shown.
    """
    shown = harmless(last_state(text).decode(errors="replace"), keeps_colours=True)
    colours: list[str] = MARK.findall(shown)
    return shown + RESET if colours and colours[-1] not in _ENDS else shown


def telling_lines(text: str) -> list[str]:
    """Those that say something: not the empty ones, nor rulers such as mpirun's."""
    lines = [harmless(line).strip() for line in text.splitlines()]
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
