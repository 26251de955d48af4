"""The door: HTTPS on the loopback address, for those who know the token.

It turns a request into a `Call` and carries the `Reply` or the lines of a `Watch` back; requests
that a node has to answer go to `streaming`. Besides these two only `http_messages` knows aiohttp.
Bodies and tokens are never logged.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import socket
import ssl
from contextlib import aclosing
from typing import Any, Final, Self

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from jobyard.server.http.connections import BACKLOG, Door
from jobyard.server.http.impersonation import impersonation_refused
from jobyard.server.live import LiveServer
from jobyard.server.messages.http_messages import call_of, response, warn
from jobyard.server.messages.rendering import problem_reply
from jobyard.server.messages.routing import NoSuchPathError
from jobyard.server.problem import ProblemError
from jobyard.server.streaming.kubelet import Kubelet
from jobyard.server.streaming.no_node import NoNode
from jobyard.server.verbs.watch import Watch

BODY_BYTES_MAX: Final = 3 * 1024 * 1024
STOP_SECONDS: Final = 2.0
KEEPALIVE_SECONDS: Final = 120.0
LOOPBACK: Final = "127.0.0.1"
_SCHEME: Final = "bearer "


class _WellFormed(logging.Filter):
    """Keeps what is no HTTP out of the log: anybody may send it, and who did is told."""

    def filter(self, record: logging.LogRecord) -> bool:
        problem = record.exc_info[1] if record.exc_info else None
        return not isinstance(problem, HttpProcessingError)


_http_log: Final = logging.getLogger(f"{__name__}.http")
_http_log.addFilter(_WellFormed())


class Doorway(msgspec.Struct, frozen=True, kw_only=True):
    """Where the server listens, and who may come in. Port 0: any that is free."""

    token: str
    tls: ssl.SSLContext
    host: str = LOOPBACK
    port: int = 0


class HttpServer:
    """A LiveServer behind HTTPS: `async with HttpServer(live, doorway) as served`."""

    def __init__(
        self, live: LiveServer, doorway: Doorway, *, kubelet: Kubelet | None = None
    ) -> None:
        self.live = live
        self.kubelet: Kubelet = kubelet or NoNode()
        self._doorway = doorway
        self._token = doorway.token.encode()
        self._runner: web.ServerRunner | None = None
        self._door: Door | None = None
        self._streams: set[asyncio.Task[Any]] = set()
        self.port = 0

    @property
    def url(self) -> str:
        host = self._doorway.host
        return f"https://{f'[{host}]' if ':' in host else host}:{self.port}"

    async def __aenter__(self) -> Self:
        server = web.Server(
            self._respond,
            access_log=None,
            keepalive_timeout=KEEPALIVE_SECONDS,
            # A real server doesn't look at how a body says it is encoded.
            auto_decompress=False,
            logger=_http_log,
            max_line_size=64 * 1024,
            max_field_size=64 * 1024,
        )
        listening = _listening(self._doorway.host, self._doorway.port)
        self.port = listening.getsockname()[1]
        self._runner = web.ServerRunner(server, shutdown_timeout=STOP_SECONDS)
        await self._runner.setup()
        self._door = Door(listening, self._doorway.tls, server)
        self._door.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        """No new connections; watches end, the rest has a moment to finish."""
        if self._door is not None:
            self._door.close()
        self.live.server.store.end_watches()
        streams = tuple(self._streams)
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)
        if self._runner is not None:
            await self._runner.cleanup()

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        if not self._knows(request.headers.get("Authorization", "")):
            return response(problem_reply(ProblemError(401, "Unauthorized", "Unauthorized"), ""))
        if self._door is not None and request.transport is not None:
            self._door.let_in(request.transport.get_extra_info("peername"))
        head = call_of(request)
        if refusal := impersonation_refused(head.path, request.headers):
            return response(problem_reply(refusal, head.accept))
        try:
            route = self.live.server.streamed_route(head)
        except (ProblemError, NoSuchPathError):
            # The answer to the call says what is wrong with it.
            route = None
        if route is not None:
            return await self._stream(request)
        try:
            body = await _body(request) if request.can_read_body else b""
        except ProblemError as problem:
            return response(problem_reply(problem, head.accept))
        call = msgspec.structs.replace(head, body=body) if body else head
        answer = await self.live.answer(call)
        if isinstance(answer, Watch):
            return await self._follow(request, answer)
        return response(answer, is_head=request.method == "HEAD")

    def _knows(self, authorization: str) -> bool:
        if authorization[: len(_SCHEME)].lower() != _SCHEME:
            return False
        # Bytes that are no UTF-8 came as halves of surrogate pairs, and go back to what they were.
        given = authorization[len(_SCHEME) :].strip(" \t").encode("utf-8", "surrogateescape")
        return hmac.compare_digest(given, self._token)

    async def _stream(self, request: web.BaseRequest) -> web.StreamResponse:
        """Logs, processes and connections: the node's business. The body is still unread."""
        from jobyard.server import streaming

        task = asyncio.current_task()
        assert task is not None, "aiohttp answers in a task"
        self._streams.add(task)
        try:
            return await streaming.serve(request, self.live.server, self.kubelet)
        finally:
            self._streams.discard(task)

    async def _follow(self, request: web.BaseRequest, watch: Watch) -> web.StreamResponse:
        if "Upgrade" in request.headers:
            # Imported here: few clients watch so.
            from jobyard.server.http.watch_socket import follow_in_socket, wants_socket

            if wants_socket(request):
                try:
                    return await follow_in_socket(request, self.live.lines(watch))
                finally:
                    watch.end()
        answer = web.StreamResponse(headers={"Content-Type": watch.content_type})
        warn(answer, watch.warnings)
        answer.enable_chunked_encoding()
        try:
            await answer.prepare(request)
            async with aclosing(self.live.lines(watch)) as lines:
                async for chunk in lines:
                    await answer.write(chunk)
            await answer.write_eof()
        except ConnectionError:
            # The client has gone, which is how most watches end.
            pass
        finally:
            watch.end()
        return answer


def _listening(host: str, port: int) -> socket.socket:
    """OSError if it can't be."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        # Two may bind the same port; only one can listen.
        made.listen(BACKLOG)
    except BaseException:
        made.close()
        raise
    return made


async def _body(request: web.BaseRequest) -> bytes:
    size = request.content_length
    if size is not None and size > BODY_BYTES_MAX:
        raise _too_large()
    if size is not None and "Content-Encoding" not in request.headers:
        # There is no more of it than that; what is compressed may become anything.
        return await request.content.read()
    body = bytearray()
    async for chunk in request.content.iter_any():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            raise _too_large()
    return bytes(body)


def _too_large() -> ProblemError:
    text = f"Request entity too large: limit is {BODY_BYTES_MAX}"
    return ProblemError(413, "RequestEntityTooLarge", text)
