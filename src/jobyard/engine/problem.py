"""What keeps an engine from working here: told as it is, and not as a fault of jobyard."""

from __future__ import annotations


class EngineError(Exception):
    """An engine can't work here; the message says why, and what would help."""
