"""Ports of pods that share one network: which number stands for which port of which pod.

In a network of its own every replica may listen on the same port. On the machine's network each
(owner, port) gets a number: the port itself if nobody else has it, else one that follows from
the names. Whoever was told a number keeps it alive; what each pod was told is in its order, so
that an engine that starts anew gives the same. Engines beside each other don't give the same
number. It decides numbers only; which text means a port is `ordering.loopback`'s to say.
"""

from __future__ import annotations

import hashlib
import socket
import sys
from collections.abc import Callable, Iterable
from typing import Final

from jobyard.node.shared.order import PortGrant

# Below what kernels hand out by themselves to programs that connect.
FIRST_NUMBER: Final = 20000
LAST_NUMBER: Final = 31999
_TRIES_MAX: Final = 200
_Key = tuple[str, int]


class NoPortError(Exception):
    """No number is free; the message says whose port it was for."""


def is_free(number: int) -> bool:
    """Whether a program of ours could listen there now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", number))
        except OSError:
            return False
    return True


class Reservations:
    """Numbers that this engine has given, for the others of the machine to see.

    A pod takes its time until it listens, and until then its number looks free. A name that is no
    file is taken by one process of a network namespace at a time, as a port is, whoever its user
    is; and is free again when the process ends.
    """

    def __init__(self) -> None:
        self._held: dict[int, socket.socket] = {}

    def take(self, number: int) -> bool:
        """Whether no other engine has it."""
        if number in self._held or sys.platform != "linux":
            return True
        name = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # Nobody can connect: it never listens.
            name.bind(f"\0jobyard-port-{number}")
        except OSError:
            name.close()
            return False
        self._held[number] = name
        return True

    def release(self, number: int) -> None:
        if name := self._held.pop(number, None):
            name.close()

    def close(self) -> None:
        for number in tuple(self._held):
            self.release(number)


class HostPorts:
    """All grants of one engine. `is_alive` tells whether a pod, by uid, may still listen."""

    def __init__(
        self,
        is_alive: Callable[[str], bool],
        is_free: Callable[[int], bool] = is_free,
        reservations: Reservations | None = None,
    ) -> None:
        self._is_alive = is_alive
        self._is_free = is_free
        self._reservations = reservations
        self._numbers: dict[_Key, int] = {}
        # Who was told of it, and who listens there.
        self._told: dict[_Key, set[str]] = {}
        self._owners: dict[_Key, str] = {}

    def take(self, uid: str, owner: str, port: int) -> int:
        """The number of somebody's port, as told to the pod."""
        key = (owner, port)
        if key not in self._numbers:
            self._numbers[key] = self._fresh(owner, port)
        self._told.setdefault(key, set()).add(uid)
        return self._numbers[key]

    def take_own(self, uid: str, name: str, services: Iterable[str], port: int) -> int:
        """The number that the pod itself listens on; `services` are those that lead to it."""
        owner = name
        if (name, port) not in self._numbers:
            # The first pod behind a service is where the service leads.
            owner = next((each for each in services if self._may_own(uid, each, port)), name)
        number = self.take(uid, owner, port)
        for each in {owner, name}:
            key = (each, port)
            # By its own name it is found too.
            self._numbers.setdefault(key, number)
            self._told.setdefault(key, set()).add(uid)
            self._owners[key] = uid
        return number

    def grants(self, uid: str) -> tuple[PortGrant, ...]:
        """All that the pod was told."""
        return tuple(
            PortGrant(owner=key[0], port=key[1], number=number, is_own=self._owners.get(key) == uid)
            for key, number in self._numbers.items()
            if uid in self._told[key]
        )

    def adopt(self, uid: str, grants: Iterable[PortGrant]) -> None:
        """The pod was told this by an engine before."""
        for grant in grants:
            key = (grant.owner, grant.port)
            self._numbers.setdefault(key, grant.number)
            if self._reservations is not None:
                self._reservations.take(grant.number)
            self._told.setdefault(key, set()).add(uid)
            if grant.is_own:
                self._owners[key] = uid

    def release(self, uid: str) -> None:
        """The pod is gone; numbers that nobody else was told of are free again."""
        for key in [key for key, told in self._told.items() if uid in told]:
            self._told[key].discard(uid)
            if self._owners.get(key) == uid:
                del self._owners[key]
            if not self._told[key]:
                number = self._numbers.pop(key)
                del self._told[key]
                if self._reservations is not None and number not in self._numbers.values():
                    self._reservations.release(number)

    def _may_own(self, uid: str, service: str, port: int) -> bool:
        holder = self._owners.get((service, port))
        return holder is None or holder == uid or not self._is_alive(holder)

    def _fresh(self, owner: str, port: int) -> int:
        taken = set(self._numbers.values())
        if port not in taken and self._is_ours(port):
            return port
        for attempt in range(_TRIES_MAX):
            digest = hashlib.sha256(f"{owner} {port} {attempt}".encode()).digest()
            number = FIRST_NUMBER + int.from_bytes(digest[:4]) % (LAST_NUMBER - FIRST_NUMBER + 1)
            if number not in taken and self._is_ours(number):
                return number
        raise NoPortError(f"port {port} of {owner}: no free number was found on this machine")

    def _is_ours(self, number: int) -> bool:
        """Reserved before it is looked at: what others reserve meanwhile is another number."""
        if self._reservations is not None and not self._reservations.take(number):
            return False
        if self._is_free(number):
            return True
        if self._reservations is not None:
            self._reservations.release(number)
        return False
