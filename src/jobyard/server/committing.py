"""Group commit: the writes of one turn of the loop go to disk together, in a thread.

While one batch is being written the next one gathers. An answer waits for `committed`. When a
write fails the store is closed for good: the engine around it has to stop, and `failed` says so.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from jobyard.server.store import Change, Store, StoreFailedError


class Committer:
    """Writes what a store has pending, one batch at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        # SQLite wants one thread at a time, and one is all that a disk can use.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._idle: asyncio.Future[None] | None = None
        self._scheduled = False
        self._writing = False
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
        batch, changes = self._store.taken()
        written = self._loop.run_in_executor(self._thread, self._store.journal.write, batch)
        written.add_done_callback(lambda done: self._end(done, changes))

    def _end(self, done: asyncio.Future[None], changes: list[Change]) -> None:
        self._writing = False
        problem = done.exception()
        if problem is not None:
            self._store.fail(problem)
            self.failed.set()
        else:
            self._store.settle(changes)
        self._wake()
        # What is pending after a failure is never written: whoever closes must not wait for it.
        if self._store.has_pending and self._store.failure is None:
            self._begin()
        elif self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    def _wake(self) -> None:
        still: list[tuple[int, asyncio.Future[None]]] = []
        for version, waiter in self._waiting:
            if waiter.done():
                continue
            if self._store.failure is not None:
                waiter.set_exception(StoreFailedError(str(self._store.failure)))
            elif version <= self._store.committed:
                waiter.set_result(None)
            else:
                still.append((version, waiter))
        self._waiting = still

    async def committed(self, version: int) -> None:
        """Returns once everything up to the version is on disk."""
        self._store.check()
        if version <= self._store.committed:
            return
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append((version, waiter))
        await waiter

    async def close(self) -> None:
        """Write what is pending, and give the store back to whoever flushes it by hand."""
        self._begin()
        if self._writing:
            self._idle = self._loop.create_future()
            await self._idle
        self._store.on_pending = None
        self._thread.shutdown()
