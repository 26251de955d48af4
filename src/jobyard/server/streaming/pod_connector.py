"""HTTP requests over connections that somebody else makes: an aiohttp connector for a pod."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler

Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


class PodConnector(aiohttp.BaseConnector):
    """Asks `connect` for a connection for each request, and keeps none."""

    def __init__(self, connect: Connect) -> None:
        super().__init__(force_close=True)
        self._connect_pod = connect
        # A writer that is forgotten closes its connection.
        self._writers: list[asyncio.StreamWriter] = []

    async def _create_connection(
        self,
        req: aiohttp.ClientRequest,  # noqa: ARG002
        traces: list[Any],  # noqa: ARG002
        timeout: aiohttp.ClientTimeout,  # noqa: ARG002
    ) -> ResponseHandler:
        _, writer = await self._connect_pod()
        self._writers.append(writer)
        handler = ResponseHandler(asyncio.get_running_loop())
        writer.transport.set_protocol(handler)
        handler.connection_made(writer.transport)
        return handler
