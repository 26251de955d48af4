"""One HTTP GET for a probe or a hook: 200 to 399 is good, and only the first line is read.

Certificates are not looked at, as kubelet doesn't either. Redirects are taken for good and not
followed: where they lead is another question than whether this port answers.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
from collections.abc import Callable
from typing import Final

from jobyard.node.shared.order import HttpGet
from jobyard.node.supervisor.dialing import Dial
from jobyard.node.supervisor.loop import READ, WRITE, Loop, Timer
from jobyard.numerals import whole_number

_LINE_BYTES_MAX: Final = 16 * 1024
_CODE_MAX: Final = 999


class HttpCheck:
    """A request under way."""

    def __init__(
        self, loop: Loop, address: str, get: HttpGet, seconds: float, done: Callable[[str], None]
    ) -> None:
        self._loop = loop
        self._get = get
        self._done: Callable[[str], None] | None = done
        self._host = get.host or address
        self._socket: socket.socket | None = None
        self._unsent = self._request()
        self._answer = b""
        self._timer = loop.after(seconds, lambda: self._fail("context deadline exceeded"))
        host = "127.0.0.1" if self._host == "localhost" else self._host
        self._dial: Dial | Timer
        try:
            ipaddress.ip_address(host)
        except ValueError:
            text = "the host of a check must be an IP address"
            self._dial = loop.after(0, lambda: self._fail(text))
        else:
            self._dial = Dial(loop, [host], get.port, seconds, self._dialled)

    def cancel(self) -> None:
        self._done = None
        self._end("")

    def _request(self) -> bytes:
        host = f"[{self._host}]" if ":" in self._host else self._host
        # Later ones win: a probe may bring a Host or User-Agent of its own.
        headers = {
            "host": ("Host", f"{host}:{self._get.port}"),
            "user-agent": ("User-Agent", "kube-probe/1.34"),
            "accept": ("Accept", "*/*"),
            "connection": ("Connection", "close"),
            **{name.lower(): (name, value) for name, value in self._get.headers},
        }
        path = self._get.path if self._get.path.startswith("/") else f"/{self._get.path}"
        lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.values())]
        return "\r\n".join([*lines, "", ""]).encode("latin-1", errors="replace")

    def _dialled(self, connection: socket.socket | None, problem: str) -> None:
        if connection is None:
            self._fail(f"dial tcp {self._host}:{self._get.port}: {problem}")
            return
        self._socket = connection
        if self._get.scheme.upper() == "HTTPS":
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            self._socket = context.wrap_socket(connection, do_handshake_on_connect=False)
        self._go_on()

    def _go_on(self) -> None:
        """Handshake, request, first line of the answer: as far as it gets without waiting."""
        assert self._socket is not None
        try:
            if isinstance(self._socket, ssl.SSLSocket):
                self._socket.do_handshake()
            while self._unsent:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
            while b"\n" not in self._answer:
                data = self._socket.recv(4096)
                self._answer += data
                if not data or len(self._answer) > _LINE_BYTES_MAX:
                    self._fail("EOF" if not data else "malformed HTTP response")
                    return
        except (BlockingIOError, ssl.SSLWantReadError):
            self._loop.watch(
                self._socket.fileno(), WRITE if self._wants_to_write() else READ, self._go_on
            )
            return
        except ssl.SSLWantWriteError:
            self._loop.watch(self._socket.fileno(), WRITE, self._go_on)
            return
        except OSError as error:
            self._fail(str(error.strerror or error).lower())
            return
        self._judge(self._answer.split(b"\n")[0])

    def _wants_to_write(self) -> bool:
        return bool(self._unsent) and not isinstance(self._socket, ssl.SSLSocket)

    def _judge(self, line: bytes) -> None:
        words = line.decode(errors="replace").split()
        code = whole_number(words[1], _CODE_MAX) if len(words) > 1 else None
        if code is None or not words[0].startswith("HTTP/"):
            self._fail("malformed HTTP response")
        elif 200 <= code < 400:
            self._end("")
        else:
            self._end(f"HTTP probe failed with statuscode: {code}")

    def _fail(self, problem: str) -> None:
        host = f"[{self._host}]" if ":" in self._host else self._host
        url = f"{self._get.scheme.lower()}://{host}:{self._get.port}{self._get.path}"
        self._end(f'Get "{url}": {problem}')

    def _end(self, problem: str) -> None:
        self._timer.cancel()
        self._dial.cancel()
        if self._socket is not None:
            self._loop.forget(self._socket.fileno())
            self._socket.close()
            self._socket = None
        done, self._done = self._done, None
        if done is not None:
            done(problem)
