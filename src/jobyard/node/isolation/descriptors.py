"""Closing what a forked process has inherited and has no business with."""

from __future__ import annotations

import os
from typing import Final

_DESCRIPTORS_MAX: Final = 1 << 20


def close_all_but(*kept: int) -> None:
    """Everything above standard error that isn't named."""
    start = 3
    for descriptor in sorted({one for one in kept if one >= start}):
        os.closerange(start, descriptor)
        start = descriptor + 1
    os.closerange(start, _DESCRIPTORS_MAX)
