"""Sends requests to one API server over HTTP.

Whoever speaks to a cluster makes a `Transport` of a `Cluster` and passes it on as a `Sender`.
Decides timeouts, connection limits and what a failed connection is called. Retries nothing
but a refused login, once, with new credentials; the rest is for `retrying` and `watching`.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import Final, Self
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from jobyard import __version__
from jobyard.client.credentials.cluster import Cluster
from jobyard.client.credentials.login import Login, Ticket
from jobyard.client.errors import ConnectionFailedError, RefusedError, TooLargeError
from jobyard.client.proxying.dialing import (
    CONNECTIONS_MAX,
    Connector,
    ProxyFailedError,
    base_of,
    own_headers,
    way_of,
)
from jobyard.client.request import JSON_TYPE, Answer, Request, problem_of
from jobyard.client.sockets import Sockets
from jobyard.numerals import whole_number

# Verb, status (0: no answer) and seconds until the answer, or until a stream began.
Observe = Callable[[str, int, float], None]

USER_AGENT: Final = f"jobyard/{__version__}"
CONNECT_SECONDS: Final = 10.0
REQUEST_SECONDS: Final = 60.0
# Bookmarks come about once a minute, so a longer silence is a connection that is dead.
STREAM_SILENCE_SECONDS: Final = 150.0
# One line of a watch is one object. etcd keeps 1.5 MiB of it; of pods and the like that is
# protobuf, in which a "<" has one byte, while Go's JSON has six for it.
LINE_BYTES_MAX: Final = 16 * 1024 * 1024
# What is read of a refusal of a stream.
REFUSAL_BYTES_MAX: Final = 1024 * 1024
UNAUTHORIZED: Final = 401
# Who is told to come back later than in some days has been told nothing.
_RETRY_AFTER_SECONDS_MAX: Final = 999_999


class Transport:
    """The way to one API server: `async with Transport(cluster) as transport`."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        observe: Observe | None = None,
        connections_max: int = CONNECTIONS_MAX,
        request_seconds: float = REQUEST_SECONDS,
        stream_silence_seconds: float = STREAM_SILENCE_SECONDS,
    ) -> None:
        self.cluster = cluster
        self._observe = observe
        self._connections_max = connections_max
        # Silence is what is bounded: waiting for a free connection is no fault of the server.
        self._request_timeout = aiohttp.ClientTimeout(
            sock_connect=CONNECT_SECONDS, sock_read=request_seconds
        )
        self._stream_timeout = aiohttp.ClientTimeout(
            sock_connect=CONNECT_SECONDS, sock_read=stream_silence_seconds
        )
        self._login = Login(cluster)
        self._sockets = Sockets()
        self._base, self._way = base_of(cluster), way_of(cluster)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        assert self._session is None, "a Transport is entered once"
        self._session = aiohttp.ClientSession(
            connector=Connector(self.cluster, self._sockets, self._connections_max),
            # Compressing costs more than it saves on the short way to an API server.
            headers={"User-Agent": USER_AGENT, "Accept-Encoding": "identity"},
            # Whoever does it all the same, such as a user's program behind pods/proxy, could mean
            # a thousand times as many bytes.
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        session, self._session = self._session, None
        assert session is not None, "a Transport is left once"
        await session.close()
        await self._sockets.all_closed()

    async def send(self, request: Request) -> Answer:
        """Send one request. An error status is an Answer too, never an exception."""
        async with self._answered(request, self._request_timeout) as response:
            with failures_named(self.cluster):
                body = await _body(request, response)
            return Answer(response.status, body, _retry_after_seconds(response))

    async def lines(self, request: Request) -> AsyncGenerator[bytes, None]:
        """The lines of a stream as they come, until the server ends it.

        Put it in `contextlib.aclosing`: the connection goes when the generator does.
        """
        async with (
            aclosing(self.chunks(request)) as chunks,
            aclosing(_split(self.cluster, chunks)) as lines,
        ):
            async for line in lines:
                yield line

    async def chunks(self, request: Request) -> AsyncGenerator[bytes, None]:
        """The bytes of a stream as they come; like `lines`, for `contextlib.aclosing`."""
        async with self._answered(request, self._stream_timeout) as response:
            with failures_named(self.cluster):
                if not 200 <= response.status < 300:
                    said = await _beginning(response, REFUSAL_BYTES_MAX)
                    problem = problem_of(response.status, said)
                    raise RefusedError(str(request), problem, _retry_after_seconds(response))
            try:
                pieces = response.content.iter_any()
                while True:
                    with failures_named(self.cluster):
                        try:
                            piece = await anext(pieces)
                        except StopAsyncIteration:
                            break
                    yield piece
            finally:
                _break_off(response)

    @asynccontextmanager
    async def _answered(
        self, request: Request, timeout: aiohttp.ClientTimeout
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The beginning of an answer; after a 401 the one to a second try with a new login."""
        ticket = await self._login.ticket()
        response = await self._begin(request, ticket, timeout)
        if response.status == UNAUTHORIZED and self._login.refuse(ticket):
            response.release()
            response = await self._begin(request, await self._login.ticket(), timeout)
        async with response:
            yield response

    async def _begin(
        self, request: Request, ticket: Ticket, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        session = self._session
        assert session is not None, "a Transport is used inside of its `async with`"
        headers = own_headers(self.cluster)
        if ticket.token:
            headers["Authorization"] = f"Bearer {ticket.token}"
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        if request.accept != JSON_TYPE:
            headers["Accept"] = request.accept
        status, started = 0, time.monotonic()
        try:
            with failures_named(self.cluster):
                response = await session.request(
                    request.method,
                    self._url(request),
                    data=request.body,
                    headers=headers,
                    timeout=timeout,
                    ssl=True if ticket.tls is None else ticket.tls,
                    server_hostname=self.cluster.trust.server_name or None,
                    # A redirect would carry the token to wherever it points.
                    allow_redirects=False,
                    **self._way,
                )
            status = response.status
        finally:
            if self._observe is not None:
                self._observe(request.verb, status, time.monotonic() - started)
        return response

    def _url(self, request: Request) -> URL:
        url = f"{self._base}{request.path}"
        return URL(f"{url}?{urlencode(request.query)}" if request.query else url, encoded=True)


async def _body(request: Request, response: aiohttp.ClientResponse) -> bytes:
    """The whole answer, or TooLargeError as soon as it is too long."""
    most = request.answer_bytes_max
    if most is None:
        return await response.read()
    body = b""
    try:
        body = await _beginning(response, most + 1)
    finally:
        if not response.content.is_eof():
            _break_off(response)
    if len(body) > most:
        raise TooLargeError(str(request), most)
    return body


async def _beginning(response: aiohttp.ClientResponse, bytes_max: int) -> bytes:
    """What is read of an answer until there is so much of it, or until its end."""
    pieces: list[bytes] = []
    size = 0
    async for piece in response.content.iter_any():
        pieces.append(piece)
        size += len(piece)
        if size >= bytes_max:
            break
    return b"".join(pieces)


def _break_off(response: aiohttp.ClientResponse) -> None:
    """At once, and without the TLS goodbye: the server need not send what nobody reads."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()


async def _split(
    cluster: Cluster, chunks: AsyncGenerator[bytes, None]
) -> AsyncGenerator[bytes, None]:
    """Cut a stream into lines; many come in one piece, and a long one in many pieces."""
    pieces: list[bytes] = []
    size = 0
    async for chunk in chunks:
        first, *others = chunk.split(b"\n")
        pieces.append(first)
        size += len(first)
        if size > LINE_BYTES_MAX:
            raise ConnectionFailedError(
                cluster.server,
                f"a line of a watch is longer than {LINE_BYTES_MAX} bytes",
                "something between us and the server speaks another protocol",
            )
        for rest in others:
            line = b"".join(pieces)
            pieces, size = [rest], len(rest)
            if line:
                yield line
    # What isn't ended by a newline was cut off: half an object is none.


def _retry_after_seconds(response: aiohttp.ClientResponse) -> float | None:
    # Kubernetes says seconds; the other form, a date, would need clocks that agree.
    text = response.headers.get("Retry-After", "").strip()
    return whole_number(text, _RETRY_AFTER_SECONDS_MAX)


@contextmanager
def failures_named(cluster: Cluster) -> Iterator[None]:
    """Turn what aiohttp raises for a connection that failed into our own error."""
    try:
        yield
    # TimeoutError is an OSError, and so are those of the ssl module.
    except (aiohttp.ClientError, OSError) as error:
        raise _failure(cluster, error) from error


def _failure(cluster: Cluster, error: aiohttp.ClientError | OSError) -> ConnectionFailedError:
    source = cluster.source or "the given address"
    through = _through(cluster)
    match error:
        case ProxyFailedError():
            return ConnectionFailedError(
                cluster.server, str(error), _proxy_remedy(cluster), may_pass=error.may_pass
            )
        case aiohttp.ClientConnectorCertificateError():
            why = getattr(error.certificate_error, "verify_message", "") or "not trusted"
            return ConnectionFailedError(
                cluster.server,
                f"its certificate is refused: {why}{through}",
                f"check certificate-authority and tls-server-name in {source}",
                may_pass=False,
            )
        case aiohttp.ClientConnectorDNSError():
            what, remedy = "its name can't be resolved", f"check the address in {source}"
        case aiohttp.ClientConnectorSSLError():
            what, remedy = "the TLS handshake failed", f"check the port in {source}"
        case TimeoutError():
            what, remedy = "no answer in time", f"check that it runs and that {source} is right"
        case aiohttp.ClientConnectorError():
            reason = os.strerror(error.os_error.errno) if error.os_error.errno else "no connection"
            what, remedy = reason.lower(), f"check that it runs and that {source} is right"
        case _:
            what, remedy = "the connection broke", "it is worth trying again"
    return ConnectionFailedError(cluster.server, f"{what}{through}", remedy)


def _through(cluster: Cluster) -> str:
    proxy = cluster.proxy
    return "" if proxy is None else f" (through the proxy {proxy} of {proxy.source})"


def _proxy_remedy(cluster: Cluster) -> str:
    assert cluster.proxy is not None
    if cluster.proxy.proxy_url:
        return "check that it runs and that its URL is right"
    return "check that variable, or name the server in $NO_PROXY if it needs no proxy"
