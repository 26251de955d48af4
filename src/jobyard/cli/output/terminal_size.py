"""How wide the terminal is that a command writes to, and texts broken to fit it."""

from __future__ import annotations

import os
import sys
from typing import Final, TextIO

from jobyard.terminal.widths import width_of

# Below that, breaking lines makes them worse.
_COLUMNS_MIN: Final = 20


def columns_of_output() -> int | None:
    """The columns of a terminal; None for what is none, where lines may be as long as they are."""
    stream: TextIO | None = sys.stdout
    try:
        if stream is None or not stream.isatty():
            return None
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None


def broken(text: str, columns: int | None, indent: str = "") -> list[str]:
    """The text as lines that fit, the first as it is and the others behind the indent.

    A word that is wider than a line stays whole, and the terminal breaks it: it may be copied.
    """
    if columns is None or columns < _COLUMNS_MIN:
        return [text]
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
        room = columns - (width_of(indent) if lines else 0)
        tried = f"{line} {word}" if line else word
        if line and width_of(tried) > room:
            lines.append(f"{indent if lines else ''}{line}")
            line = word
        else:
            line = tried
    lines.append(f"{indent if lines else ''}{line}")
    return lines
