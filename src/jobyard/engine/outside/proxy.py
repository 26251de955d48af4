"""A small HTTP proxy, through which sandboxes without a route reach the world outside.

CONNECT for HTTPS, absolute addresses for plain HTTP: what the usual environment variables
(`https_proxy`, `http_proxy`) make programs ask for. It reads no content, and where a connection
leads is up to who is asked for one (`Dial`).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

from jobyard.numerals import port_number

HEAD_BYTES_MAX: Final = 64 * 1024
HEAD_SECONDS: Final = 30.0
CHUNK_BYTES: Final = 64 * 1024

Address = tuple[str, int]
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class RefusedError(Exception):
    """What was asked for is not done; the text is the answer's first line."""


# Who asks (an address of the private network), and for what.
Dial = Callable[[str, Address], Awaitable[Connection]]


class Proxy:
    """Serves one listening socket until it is closed."""

    def __init__(self, listening: socket.socket, dial: Dial) -> None:
        self._listening = listening
        self._dial = dial
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(
            self._accept, sock=self._listening, limit=HEAD_BYTES_MAX
        )

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            clients = tuple(self._clients)
            for client in clients:
                client.cancel()
            await asyncio.gather(*clients, return_exceptions=True)
            await self._server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = asyncio.create_task(self._serve(reader, writer))
        self._clients.add(client)
        client.add_done_callback(self._clients.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._relay(reader, writer)
        except RefusedError as refusal:
            writer.write(
                f"HTTP/1.1 {refusal}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()
            )
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            await _closed(writer)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(HEAD_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
        address, first = asked_for(head)
        peer = writer.get_extra_info("peername")
        far_reader, far_writer = await self._dial(str(peer[0]) if peer else "", address)
        try:
            if first:
                far_writer.write(first)
            else:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await _both(_copy(reader, far_writer), _copy(far_reader, writer))
        finally:
            await _closed(far_writer)


def asked_for(head: bytes) -> tuple[Address, bytes]:
    """Where a request goes, and what to send there first; nothing for CONNECT."""
    line, _, rest = head.partition(b"\r\n")
    try:
        method, target, version = line.decode("ascii").split(" ")
    except (UnicodeDecodeError, ValueError):
        raise RefusedError("400 Bad Request") from None
    if method == "CONNECT":
        host, _, said = target.rpartition(":")
        number = port_number(said)
        if not host or number is None:
            raise RefusedError("400 Bad Request")
        return (host.strip("[]"), number), b""
    try:
        parts = urlsplit(target)
        host_or_none, port_or_none = parts.hostname, parts.port
    except ValueError:
        raise RefusedError("400 Bad Request") from None
    if parts.scheme != "http" or not host_or_none:
        raise RefusedError("400 Bad Request")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    # One request a connection: the next may be for another host.
    kept = [
        field
        for field in rest.split(b"\r\n")
        if field and not field.lower().startswith((b"proxy-", b"connection:"))
    ]
    start = f"{method} {path} {version}".encode()
    return (host_or_none, port_or_none or 80), b"\r\n".join(
        [start, *kept, b"Connection: close", b"", b""]
    )


async def _both(*copies: Awaitable[None]) -> None:
    async with asyncio.TaskGroup() as group:
        for copy in copies:
            group.create_task(_awaited(copy))


async def _awaited(work: Awaitable[None]) -> None:
    await work


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
        # The other direction may still have something to say.
        writer.write_eof()
        return
    writer.close()


async def _closed(writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        writer.close()
        await writer.wait_closed()
