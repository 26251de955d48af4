"""Watches over WebSocket: they tell what others tell, and open and end as on a real server."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from conformance.objects import secret
from conformance.script import post, quiet
from conformance.stage import DEADLINE_SECONDS, UPGRADE, Stage
from conformance.test_watching import CASES

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
MASK = b"mask"
SHOWN = ("upgrade", "sec-websocket-accept", "sec-websocket-protocol", "sec-websocket-version")
WATCH = "secrets?watch=true"
ONE_EVENT = (*quiet(post("secrets", secret("a"))),)


@pytest.mark.parametrize("sentence", CASES)
def test_a_watch_over_a_websocket_tells_what_any_other_tells(api: Stage, sentence: str) -> None:
    api.over_socket = True
    api.compare("watching", sentence, api.answers(CASES[sentence]))


@dataclass(frozen=True)
class Handshake:
    """Headers that are sent instead of, or besides, those of a good handshake; None: left out."""

    headers: Mapping[str, str | None]
    path: str = WATCH
    method: str = "GET"


HANDSHAKES: dict[str, Handshake] = {
    "as it should be": Handshake({}),
    "in other letters": Handshake({"Upgrade": "WebSocket", "Connection": "keep-alive, upgrade"}),
    "one subprotocol": Handshake({"Sec-WebSocket-Protocol": "base64.binary.k8s.io"}),
    "a subprotocol that nobody knows": Handshake({"Sec-WebSocket-Protocol": "x"}),
    "two subprotocols": Handshake({"Sec-WebSocket-Protocol": "binary.k8s.io, x"}),
    "an empty subprotocol": Handshake({"Sec-WebSocket-Protocol": " "}),
    "without an origin": Handshake({"Origin": None}),
    "an empty origin": Handshake({"Origin": ""}),
    "the origin null": Handshake({"Origin": "null"}),
    "a path as origin": Handshake({"Origin": "/x"}),
    "a star as origin": Handshake({"Origin": "*"}),
    "a name as origin": Handshake({"Origin": "example.com"}),
    "an opaque origin": Handshake({"Origin": "file:x"}),
    "an origin with a port that is none": Handshake({"Origin": "https://h:port"}),
    "an origin with a space": Handshake({"Origin": "https://h h"}),
    "without a key": Handshake({"Sec-WebSocket-Key": None}),
    "without a version": Handshake({"Sec-WebSocket-Version": None}),
    "an old version": Handshake({"Sec-WebSocket-Version": "8"}),
    "a kind that isn't there": Handshake({}, "gadgets?watch=true"),
    "a selector that is none over a socket": Handshake({}, f"{WATCH}&labelSelector=a%20b%20c"),
    "a form that nobody knows": Handshake({"Accept": "text/html"}),
    "YAML, in which nothing is watched": Handshake({"Accept": "application/yaml"}),
}


@pytest.mark.parametrize("sentence", HANDSHAKES)
def test_a_handshake_is_answered(api: Stage, sentence: str) -> None:
    handshake = HANDSHAKES[sentence]

    async def answered() -> Any:
        async with asyncio.timeout(DEADLINE_SECONDS):
            raw = await Raw.opened(api, handshake)
            try:
                return await raw.told()
            finally:
                raw.close()

    api.compare("handshakes", sentence, api.loop.run_until_complete(answered()))


def test_an_event_is_a_text_message_with_its_line_end(api: Stage) -> None:
    async def messages() -> tuple[int, bytes]:
        raw = await Raw.opened(api, Handshake({}))
        opcode, data = await raw.frame()
        raw.close()
        return opcode, data

    api.answers(ONE_EVENT)
    opcode, data = _within(api, messages())
    assert opcode == TEXT
    assert json.loads(data)["object"]["metadata"]["name"] == "a"
    assert data.endswith(b"}\n")


def test_a_watch_says_goodbye_when_its_time_is_over(api: Stage) -> None:
    async def frames() -> list[tuple[int, bytes]]:
        raw = await Raw.opened(api, Handshake({}, f"{WATCH}&timeoutSeconds=1"))
        return [frame async for frame in raw.frames()]

    assert _within(api, frames()) == [(CLOSE, struct.pack(">H", 1000))]


def test_a_goodbye_is_answered_and_ends_the_watch(api: Stage) -> None:
    async def frames() -> list[tuple[int, bytes]]:
        raw = await Raw.opened(api, Handshake({}))
        raw.send(CLOSE, struct.pack(">H", 1001))
        return [frame async for frame in raw.frames()]

    assert _within(api, frames()) == [(CLOSE, struct.pack(">H", 1000))]


def test_pings_are_answered_and_words_are_thrown_away(api: Stage) -> None:
    async def frames() -> list[tuple[int, bytes]]:
        raw = await Raw.opened(api, Handshake({}))
        raw.send(TEXT, b"anybody there?")
        raw.send(BINARY, b"\x00" * 1000)
        raw.send(TEXT, b"")
        raw.send(PING, b"p")
        first = await raw.frame()
        await api.told_inside(ONE_EVENT)
        second = await raw.frame()
        raw.close()
        return [first, (second[0], b"")]

    assert _within(api, frames()) == [(PONG, b"p"), (TEXT, b"")]


def _within(api: Stage, coroutine: Any) -> Any:
    async def limited() -> Any:
        async with asyncio.timeout(DEADLINE_SECONDS):
            return await coroutine

    return api.loop.run_until_complete(limited())


class Raw:
    """A connection on which the test itself speaks HTTP and WebSocket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.status = 0
        self.headers: dict[str, str] = {}

    @classmethod
    async def opened(cls, api: Stage, handshake: Handshake) -> Raw:
        """Sends the handshake and reads the head of the answer."""
        url = api.url_of(handshake.path)
        assert url.host is not None
        raw = cls(*await asyncio.open_connection(url.host, url.port, ssl=api.server.tls))
        headers: dict[str, str | None] = {"Host": f"{url.host}:{url.port}", **UPGRADE}
        headers |= {**api.server.headers, **handshake.headers}
        lines = [f"{name}: {value}" for name, value in headers.items() if value is not None]
        head = f"{handshake.method} {url.raw_path_qs} HTTP/1.1"
        raw.writer.write("\r\n".join((head, *lines, "", "")).encode())
        first, *rest = (await raw.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        raw.status = int(first.split()[1])
        raw.headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in rest if line)
        }
        return raw

    async def told(self) -> Any:
        """What of the answer is the same on every server."""
        answer: dict[str, Any] = {"status": self.status}
        answer |= {name: self.headers[name] for name in SHOWN if name in self.headers}
        if self.status in (101, 200):
            return answer
        size = self.headers.get("content-length")
        body = await (self.reader.read() if size is None else self.reader.readexactly(int(size)))
        is_json = "json" in self.headers.get("content-type", "")
        return {**answer, "body": json.loads(body) if is_json else body.decode()}

    def send(self, opcode: int, data: bytes) -> None:
        length = len(data)
        size = bytes((0x80 | length,)) if length < 126 else b"\xfe" + struct.pack(">H", length)
        masked = bytes(byte ^ MASK[n % 4] for n, byte in enumerate(data))
        self.writer.write(bytes((0x80 | opcode,)) + size + MASK + masked)

    async def frame(self) -> tuple[int, bytes]:
        first, second = await self.reader.readexactly(2)
        size = second & 0x7F
        if size >= 126:
            form, width = (">H", 2) if size == 126 else (">Q", 8)
            (size,) = struct.unpack(form, await self.reader.readexactly(width))
        return first & 0x0F, await self.reader.readexactly(size)

    async def frames(self) -> Any:
        """All until the server closes the connection."""
        while True:
            try:
                yield await self.frame()
            except (asyncio.IncompleteReadError, ConnectionError):
                self.close()
                return

    def close(self) -> None:
        self.writer.close()
