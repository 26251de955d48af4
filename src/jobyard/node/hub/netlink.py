"""Links, addresses and routes of a network namespace, said to the kernel in its own words.

Six messages are all that is needed here. A library that speaks the whole of netlink takes longer
to import than a pod takes to start. Numbers and layouts are those of rtnetlink(7). It decides
nothing, and what the kernel refuses is an OSError.
"""

from __future__ import annotations

import os
import socket
import struct
from typing import Final

_NEWLINK: Final = 16
_NEWADDR: Final = 20
_NEWROUTE: Final = 24
_REQUEST: Final = 0x1
_ACK: Final = 0x4
_EXCL: Final = 0x200
_CREATE: Final = 0x400
_ERROR: Final = 2
_IFF_UP: Final = 1

_IFLA_ADDRESS: Final = 1
_IFLA_IFNAME: Final = 3
_IFLA_MASTER: Final = 10
_IFLA_LINKINFO: Final = 18
_IFLA_NET_NS_FD: Final = 28
_INFO_KIND: Final = 1
_INFO_DATA: Final = 2
_VETH_PEER: Final = 1
_IFA_ADDRESS: Final = 1
_IFA_LOCAL: Final = 2
_RTA_OIF: Final = 4
_RTA_GATEWAY: Final = 5


def _attribute(kind: int, value: bytes) -> bytes:
    length = 4 + len(value)
    return struct.pack("HH", length, kind) + value + b"\0" * (-length % 4)


def _number(kind: int, value: int) -> bytes:
    return _attribute(kind, struct.pack("I", value))


def _text(kind: int, value: str) -> bytes:
    return _attribute(kind, value.encode() + b"\0")


def _link(index: int = 0, *, up: bool = False) -> bytes:
    flags = _IFF_UP if up else 0
    return struct.pack("BxHiII", socket.AF_UNSPEC, 0, index, flags, flags)


class Netlink:
    """A socket to the kernel. It stays in the namespace in which it was made."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        self._socket.bind((0, 0))
        self._sequence = 0

    def close(self) -> None:
        self._socket.close()

    def _ask(self, kind: int, flags: int, payload: bytes, about: str) -> None:
        self._sequence += 1
        header = struct.pack(
            "IHHII", 16 + len(payload), kind, _REQUEST | _ACK | flags, self._sequence, 0
        )
        self._socket.send(header + payload)
        while True:
            answer = self._socket.recv(65536)
            _, answered, _, sequence, _ = struct.unpack_from("IHHII", answer)
            if answered == _ERROR and sequence == self._sequence:
                (number,) = struct.unpack_from("i", answer, 16)
                if number:
                    raise OSError(-number, os.strerror(-number), about)
                return

    def add_bridge(self, name: str, hardware_address: bytes) -> None:
        """Up at once. An address of its own keeps it from changing with its ports."""
        payload = (
            _link(up=True)
            + _text(_IFLA_IFNAME, name)
            + _attribute(_IFLA_ADDRESS, hardware_address)
            + _attribute(_IFLA_LINKINFO, _text(_INFO_KIND, "bridge"))
        )
        self._ask(_NEWLINK, _CREATE | _EXCL, payload, f"bridge {name}")

    def add_pair(self, name: str, bridge: int, peer: str, namespace: int) -> None:
        """Two ends of a cable: one up and at the bridge, one down in another namespace."""
        far = _link() + _text(_IFLA_IFNAME, peer) + _number(_IFLA_NET_NS_FD, namespace)
        info = _text(_INFO_KIND, "veth") + _attribute(_INFO_DATA, _attribute(_VETH_PEER, far))
        payload = (
            _link(up=True)
            + _text(_IFLA_IFNAME, name)
            + (_number(_IFLA_MASTER, bridge) if bridge else b"")
            + _attribute(_IFLA_LINKINFO, info)
        )
        self._ask(_NEWLINK, _CREATE | _EXCL, payload, f"veth {name}")

    def set_up(self, index: int) -> None:
        """Switches an interface on."""
        self._ask(_NEWLINK, 0, _link(index, up=True), f"interface {index}")

    def add_address(self, index: int, address: str, prefix_length: int) -> None:
        """An IPv4 address with its network."""
        packed = socket.inet_aton(address)
        payload = (
            struct.pack("BBBBI", socket.AF_INET, prefix_length, 0, 0, index)
            + _attribute(_IFA_LOCAL, packed)
            + _attribute(_IFA_ADDRESS, packed)
        )
        self._ask(_NEWADDR, _CREATE | _EXCL, payload, f"address {address}")

    def add_default_route(self, index: int, gateway: str) -> None:
        """Everything else goes there."""
        # Main table, protocol static, scope universe, type unicast.
        payload = (
            struct.pack("BBBBBBBBI", socket.AF_INET, 0, 0, 0, 254, 4, 0, 1, 0)
            + _attribute(_RTA_GATEWAY, socket.inet_aton(gateway))
            + _number(_RTA_OIF, index)
        )
        self._ask(_NEWROUTE, _CREATE, payload, f"route by {gateway}")
