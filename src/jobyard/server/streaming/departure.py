"""A client that goes away ends what was done for it, also where nothing is being written to it.

aiohttp tells a response of a lost connection only at its next write, which for the log of a
silent program may be never. Here somebody listens at the transport, with asyncio's own means.
"""

from __future__ import annotations

import asyncio
from typing import Self

from aiohttp import web


class Listener(asyncio.Protocol):
    """Hands everything on to the protocol that was there before, and says when it ends."""

    def __init__(self, before: asyncio.Protocol, connected: Connected) -> None:
        self.before = before
        self._connected = connected

    def data_received(self, data: bytes) -> None:
        self.before.data_received(data)

    def eof_received(self) -> bool | None:
        return self.before.eof_received()

    def pause_writing(self) -> None:
        self.before.pause_writing()

    def resume_writing(self) -> None:
        self.before.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self.before.connection_lost(exc)
        self._connected.lost()


class Connected:
    """`async with Connected(request)`: the block is left, without an error, when the client goes.

    `is_gone` says afterwards whether that was so.
    """

    def __init__(self, request: web.BaseRequest) -> None:
        self._transport = request.transport
        self._listener: Listener | None = None
        self._task: asyncio.Task[object] | None = None
        self._cancels_before = 0
        self.is_gone = self._transport is None

    async def __aenter__(self) -> Self:
        if self._transport is None:
            raise ConnectionResetError("the client has gone")
        before = self._transport.get_protocol()
        assert isinstance(before, asyncio.Protocol), "aiohttp's protocol takes bytes"
        self._task = asyncio.current_task()
        assert self._task is not None, "requests are answered in tasks"
        self._cancels_before = self._task.cancelling()
        self._listener = Listener(before, self)
        self._transport.set_protocol(self._listener)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        task, self._task = self._task, None
        assert task is not None, "left once"
        assert self._transport is not None, "entered"
        if not self.is_gone:
            if kind is asyncio.CancelledError:
                # The server stops: a goodbye in good order would wait for the client's.
                self._transport.abort()
                return False
            is_open = not self._transport.is_closing()
            if is_open and self._transport.get_protocol() is self._listener:
                assert self._listener is not None, "entered"
                self._transport.set_protocol(self._listener.before)
            return False
        # The cancellation was ours alone, unless somebody else wants the task to end as well.
        is_ours = task.uncancel() <= self._cancels_before
        if kind is None:
            return False
        return is_ours and issubclass(kind, asyncio.CancelledError | ConnectionError)

    def lost(self) -> None:
        """The connection is no more."""
        self.is_gone = True
        if self._task is not None:
            self._task.cancel()
