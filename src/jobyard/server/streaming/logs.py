"""A pod's log over HTTP: plain text, in pieces as they come from the node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Final

import msgspec
from aiohttp import web

from jobyard.kubelet import LogOptions
from jobyard.server.call import Call
from jobyard.server.resource import Object
from jobyard.server.streaming.containers import chosen_container, is_placed
from jobyard.server.streaming.departure import Connected
from jobyard.server.streaming.kubelet import Kubelet
from jobyard.server.streaming.log_request import log_options

TEXT: Final = "text/plain"
# A refusal comes at once. A follower of a silent program gets its headers after this long.
REFUSAL_SECONDS: Final = 0.5


async def serve_log(
    request: web.BaseRequest, call: Call, pod: Object, kubelet: Kubelet
) -> web.StreamResponse:
    """The lines that are asked for; with `follow` until the container ends or the client goes."""
    options = log_options(call, pod["metadata"]["name"])
    options = msgspec.structs.replace(options, container=chosen_container(pod, options.container))
    if not is_placed(pod):
        return web.Response(status=204)
    answer = web.StreamResponse(headers={"Content-Type": TEXT})
    async with Connected(request):
        await _sent(request, answer, kubelet.logs(pod, options), options)
    return answer


async def _sent(
    request: web.BaseRequest,
    answer: web.StreamResponse,
    generator: AsyncGenerator[bytes, None],
    options: LogOptions,
) -> None:
    async with aclosing(generator) as pieces:
        first = asyncio.ensure_future(anext(pieces, None))
        try:
            await asyncio.wait((first,), timeout=REFUSAL_SECONDS if options.follow else None)
            if first.done():
                # Raises what the node has to say against it, while there is still a status to say.
                first.result()
            answer.enable_chunked_encoding()
            await answer.prepare(request)
            piece = await first
            while piece is not None:
                await answer.write(piece)
                piece = await anext(pieces, None)
            await answer.write_eof()
        finally:
            if not first.done():
                first.cancel()
                with suppress(asyncio.CancelledError):
                    await first
