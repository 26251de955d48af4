"""A server that runs: calls on the loop, answers once they are on disk, tidying in between.

The HTTP shell and clients in the same process use it alike. While the disk is full, writes wait and
reads go on. When the disk can't be written, every answer is 500 from then on and `until_failed`
raises: the engine has to stop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import Final, NoReturn, Self

import msgspec

from jobyard.server.call import Call, Reply
from jobyard.server.messages.rendering import problem_reply
from jobyard.server.problem import Details, ProblemError
from jobyard.server.server import ApiServer, failure_reply
from jobyard.server.store.committing import Committer
from jobyard.server.store.journal import NoRoomError
from jobyard.server.store.store import StoreFailedError
from jobyard.server.verbs.following import followed
from jobyard.server.verbs.watch import Watch

# So many steps of tidying at a time: calls don't wait long for it.
TIDY_STEPS: Final = 50
EXPIRE_SECONDS: Final = 60.0

# How soon a client that was sent away may ask again.
LATER_SECONDS: Final = 5

_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_log = logging.getLogger(__name__)


class LiveServer:
    """One ApiServer on the running loop: `async with LiveServer(server) as live`."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self._committer: Committer | None = None
        self._tidying = False
        self._expiry: asyncio.TimerHandle | None = None
        self._stopping = False

    async def __aenter__(self) -> Self:
        self._committer = Committer(self.server.store)
        self._loop = asyncio.get_running_loop()
        self._expiry = self._loop.call_later(EXPIRE_SECONDS, self._expire)
        self._schedule()
        return self

    async def __aexit__(self, *_: object) -> None:
        """End every watch, write what is pending; the file stays open for who opened it."""
        self._stopping = True
        if self._expiry is not None:
            self._expiry.cancel()
        self.server.store.end_watches()
        if self._committer is not None:
            await self._committer.close()
            self._committer = None

    async def until_failed(self) -> NoReturn:
        """Raises StoreFailedError once the disk can't be written; returns never."""
        await self._running.failed.wait()
        self.server.store.check()
        raise AssertionError("a store that failed says why")

    @property
    def _running(self) -> Committer:
        assert self._committer is not None, "a LiveServer is used inside of its `async with`"
        return self._committer

    async def answer(self, call: Call) -> Reply | Watch:
        """The answer to a call, when it may leave."""
        is_write = call.method not in _READS
        if is_write and self._running.has_no_place:
            return _come_later(self.server.store.trouble, call)
        try:
            answer = self.server.handle(call)
            self._schedule()
            if isinstance(answer, Reply):
                store = self.server.store
                # A refusal may rest on a write that isn't on disk yet, and may never be.
                waits = is_write and bool(store.trouble)
                version = store.version if waits else answer.version
                if version > store.committed:
                    await self._running.committed(version)
            elif self._stopping:
                answer.end()
        except StoreFailedError as problem:
            return failure_reply(problem)
        except NoRoomError as problem:
            return _may_be_done(problem, call)
        except Exception as problem:
            # The top: one call that goes wrong is no reason to stop. What it held isn't logged.
            _log.exception("%s %s", call.method, call.path)
            return failure_reply(problem)
        return answer

    async def send(self, call: Call) -> Reply:
        """The answer to a call that isn't a watch."""
        answer = await self.answer(call)
        assert isinstance(answer, Reply), f"{call.path} is a watch"
        return answer

    async def settled(self) -> None:
        """Returns once all that was written so far is on disk, and lists show it."""
        await self._running.committed(self.server.store.version)

    def lines(self, watch: Watch) -> AsyncGenerator[bytes, None]:
        return followed(watch)

    def _schedule(self) -> None:
        if self.server.has_work and not self._tidying and not self._stopping:
            self._tidying = True
            self._loop.call_soon(self._tidy)

    def _tidy(self) -> None:
        self._tidying = False
        if self._stopping:
            return
        try:
            self.server.tidy(TIDY_STEPS)
        except StoreFailedError:
            return
        self._schedule()

    def _expire(self) -> None:
        self._expiry = self._loop.call_later(EXPIRE_SECONDS, self._expire)
        try:
            self.server.expire()
        except StoreFailedError:
            return
        self._schedule()


def _come_later(trouble: str, call: Call) -> Reply:
    """Nothing was done: too much waits for room already."""
    details = Details(retry_after_seconds=LATER_SECONDS)
    text = f"{trouble}; too many writes wait for room, please try again later"
    reply = problem_reply(ProblemError(429, "TooManyRequests", text, details), call.accept)
    return msgspec.structs.replace(reply, headers=(("Retry-After", str(LATER_SECONDS)),))


def _may_be_done(problem: NoRoomError, call: Call) -> Reply:
    """As a real server says it when its store doesn't answer in time."""
    text = f"the disk is full: {problem}; the write waits for room and may still be made"
    return problem_reply(ProblemError(504, "Timeout", text, Details()), call.accept)
