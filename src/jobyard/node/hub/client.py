"""The engine's side of the hub: start one, and ask it things without blocking the loop.

It keeps no connection: a question is a connection, and a hub that died is noticed by the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import struct
import sys
from collections.abc import Awaitable, Callable
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, Final

from jobyard.node.hub.wire import LOG_NAME, SOCKET_NAME
from jobyard.node.shared.private_network import DEFAULT_NETWORK, gateway_of
from jobyard.node.shared.process_end import has_ended
from jobyard.node.shared.protocol import PROTOCOL
from jobyard.node.shared.runtime import RuntimeFailedError
from jobyard.node.shared.socket_paths import short_path

_START_SECONDS: Final = 30.0
_ANSWER_SECONDS: Final = 30.0
_ANSWER_BYTES_MAX: Final = 65536


class HubClient:
    """Speaks with the hub of one data folder."""

    def __init__(self, kind: str, data: Path, network: IPv4Network = DEFAULT_NETWORK) -> None:
        self._kind = kind
        self._gateway = gateway_of(network)
        self._data = data
        # Awaited whenever a hub was made sure of, before anything is asked of it.
        self.when_ready: Callable[[], Awaitable[None]] | None = None

    @property
    def _log(self) -> Path:
        return self._data.absolute() / LOG_NAME

    async def ensure(self) -> None:
        """Returns when a hub answers."""
        self._data.mkdir(mode=0o700, parents=True, exist_ok=True)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            # No module of the current folder may stand in for one of the library.
            "-P",
            "-m",
            "jobyard.node.hub",
            self._kind,
            str(self._data.absolute()),
            self._gateway,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(_START_SECONDS):
                _, said = await process.communicate()
        except TimeoutError:
            raise RuntimeFailedError(
                f"the {self._kind} runtime did not start within {_START_SECONDS:g} seconds;"
                f" its log is {self._log}"
            ) from None
        finally:
            if process.returncode is None:
                # What it forked ends as well, when it finds nobody to tell that it is ready.
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode:
            reason = said.decode(errors="replace").strip() or f"exit {process.returncode}"
            raise RuntimeFailedError(f"the {self._kind} runtime can't start: {reason}")
        await self.ready()

    async def ready(self) -> None:
        """A hub is there, new or from before: tells who waits for it."""
        if self.when_ready is not None:
            await self.when_ready()

    async def answering(self) -> tuple[str, bool]:
        """The kind of the hub that is there, empty if none is; and whether it will do."""
        try:
            told, _ = await self.ask(do="status")
        except ConnectionError:
            return "", False
        will_do = (told.get("protocol"), told.get("gateway")) == (PROTOCOL, self._gateway)
        return str(told["kind"]), will_do

    async def dismiss(self) -> None:
        """Ends the hub and nothing else: another takes over the network that pods hold."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
            with short_path(self._data.absolute() / SOCKET_NAME) as address:
                connection.connect(address)
            # As this process numbers it, which may be in another PID namespace.
            size = struct.calcsize("3i")
            packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
            pid = struct.unpack("3i", packed)[0]
            if pid > 0:
                os.kill(pid, signal.SIGTERM)
                connection.close()
                await has_ended(pid, _START_SECONDS)

    async def ask(self, **question: Any) -> tuple[dict[str, Any], int]:
        """The answer and the descriptor that came with it, or -1; ConnectionError if no hub."""
        try:
            # Not `wait_for`: until Python 3.12 it swallows a cancellation that comes with the
            # answer, and who was cancelled goes on for ever.
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await self._ask(question)
        except TimeoutError:
            raise RuntimeFailedError(
                f"the hub of the {self._kind} runtime did not answer to {question['do']!r} within"
                f" {_ANSWER_SECONDS:g} seconds; its log is {self._log}"
            ) from None

    async def _ask(self, question: dict[str, Any]) -> tuple[dict[str, Any], int]:
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_UNIX) as connection:
            connection.setblocking(False)
            try:
                with short_path(self._data.absolute() / SOCKET_NAME) as address:
                    connection.connect(address)
            except FileNotFoundError as error:
                raise ConnectionRefusedError("no hub") from error
            await loop.sock_sendall(connection, json.dumps(question).encode())
            connection.shutdown(socket.SHUT_WR)
            text, descriptor = b"", -1
            while True:
                await _readable(loop, connection)
                part, received, _, _ = socket.recv_fds(connection, _ANSWER_BYTES_MAX, 1)
                for one in received:
                    descriptor = one
                if not part:
                    break
                text += part
        if not text:
            raise ConnectionResetError("the hub went away")
        reply: dict[str, Any] = json.loads(text)
        if "problem" in reply:
            raise RuntimeFailedError(f"hub: {reply['problem']}")
        return reply, descriptor

    async def start(self, uid: str) -> None:
        """Starts the pod whose order is in its folder, unless it runs."""
        try:
            await self.ask(do="start", uid=uid)
        except ConnectionError:
            await self.ensure()
            await self.ask(do="start", uid=uid)

    async def connect(self, address: str, port: int) -> socket.socket:
        """A connection to an address of the private network, from the hub's place in it."""
        made = await self._socket(address)
        try:
            await asyncio.get_running_loop().sock_connect(made, (address, port))
        except BaseException:
            made.close()
            raise
        return made

    async def listen(self, address: str, port: int) -> socket.socket:
        """A socket that pods can connect to; the hub's own address is the gateway's."""
        made = await self._socket(address)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((address, port))
            made.listen(1024)
        except BaseException:
            made.close()
            raise
        return made

    async def _socket(self, address: str) -> socket.socket:
        _, descriptor = await self.ask(do="socket", v6=":" in address)
        assert descriptor >= 0
        os.set_blocking(descriptor, False)
        return socket.socket(fileno=descriptor)

    async def quit(self) -> None:
        """Ends the hub; no hub is as good."""
        try:
            await self.ask(do="quit")
        except ConnectionError:
            return


async def _readable(loop: asyncio.AbstractEventLoop, connection: socket.socket) -> None:
    ready = asyncio.Event()
    loop.add_reader(connection, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(connection)
