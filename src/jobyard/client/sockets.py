"""The open sockets of a transport, so that it can leave none behind.

aiohttp closes a TLS connection whose request was cancelled without waiting for the goodbye, and
forgets it: the socket outlives the session. `transport` has its sockets made here and asks for
all of them to be closed at its end. Knows nothing of HTTP or TLS.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

# Closing takes a turn or two of the loop; more would be a fault of ours.
CLOSE_SECONDS: Final = 5.0


class _Socket(socket.socket):
    """A socket that says when it is closed."""

    def __init__(self, family: int, kind: int, protocol: int) -> None:
        super().__init__(family, kind, protocol)
        self.said: Callable[[_Socket], None] | None = None

    def close(self) -> None:
        super().close()
        if self.said is not None:
            self.said(self)


class Sockets:
    """Makes sockets and remembers those that are open."""

    def __init__(self) -> None:
        self._open: set[_Socket] = set()
        self._none_open = asyncio.Event()

    def make(self, address: tuple[Any, ...]) -> socket.socket:
        """A socket for an address as getaddrinfo gives it."""
        family, kind, protocol = address[:3]
        made = _Socket(family, kind, protocol)
        # A peer that vanished is noticed even where nothing is sent.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        made.said = self._closed
        self._open.add(made)
        self._none_open.clear()
        return made

    def _closed(self, one: _Socket) -> None:
        self._open.discard(one)
        if not self._open:
            self._none_open.set()

    async def all_closed(self) -> None:
        """End what is still open; the loop sees the end of each stream and closes it."""
        for one in tuple(self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        if self._open:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._none_open.wait()
