"""One pass at a time for each pod, and again when it was woken meanwhile.

The agent wakes a pod for every reason there is; what a pass does depends only on what is true
when it runs. A pass that fails is repeated after a while, which grows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from jobyard.client.backoff import Backoff
from jobyard.client.errors import ClientError
from jobyard.node.shared.runtime import RuntimeFailedError

PASSES_MAX: Final = 16
_log = logging.getLogger(__name__)


class Lanes:
    """Runs `work` for each pod that was woken. Belongs to a task group."""

    def __init__(
        self, group: asyncio.TaskGroup, work: Callable[[str], Awaitable[None]], backoff: Backoff
    ) -> None:
        self._group = group
        self._work = work
        self._backoff = backoff
        self._busy: set[str] = set()
        self._again: set[str] = set()
        self._failures: dict[str, int] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._slots = asyncio.Semaphore(PASSES_MAX)
        self._is_closed = False

    def wake(self, uid: str) -> None:
        """Let there be a pass that sees all that is true now."""
        timer = self._timers.pop(uid, None)
        if timer is not None:
            timer.cancel()
        if self._is_closed:
            return
        if uid in self._busy:
            self._again.add(uid)
            return
        self._busy.add(uid)
        self._group.create_task(self._run(uid))

    def wake_in(self, uid: str, seconds: float) -> None:
        """The same, later; an earlier wake takes its place."""
        timer = self._timers.pop(uid, None)
        if timer is not None:
            timer.cancel()
        if self._is_closed:
            return
        loop = asyncio.get_running_loop()
        self._timers[uid] = loop.call_later(seconds, self._rung, uid)

    def retry(self, uid: str) -> None:
        """Something isn't there yet: look again, each time after a longer while."""
        self._failures[uid] = failures = self._failures.get(uid, 0) + 1
        self.wake_in(uid, self._backoff.delay_seconds(failures))

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        self._failures.pop(uid, None)
        timer = self._timers.pop(uid, None)
        if timer is not None:
            timer.cancel()

    def close(self) -> None:
        """No timer may ring after the task group has ended, nor one that a last pass would set."""
        self._is_closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _rung(self, uid: str) -> None:
        self._timers.pop(uid, None)
        self.wake(uid)

    async def _run(self, uid: str) -> None:
        while True:
            self._again.discard(uid)
            async with self._slots:
                before = self._failures.get(uid)
                try:
                    await self._work(uid)
                    if self._failures.get(uid) == before:
                        # Nothing was missing this time.
                        self._failures.pop(uid, None)
                except (ClientError, RuntimeFailedError, OSError) as error:
                    # Of the last kind is a full disk: the pod waits for room.
                    _log.warning("pod %s: %s", uid, error)
                    self.retry(uid)
                except Exception:
                    # A fault of the program: this pod waits, the others go on.
                    _log.exception("pod %s: the pass failed", uid)
                    self.retry(uid)
            if uid not in self._again:
                self._busy.discard(uid)
                return
