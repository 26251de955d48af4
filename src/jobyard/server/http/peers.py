"""Whose a connection on the loopback address is: the kernel knows the user at its other end.

One question on a netlink socket (sock_diag(7)) for each connection, some ten microseconds. What
isn't known, because the other end is gone or the kernel doesn't tell, is nobody's.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
from typing import Any, Final

_NETLINK_SOCK_DIAG: Final = 4
_SOCK_DIAG_BY_FAMILY: Final = 20
_NLM_F_REQUEST: Final = 1
_ANY_STATE: Final = 0xFFFFFFFF
_NO_COOKIE: Final = b"\xff" * 8
_HEADER: Final = struct.Struct("=IHHII")
_REQUEST: Final = struct.Struct("=BBBBI")
_PORTS: Final = struct.Struct("!HH")
# In the answer: after the header, four bytes, the socket's 48 and three numbers.
_UID_AT: Final = _HEADER.size + 4 + 48 + 12
_ANSWER_BYTES_MAX: Final = 8192


class Peers:
    """Asks the kernel; one socket for all questions."""

    def __init__(self) -> None:
        self._own = frozenset({0, os.geteuid()})
        self._netlink: socket.socket | None = None
        try:
            self._netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG)
            self._netlink.settimeout(1)
        except OSError:
            # Not everywhere; then all are taken alike.
            self._netlink = None

    def close(self) -> None:
        if self._netlink is not None:
            self._netlink.close()

    def is_own(self, connection: socket.socket, peer: Any) -> bool:
        """Whether the owner of this process, or root, is at the other end."""
        if self._netlink is None:
            return True
        try:
            self._netlink.send(_question(connection, peer))
            answer = self._netlink.recv(_ANSWER_BYTES_MAX)
        except OSError:
            return False
        _, kind, _, _, _ = _HEADER.unpack_from(answer)
        if kind != _SOCK_DIAG_BY_FAMILY or len(answer) < _UID_AT + 4:
            return False
        (uid,) = struct.unpack_from("=I", answer, _UID_AT)
        return uid in self._own


def _question(connection: socket.socket, peer: Any) -> bytes:
    """About the socket at the other end, as it sees itself."""
    here = connection.getsockname()
    family = connection.family
    request = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, _ANY_STATE)
    ends = b"".join(ipaddress.ip_address(each[0]).packed.ljust(16, b"\0") for each in (peer, here))
    about = request + _PORTS.pack(peer[1], here[1]) + ends + bytes(4) + _NO_COOKIE
    size = _HEADER.size + len(about)
    return _HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 0, 0) + about
