"""How the hub is spoken to: one connection per question, a JSON object there and one back.

A descriptor may come with the answer. The socket is in the data folder.
"""

from __future__ import annotations

import contextlib
import json
import socket
from typing import Any, Final

SOCKET_NAME: Final = "hub.sock"
LOCK_NAME: Final = "hub.lock"
LOG_NAME: Final = "hub.log"
OUTSIDE_LOG_NAME: Final = "outside.log"
_MESSAGE_BYTES_MAX: Final = 1 << 20


def read_question(connection: socket.socket) -> dict[str, Any]:
    """All that comes until the other side is silent, with the socket's own deadline."""
    text = b""
    while part := connection.recv(65536):
        text += part
        if len(text) > _MESSAGE_BYTES_MAX:
            raise ValueError("the question is too long")
    question = json.loads(text)
    if not isinstance(question, dict):
        raise ValueError("the question is not an object")
    return question


def answer(connection: socket.socket, reply: dict[str, Any], descriptor: int = -1) -> None:
    """The last thing said on a connection; nobody may be listening any more."""
    text = json.dumps(reply).encode()
    with contextlib.suppress(OSError):
        if descriptor >= 0:
            socket.send_fds(connection, [text], [descriptor])
        else:
            connection.sendall(text)
        connection.shutdown(socket.SHUT_RDWR)
