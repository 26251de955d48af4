"""What some kinds must know beyond the object itself, asked through one small protocol.

A service wants an address that is free, a pod the number behind its priority class. Who holds
the store answers; without one, `Alone` does, deterministically.
"""

from __future__ import annotations

import ipaddress
import zlib
from typing import Any, Final, Protocol

# Where addresses of services are from; not routed anywhere else.
SERVICE_NETWORK: Final = ipaddress.IPv4Network("10.96.0.0/16")
NODE_PORTS: Final = range(30000, 32768)


class Surroundings(Protocol):
    """What a strategy may ask; it may ask again about the same object."""

    def cluster_ip(self, namespace: str, name: str) -> str:
        """An address for a service that no other has."""
        ...

    def is_cluster_ip_taken(self, address: str, namespace: str, name: str) -> bool:
        """Whether another service has this address."""
        ...

    def node_port(self, namespace: str, name: str, port: int) -> int: ...

    def priority_class(self, name: str) -> dict[str, Any] | None:
        """The PriorityClass object of that name, one of the system's own too; None if none."""
        ...

    def default_priority_class(self) -> dict[str, Any] | None:
        """The one with `globalDefault`, if any."""
        ...


SYSTEM_PRIORITIES: Final = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}


class Alone:
    """Answers from the question alone: the same name always gets the same address."""

    def cluster_ip(self, namespace: str, name: str) -> str:
        # The first ones are left for the engine's own, the last is the broadcast address.
        room = SERVICE_NETWORK.num_addresses - 17
        return str(SERVICE_NETWORK[16 + _number(namespace, name) % room])

    def is_cluster_ip_taken(self, address: str, namespace: str, name: str) -> bool:
        del address, namespace, name
        return False

    def node_port(self, namespace: str, name: str, port: int) -> int:
        return NODE_PORTS[_number(namespace, f"{name}:{port}") % len(NODE_PORTS)]

    def priority_class(self, name: str) -> dict[str, Any] | None:
        if name not in SYSTEM_PRIORITIES:
            return None
        return {"metadata": {"name": name}, "value": SYSTEM_PRIORITIES[name]}

    def default_priority_class(self) -> dict[str, Any] | None:
        return None


def _number(namespace: str, name: str) -> int:
    return zlib.crc32(f"{namespace}/{name}".encode())
