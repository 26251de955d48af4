"""A tiny asynchronous caller of a Kubernetes API, for tests that fire many requests.

Deliberately not Jobyard's own client: what tests use to look at the server must not
share its faults. Knows HTTP, JSON and the `Warning` header, no kinds; and it retries
nothing, because a test wants to see what the server said.
"""

import json
import re
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import aiohttp

from rig.kube.plane import ControlPlane
from rig.tls import client_context

REQUEST_SECONDS = 60
CONNECTIONS_MAX = 100
# One line of a watch is one object: of those up to etcd's 1.5 MiB, and six bytes for a "<".
LINE_BYTES_MAX = 16 * 1024 * 1024

# RFC 9110 of old (RFC 7234, 5.5): code, agent, quoted text and perhaps a quoted date.
_WARNING = re.compile(r'\d{3} \S+ "((?:[^"\\]|\\.)*)"(?: "[^"]*")?')


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said to one request."""

    status: int
    # Empty when the answer isn't a JSON object; `text` has it then.
    body: dict[str, Any]
    warnings: tuple[str, ...]
    text: str


class ApiCaller:
    """Calls one control plane as its admin: `async with ApiCaller(plane) as api`."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        plane = self._plane
        self._session = aiohttp.ClientSession(
            base_url=plane.url,
            connector=aiohttp.TCPConnector(
                limit=CONNECTIONS_MAX,
                ssl=client_context(plane.ca, plane.cert, plane.key),
            ),
            timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS),
            read_bufsize=LINE_BYTES_MAX,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._open_session.close()
        self._session = None

    @property
    def _open_session(self) -> aiohttp.ClientSession:
        assert self._session is not None, "ApiCaller is used outside of its `async with`"
        return self._session

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        accept: str = "*/*",
    ) -> Answer:
        """Send one request. An error status is an Answer too, never an exception."""
        async with self._open_session.request(
            method,
            path,
            params=query,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Accept": accept} | ({} if body is None else {"Content-Type": content_type}),
        ) as response:
            text = await response.text()
            decoded = json.loads(text) if "json" in response.content_type else None
            return Answer(
                status=response.status,
                body=decoded if isinstance(decoded, dict) else {},
                warnings=warnings_of(response.headers.getall("Warning", [])),
                text=text,
            )

    async def watch(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        deadline_seconds: float = REQUEST_SECONDS,
    ) -> AsyncGenerator[dict[str, Any], None]:
        """The watch events of `path`, as they come; ends when the server ends the watch.

        Without a resourceVersion in `query` it begins with what exists already; after
        the deadline it raises TimeoutError. Put it in `contextlib.aclosing` when you leave
        the loop early.
        """
        async with self._open_session.get(
            path,
            params={**(query or {}), "watch": "1"},
            timeout=aiohttp.ClientTimeout(total=deadline_seconds),
            raise_for_status=True,
        ) as response:
            try:
                async for line in response.content:
                    yield json.loads(line)
            finally:
                # aiohttp closes a connection left in the middle of an answer, but doesn't
                # wait for the TLS goodbye; a loop that ends before it leaks the socket.
                connection = response.connection
                if connection is not None and connection.transport is not None:
                    connection.transport.abort()


def warnings_of(headers: Iterable[str]) -> tuple[str, ...]:
    """The texts of `Warning` headers such as `299 - "unknown field \\"spec.x\\""`."""
    return tuple(
        re.sub(r"\\(.)", r"\1", match[1])
        for header in headers
        for match in _WARNING.finditer(header)
    )
