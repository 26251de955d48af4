"""The world outside of sandboxes: a proxy at their gateway, in the engine's own process.

Where the private network has no route out, HTTP and HTTPS go through here; the usual variables
(`http_proxy` …) tell programs. The address and port are the same for every engine of a data
folder, so that pods which outlive one find the next.

What a pod may reach: all that this machine can, but for its loopback. The machine's other
addresses are no exception: what listens there is offered to a network already. Pods themselves
are reached too, for programs that don't heed `no_proxy`. A proxy that the engine was started
with is used in turn, and its password stays here.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import socket
from contextlib import suppress
from ipaddress import IPv4Network
from pathlib import Path
from typing import Final

from jobyard.engine.outside.proxy import Address, Connection, Proxy, RefusedError
from jobyard.engine.outside.upstream import Upstream
from jobyard.node.hub.client import HubClient
from jobyard.node.hub.outside import NO_WAY
from jobyard.node.shared.runtime import RuntimeFailedError

# Nobody else listens on the gateway's address, so the number can be a fixed one.
PORT: Final = 3128
CONNECT_SECONDS: Final = 30.0
_RESOLVER: Final = "# No name server here: the proxy looks up names of the world outside.\n"
_log = logging.getLogger(__name__)


class Outside:
    """The way out of one engine's private network; `listen` whenever its hub came up."""

    def __init__(self, hub: HubClient, network: IPv4Network, data: Path) -> None:
        self._hub = hub
        self._network = network
        self._gateway = str(network[1])
        self._hosts = data / "hosts"
        self._upstream = Upstream()
        self._proxies: list[Proxy] = []
        self._has_route = False
        self._resolver = data / "resolv.conf"
        self._resolver.touch()

    def url(self) -> str:
        """What programs are told; empty if they need no proxy."""
        return "" if self._has_route else f"http://{self._gateway}:{PORT}"

    async def listen(self) -> None:
        """Serve the network that there is now; without it pods run all the same."""
        try:
            status, _ = await self._hub.ask(do="status")
            self._has_route = status.get("outside", NO_WAY) != NO_WAY
            resolver = status.get("resolver")
            # Look-ups that nobody answers take their time; without a server they fail at once.
            self._resolver.write_text(f"nameserver {resolver}\n" if resolver else _RESOLVER)
            if self._has_route:
                return
            listening = await self._hub.listen(self._gateway, PORT)
        except (OSError, RuntimeFailedError) as error:
            # In use: the network is the one from before, and we are listening there.
            if not isinstance(error, OSError) or error.errno != errno.EADDRINUSE:
                _log.warning("pods can't reach the world outside: %s", error)
            return
        proxy = Proxy(listening, self._dial)
        await proxy.start()
        self._proxies.append(proxy)

    async def close(self) -> None:
        for proxy in self._proxies:
            await proxy.close()

    async def _dial(self, peer: str, address: Address) -> Connection:
        host, port = address
        inside = host if self._is_inside(host) else await self._known_to(peer, host)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                if inside:
                    made = await self._hub.connect(inside, port)
                    return await asyncio.open_connection(sock=made)
                return await self._dial_out(address)
        except (OSError, TimeoutError, UnicodeError, RuntimeFailedError) as problem:
            _log.debug("proxy: %s: %s", address, problem)
            raise RefusedError("502 Bad Gateway") from problem

    async def _dial_out(self, address: Address) -> Connection:
        found = await self._looked_up(address)
        # The name was looked up here, so nothing can point it elsewhere afterwards.
        if any(is_own(place) for place in found):
            raise RefusedError("403 Loopback of the host is not reachable from a sandbox")
        if self._upstream.serves(address):
            return await self._upstream.connect(address)
        for place in found:
            with suppress(OSError):
                return await asyncio.open_connection(place, address[1])
        raise RefusedError("502 Bad Gateway")

    async def _looked_up(self, address: Address) -> list[str]:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(*address, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            # No such name, or one that no name server can be asked for (`a..b`). A proxy before
            # us may know names that this machine doesn't.
            return []
        return [str(place[0]) for *_, place in found]

    def _is_inside(self, host: str) -> bool:
        try:
            return ipaddress.ip_address(host) in self._network
        except ValueError:
            return False

    async def _known_to(self, peer: str, name: str) -> str:
        """The address that a name has for a pod, by the hosts file of its namespace."""
        found = await asyncio.to_thread(_in_hosts_files, self._hosts, peer, name)
        # A pod may have written there whatever it likes; the hub's network is for pods alone.
        return found if self._is_inside(found) else ""


def _in_hosts_files(folder: Path, peer: str, name: str) -> str:
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        addresses: dict[str, str] = {}
        is_its_own = False
        # Pods may write there too, whatever they like.
        for line in path.read_text(errors="replace").splitlines():
            address, *names = line.split() or ["#"]
            if not _is_address(address):
                continue
            # Short names are those of the file's own namespace.
            is_its_own |= address == peer and any("." not in each for each in names)
            for each in names:
                addresses.setdefault(each, address)
        if is_its_own:
            return addresses.get(name, "")
    return ""


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return True


def is_own(address: str) -> bool:
    """Whether an address means this machine's loopback, however it is written."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    mapped = getattr(parsed, "ipv4_mapped", None)
    meant = mapped if mapped is not None else parsed
    return bool(meant.is_loopback or meant.is_unspecified)
