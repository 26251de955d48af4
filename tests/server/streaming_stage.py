"""A served API with a kubelet whose pods are processes of this machine, for tests of streams.

The HTTPS server is the real one, on a loop in a thread of its own, so that tests can call kubectl
and other clients that block. The kubelet knows nothing of containers: what is run "inside" a pod
runs in a folder, what is connected to is a port of the loopback address.
"""

from __future__ import annotations

import asyncio
import json
import os
import pty
import subprocess
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, TypeVar

from aiohttp import web

from jobyard.kubelet import ExecOptions, KubeletError, LogOptions, Session
from jobyard.node.runtime.process_session import ProcessSession
from jobyard.node.shared.runtime import Pipes
from jobyard.server.call import Call
from jobyard.server.http.credentials import credentials, write_kubeconfig
from jobyard.server.http.serving import Doorway, HttpServer
from jobyard.server.live import LiveServer
from jobyard.server.opening import open_server

Json = dict[str, Any]
T = TypeVar("T")
DEADLINE_SECONDS = 30.0


class LocalKubelet:
    """Runs what is asked for as plain processes, and remembers them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        self.log_pieces: list[bytes] = []
        self.log_goes_on = False
        self.logs_open = 0
        self.options: ExecOptions | LogOptions | None = None
        self.changed = threading.Condition()

    async def logs(self, pod: Json, options: LogOptions) -> AsyncGenerator[bytes, None]:
        self.options = options
        name = pod["metadata"]["name"]
        if options.previous:
            text = f'previous terminated container "{options.container}" in pod "{name}" not found'
            raise KubeletError(400, "BadRequest", text)
        if not self.log_pieces:
            text = f'container "{options.container}" in pod "{name}" is waiting to start: '
            raise KubeletError(400, "BadRequest", text + "ContainerCreating")
        self._count_log(1)
        try:
            for piece in self.log_pieces:
                yield piece
            if options.follow and self.log_goes_on:
                await asyncio.Event().wait()
        finally:
            self._count_log(-1)

    def _count_log(self, step: int) -> None:
        with self.changed:
            self.logs_open += step
            self.changed.notify_all()

    async def execute(self, pod: Json, options: ExecOptions) -> Session:
        self.options = options
        if options.command[0] == "/no/such/program":
            raise KubeletError(500, "InternalError", "/no/such/program: no such file")
        pipes, process = started(options, self.folder)
        self.processes.append(process)
        return ProcessSession(pipes, has_terminal=options.tty)

    async def attach(self, pod: Json, options: ExecOptions) -> Session:
        shown = ExecOptions(
            command=("sh", "-c", "echo attached; cat; exit 3"), stdin=options.stdin, tty=options.tty
        )
        return await self.execute(pod, shown)

    async def connect(
        self, pod: Json, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            return await asyncio.open_connection("127.0.0.1", port)
        except OSError as problem:
            raise KubeletError(500, "InternalError", str(problem)) from problem


def started(options: ExecOptions, folder: Path) -> tuple[Pipes, subprocess.Popen[bytes]]:
    """A process with the descriptors that a runtime would hand out."""
    told, tells = os.pipe()
    if options.tty:
        master, slave = pty.openpty()
        process = subprocess.Popen(
            # Who starts the tests may ignore Ctrl-C, as shells do for what runs in the background.
            ("setsid", "--ctty", "env", "--default-signal=INT", *options.command),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=folder,
        )
        os.close(slave)
        pipes = Pipes(stdin=master, status=told, pid=process.pid)
    else:
        where = subprocess.PIPE if options.stdin else subprocess.DEVNULL
        process = subprocess.Popen(
            options.command,
            stdin=where,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            start_new_session=True,
            bufsize=0,
        )
        pipes = Pipes(
            stdin=_taken(process.stdin),
            stdout=_taken(process.stdout),
            stderr=_taken(process.stderr),
            status=told,
            pid=process.pid,
        )
    threading.Thread(target=_tell, args=(process, tells), daemon=True).start()
    return pipes, process


def _taken(end: IO[bytes] | None) -> int:
    """The descriptor alone."""
    if end is None:
        return -1
    with end:
        return os.dup(end.fileno())


def _tell(process: subprocess.Popen[bytes], tells: int) -> None:
    code = process.wait()
    with open(tells, "wb", buffering=0) as pipe, suppress(BrokenPipeError):
        pipe.write(str(code if code >= 0 else 128 - code).encode())


class RecordingServer(HttpServer):
    """Remembers which upgrades were asked for: kubectl falls back from one to the other."""

    upgrades: list[str]

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        if "Upgrade" in request.headers:
            self.upgrades.append(request.headers["Upgrade"])
        return await super()._respond(request)


class Stage:
    """A running server, seen from the thread of the test."""

    def __init__(self, folder: Path, loop: asyncio.AbstractEventLoop) -> None:
        self.folder = folder
        self.files = folder / "files"
        self.files.mkdir()
        self.kubeconfig = folder / "kubeconfig"
        self.kubelet = LocalKubelet(self.files)
        self.upgrades: list[str] = []
        self._loop = loop
        self.server = open_server(None)

    def in_loop(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(DEADLINE_SECONDS)

    async def serve(self, ready: threading.Event, done: asyncio.Event) -> None:
        known = credentials(self.folder / "pki", datetime.now(UTC))
        self.token = known.token
        doorway = Doorway(token=known.token, tls=known.tls())
        async with (
            LiveServer(self.server) as live,
            RecordingServer(live, doorway, kubelet=self.kubelet) as served,
        ):
            self.live = live
            served.upgrades = self.upgrades
            self.url = served.url
            self.ca = known.ca
            write_kubeconfig(self.kubeconfig, served.url, known)
            ready.set()
            await done.wait()
        self.server.store.journal.close()

    def make_pod(self, name: str, *containers: str, **more: Any) -> Json:
        boxes = [{"name": each, "image": "none"} for each in containers or ("main",)]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, **more.get("metadata", {})},
            "spec": {"containers": boxes, "nodeName": "here", **more.get("spec", {})},
        }
        reply = self.call("POST", "/api/v1/namespaces/default/pods", pod)
        status = {
            "phase": "Running",
            "podIP": "127.0.0.1",
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        running = {"startedAt": "2024-01-01T00:00:00Z"}
        status["containerStatuses"] = [
            {
                "name": each["name"],
                "ready": True,
                "restartCount": 0,
                "image": "none",
                "imageID": "",
                "state": {"running": running},
            }
            for each in boxes
        ]
        path = f"/api/v1/namespaces/default/pods/{name}/status"
        self.call("PATCH", path, {"status": status}, "application/merge-patch+json")
        return reply

    def call(self, method: str, path: str, body: Json, kind: str = "application/json") -> Json:
        call = Call(method=method, path=path, body=json.dumps(body).encode(), content_type=kind)

        async def handled() -> Any:
            return self.server.handle(call)

        reply = self.in_loop(handled())
        value: Json = json.loads(reply.body)
        assert reply.status < 300, value
        return value

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Until the kubelet's condition holds; only for what it counts."""
        with self.kubelet.changed:
            assert self.kubelet.changed.wait_for(condition, DEADLINE_SECONDS)


@contextmanager
def streaming_stage(folder: Path) -> Iterator[Stage]:
    """A server while the block lasts; with it ends all that its pods started."""
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        ready, done = threading.Event(), asyncio.Event()
        stage = Stage(folder, loop)
        thread = threading.Thread(target=runner.run, args=(stage.serve(ready, done),))
        thread.start()
        try:
            assert ready.wait(DEADLINE_SECONDS)
            yield stage
        finally:
            loop.call_soon_threadsafe(done.set)
            thread.join(DEADLINE_SECONDS)
            left = [process for process in stage.kubelet.processes if not _has_ended(process)]
    assert not thread.is_alive()
    assert not left, "the server has ended them"


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether it ends by itself; it ends in any case."""
    try:
        process.wait(DEADLINE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False
    return True
