"""The addresses of pods: which are free, and whose are the others.

Addresses go round: one that was given back is the last to be given again, because somebody may
still have it in mind. A pod keeps its own while it exists, also when the engine starts anew.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network


class NoAddressError(Exception):
    """Every address of the network is taken."""


class AddressPool:
    """The addresses of one private network; `reserved` are not for pods."""

    def __init__(self, network: IPv4Network, *, reserved: tuple[IPv4Address, ...] = ()) -> None:
        self._network = network
        self._reserved = {network.network_address, network.broadcast_address, *reserved}
        self._by_owner: dict[str, IPv4Address] = {}
        self._taken: set[IPv4Address] = set()
        self._next = int(network.network_address)

    def take(self, owner: str) -> str:
        """The owner's address; a new one if it has none."""
        known = self._by_owner.get(owner)
        if known is not None:
            return str(known)
        for _ in range(self._network.num_addresses):
            self._next += 1
            if self._next > int(self._network.broadcast_address):
                self._next = int(self._network.network_address)
            address = IPv4Address(self._next)
            if address in self._reserved or address in self._taken:
                continue
            self._keep(owner, address)
            return str(address)
        raise NoAddressError(
            f"all addresses of {self._network} are taken; delete pods that are no longer needed"
        )

    def known(self, owner: str) -> str:
        """The owner's address; empty if it has none."""
        address = self._by_owner.get(owner)
        return "" if address is None else str(address)

    def adopt(self, owner: str, address: str) -> None:
        """The owner had this address before; nobody else gets it."""
        if address and owner not in self._by_owner:
            self._keep(owner, IPv4Address(address))

    def release(self, owner: str) -> None:
        """The owner is gone."""
        address = self._by_owner.pop(owner, None)
        if address is not None:
            self._taken.discard(address)

    def _keep(self, owner: str, address: IPv4Address) -> None:
        self._by_owner[owner] = address
        self._taken.add(address)
        # After a restart, too, the next new one comes after all that are known.
        self._next = max(self._next, int(address)) if address in self._network else self._next
