"""pods/proxy: an HTTP request carried on to a port of a pod, and its answer carried back.

Bodies are streamed both ways and never decoded. An upgrade (a WebSocket of a notebook, say) joins
the two connections. The token of the engine never reaches the pod.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import Final

import aiohttp
import msgspec
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from jobyard.kubelet import KubeletError
from jobyard.numerals import port_number, whole_number
from jobyard.server.call import Call, Reply
from jobyard.server.messages.routing import Route
from jobyard.server.problem import ProblemError, bad_request
from jobyard.server.resource import Object
from jobyard.server.server import ApiServer
from jobyard.server.streaming.containers import check_placed
from jobyard.server.streaming.departure import Connected
from jobyard.server.streaming.kubelet import Kubelet
from jobyard.server.streaming.log_request import pod_asked_for
from jobyard.server.streaming.pod_connector import Connect, PodConnector
from jobyard.server.streaming.wires import BLOCK_BYTES, Finished, StreamWire, taken_over

HTTP_PORT: Final = 80
HTTPS_PORT: Final = 443
# An answer that somebody in this process waits for.
_ANSWER_SECONDS: Final = 5
_ANSWER_BYTES_MAX: Final = 4 * 2**20
_SCHEMES: Final = ("http", "https")
# They are about one connection and not about what it carries; and what is only for this server.
_OWN: Final = (
    *("connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"),
    *("proxy-authenticate", "proxy-authorization", "authorization", "host", "content-length"),
)


class Destination(msgspec.Struct, frozen=True):
    """What `[scheme:]name[:port]` names; port 0 is the pod's first."""

    scheme: str
    name: str
    port: str


def destination(text: str) -> Destination:
    """Reads the name in the path of a proxied request."""
    parts = text.split(":")
    if len(parts) == 1 and parts[0]:
        return Destination("http", parts[0], "")
    if len(parts) == 2 and parts[0]:
        return Destination("http", parts[0], parts[1])
    if len(parts) == 3 and parts[0] in ("", *_SCHEMES) and parts[1]:
        return Destination(parts[0] or "http", parts[1], parts[2])
    raise bad_request(f'invalid pod request "{text}"')


def port_of(wanted: Destination, pod: Object) -> int:
    """The port by number or name; unsaid, the first that a container has, or the scheme's own."""
    ports = [each for box in pod["spec"]["containers"] for each in box.get("ports") or ()]
    if not wanted.port:
        default = HTTPS_PORT if wanted.scheme == "https" else HTTP_PORT
        first: int = ports[0]["containerPort"] if ports else default
        return first
    number = port_number(wanted.port)
    if number is not None:
        return number
    for each in ports:
        if each.get("name") == wanted.port:
            found: int = each["containerPort"]
            return found
    raise bad_request(f'invalid pod request "{wanted.name}:{wanted.port}"')


class _Way(msgspec.Struct, frozen=True):
    """How a pod's port is reached, and what it is called on the way."""

    host: str
    connect: Connect


def _way(route: Route, server: ApiServer, kubelet: Kubelet) -> _Way:
    wanted = destination(route.name)
    pod = pod_asked_for(server, msgspec.structs.replace(route, name=wanted.name))
    check_placed(pod)
    port = port_of(wanted, pod)

    async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await kubelet.connect(pod, port)
        if wanted.scheme == "https":
            await writer.start_tls(_unverified())
        return reader, writer

    return _Way(f"{wanted.name}:{port}", connect)


async def ask_pod(call: Call, route: Route, server: ApiServer, kubelet: Kubelet) -> Reply:
    """A question without a body and its whole answer, for who asks from this process."""
    way = _way(route, server, kubelet)
    url = URL(f"http://{way.host}{_split(call.path)[1] or '/'}", encoded=True)
    try:
        async with (
            _session(way.connect) as session,
            asyncio.timeout(_ANSWER_SECONDS),
            session.get(url, allow_redirects=False) as found,
        ):
            body = b""
            async for piece in found.content.iter_any():
                body += piece
                if len(body) > _ANSWER_BYTES_MAX:
                    raise _unreachable(f"its answer has more than {_ANSWER_BYTES_MAX} bytes")
            return Reply(status=found.status, body=body)
    except (aiohttp.ClientError, KubeletError, OSError) as problem:
        raise _unreachable(problem) from problem


