"""What every part of the server works on: objects, rows, a clock and dice.

Clock and dice are arguments, so that a script of calls always has the same answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

import msgspec

from jobyard.server.store.catalogue import ServedCatalogue
from jobyard.server.store.store import Store

# Most stamps are of this second or the last.
_STAMPS_KEPT: Final = 64
# 9999-12-31T23:59:59Z: years have four digits.
_LAST_SECOND: Final = 253402300799


class Site(msgspec.Struct, frozen=True):
    """One server's state and the three things it can't compute."""

    store: Store
    catalogue: ServedCatalogue
    # Seconds since the epoch.
    now: Callable[[], float]
    new_uid: Callable[[], str]
    # Five characters for the end of a generated name.
    new_suffix: Callable[[], str]

    def timestamp(self, seconds_from_now: float = 0) -> str:
        """A moment as metadata has it, in whole seconds."""
        return stamp(self.now() + seconds_from_now)


def stamp(moment: float) -> str:
    return _stamp(min(max(math.trunc(moment), 0), _LAST_SECOND))


@lru_cache(_STAMPS_KEPT)
def _stamp(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment_of(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
