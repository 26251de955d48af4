"""A process started in a pod, at the client's end: streams as channels of a WebSocket.

`jobyard exec` and `shell` use it, against any API server. Speaks Kubernetes' channel protocol in
version 5, or 4, which can't say that the input has ended. Knows nothing of terminals.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import IntEnum
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp
import msgspec
from yarl import URL

from jobyard.client.credentials.cluster import Cluster
from jobyard.client.credentials.login import Login, Ticket
from jobyard.client.errors import ConnectionFailedError, RefusedError
from jobyard.client.proxying.dialing import Connector, base_of, own_headers, way_of
from jobyard.client.request import PODS, Cause, Problem, problem_of
from jobyard.client.sockets import Sockets
from jobyard.client.transport import CONNECT_SECONDS, UNAUTHORIZED, USER_AGENT, failures_named
from jobyard.numerals import INT32_MAX, whole_number

V5: Final = "v5.channel.k8s.io"
V4: Final = "v4.channel.k8s.io"
# A piece of input in one message.
BLOCK_BYTES: Final = 32 * 1024
_SWITCHING: Final = 101
_CLOSE_SECONDS: Final = 2.0


class Channel(IntEnum):
    """What the streams of a process are called on the wire."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    ERROR = 3
    RESIZE = 4
    CLOSE = 255


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """What to run where; the empty container is the pod's only one."""

    namespace: str
    pod: str
    command: tuple[str, ...]
    container: str = ""
    stdin: bool = False
    tty: bool = False

    @property
    def path(self) -> str:
        return PODS.item(self.namespace, self.pod, "exec")

    @property
    def query(self) -> list[tuple[str, str]]:
        """A terminal has one way out, so there are no errors apart from the output."""
        pairs = [("container", self.container)] if self.container else []
        pairs += [("stdin", "true")] if self.stdin else []
        pairs += [("stdout", "true"), ("tty", "true") if self.tty else ("stderr", "true")]
        return pairs + [("command", each) for each in self.command]


class _Details(msgspec.Struct, frozen=True):
    causes: tuple[Cause, ...] = ()


class _Outcome(msgspec.Struct, frozen=True):
    status: str = ""
    reason: str = ""
    message: str = ""
    code: int = 0
    details: _Details = _Details()


class RemoteProcess:
    """A process that runs. One task may read while another writes."""

    def __init__(
        self, socket: aiohttp.ClientWebSocketResponse, cluster: Cluster, what: str
    ) -> None:
        self._socket = socket
        self._cluster = cluster
        self._what = what
        self._exit_code: int | None = None

    @property
    def can_end_input(self) -> bool:
        return self._socket.protocol == V5

    async def output(self) -> tuple[Channel, bytes] | None:
        """The next piece that it wrote; None once it has ended and all was read."""
        while True:
            message = await self._socket.receive()
            if message.type is not aiohttp.WSMsgType.BINARY:
                if self._exit_code is not None:
                    return None
                raise self._broken()
            data: bytes = message.data
            if len(data) < 2:
                continue
            if data[0] == Channel.ERROR:
                self._exit_code = self._concluded(data[1:])
            elif data[0] in (Channel.STDOUT, Channel.STDERR):
                return Channel(data[0]), data[1:]

    @property
    def exit_code(self) -> int:
        assert self._exit_code is not None, "known once all output was read"
        return self._exit_code

    async def write(self, data: bytes) -> None:
        """Waits while the process doesn't read. What comes after its end is lost."""
        for start in range(0, len(data), BLOCK_BYTES):
            await self._send(Channel.STDIN, data[start : start + BLOCK_BYTES])

    async def end_input(self) -> None:
        await self._send(Channel.CLOSE, bytes((Channel.STDIN,)))

    async def resize(self, columns: int, rows: int) -> None:
        size = msgspec.json.encode({"Width": columns, "Height": rows})
        await self._send(Channel.RESIZE, size)

    async def _send(self, channel: Channel, data: bytes) -> None:
        try:
            await self._socket.send_bytes(bytes((channel,)) + data)
        except ConnectionError:
            # Whoever reads is told why there is no connection any more.
            return

    def _concluded(self, body: bytes) -> int:
        outcome = msgspec.json.decode(body, type=_Outcome)
        if outcome.status == "Success":
            return 0
        for cause in outcome.details.causes:
            code = whole_number(cause.message, INT32_MAX) if cause.reason == "ExitCode" else None
            if code is not None:
                return code
        problem = Problem(outcome.code or 500, outcome.reason, outcome.message)
        raise RefusedError(self._what, problem)

    def _broken(self) -> ConnectionFailedError:
        return ConnectionFailedError(
            self._cluster.server, "the connection broke", "the process has probably ended"
        )


class _RefusedUpgradeError(Exception):
    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(status)
        self.status = status
        self.body = body


class _Response(aiohttp.ClientResponse):
    """Reads what a server has to say instead of an upgrade; aiohttp would drop it."""

    async def start(self, connection: Any) -> aiohttp.ClientResponse:
        await super().start(connection)
        if self.status != _SWITCHING:
            raise _RefusedUpgradeError(self.status, await self.read())
        return self


@asynccontextmanager
async def remote_process(cluster: Cluster, what: Execution) -> AsyncIterator[RemoteProcess]:
    """Starts a process; it is ended, if it still runs, when the block is left."""
    login, sockets = Login(cluster), Sockets()
    session = aiohttp.ClientSession(
        connector=Connector(cluster, sockets),
        response_class=_Response,
        headers={"User-Agent": USER_AGENT},
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(sock_connect=CONNECT_SECONDS),
    )
    name = f"exec {what.namespace}/{what.pod}"
    try:
        ticket = await login.ticket()
        try:
            socket = await _opened(session, cluster, ticket, what)
        except _RefusedUpgradeError as refused:
            if refused.status != UNAUTHORIZED or not login.refuse(ticket):
                raise
            socket = await _opened(session, cluster, await login.ticket(), what)
        try:
            yield RemoteProcess(socket, cluster, name)
        finally:
            await socket.close()
    except _RefusedUpgradeError as refused:
        raise RefusedError(name, problem_of(refused.status, refused.body)) from None
    finally:
        await session.close()
        await sockets.all_closed()


async def _opened(
    session: aiohttp.ClientSession, cluster: Cluster, ticket: Ticket, what: Execution
) -> aiohttp.ClientWebSocketResponse:
    url = f"{base_of(cluster)}{what.path}?{urlencode(what.query)}"
    headers = own_headers(cluster)
    if ticket.token:
        headers["Authorization"] = f"Bearer {ticket.token}"
    with failures_named(cluster):
        try:
            socket: aiohttp.ClientWebSocketResponse = await session.ws_connect(
                URL(url, encoded=True),
                protocols=(V5, V4),
                headers=headers,
                ssl=True if ticket.tls is None else ticket.tls,
                server_hostname=cluster.trust.server_name or None,
                timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSE_SECONDS),
                max_msg_size=0,
                **way_of(cluster),
            )
        except aiohttp.WSServerHandshakeError as problem:
            raise ConnectionFailedError(
                cluster.server,
                f"no process could be started ({problem.message})",
                "check what is in between: it must let WebSockets through",
            ) from None
    return socket
