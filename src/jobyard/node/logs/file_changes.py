"""Waits until something in a folder changes, without looking again and again.

One inotify instance for each event loop, however many wait: a user may have only 128. Where
there is no inotify, or none left, a waiter is woken by the clock. It tells that something
changed, never what: who waits looks for itself.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_MODIFY: Final = 0x2
_MOVED_TO: Final = 0x80
_CREATE: Final = 0x100
_HEADER: Final = struct.Struct("iIII")
_IDLE_SECONDS: Final = 5.0
_BLIND_SECONDS: Final = 0.25

_libc: Final = ctypes.CDLL(None, use_errno=True)
_of_loop: Final[weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Inotify]] = (
    weakref.WeakKeyDictionary()
)


class Changes:
    """One who waits. A change that came since the last `wait` began is not missed."""

    def __init__(self, *, is_blind: bool) -> None:
        self._event = asyncio.Event()
        self._seconds = _BLIND_SECONDS if is_blind else _IDLE_SECONDS

    def tell(self) -> None:
        self._event.set()

    async def wait(self) -> None:
        """Until a change, and in any case not for longer than some seconds."""
        try:
            async with asyncio.timeout(self._seconds):
                await self._event.wait()
        except TimeoutError:
            return
        self._event.clear()


class _Inotify:
    """The instance of one event loop; open while anybody waits."""

    def __init__(self) -> None:
        self.descriptor = -1
        self._waiting: dict[int, list[Changes]] = {}

    def add(self, folder: Path, changes: Changes) -> int:
        if self.descriptor < 0:
            self.descriptor = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            if self.descriptor < 0:
                raise OSError(ctypes.get_errno(), "inotify_init1")
            asyncio.get_running_loop().add_reader(self.descriptor, self._read)
        mask = _MODIFY | _MOVED_TO | _CREATE
        watch = _libc.inotify_add_watch(self.descriptor, os.fsencode(folder), mask)
        if watch < 0:
            self._close_if_idle()
            raise OSError(ctypes.get_errno(), "inotify_add_watch", str(folder))
        self._waiting.setdefault(watch, []).append(changes)
        return int(watch)

    def remove(self, watch: int, changes: Changes) -> None:
        waiting = self._waiting[watch]
        waiting.remove(changes)
        if not waiting:
            del self._waiting[watch]
            _libc.inotify_rm_watch(self.descriptor, watch)
        self._close_if_idle()

    def _close_if_idle(self) -> None:
        if not self._waiting and self.descriptor >= 0:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self.descriptor)
            # The kernel takes some ten milliseconds for it, which nobody has to wait for.
            loop.run_in_executor(None, os.close, self.descriptor)
            self.descriptor = -1

    def _read(self) -> None:
        try:
            data = os.read(self.descriptor, 65536)
        except BlockingIOError:
            return
        offset = 0
        while offset < len(data):
            watch, _, _, length = _HEADER.unpack_from(data, offset)
            offset += _HEADER.size + length
            # -1: the kernel lost count, so everybody looks.
            for number, waiting in self._waiting.items():
                if watch in (number, -1):
                    for changes in waiting:
                        changes.tell()


@contextmanager
def changes_in(*folders: Path) -> Iterator[Changes]:
    """Within it, `wait` returns after anything in one of the folders changed."""
    loop = asyncio.get_running_loop()
    inotify = _of_loop.setdefault(loop, _Inotify())
    added: list[int] = []
    changes = Changes(is_blind=False)
    try:
        try:
            for folder in folders:
                added.append(inotify.add(folder, changes))  # noqa: PERF401 - all or those so far
        except (OSError, AttributeError):
            for watch in added:
                inotify.remove(watch, changes)
            added.clear()
            changes = Changes(is_blind=True)
        yield changes
    finally:
        for watch in added:
            inotify.remove(watch, changes)
