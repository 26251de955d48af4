"""Which addresses the private network of sandboxes has: the only place that knows.

A pod can't reach anything outside that has an address of this network, so it must be one that
nobody has business with. What others use: 10.0.0.0/8 and 192.168.0.0/16 homes, offices and
clouds; 172.16.0.0/12 Docker; 198.18.0.0/15 resolvers that answer with made-up addresses (Clash);
169.254.0.0/16 clouds, for what a machine asks about itself; 240.0.0.0/4 many programs refuse. Of
100.64.0.0/10, which carriers keep for themselves, a part that is neither Alibaba's (100.100) nor
at its beginning: of Tailscale's machines one in 64 has an address there.
"""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Final

# Where pasta answers for the real resolver: an address for documents, so nobody else is there.
RESOLVER: Final = "192.0.2.53"
# Where slirp4netns lives.
SLIRP_NETWORK: Final = "10.0.2.0/24"
DEFAULT_NETWORK: Final = IPv4Network("100.96.0.0/16")
_PREFIX_MIN: Final = 8
_PREFIX_MAX: Final = 24


def gateway_of(network: IPv4Network) -> str:
    """The hub's own address in it, with the length of the prefix."""
    return f"{network[1]}/{network.prefixlen}"


def network_of(text: str) -> IPv4Network:
    """A network as users write it; ValueError says what is wrong with it."""
    try:
        network = IPv4Network(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a network such as {DEFAULT_NETWORK}: {error}") from None
    if not _PREFIX_MIN <= network.prefixlen <= _PREFIX_MAX:
        raise ValueError(f"{text}: the prefix must be from /{_PREFIX_MIN} to /{_PREFIX_MAX}")
    if network.is_loopback or network.is_multicast or network.is_unspecified:
        raise ValueError(f"{text}: no machine can have such an address")
    for taken in map(IPv4Network, (SLIRP_NETWORK, f"{RESOLVER}/32", "0.0.0.0/8")):
        if network.overlaps(taken):
            raise ValueError(f"{text}: {taken} is needed for the way outside")
    return network
