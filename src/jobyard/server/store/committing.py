"""Group commit: the writes of one turn of the loop go to disk together, in a thread.

While one batch is being written the next one gathers. An answer waits for `committed`. A batch for
which the disk has no room is written again until it has: nothing of it was answered. When a write
fails in another way the store is closed for good: the engine around it has to stop, and `failed`
says so.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec

from jobyard.server.store.journal import Batch, NoRoomError
from jobyard.server.store.store import Store, StoreFailedError
from jobyard.server.store.watch_cache import Change

# Between two tries for room.
PAUSE_SECONDS: Final = 0.05
PAUSE_SECONDS_MAX: Final = 2.0
# Whoever waits longer than this for room is told so.
ROOM_SECONDS: Final = 30.0
# So much may wait for room; what comes after is refused before anything is done.
WAITING_MAX: Final = 1000
WAITING_BYTES_MAX: Final = 64 * 1024 * 1024

_log = logging.getLogger(__name__)


class _Waiter(msgspec.Struct, frozen=True):
    """An answer that waits for a version."""

    version: int
    since: float
    future: asyncio.Future[None]


class Committer:
    """Writes what a store has pending, one batch at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        # SQLite wants one thread at a time, and one is all that a disk can use.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._waiting: list[_Waiter] = []
        self._idle: asyncio.Future[None] | None = None
        self._scheduled = False
        # From the first try of a batch until it is on disk, or never will be.
        self._writing = False
        self._batch = Batch()
        self._changes: list[Change] = []
        # While there is no room: how often that was found, since when, and the next try.
        self._tries = 0
        self._full_since = 0.0
        self._again: asyncio.TimerHandle | None = None
        self._closing = False
        self.failed = asyncio.Event()
        store.on_pending = self._schedule

    def _schedule(self) -> None:
        if not self._scheduled and not self._writing:
            self._scheduled = True
            self._loop.call_soon(self._begin)

    def _begin(self) -> None:
        self._scheduled = False
        if self._writing or not self._store.has_pending or self._store.failure is not None:
            return
        self._writing = True
        self._batch, self._changes = self._store.taken()
        self._write()

    def _write(self) -> None:
        self._again = None
        journal = self._store.journal
        written = self._loop.run_in_executor(self._thread, journal.write, self._batch)
        written.add_done_callback(self._end)

    def _end(self, done: asyncio.Future[None]) -> None:
        problem = done.exception()
        if isinstance(problem, NoRoomError) and not self._closing:
            self._pause(problem)
            return
        self._writing = False
        self._store.trouble = ""
        if problem is not None:
            self._store.fail(problem)
            self.failed.set()
        else:
            self._store.settle(self._changes)
            if self._tries:
                seconds = self._loop.time() - self._full_since
                _log.warning("there is room on the disk again, after %.0f s", seconds)
        self._tries = 0
        self._changes = []
        self._wake()
        # What is pending after a failure is never written: whoever closes must not wait for it.
        if self._store.has_pending and self._store.failure is None:
            self._begin()
        elif self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    def _pause(self, problem: NoRoomError) -> None:
        """The same batch again, after a while that grows."""
        now = self._loop.time()
        if not self._tries:
            self._full_since = now
            self._store.trouble = f"the disk is full: {problem}"
            _log.error("%s; writes wait until there is room", problem)
        seconds = min(PAUSE_SECONDS * 2.0 ** min(self._tries, 16), PAUSE_SECONDS_MAX)
        self._tries += 1
        self._again = self._loop.call_later(seconds, self._write)
        tired = [waiter for waiter in self._waiting if waiter.since + ROOM_SECONDS < now]
        for waiter in tired:
            self._waiting.remove(waiter)
            if not waiter.future.done():
                waiter.future.set_exception(NoRoomError(str(problem)))

    @property
    def has_no_place(self) -> bool:
        """Whether so many writes wait for room that no more should be begun."""
        if not self._tries:
            return False
        waiting = (*self._changes, *self._store.pending)
        return len(waiting) >= WAITING_MAX or sum(c.size for c in waiting) >= WAITING_BYTES_MAX

    def _wake(self) -> None:
        still: list[_Waiter] = []
        for waiter in self._waiting:
            if waiter.future.done():
                continue
            if self._store.failure is not None:
                waiter.future.set_exception(StoreFailedError(str(self._store.failure)))
            elif waiter.version <= self._store.committed:
                waiter.future.set_result(None)
            else:
                still.append(waiter)
        self._waiting = still

    async def committed(self, version: int) -> None:
        """Returns once everything up to the version is on disk.

        Raises NoRoomError if that takes too long: the write may still be made.
        """
        self._store.check()
        if version <= self._store.committed:
            return
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(_Waiter(version, self._loop.time(), future))
        await future

    async def close(self) -> None:
        """Write what is pending, and give the store back to whoever flushes it by hand.

        What has no room now is tried once more. It was not answered, and is gone.
        """
        self._closing = True
        self._begin()
        if self._again is not None:
            self._again.cancel()
            self._write()
        if self._writing:
            self._idle = self._loop.create_future()
            await self._idle
        self._store.on_pending = None
        self._thread.shutdown()
