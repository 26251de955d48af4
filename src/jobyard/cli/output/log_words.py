"""What parts of the engine or the client log without being asked, on standard error.

A warning about somebody's object has words of that object, as any message has: see `saying`.
`controller` has a log of its own.
"""

from __future__ import annotations

import logging

from jobyard.terminal.sequences import harmless


class _Words(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return harmless(super().format(record))


def guard_log() -> None:
    """Of all that nobody has configured otherwise."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_Words())
