"""Which servers NO_PROXY exempts from a proxy of the environment.

`proxies` asks. A list of hosts, addresses, networks and domains, each with a port or without,
read as golang.org/x/net/http/httpproxy and client-go read it, slips included: `[::1]` without a
port never matches, and an entry that can't be understood is skipped without a word. What reads
the same list in another way than kubectl would go another way than kubectl.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import (
    IPV6LENGTH,
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final

from jobyard.numerals import whole_number

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_DOTTED: Final = re.compile(r"[0-9]{1,8}(?:\.[0-9]{1,8}){3}")
_MAPPED_BITS: Final = 96


def is_exempt(no_proxy: str, host: str, port: str) -> bool:
    """Whether connections to this host and port go directly. Loopback always does."""
    if _sloppy_networks_have(no_proxy, host):
        return True
    if host == "localhost":
        return True
    named = _ascii(host)
    # The zone of a link-local address says where it is, not which one.
    address = _address(named.partition("%")[0])
    if address is not None and address.is_loopback:
        return True
    named = named.strip().lower()
    return any(
        _matches(entry, named, port, address)
        for part in no_proxy.split(",")
        if (entry := part.strip().lower())
    )


def _matches(entry: str, host: str, port: str, address: Address | None) -> bool:
    if entry == "*":
        return True
    network = _network(entry, _address)
    if network is not None:
        return address is not None and address in network
    only_host, only_port = _host_and_port(entry)
    if only_port and only_port != port:
        return False
    listed = _address(only_host)
    if listed is not None:
        return listed == address
    return address is None and bool(only_host) and _is_in_domain(host, only_host)


def _is_in_domain(host: str, domain: str) -> bool:
    """`x.y` means itself and all below it; `.x.y` and `*.x.y` only what is below."""
    below = domain[1:] if domain.startswith("*.") else domain
    if below.startswith("."):
        return host.endswith(_ascii(below))
    own = _ascii(below)
    return host == own or host.endswith(f".{own}")


def _host_and_port(entry: str) -> tuple[str, str]:
    """As Go's net.SplitHostPort; what that refuses is all host."""
    host, colon, port = entry.rpartition(":")
    if not colon:
        return entry, ""
    if host.startswith("["):
        inner = host[1:-1] if host.endswith("]") else ""
        is_split = host.endswith("]") and not {"[", "]"} & {*inner}
    else:
        inner = host
        is_split = not {":", "[", "]"} & {*host}
    if not is_split or {"[", "]"} & {*port}:
        return entry, ""
    return inner, port


def _address(text: str) -> Address | None:
    """An address that stands for IPv4 in IPv6 is the IPv4 one, as to Go."""
    if "%" in text:
        return None
    try:
        found = ip_address(text)
    except ValueError:
        return None
    return found if isinstance(found, IPv4Address) else found.ipv4_mapped or found


def _sloppy_address(text: str) -> Address | None:
    """Leading zeros mean nothing to client-go, as they did in Go before 1.17."""
    if _DOTTED.fullmatch(text):
        text = ".".join(part.lstrip("0") or "0" for part in text.split("."))
    return _address(text)


def _network(text: str, read: Callable[[str], Address | None]) -> Network | None:
    written, slash, digits = text.partition("/")
    bits = whole_number(digits, IPV6LENGTH)
    address = read(written)
    if not slash or bits is None or address is None:
        return None
    if ":" in written and isinstance(address, IPv4Address) and bits >= _MAPPED_BITS:
        # ::ffff:10.0.0.0/104 is 10.0.0.0/8.
        bits -= _MAPPED_BITS
    elif ":" in written:
        address = IPv6Address(written)
    try:
        return ip_network((address, bits), strict=False)
    except ValueError:
        return None


def _sloppy_networks_have(no_proxy: str, host: str) -> bool:
    """client-go looks for networks of its own accord, before it asks Go."""
    address = _sloppy_address(host)
    networks = (_network(entry, _sloppy_address) for entry in no_proxy.split(","))
    return address is not None and any(
        network is not None and address in network for network in networks
    )


def _ascii(name: str) -> str:
    """A name as DNS has it; the dot that may be before it is no part of it."""
    if name.isascii():
        return name
    # It knows how names are encoded, and is only needed for those that have to be.
    from yarl import URL

    below = name.startswith(".")
    try:
        found = URL.build(scheme="https", host=name.lstrip(".")).raw_host or name
    except ValueError:
        return name
    return f".{found}" if below else found
