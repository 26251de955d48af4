"""What strategies ask about other objects, answered from the store.

Implements `kinds.surroundings.Surroundings`: free addresses for services, and priority classes.
"""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import Any, Final

from jobyard.server.kinds.surroundings import NODE_PORTS, SERVICE_NETWORK, Alone
from jobyard.server.messages.routing import key_of
from jobyard.server.resource import Object
from jobyard.server.store.store import Store

_SERVICES: Final = "services"
_CLASSES: Final = "priorityclasses.scheduling.k8s.io"
# The first addresses are the engine's own.
_RESERVED: Final = 16


class StoreSurroundings(Alone):
    """Begins with what the question itself suggests, and goes on until it is free."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def _others(self, namespace: str, name: str) -> list[Object]:
        mine = key_of(namespace, name)
        items = self._store.shelf(_SERVICES).objects.values()
        return [item.value["spec"] for item in items if item.key != mine]

    def cluster_ip(self, namespace: str, name: str) -> str:
        taken = {spec.get("clusterIP") for spec in self._others(namespace, name)}
        first = super().cluster_ip(namespace, name)
        room = SERVICE_NETWORK.num_addresses - _RESERVED - 1
        start = int(IPv4Address(first)) - int(SERVICE_NETWORK.network_address)
        for step in range(room):
            address = str(SERVICE_NETWORK[_RESERVED + (start - _RESERVED + step) % room])
            if address not in taken:
                return address
        return first

    def is_cluster_ip_taken(self, address: str, namespace: str, name: str) -> bool:
        return any(address == spec.get("clusterIP") for spec in self._others(namespace, name))

    def node_port(self, namespace: str, name: str, port: int) -> int:
        taken = {
            item.get("nodePort")
            for spec in self._others(namespace, name)
            for item in spec.get("ports") or ()
        }
        first = NODE_PORTS.index(super().node_port(namespace, name, port))
        ports = (*NODE_PORTS[first:], *NODE_PORTS[:first])
        return next((free for free in ports if free not in taken), NODE_PORTS[first])

    def priority_class(self, name: str) -> dict[str, Any] | None:
        found = self._store.get(_CLASSES, name)
        return super().priority_class(name) if found is None else found.value

    def default_priority_class(self) -> dict[str, Any] | None:
        items = self._store.shelf(_CLASSES).objects.values()
        return next((item.value for item in items if item.value.get("globalDefault")), None)
