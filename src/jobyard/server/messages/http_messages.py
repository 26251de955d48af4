"""Calls and replies as aiohttp has them: shared by the door and by what a node answers."""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web

from jobyard.server.call import Call, Reply


def call_of(request: web.BaseRequest) -> Call:
    """The call without its body."""
    headers = request.headers
    url = request.rel_url
    return Call(
        method=request.method,
        path=url.raw_path,
        query=tuple(url.query.items()) if url.raw_query_string else (),
        content_type=plain(headers.get("Content-Type", "")),
        accept=plain(headers.get("Accept", "*/*")),
        user_agent=plain(headers.get("User-Agent", "")),
        if_none_match=plain(headers.get("If-None-Match", "")),
    )


def plain(header: str) -> str:
    """A header in characters: its bytes need not be any, and then come as what can't be written."""
    if header.isascii():
        return header
    return header.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def response(reply: Reply, *, is_head: bool = False) -> web.Response:
    """A whole answer, with its warnings in headers."""
    answer = web.Response(
        status=reply.status,
        body=b"" if is_head else reply.body,
        headers={"Content-Type": reply.content_type, "Cache-Control": "no-cache, private"},
    )
    for name, value in reply.headers:
        answer.headers[name] = value
    warn(answer, reply.warnings)
    if reply.status == 429 or reply.status == 504:
        answer.headers["Retry-After"] = "1"
    return answer


def warn(answer: web.StreamResponse, texts: Iterable[str]) -> None:
    """What the client should know besides, in headers."""
    for text in texts:
        answer.headers.add("Warning", f'299 - "{_quoted(text)}"')


def _quoted(text: str) -> str:
    """A header holds no line ends, and quotes in it are escaped."""
    plain = "".join(char if char.isprintable() else " " for char in text)
    return plain.replace("\\", "\\\\").replace('"', '\\"')
