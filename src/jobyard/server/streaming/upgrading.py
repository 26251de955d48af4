"""What a client wants the connection to become, and the versions that both ends know."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from aiohttp import web

from jobyard.server.problem import ProblemError, bad_request
from jobyard.server.streaming.channels import protocols_offered

SPDY = "SPDY/3.1"
VERSION_HEADER = "X-Stream-Protocol-Version"


class Upgrade(Enum):
    """The two protocols that can follow."""

    WEBSOCKET = "websocket"
    SPDY = "spdy/3.1"


def upgrade_wanted(request: web.BaseRequest) -> Upgrade:
    """Refuses a request that wants neither."""
    connection = request.headers.get("Connection", "").lower()
    wanted = request.headers.get("Upgrade", "").lower()
    if "upgrade" in connection:
        for upgrade in Upgrade:
            if wanted == upgrade.value:
                return upgrade
    raise bad_request("Upgrade request required")


def socket_protocol(request: web.BaseRequest, known: Sequence[str]) -> str:
    """The version for a WebSocket; a client that offers none gets the empty one."""
    offered = protocols_offered(request)
    if not offered:
        return ""
    for protocol in offered:
        if protocol in known:
            return protocol
    raise bad_request(
        f"none of the WebSocket protocols {', '.join(offered)} is known here;"
        f" known are {', '.join(known)}"
    )


def stream_protocol(request: web.BaseRequest, known: Sequence[str]) -> str:
    """The version for SPDY: the best of ours that the client knows too."""
    texts = request.headers.getall(VERSION_HEADER, [])
    offered = [each.strip() for text in texts for each in text.split(",") if each.strip()]
    if not offered:
        return ""
    for protocol in known:
        if protocol in offered:
            return protocol
    raise ProblemError(
        403,
        "Forbidden",
        f"unable to upgrade: unable to negotiate protocol: client supports [{' '.join(offered)}],"
        f" server accepts [{' '.join(known)}]",
    )


def upgrade_headers(protocol: str) -> dict[str, str]:
    """What is answered to a client that wants SPDY."""
    headers = {"Connection": "Upgrade", "Upgrade": SPDY}
    return {**headers, VERSION_HEADER: protocol} if protocol else headers