async def serve_proxy(
    request: web.BaseRequest, route: Route, server: ApiServer, kubelet: Kubelet
) -> web.StreamResponse:
    """Asks the pod what the client asks."""
    way = _way(route, server, kubelet)
    prefix, rest = _split(request.rel_url.raw_path)
    query = request.rel_url.raw_query_string
    if not rest and request.method in ("GET", "HEAD"):
        location = f"{prefix}/?{query}" if query else f"{prefix}/"
        return web.Response(status=301, headers={"Location": location})
    upgrade = request.headers.get("Upgrade", "")
    if "upgrade" not in request.headers.get("Connection", "").lower():
        upgrade = ""
    url = URL(f"http://{way.host}{rest or '/'}{f'?{query}' if query else ''}", encoded=True)
    try:
        async with Connected(request), _session(way.connect) as session:
            if upgrade:
                return await _joined(request, way.connect, url, upgrade)
            return await _asked(request, session, url, prefix)
    except (aiohttp.ClientConnectionError, KubeletError) as problem:
        raise _unreachable(problem) from problem
    except OSError as problem:
        if request.transport is None:
            raise
        raise _unreachable(problem) from problem
    return Finished()


def _unreachable(problem: Exception | str) -> ProblemError:
    text = f"error trying to reach service: {problem}"
    return ProblemError(503, "ServiceUnavailable", text)


def _session(connect: Connect) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=PodConnector(connect),
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        # A program may think for as long as it likes; the client can go away.
        timeout=aiohttp.ClientTimeout(),
        read_bufsize=BLOCK_BYTES,
    )


async def _asked(
    request: web.BaseRequest, session: aiohttp.ClientSession, url: URL, prefix: str
) -> web.StreamResponse:
    headers = _forwarded(request)
    if request.content_length is not None:
        headers["Content-Length"] = str(request.content_length)
    async with session.request(
        request.method,
        url,
        headers=headers,
        data=request.content if request.body_exists else None,
        allow_redirects=False,
    ) as found:
        answer = web.StreamResponse(status=found.status, reason=found.reason)
        answer.headers.extend(_carried(found.headers))
        location = found.headers.get("Location", "")
        if location:
            answer.headers["Location"] = _relocated(location, url, prefix)
        length = whole_number(found.headers.get("Content-Length", ""))
        if length is not None:
            answer.content_length = length
        elif request.version >= aiohttp.HttpVersion11:
            answer.enable_chunked_encoding()
        await answer.prepare(request)
        if request.method != "HEAD":
            async for piece in found.content.iter_any():
                await answer.write(piece)
        await answer.write_eof()
        return answer


async def _joined(
    request: web.BaseRequest, connect: Connect, url: URL, upgrade: str
) -> web.StreamResponse:
    """An upgrade: the pod answers for itself, and then bytes go both ways until one end goes."""
    headers = _forwarded(request)
    headers.update({"Host": url.authority, "Connection": "Upgrade", "Upgrade": upgrade})
    lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
    head = f"{request.method} {url.raw_path_qs} HTTP/1.1\r\n{''.join(lines)}\r\n"
    pod = StreamWire(*await connect())
    try:
        await pod.write(head.encode("utf-8", "surrogateescape"))
        async with taken_over(request, None) as client:
            ways = [
                asyncio.create_task(_copied(client, pod)),
                asyncio.create_task(_copied(pod, client)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
    finally:
        pod.writer.close()
    return Finished()


async def _copied(source: StreamWire, target: StreamWire) -> None:
    while data := await source.read():
        await target.write(data)


def _split(raw_path: str) -> tuple[str, str]:
    """The path up to `/proxy`, and what follows it, as the client wrote them."""
    steps = raw_path.split("/")
    # /api/v1/namespaces/NS/pods/NAME/proxy/...
    prefix = "/".join(steps[:8])
    return prefix, raw_path[len(prefix) :]


def _forwarded(request: web.BaseRequest) -> CIMultiDict[str]:
    headers = _carried(request.headers)
    headers["X-Forwarded-Uri"] = request.rel_url.raw_path
    headers["X-Forwarded-Host"] = request.host
    headers["X-Forwarded-Proto"] = "https"
    return headers


def _carried(headers: Mapping[str, str]) -> CIMultiDict[str]:
    named = {each.strip().lower() for each in headers.get("Connection", "").split(",")}
    return CIMultiDict(
        (name, value)
        for name, value in headers.items()
        if name.lower() not in _OWN and name.lower() not in named
    )


def _relocated(location: str, url: URL, prefix: str) -> str:
    """A redirection within the pod stays behind the proxy."""
    target = URL(location, encoded=True)
    if target.absolute and target.authority != url.authority:
        return location
    path = target.raw_path_qs
    if not target.absolute and not location.startswith("/"):
        return location
    return f"{prefix}{path}"


def _unverified() -> ssl.SSLContext:
    """Pods sign their own certificates; a real API server doesn't look at them either."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
