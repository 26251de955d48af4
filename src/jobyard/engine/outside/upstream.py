"""A proxy that this machine itself needs, as the usual variables name it.

Every connection is asked for with CONNECT, whatever goes over it later. Only `http://` proxies;
another kind is left alone, and connections are then made directly.
"""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Mapping
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from jobyard.engine.outside.proxy import Address, Connection, RefusedError

_HTTPS_PORT: Final = 443


def _proxies() -> Mapping[str, str]:
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return {}
    # Imported where it is of use: it is slow to import.
    from urllib.request import getproxies_environment

    return getproxies_environment()


class Upstream:
    """The engine's own proxies, read once from its environment."""

    def __init__(self) -> None:
        self._by_scheme = {
            scheme: parts
            for scheme, url in _proxies().items()
            if (parts := urlsplit(url if "://" in url else f"http://{url}")).scheme == "http"
            and parts.hostname
        }

    def serves(self, address: Address) -> bool:
        """Whether connections to this address go through a proxy."""
        if self._for(address) is None:
            return False
        from urllib.request import proxy_bypass

        return not proxy_bypass(f"{address[0]}:{address[1]}")

    def _for(self, address: Address) -> SplitResult | None:
        return self._by_scheme.get("https" if address[1] == _HTTPS_PORT else "http")

    async def connect(self, address: Address) -> Connection:
        """A connection that ends at the address."""
        parts = self._for(address)
        assert parts is not None, f"no proxy for {address}"
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
        try:
            await _ask(reader, writer, address, parts)
        except BaseException:
            # Refused, reset or given up: nobody else knows of the connection.
            writer.close()
            raise
        return reader, writer


async def _ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: Address, parts: SplitResult
) -> None:
    """Raises RefusedError if the proxy doesn't connect."""
    place = f"{address[0]}:{address[1]}"
    head = f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n"
    if parts.username:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        head += f"Proxy-Authorization: Basic {base64.b64encode(pair.encode()).decode()}\r\n"
    writer.write(f"{head}\r\n".encode())
    try:
        answer = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        answer = b""
    status = answer.split(b" ", 2)[1:2]
    if status != [b"200"]:
        raise RefusedError("502 Bad Gateway")
