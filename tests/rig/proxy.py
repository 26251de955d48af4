"""A proxy of the test's own on the loopback address, which writes down what it was asked for.

It speaks HTTP (CONNECT, and absolute addresses for plain HTTP) and SOCKS5, told apart by the first
byte, over TLS if it is given a certificate. Whatever host it is asked for, it connects to
`leads_to` if that is set: so a test can use names and addresses that are nobody's. It runs on a
loop in a thread, so that tests can call kubectl and other clients that block.
"""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import urlsplit

SECONDS = 30.0
_CHUNK = 64 * 1024
_SOCKS = b"\x05"


@dataclass(frozen=True, slots=True)
class Asked:
    """One connection: what for, by which method, with which login."""

    method: str
    target: str
    login: str = ""


@dataclass
class RecordingProxy:
    """What it should do, and what it saw."""

    # Where everything leads, as host and port; None: where it was asked to.
    leads_to: tuple[str, int] | None = None
    # `name:password`; who doesn't say it is sent away.
    login: str = ""
    # Instead of connecting: this status, or silence for 0.
    answers: int | None = None
    asked: list[Asked] = field(default_factory=list)
    port: int = 0
    scheme: str = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    @property
    def targets(self) -> list[str]:
        return [each.target for each in self.asked]

    def taken(self) -> list[Asked]:
        """All that it was asked for since this was last called."""
        seen, self.asked = self.asked, []
        return seen

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            first = await reader.readexactly(1)
            if first == _SOCKS:
                await self._socks(reader, writer)
            else:
                await self._http(first + await reader.readuntil(b"\r\n\r\n"), reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            with suppress(OSError):
                writer.close()
                await writer.wait_closed()

    async def _http(
        self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        line, *fields = head.decode("latin-1").split("\r\n")
        method, target, _ = line.split(" ", 2)
        said = dict(
            each.lower().split(": ", 1)[:1] + each.split(": ", 1)[1:] for each in fields if each
        )
        pair = said.get("proxy-authorization", "").removeprefix("Basic ")
        login = base64.b64decode(pair).decode()
        self.asked.append(Asked(method, target, login))
        if self.answers == 0:
            await reader.read()
            return
        if self.login and login != self.login:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            return
        if self.answers is not None:
            writer.write(f"HTTP/1.1 {self.answers} Whatever\r\nContent-Length: 0\r\n\r\n".encode())
            return
        if method == "CONNECT":
            host, _, port = target.rpartition(":")
            first = b""
        else:
            parts = urlsplit(target)
            host, port = parts.hostname or "", str(parts.port or 80)
            path = parts.path + (f"?{parts.query}" if parts.query else "")
            first = "\r\n".join((f"{method} {path} HTTP/1.1", *fields)).encode("latin-1")
        far = await self._dialled(host.strip("[]"), int(port))
        if far is None:
            writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
            return
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            far[1].write(first)
        await _joined((reader, writer), far)

    async def _socks(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        methods = await reader.readexactly((await reader.readexactly(1))[0])
        login = ""
        if self.login:
            if 2 not in methods:
                writer.write(b"\x05\xff")
                return
            writer.write(b"\x05\x02")
            await reader.readexactly(1)
            name = await reader.readexactly((await reader.readexactly(1))[0])
            password = await reader.readexactly((await reader.readexactly(1))[0])
            login = f"{name.decode()}:{password.decode()}"
            writer.write(b"\x01\x00" if login == self.login else b"\x01\x01")
        else:
            writer.write(b"\x05\x00")
        if login != self.login:
            return
        kind = (await reader.readexactly(4))[3]
        if kind == 3:
            host = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
        else:
            family, size = (socket.AF_INET, 4) if kind == 1 else (socket.AF_INET6, 16)
            host = socket.inet_ntop(family, await reader.readexactly(size))
        (port,) = struct.unpack("!H", await reader.readexactly(2))
        self.asked.append(Asked("SOCKS5", f"{host}:{port}", login))
        if self.answers == 0:
            await reader.read()
            return
        far = None if self.answers is not None else await self._dialled(host, port)
        if far is None:
            writer.write(bytes((5, self.answers or 5, 0, 1, 0, 0, 0, 0, 0, 0)))
            return
        # The answer names its end of the connection; a name, to be awkward.
        writer.write(b"\x05\x00\x00\x03\x05proxy\x00\x00")
        await _joined((reader, writer), far)

    async def _dialled(
        self, host: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        try:
            return await asyncio.open_connection(*(self.leads_to or (host, port)))
        except OSError:
            return None


async def _joined(
    near: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    far: tuple[asyncio.StreamReader, asyncio.StreamWriter],
) -> None:
    async def copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(_CHUNK):
                writer.write(data)
                await writer.drain()
        writer.close()

    try:
        await asyncio.gather(copied(near[0], far[1]), copied(far[0], near[1]))
    finally:
        with suppress(OSError):
            far[1].close()
            await far[1].wait_closed()


@contextmanager
def recording_proxy(
    leads_to: tuple[str, int] | None = None,
    *,
    login: str = "",
    answers: int | None = None,
    tls: ssl.SSLContext | None = None,
) -> Iterator[RecordingProxy]:
    """A proxy while the block lasts."""
    proxy = RecordingProxy(leads_to, login, answers)
    proxy.scheme = "http" if tls is None else "https"
    ready = threading.Event()
    stops: list[Callable[[], object]] = []

    async def work() -> None:
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        stops.append(partial(loop.call_soon_threadsafe, done.set))
        clients: set[asyncio.Task[None]] = set()

        def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            client = asyncio.ensure_future(proxy.serve(reader, writer))
            clients.add(client)
            client.add_done_callback(clients.discard)

        server = await asyncio.start_server(accepted, "127.0.0.1", 0, ssl=tls)
        proxy.port = server.sockets[0].getsockname()[1]
        ready.set()
        await done.wait()
        server.close()
        for client in tuple(clients):
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)

    thread = threading.Thread(target=lambda: asyncio.run(work()))
    thread.start()
    try:
        assert ready.wait(SECONDS)
        yield proxy
    finally:
        for stop in stops:
            stop()
        thread.join(SECONDS)
    assert not thread.is_alive()
