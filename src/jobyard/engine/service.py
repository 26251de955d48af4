"""An engine that others reach: HTTPS on the loopback address, with a kubeconfig for it."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from jobyard.engine.engine import Engine, EngineSettings, Say
from jobyard.engine.homes import DataFolder, Presence
from jobyard.engine.problem import EngineError
from jobyard.numerals import port_number
from jobyard.server.http.credentials import (
    CredentialsError,
    credentials,
    write_kubeconfig,
    write_private,
)
from jobyard.server.http.serving import LOOPBACK, Doorway, HttpServer


class DoorError(Exception):
    """The server can't listen; the message says where, why, and what would help."""


@asynccontextmanager
async def serving_engine(
    folder: DataFolder, settings: EngineSettings, port: int, say: Say
) -> AsyncIterator[Engine]:
    """An engine in a locked folder, and the door to it."""
    if port:
        # Before anything is started: pods and their hub would outlive an engine without a door.
        _try(port)
    async with Engine(folder, settings, say) as engine:
        # Whoever finds the door finds a node behind it.
        await engine.ready()
        async with open_door(engine, port):
            yield engine


@asynccontextmanager
async def open_door(engine: Engine, port: int = 0) -> AsyncIterator[HttpServer]:
    """Listens for others; a port of 0 is the one before if it is free, else any."""
    folder = engine.folder
    wanted = port or _port_before(folder)
    try:
        known = credentials(folder.path / "pki", datetime.now(UTC))
        doorway = Doorway(token=known.token, tls=known.tls(), port=wanted)
    except CredentialsError as problem:
        raise EngineError(str(problem)) from problem
    served = HttpServer(engine.live, doorway, kubelet=engine.kubelet)
    try:
        await served.__aenter__()
    except OSError as problem:
        if port or not wanted:
            raise _closed(wanted, problem) from problem
        # Somebody else has it by now: a new one, and the kubeconfig says so.
        doorway = Doorway(token=known.token, tls=known.tls())
        served = HttpServer(engine.live, doorway, kubelet=engine.kubelet)
        await served.__aenter__()
    try:
        write_kubeconfig(folder.kubeconfig, served.url, known)
        write_private(folder.path / "port", str(served.port).encode())
        folder.announce(
            Presence(
                pid=os.getpid(),
                server=served.url,
                runtime=engine.runtime_name,
                started_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                started_in=os.getcwd(),
                disk_bytes=engine.settings.disk_bytes,
            )
        )
        yield served
    finally:
        await served.__aexit__()


def _try(port: int) -> None:
    with socket.socket() as door:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            door.bind((LOOPBACK, port))
            # Two may bind the same port; only one can listen.
            door.listen()
        except OSError as problem:
            raise _closed(port, problem) from problem


def _closed(port: int, problem: OSError) -> DoorError:
    # asyncio puts the whole story into the text, in words of its own.
    reason = os.strerror(problem.errno) if problem.errno else str(problem)
    advice = "name another with --port, or none: any that is free will do"
    if problem.errno == errno.EADDRINUSE:
        reason = "another process listens there"
    elif problem.errno == errno.EACCES:
        reason = "it is kept for root"
    return DoorError(f"port {port} of {LOOPBACK} can't be used: {reason}; {advice}")


def _port_before(folder: DataFolder) -> int:
    try:
        return port_number((folder.path / "port").read_text().strip()) or 0
    except (OSError, UnicodeDecodeError):
        return 0
