"""A small HTTP proxy, through which sandboxes without a route reach the world outside.

CONNECT for HTTPS, absolute addresses for plain HTTP: what the usual environment variables
(`https_proxy`, `http_proxy`) make programs ask for. It reads no content, and where a connection
leads is up to who is asked for one (`Dial`). It lives in the engine, whose descriptors others need
too: connections have a bound in all, of which no pod may have more than a share.
"""

from __future__ import annotations

import asyncio
import resource
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

from jobyard.numerals import port_number

HEAD_BYTES_MAX: Final = 64 * 1024
HEAD_SECONDS: Final = 30.0
CHUNK_BYTES: Final = 64 * 1024
# In all, and of these the share of one pod.
CONNECTIONS_MAX: Final = 2048
SHARES: Final = 4
# Of the descriptors that this process may have; a connection takes two.
_PART_OF_DESCRIPTORS: Final = 8

Address = tuple[str, int]
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class RefusedError(Exception):
    """What was asked for is not done; the text is the answer's first line."""


# Who asks (an address of the private network), and for what.
Dial = Callable[[str, Address], Awaitable[Connection]]


class Proxy:
    """Serves one listening socket until it is closed."""

    def __init__(
        self, listening: socket.socket, dial: Dial, connections_max: int | None = None
    ) -> None:
        self._listening = listening
        self._dial = dial
        self._connections_max = connections_max or _affordable()
        self._of_peer: Counter[str] = Counter()
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
        name = writer.get_extra_info("peername")
        peer = str(name[0]) if name else ""
        share = max(self._connections_max // SHARES, 1)
        has_place = len(self._clients) < self._connections_max and self._of_peer[peer] < share
        if not has_place:
            # At once, and nobody waits for it to be read.
            writer.write(_answer("503 Too many connections through the proxy"))
            writer.close()
            return
        self._of_peer[peer] += 1
        client = asyncio.create_task(self._serve(peer, reader, writer))
        self._clients.add(client)
        client.add_done_callback(lambda _: self._gone(client, peer))

    def _gone(self, client: asyncio.Task[None], peer: str) -> None:
        self._clients.discard(client)
        self._of_peer[peer] -= 1
        if not self._of_peer[peer]:
            del self._of_peer[peer]

    async def _serve(
        self, peer: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            await self._relay(peer, reader, writer)
        except RefusedError as refusal:
            writer.write(_answer(str(refusal)))
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            await _closed(writer)

    async def _relay(
        self, peer: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        async with asyncio.timeout(HEAD_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
        address, first = asked_for(head)
        far_reader, far_writer = await self._dial(peer, address)
        try:
            if first:
                far_writer.write(first)
            else:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await _both(_copy(reader, far_writer), _copy(far_reader, writer))
        finally:
            await _closed(far_writer)


def _affordable() -> int:
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return CONNECTIONS_MAX
    return max(min(CONNECTIONS_MAX, descriptors // _PART_OF_DESCRIPTORS), SHARES)


def _answer(first_line: str) -> bytes:
    return f"HTTP/1.1 {first_line}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()


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
