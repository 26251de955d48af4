"""How a SOCKS5 proxy is asked for a connection (RFC 1928, and RFC 1929 for logins).

`dialing` calls `ask` on a socket that is connected to the proxy; afterwards the socket leads to
the server. Names are looked up by the proxy, as with kubectl. Knows nothing of HTTP.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from ipaddress import IPv4Address, ip_address
from typing import Final

_VERSION: Final = 5
_LOGIN_VERSION: Final = 1
_NO_LOGIN: Final = 0
_LOGIN: Final = 2
_CONNECT: Final = 1
_IPV4: Final = 1
_NAME: Final = 3
_IPV6: Final = 4
_ADDRESS_BYTES: Final = {_IPV4: 4, _IPV6: 16}
_BYTES_MAX: Final = 255
# As the RFC words them.
_REPLIES: Final = {
    1: "general SOCKS server failure",
    2: "connection not allowed by ruleset",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
    6: "TTL expired",
    7: "command not supported",
    8: "address type not supported",
}


class SocksError(Exception):
    """The proxy doesn't connect us; `may_pass` is false when trying again can't help."""

    def __init__(self, what: str, *, may_pass: bool = False) -> None:
        super().__init__(what)
        self.may_pass = may_pass


async def ask(
    proxy: socket.socket, host: str, port: int, login: tuple[str, str] | None = None
) -> None:
    """Have the proxy connect to host and port; SocksError if it doesn't."""
    loop = asyncio.get_running_loop()
    methods = (_NO_LOGIN,) if login is None else (_NO_LOGIN, _LOGIN)
    await loop.sock_sendall(proxy, bytes((_VERSION, len(methods), *methods)))
    version, method = await _received(proxy, 2)
    if version != _VERSION:
        raise SocksError("it doesn't speak SOCKS5")
    if method == _LOGIN and login is not None:
        await _log_in(proxy, login)
    elif method != _NO_LOGIN:
        wanted = "other credentials" if login is not None else "a user name and a password"
        raise SocksError(f"it wants {wanted}")
    head = bytes((_VERSION, _CONNECT, 0))
    await loop.sock_sendall(proxy, head + _written(host) + struct.pack("!H", port))
    version, reply, _, kind = await _received(proxy, 4)
    if version != _VERSION:
        raise SocksError("it doesn't speak SOCKS5")
    if reply:
        # What it says of networks and hosts may change; that it doesn't allow us won't.
        text = _REPLIES.get(reply, f"reply {reply}")
        raise SocksError(f"it doesn't connect us: {text}", may_pass=reply not in (2, 7, 8))
    size = (await _received(proxy, 1))[0] if kind == _NAME else _ADDRESS_BYTES.get(kind, 0)
    # Where it connected from is of no use to us, and neither is the port.
    await _received(proxy, size + 2)


async def _log_in(proxy: socket.socket, login: tuple[str, str]) -> None:
    name, password = (part.encode() for part in login)
    if not name or len(name) > _BYTES_MAX or len(password) > _BYTES_MAX:
        raise SocksError(f"user name and password may have {_BYTES_MAX} bytes each")
    said = bytes((_LOGIN_VERSION, len(name))) + name + bytes((len(password),)) + password
    await asyncio.get_running_loop().sock_sendall(proxy, said)
    _, status = await _received(proxy, 2)
    if status:
        raise SocksError("it refuses the user name and password of its URL")


def _written(host: str) -> bytes:
    try:
        address = ip_address(host)
    except ValueError:
        name = host.encode("ascii", errors="replace")
        if len(name) > _BYTES_MAX:
            raise SocksError(f"a name may have {_BYTES_MAX} characters") from None
        return bytes((_NAME, len(name))) + name
    return bytes((_IPV4 if isinstance(address, IPv4Address) else _IPV6,)) + address.packed


async def _received(proxy: socket.socket, size: int) -> bytes:
    """Exactly so many bytes: what follows them is the server's."""
    data = b""
    while len(data) < size:
        piece = await asyncio.get_running_loop().sock_recv(proxy, size - len(data))
        if not piece:
            raise SocksError("it closed the connection", may_pass=True)
        data += piece
    return data
