"""How far a log has been read, by lines, so that it can be read on after a connection was cut.

A log is read again from its beginning then, and what was shown is left out. By that time its
beginning may have gone: the node says how many lines, in a line of its own.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from jobyard.numerals import whole_number

# In the words of the node's reader of logs.
_MISSING: Final = re.compile(rb"jobyard: ([0-9]{1,18}) lines are missing here, ")
# A line, or a piece of one that is too long or has no end; and whether it ends here.
Lines = AsyncGenerator[tuple[bytes, bool], None]


class LogPlace:
    """The place up to which one log was shown."""

    def __init__(self) -> None:
        # Of the log, those that were missing among them.
        self._lines = 0

    async def after(self, lines: Lines) -> Lines:
        """The lines of a reading from the beginning on, without those that were shown before."""
        reached = 0
        async with aclosing(lines):
            async for text, is_whole in lines:
                missing = _missing(text)
                reached += missing or is_whole
                was_shown = reached <= self._lines
                if not is_whole:
                    # A piece of the line that comes after those.
                    was_shown = reached < self._lines
                if not was_shown:
                    self._lines = max(self._lines, reached)
                    yield text, is_whole


def _missing(text: bytes) -> int:
    """How many lines a line says are missing; 0 if it says no such thing."""
    found = _MISSING.match(text)
    return (whole_number(found[1].decode()) or 0) if found else 0
