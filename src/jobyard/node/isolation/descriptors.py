"""Who owns a descriptor: closing what was inherited, and what a start that failed had opened."""

from __future__ import annotations

import contextlib
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


class Held:
    """Descriptors that are closed at the end of a `with`, however it ends, unless given away."""

    def __init__(self) -> None:
        self._open: set[int] = set()

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *_: object) -> None:
        self.close(*self._open)

    def take(self, descriptor: int) -> int:
        self._open.add(descriptor)
        return descriptor

    def pipe(self) -> tuple[int, int]:
        read, write = os.pipe()
        return self.take(read), self.take(write)

    def close(self, *descriptors: int) -> None:
        for descriptor in self._open & set(descriptors):
            self._open.discard(descriptor)
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def give(self, descriptor: int) -> int:
        """Somebody else's from now on."""
        self._open.discard(descriptor)
        return descriptor
