"""Kubernetes' channels in a WebSocket: each message begins with the number of its channel.

Knows how messages look in each version of the protocol, not what the channels are for.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import Final

import msgspec
from aiohttp import WSMsgType, web

V5: Final = "v5.channel.k8s.io"
V4: Final = "v4.channel.k8s.io"
V4_BASE64: Final = "v4.base64.channel.k8s.io"
V1: Final = "channel.k8s.io"
V1_BASE64: Final = "base64.channel.k8s.io"
# As large as a real server takes them.
MESSAGE_BYTES_MAX: Final = 32 * 1024 * 1024
CLOSE_SECONDS: Final = 3.0
# The channel of a message that says which channel gets no more; only in v5.
CLOSING: Final = 255


class Message(msgspec.Struct, frozen=True):
    """What came, and on which channel."""

    channel: int
    data: bytes


class Channels:
    """One WebSocket after its handshake."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket
        protocol = socket.ws_protocol or V1
        self.has_status_objects = protocol in (V5, V4, V4_BASE64)
        self.can_close_one = protocol == V5
        self._is_base64 = protocol in (V4_BASE64, V1_BASE64)
        # aiohttp's wait for the client to read isn't made for two at a time.
        self._writing = asyncio.Lock()

    async def receive(self) -> Message | None:
        """The next message; None when the client has gone."""
        while True:
            message = await self._socket.receive()
            if message.type not in (WSMsgType.BINARY, WSMsgType.TEXT):
                return None
            raw: bytes = message.data
            if message.type is WSMsgType.TEXT:
                raw = message.data.encode()
            if not raw:
                continue
            if not self._is_base64:
                return Message(raw[0], raw[1:])
            try:
                return Message(raw[0] - ord("0"), base64.b64decode(raw[1:]))
            except binascii.Error:
                return None

    async def send(self, channel: int, data: bytes) -> None:
        """Waits while the client doesn't read; ConnectionError when it has gone."""
        async with self._writing:
            if self._is_base64:
                text = base64.b64encode(data).decode()
                await self._socket.send_str(f"{channel}{text}")
            else:
                await self._socket.send_bytes(bytes((channel,)) + data)

    async def nudge(self) -> None:
        """A sign of life that needs no answer, for a client whose pings can't be read now."""
        async with self._writing:
            await self._socket.pong()

    async def close(self) -> None:
        await self._socket.close()


def protocols_offered(request: web.BaseRequest) -> tuple[str, ...]:
    """The subprotocols that the client of a WebSocket would speak, by preference."""
    texts = request.headers.getall("Sec-WebSocket-Protocol", [])
    return tuple(each.strip() for text in texts for each in text.split(",") if each.strip())


def websocket(*protocols: str) -> web.WebSocketResponse:
    """A WebSocket that is yet to be opened."""
    return web.WebSocketResponse(
        protocols=protocols,
        compress=False,
        max_msg_size=MESSAGE_BYTES_MAX,
        timeout=CLOSE_SECONDS,
    )
