"""Colours and tables for terminals, and the same without either for everything else.

Few colours, each with one meaning: green ended well, red failed, yellow waits or will be tried
again, and one colour per replica for the prefix of its log lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jobyard.terminal.sequences import RESET, in_a_row, marked
from jobyard.terminal.widths import padded, width_of

# Numbers of SGR, as every terminal knows them.
_RED, _GREEN, _YELLOW, _MAGENTA, _CYAN = "31", "32", "33", "35", "36"
_BOLD, _FAINT = "1", "2"
_PHASES: Final = {
    "Succeeded": _GREEN,
    "Running": _CYAN,
    "Failed": _RED,
    "Paused": _YELLOW,
    "Creating": _YELLOW,
    "Pending": _YELLOW,
    "Waiting": _YELLOW,
    "Stopping": _YELLOW,
    "Unknown": _MAGENTA,
}
# Cyan, magenta, blue, green, yellow, and the same bright.
_PREFIXES: Final = ("36", "35", "34", "32", "33", "96", "95", "94", "92", "93")


class Palette:
    """Marks what is to be coloured, or leaves it alone; only a terminal is shown any colours."""

    def __init__(self, *, is_coloured: bool = True) -> None:
        self.is_coloured = is_coloured
        self._prefixes: dict[str, str] = {}

    def phase(self, phase: str, width: int = 0) -> str:
        return self._painted(phase.ljust(width), _PHASES.get(phase))

    def prefix(self, replica: str, width: int) -> str:
        """What stands before a line of a replica's log."""
        colour = self._prefixes.setdefault(replica, _PREFIXES[len(self._prefixes) % len(_PREFIXES)])
        return self._painted(f"{replica.ljust(width)} |", colour)

    def faint(self, text: str) -> str:
        return self._painted(text, _FAINT)

    def bold(self, text: str) -> str:
        return self._painted(text, _BOLD)

    def success(self, text: str) -> str:
        return self._painted(text, _GREEN)

    def warning(self, text: str) -> str:
        return self._painted(text, _YELLOW)

    def failure(self, text: str) -> str:
        return self._painted(text, _RED)

    def fault(self, text: str) -> str:
        """Where something is wrong, in a file."""
        return self._painted(text, f"{_RED};{_BOLD}")

    def _painted(self, text: str, colour: str | None) -> str:
        return f"{marked(colour)}{text}{RESET}" if self.is_coloured and colour else text


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as their widest cell, three spaces apart, as kubectl prints them."""
    cells = [list(head), *(list(map(in_a_row, row)) for row in rows)]
    widths = [max(width_of(row[n]) for row in cells) for n in range(len(head))]
    return [
        "   ".join(padded(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def duration(seconds: float) -> str:
    """`0.4s`, `12s`, `3m05s`, `2h10m`."""
    if seconds < 10:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
