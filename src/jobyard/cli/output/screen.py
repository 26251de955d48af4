"""Log lines that scroll by, and below them, on a terminal, a table that stays and is redrawn.

Nothing else may write to the same stream while a table stands there. Off a terminal only lines
are written, each at once. What the table says is for others to know: they give a function that
is asked for its rows whenever it is drawn. The sequences that move the cursor are ours alone:
lines and rows have gone through `sequences` before.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, TextIO

from jobyard.cli.output.saying import shows_colours
from jobyard.terminal.sequences import finished, in_a_row
from jobyard.terminal.widths import cut, width_of

# Lines and table go out at most this often: a terminal is slow, and flickers.
PAUSE_SECONDS: Final = 0.1
# So often the table is drawn anew when nothing happens: it tells how long that has been.
REDRAW_SECONDS: Final = 1.0
_UP_AND_CLEAR: Final = "\x1b[{}F\x1b[J"
# A terminal that knows these shows all between them at once.
_BEGIN: Final = "\x1b[?2026h"
_END: Final = "\x1b[?2026l"

# The rows of a table for a terminal of so many columns and lines.
Table = Callable[[int, int], Sequence[str]]


class Screen:
    """One stream to write to. `clock` is seconds that only grow."""

    def __init__(self, out: TextIO, *, is_live: bool, clock: Callable[[], float]) -> None:
        self._out = out
        self._is_live = is_live
        self._clock = clock
        self._is_coloured = shows_colours(out)
        self._table: Table | None = None
        self._pending: list[str] = []
        # The rows that stand on the terminal now.
        self._drawn: list[str] = []
        self._wrote_at = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        self._is_abandoned = False

    @property
    def is_live(self) -> bool:
        return self._is_live

    @property
    def is_terminal(self) -> bool:
        """Whether what is written here may act, with a table or without."""
        return self._out.isatty()

    @property
    def columns(self) -> int | None:
        """How wide the terminal is; None if it is none."""
        return self._size().columns if self._is_live else None

    def line(self, text: str) -> None:
        """Writes a line above the table, in a moment at the latest."""
        if self._is_abandoned:
            return
        shown = finished(text, is_coloured=self._is_coloured)
        if not self._is_live:
            self._out.write(shown + "\n")
            self._out.flush()
            return
        self._pending.append(shown)
        self._write_soon()

    def pass_on(self, front: str, text: bytes) -> None:
        """Off a terminal: a line of a program, byte for byte, behind words of our own."""
        assert not self._is_live, "a terminal would act on it"
        begun = finished(front, is_coloured=False)
        binary = getattr(self._out, "buffer", None)
        if binary is None:
            self._out.write(f"{begun}{text.decode(errors='replace')}\n")
        else:
            self._out.flush()
            binary.write(begun.encode() + text + b"\n")
        self._out.flush()

    def show(self, table: Table) -> None:
        """What the table says from now on; only a terminal sees it."""
        if self._is_live:
            self._table = table
            self._write_soon()

    def abandon(self) -> None:
        """Nobody reads it any more: nothing is written from now on."""
        self._is_abandoned = True

    def close(self) -> None:
        """Takes the table away: what is written next starts where it stood."""
        self._table = None
        if self._is_live:
            self._write()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _write_soon(self) -> None:
        left = self._wrote_at + PAUSE_SECONDS - self._clock()
        if left <= 0:
            self._write()
        else:
            self._write_after(left)

    def _write_after(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        when = loop.time() + seconds
        if self._timer is not None:
            if self._timer.when() <= when and not self._timer.cancelled():
                return
            self._timer.cancel()
        self._timer = loop.call_at(when, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        # Nobody waits for this; who writes the next line will hear.
        with suppress(OSError):
            self._write()

    def _write(self) -> None:
        """All of it in one go, so that nobody sees a terminal without its table."""
        if self._is_abandoned:
            return
        size = self._size()
        erased = _UP_AND_CLEAR.format(lines) if (lines := self._height(size.columns)) else ""
        rows = self._table(size.columns, size.lines) if self._table is not None else ()
        self._drawn = [cut(in_a_row(row), size.columns) for row in rows]
        drawn = [finished(row, is_coloured=self._is_coloured) for row in self._drawn]
        lines_out = "".join(f"{line}\n" for line in (*self._pending, *drawn))
        self._pending.clear()
        if erased or lines_out:
            self._out.write(f"{_BEGIN}{erased}{lines_out}{_END}")
            self._out.flush()
        self._wrote_at = self._clock()
        if self._table is not None:
            self._write_after(REDRAW_SECONDS)

    def _size(self) -> os.terminal_size:
        """Of the terminal that is written to, whatever the other streams are."""
        try:
            size = os.get_terminal_size(self._out.fileno())
        except (OSError, ValueError):
            size = os.terminal_size((0, 0))
        # One that doesn't know its size says 0.
        return size if size.columns > 0 and size.lines > 0 else shutil.get_terminal_size()

    def _height(self, columns: int) -> int:
        """How high what was drawn is by now: rows wrap when a terminal gets narrower."""
        return sum(max(1, -(-width_of(row) // columns)) for row in self._drawn)
