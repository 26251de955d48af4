"""How much room folders take on the disk, found out within a time.

What is asked for may have millions of files, or be on a disk that doesn't answer; who asks waits
for a moment at most, and is told whether all of it was seen. Other disks that are mounted
somewhere below are not counted.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from pathlib import Path
from typing import Final

import msgspec

# How much the logs of pods that are over may be, unless an engine is told otherwise.
DISK_BYTES_DEFAULT: Final = 5 * 2**30
_BLOCK_BYTES: Final = 512
# How many entries are looked at between two looks at the clock.
_STRIDE: Final = 256
_LEAST_SECONDS: Final = 0.03
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


class Use(msgspec.Struct, frozen=True):
    """What was seen; not whole: there is more."""

    bytes: int = 0
    is_whole: bool = True

    def __add__(self, other: Use) -> Use:
        return Use(self.bytes + other.bytes, self.is_whole and other.is_whole)

    def __str__(self) -> str:
        return spelled(self.bytes) if self.is_whole else f"more than {spelled(self.bytes)}"


def spelled(count: int) -> str:
    """Bytes for people: `3.2 GiB`."""
    amount, unit = count * 1.0, 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{count} B" if unit == 0 else f"{amount:.1f} {_UNITS[unit]}"


class Measure:
    """Measures folders, one after the other, until the time is over."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds

    def of(self, *paths: Path) -> Use:
        """All of them together. In a thread that may be left behind: a disk may not answer."""
        # Who comes last has a moment too.
        until = max(self._until, time.monotonic() + _LEAST_SECONDS)
        walk = _Walk(until)
        thread = threading.Thread(target=walk.go, args=(paths,), daemon=True, name="disk use")
        thread.start()
        thread.join(max(0.0, until - time.monotonic()) + _LEAST_SECONDS)
        return walk.use


class _Walk:
    def __init__(self, until: float) -> None:
        self._until = until
        self._bytes = 0
        self._is_whole = False
        self._seen: set[tuple[int, int]] = set()

    @property
    def use(self) -> Use:
        # The other thread sets the second last.
        is_whole = self._is_whole
        return Use(self._bytes, is_whole)

    def go(self, paths: tuple[Path, ...]) -> None:
        found = [self._all_of(path) for path in paths]
        self._is_whole = all(found)

    def _all_of(self, path: Path) -> bool:
        try:
            top = os.lstat(path)
        except OSError:
            return not os.path.lexists(path)
        self._count(top)
        folders = [os.fspath(path)] if os.path.isdir(path) and not path.is_symlink() else []
        is_whole, looks = True, 0
        while folders:
            try:
                with os.scandir(folders.pop()) as entries:
                    for entry in entries:
                        looks += 1
                        if looks % _STRIDE == 0 and time.monotonic() > self._until:
                            return False
                        one = entry.stat(follow_symlinks=False)
                        if one.st_dev != top.st_dev:
                            continue
                        self._count(one)
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(entry.path)
            except FileNotFoundError:
                # It went meanwhile.
                continue
            except OSError:
                is_whole = False
            if time.monotonic() > self._until:
                return is_whole and not folders
        return is_whole

    def _count(self, one: os.stat_result) -> None:
        if one.st_nlink > 1 and not stat.S_ISDIR(one.st_mode):
            # One file with several names takes its room once.
            if (one.st_dev, one.st_ino) in self._seen:
                return
            self._seen.add((one.st_dev, one.st_ino))
        self._bytes += one.st_blocks * _BLOCK_BYTES
