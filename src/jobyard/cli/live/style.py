"""Colours and tables for terminals, and the same without either for everything else.

Few colours, each with one meaning: green ended well, red failed, yellow waits or will be tried
again, and one colour per replica for the prefix of its log lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from jobyard.cli.live.widths import padded, width_of

_PHASES: Final = {
    "Succeeded": "green",
    "Running": "cyan",
    "Failed": "red",
    "Paused": "yellow",
    "Creating": "yellow",
    "Pending": "yellow",
    "Waiting": "yellow",
    "Stopping": "yellow",
    "Unknown": "magenta",
}
_PREFIXES: Final = (
    "cyan", "magenta", "blue", "green", "yellow",
    "bright_cyan", "bright_magenta", "bright_blue", "bright_green", "bright_yellow",
)  # fmt: skip


class Palette:
    """Colours text, or leaves it alone."""

    def __init__(self, *, is_coloured: bool) -> None:
        self.is_coloured = is_coloured
        self._prefixes: dict[str, str] = {}

    def phase(self, phase: str, width: int = 0) -> str:
        return self._painted(phase.ljust(width), _PHASES.get(phase))

    def prefix(self, replica: str, width: int) -> str:
        """What stands before a line of a replica's log."""
        colour = self._prefixes.setdefault(replica, _PREFIXES[len(self._prefixes) % len(_PREFIXES)])
        return self._painted(f"{replica.ljust(width)} |", colour)

    def faint(self, text: str) -> str:
        return click.style(text, dim=True) if self.is_coloured else text

    def bold(self, text: str) -> str:
        return click.style(text, bold=True) if self.is_coloured else text

    def warning(self, text: str) -> str:
        return self._painted(text, "yellow")

    def failure(self, text: str) -> str:
        return self._painted(text, "red")

    def _painted(self, text: str, colour: str | None) -> str:
        return click.style(text, fg=colour) if self.is_coloured and colour else text


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as their widest cell, three spaces apart, as kubectl prints them."""
    cells = [list(head), *(list(row) for row in rows)]
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
