"""Rules of nftables, said to the kernel in its own words, in the network namespace of this process.

A handful of expressions is all that is needed: the hub's network gives pods a way out, a pod's
lets the ports of its services arrive where the pod listens. Numbers and layouts are those of
linux/netfilter/nf_tables.h. What the kernel refuses is an OSError.
"""

from __future__ import annotations

import os
import socket
import struct
from typing import Final

import msgspec

_NETFILTER: Final = 12
_SUBSYSTEM: Final = 10
_BATCH_BEGIN: Final = 16
_BATCH_END: Final = 17
_NEW_TABLE: Final = _SUBSYSTEM << 8
_DELETE_TABLE: Final = _SUBSYSTEM << 8 | 2
_NEW_CHAIN: Final = _SUBSYSTEM << 8 | 3
_NEW_RULE: Final = _SUBSYSTEM << 8 | 6
_REQUEST: Final = 1
_ACK: Final = 4
_CREATE: Final = 0x400
_APPEND: Final = 0x800
_ERROR: Final = 2
_NESTED: Final = 0x8000
_TABLE: Final = "jobyard"

# Hooks, and the priorities at which addresses are changed there.
PREROUTING: Final = 0
OUTPUT: Final = 3
POSTROUTING: Final = 4
DESTINATION_PRIORITY: Final = -100
SOURCE_PRIORITY: Final = 100

_REGISTER: Final = 1
_EQUAL: Final = 0
_NOT_EQUAL: Final = 1
_OUTPUT_INTERFACE: Final = 5
_TRANSPORT_PROTOCOL: Final = 16
_NETWORK_HEADER: Final = 1
_TRANSPORT_HEADER: Final = 2
_OF_DESTINATION: Final = 1
_SEND_BYTES_MAX: Final = 1 << 20


def _attribute(kind: int, value: bytes) -> bytes:
    length = 4 + len(value)
    return struct.pack("HH", length, kind) + value + b"\0" * (-length % 4)


def _text(kind: int, value: str) -> bytes:
    return _attribute(kind, value.encode() + b"\0")


def _number(kind: int, value: int) -> bytes:
    return _attribute(kind, struct.pack(">i", value))


def _nest(kind: int, *inner: bytes) -> bytes:
    return _attribute(kind | _NESTED, b"".join(inner))


def _expression(name: str, *data: bytes) -> bytes:
    return _nest(1, _text(1, name), _nest(2, *data))


def _compare(operator: int, value: bytes) -> bytes:
    data = _nest(3, _attribute(1, value))
    return _expression("cmp", _number(1, _REGISTER), _number(2, operator), data)


def _meta(key: int) -> bytes:
    return _expression("meta", _number(1, _REGISTER), _number(2, key))


def _header(base: int, offset: int, length: int) -> bytes:
    where = (_number(2, base), _number(3, offset), _number(4, length))
    return _expression("payload", _number(1, _REGISTER), *where)


def leaves_by_another(interface: int) -> bytes:
    """Packets that go out by any other interface than this."""
    return _meta(_OUTPUT_INTERFACE) + _compare(_NOT_EQUAL, struct.pack("I", interface))


def is_for(address: str, protocol: int, port: int) -> bytes:
    """Packets to this port of this address."""
    return (
        _header(_NETWORK_HEADER, 16, 4)
        + _compare(_EQUAL, socket.inet_aton(address))
        + _meta(_TRANSPORT_PROTOCOL)
        + _compare(_EQUAL, struct.pack("B", protocol))
        + _header(_TRANSPORT_HEADER, 2, 2)
        + _compare(_EQUAL, struct.pack(">H", port))
    )


def masquerade() -> bytes:
    """Gives them the address of the interface by which they leave."""
    return _expression("masq")


def redirect(port: int) -> bytes:
    """Lets them arrive at another port of the same address.

    nftables' own redirection would lead what a host says to itself to its loopback address.
    """
    value = _nest(2, _attribute(1, struct.pack(">H", port)))
    into = (_number(1, _OF_DESTINATION), _number(2, socket.AF_INET), _number(5, _REGISTER))
    return _expression("immediate", _number(1, _REGISTER), value) + _expression("nat", *into)


class Chain(msgspec.Struct, frozen=True):
    """A chain of the only table, at one hook, with its rules in order."""

    name: str
    hook: int
    priority: int
    rules: tuple[bytes, ...]

    @property
    def contents(self) -> list[tuple[int, bytes]]:
        hook = _nest(4, _number(1, self.hook), _number(2, self.priority))
        named = _text(1, _TABLE)
        chain = (_NEW_CHAIN, named + _text(3, self.name) + hook + _text(7, "nat"))
        return [
            chain,
            *((_NEW_RULE, named + _text(2, self.name) + _nest(4, rule)) for rule in self.rules),
        ]


def install(*chains: Chain) -> None:
    """In place of all that was there before, at once or not at all; OSError if refused."""
    table = _text(1, _TABLE)
    # What is to be deleted must be there.
    bodies = [(_NEW_TABLE, table), (_DELETE_TABLE, table), (_NEW_TABLE, table)]
    bodies += [each for chain in chains for each in chain.contents]
    last = len(bodies)
    told = [
        # Who is refused is told anyway; that all is well only once.
        _message(kind, _CREATE | _APPEND | (_ACK if number == last else 0), number, body)
        for number, (kind, body) in enumerate(bodies, start=1)
    ]
    begin = _message(_BATCH_BEGIN, 0, 0, b"", _SUBSYSTEM)
    end = _message(_BATCH_END, 0, last + 1, b"", _SUBSYSTEM)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETFILTER) as link:
        link.bind((0, 0))
        link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES_MAX)
        link.send(b"".join((begin, *told, end)))
        # One answer: what was refused first, or that all was taken.
        _, kind, _, number, _ = struct.unpack_from("IHHII", answer := link.recv(65536))
        assert kind == _ERROR, kind
        (problem,) = struct.unpack_from("i", answer, 16)
        if problem:
            raise OSError(-problem, os.strerror(-problem), f"nftables message {number}")


def _message(kind: int, flags: int, number: int, payload: bytes, resource: int = 0) -> bytes:
    family = socket.AF_INET if kind not in (_BATCH_BEGIN, _BATCH_END) else socket.AF_UNSPEC
    body = struct.pack(">BBH", family, 0, resource) + payload
    return struct.pack("IHHII", 16 + len(body), kind, _REQUEST | flags, number, 0) + body
