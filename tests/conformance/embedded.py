"""The embedded API server for a session of a worker: HTTPS on loopback, a thread of its own."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from conformance.stage import Server
from jobyard.api.crd import crd
from jobyard.api.kinds import KINDS
from jobyard.kubelet import ExecOptions, LogOptions, Session
from jobyard.server.http.credentials import credentials
from jobyard.server.http.serving import Doorway, HttpServer
from jobyard.server.live import LiveServer
from jobyard.server.opening import open_server
from jobyard.server.streaming.kubelet import Pod

START_SECONDS = 60


class NoNode:
    """A kubelet for pods that run nowhere; the server itself must know what to answer."""

    def logs(self, pod: Pod, options: LogOptions) -> AsyncGenerator[bytes, None]:
        raise NotImplementedError

    async def execute(self, pod: Pod, options: ExecOptions) -> Session:
        raise NotImplementedError

    async def attach(self, pod: Pod, options: ExecOptions) -> Session:
        raise NotImplementedError

    async def connect(
        self, pod: Pod, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        raise NotImplementedError


class _Thread(threading.Thread):
    """Serves until it is told to stop; `failure` says why it couldn't."""

    def __init__(self, folder: Path, doorway: Doorway) -> None:
        super().__init__(name="embedded API server")
        self._folder = folder
        self._doorway = doorway
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Event | None = None
        self.started = threading.Event()
        self.failure: BaseException | None = None
        self.url = ""

    def run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as problem:
            self.failure = problem
        finally:
            self.started.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ending = asyncio.Event()
        path = self._folder / "objects.sqlite"
        first = open_server(path)
        first.install((crd(kind) for kind in KINDS), "jobyard")
        first.store.journal.close()
        # Opened again: what was before is history that watches can't ask for any more.
        server = open_server(path)
        try:
            async with (
                LiveServer(server) as live,
                HttpServer(live, self._doorway, kubelet=NoNode()) as served,
            ):
                self.url = served.url
                self.started.set()
                await self._ending.wait()
        finally:
            server.store.journal.close()

    def stop(self) -> None:
        if self._loop is not None and self._ending is not None and self.is_alive():
            self._loop.call_soon_threadsafe(self._ending.set)
        self.join()


@contextmanager
def embedded_server(folder: Path) -> Iterator[Server]:
    """An empty server with Jobyard's CRDs, its file and keys in `folder`."""
    known = credentials(folder / "pki", datetime.now(UTC))
    thread = _Thread(folder, Doorway(token=known.token, tls=known.tls()))
    thread.start()
    try:
        assert thread.started.wait(START_SECONDS), "the embedded server doesn't start"
        if thread.failure is not None:
            raise thread.failure
        tls = ssl.create_default_context(cafile=known.ca)
        yield Server(
            name="embedded",
            url=thread.url,
            tls=tls,
            headers={"Authorization": f"Bearer {known.token}"},
            stranger_tls=tls,
        )
    finally:
        thread.stop()
