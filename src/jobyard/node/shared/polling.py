"""Looking again and again: only for what gives no sign when it changes.

Whatever can be watched (a descriptor, a process, a folder) is watched instead. It holds up the
thread that calls it, so an event loop must not.
"""

from __future__ import annotations

import time
from collections.abc import Callable


def until(holds: Callable[[], bool], *, seconds: float, interval_seconds: float) -> bool:
    """Whether it held in time; looked at once in any case, and once more at the end."""
    assert interval_seconds > 0, "a look without a pause keeps a core busy"
    deadline = time.monotonic() + seconds
    while not holds():
        left_seconds = deadline - time.monotonic()
        if left_seconds <= 0:
            return False
        time.sleep(min(interval_seconds, left_seconds))
    return True
