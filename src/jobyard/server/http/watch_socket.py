"""A watch over a WebSocket: one event for each text message, as a kube-apiserver sends them.

Some clients watch in no other way. The handshake is Go's `golang.org/x/net/websocket`, which a real
server uses here: an Origin has to be there, one subprotocol at most may be offered and is given
back as it came, and what is wrong with the handshake is said in plain text. What is wrong with the
watch itself was said before, as a Status. What the client sends is thrown away; its pings are
answered, and with its goodbye the watch ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Final
from urllib.parse import urlsplit

import msgspec
from aiohttp import WSMsgType, web

# A real server doesn't wait for the client's goodbye at all; aiohttp wants to hear it.
CLOSE_SECONDS: Final = 0.5
# A client has nothing to say, and need not be heard out.
MESSAGE_BYTES_MAX: Final = 64 * 1024
_WEBSOCKET: Final = "websocket"
_VERSION: Final = "13"
_SPOKEN: Final = (WSMsgType.TEXT, WSMsgType.BINARY)


class Refusal(msgspec.Struct, frozen=True):
    """Why a handshake fails; without a text where Go has none."""

    status: int
    text: str = ""
    headers: tuple[tuple[str, str], ...] = ()


def wants_socket(request: web.BaseRequest) -> bool:
    """Whether the client asks for a WebSocket; all others get lines."""
    headers = request.headers
    if headers.get("Upgrade", "").lower() != _WEBSOCKET:
        return False
    return any("upgrade" in text.lower() for text in headers.getall("Connection", []))


async def follow_in_socket(
    request: web.BaseRequest, lines: AsyncGenerator[bytes, None]
) -> web.StreamResponse:
    """Sends the lines of a watch, each as a message, until they end or the client goes."""
    refusal = handshake_fault(request)
    if refusal is not None:
        await lines.aclose()
        answer = web.Response(
            status=refusal.status, text=refusal.text, headers=dict(refusal.headers)
        )
        answer.force_close()
        return answer
    socket = web.WebSocketResponse(
        protocols=_offered(request),
        compress=False,
        timeout=CLOSE_SECONDS,
        max_msg_size=MESSAGE_BYTES_MAX,
    )
    await socket.prepare(request)
    listening = asyncio.create_task(_heard_out(socket))
    telling = asyncio.create_task(_told(socket, lines))
    try:
        await asyncio.wait((listening, telling), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (listening, telling):
            task.cancel()
        ends = await asyncio.gather(listening, telling, return_exceptions=True)
    await socket.close()
    for end in ends:
        # A client that has gone is no fault; everything else is ours.
        if isinstance(end, Exception) and not isinstance(end, ConnectionError):
            raise end
    return socket


def handshake_fault(request: web.BaseRequest) -> Refusal | None:
    """What Go says against a handshake, in the order in which it looks."""
    headers = request.headers
    if not headers.get("Sec-WebSocket-Key"):
        return Refusal(400, "mismatch challenge/response")
    if headers.get("Sec-WebSocket-Version") != _VERSION:
        return Refusal(
            400, "missing or bad WebSocket Version", (("Sec-WebSocket-Version", _VERSION),)
        )
    if not _is_request_uri(headers.get("Origin", "")):
        return Refusal(403)
    if len(_offered(request)) > 1:
        return Refusal(400)
    return None


def _is_request_uri(text: str) -> bool:
    """Whether Go takes it for an origin: a path, `*`, or a URI with a scheme."""
    if not text or any(char <= " " or char == "\x7f" for char in text):
        return False
    if text == "*" or text.startswith("/"):
        return True
    try:
        parts = urlsplit(text)
        # Read for the fault that it may find: a port that is no number.
        _ = parts.port
    except ValueError:
        return False
    return bool(parts.scheme)


def _offered(request: web.BaseRequest) -> tuple[str, ...]:
    text = request.headers.get("Sec-WebSocket-Protocol", "").strip()
    return tuple(each.strip() for each in text.split(",")) if text else ()


async def _heard_out(socket: web.WebSocketResponse) -> None:
    """Returns when the client has gone; until then its pings are answered."""
    while (await socket.receive()).type in _SPOKEN:
        pass


async def _told(socket: web.WebSocketResponse, lines: AsyncGenerator[bytes, None]) -> None:
    async with aclosing(lines):
        async for chunk in lines:
            for line in _each(chunk):
                await socket.send_str(line)


def _each(chunk: bytes) -> Iterator[str]:
    """One line after the other, with its end, and none of the others copied meanwhile."""
    at = 0
    while at < len(chunk):
        end = chunk.find(b"\n", at) + 1 or len(chunk)
        yield chunk[at:end].decode()
        at = end
