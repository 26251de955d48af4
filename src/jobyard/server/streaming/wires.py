"""Bytes both ways after an upgrade: the connection itself, or binary messages of a WebSocket.

What speaks SPDY is given a `Wire` and doesn't know which of the two it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final, Protocol

from aiohttp import WSMsgType, web

BLOCK_BYTES: Final = 64 * 1024
# How long a client has to close its end once everything was said.
GOODBYE_SECONDS: Final = 3.0


class Wire(Protocol):
    """A way to the client. One reader and one writer at a time."""

    async def read(self) -> bytes:
        """What has come; nothing at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Waits while the client doesn't read; ConnectionError when it has gone."""
        ...


class SocketWire:
    """A tunnel in a WebSocket: bytes cut into messages in any way."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket

    async def read(self) -> bytes:
        while True:
            message = await self._socket.receive()
            if message.type is not WSMsgType.BINARY:
                return b""
            if message.data:
                data: bytes = message.data
                return data

    async def write(self, data: bytes) -> None:
        await self._socket.send_bytes(data)


class StreamWire:
    """A connection, taken over from the HTTP server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def read(self) -> bytes:
        return await self.reader.read(BLOCK_BYTES)

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()


class Finished(web.StreamResponse):
    """What the HTTP server is told when its connection was used for something else."""

    def __init__(self) -> None:
        super().__init__(status=101)
        self.force_close()

    async def prepare(self, request: web.BaseRequest) -> None:
        """The head was written already."""

    async def write_eof(self, data: bytes = b"") -> None:
        """So was all the rest."""


class _Taken(asyncio.StreamReaderProtocol):
    """Streams on a transport that had another protocol before, which hears of its end."""

    def __init__(self, reader: asyncio.StreamReader, before: asyncio.BaseProtocol) -> None:
        super().__init__(reader)
        self._before = before

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._before.connection_lost(exc)


@asynccontextmanager
async def taken_over(
    request: web.BaseRequest, headers: Mapping[str, str] | None
) -> AsyncIterator[StreamWire]:
    """Says 101 with these headers; from then on the connection is the caller's.

    Without headers nothing is said: the caller has an answer of its own.
    """
    transport = request.transport
    if transport is None:
        raise ConnectionResetError("the client has gone")
    reader = asyncio.StreamReader(limit=BLOCK_BYTES)
    protocol = _Taken(reader, transport.get_protocol())
    # Before the answer: nothing that the client says to it can go astray.
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    writer = asyncio.StreamWriter(transport, protocol, reader, asyncio.get_running_loop())
    if headers is not None:
        lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
        writer.write(f"HTTP/1.1 101 Switching Protocols\r\n{''.join(lines)}\r\n".encode())
    try:
        yield StreamWire(reader, writer)
    finally:
        writer.close()


async def parted(wire: Wire) -> None:
    """Reads until the client has closed its end, so that nothing sent to it is lost."""
    with suppress(TimeoutError, ConnectionError):
        async with asyncio.timeout(GOODBYE_SECONDS):
            while await wire.read():
                pass
