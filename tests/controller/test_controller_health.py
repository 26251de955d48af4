"""When `/healthz` fails: the work stands still by a fault of our own. And when it doesn't."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from enum import StrEnum
from typing import Any

import aiohttp
import pytest
from rig import job_manifests
from rig.kube.api import ApiCaller
from rig.kube.plane import ControlPlane
from rig.waiting import run, until

from jobyard.cli.commands import controller as controller_command
from jobyard.cli.commands.controller import Flags
from jobyard.client import transport
from jobyard.client.credentials.cluster import Cluster
from jobyard.client.credentials.locating import cluster_of
from jobyard.client.errors import ConnectionFailedError
from jobyard.client.request import LEASES, Answer, Request, merge_patch
from jobyard.client.sender import Sender
from jobyard.client.transport import Transport
from jobyard.controller.operations import progress
from jobyard.controller.operations.leading import LeadershipLostError, LeaseName
from jobyard.controller.operations.metrics import Metrics
from jobyard.controller.operations.progress import Progress
from jobyard.controller.operations.serving import Serving
from jobyard.controller.running import Controller, Options
from jobyard.plan import table

WORK_SECONDS, WATCH_SECONDS = 3.0, 6.0


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("due_since", "moved", "heard", "words"),
    [
        pytest.param(None, 500, 1, "", id="nothing is due"),
        pytest.param(999, 500, 1, "", id="a job has just become due"),
        pytest.param(600, 10, 1, "", id="much is due, and passes end"),
        pytest.param(600, 181, 1, "nothing was done for 181 s", id="nothing moves"),
        pytest.param(600, 180, 1, "", id="not yet"),
        pytest.param(819, 500, 1, "nothing was done for 181 s", id="since it was due"),
        pytest.param(None, 500, 361, "nothing was heard of pods for 361 s", id="a watch is silent"),
        pytest.param(None, 500, 360, "", id="a watch that may still be heard of"),
    ],
)
def test_the_work_stands_still(
    due_since: float | None, moved: float, heard: float, words: str
) -> None:
    clock = Clock()
    subject = Progress(clock)
    clock.now = 1000 - moved
    subject.moved()
    clock.now = 1000 - heard
    subject.heard("pods")
    clock.now = 1000
    said = subject.standstill(due_since)
    assert words in said
    assert bool(said) == bool(words)


def test_an_ended_controller_has_no_watches_to_be_heard_of() -> None:
    clock = Clock()
    subject = Progress(clock)
    subject.heard("pods")
    subject.ended()
    clock.now += 10_000
    assert subject.standstill(None) == ""


def test_a_request_that_nobody_answers_is_given_up_long_before_that() -> None:
    """So an API server that is away is no standstill: something is given up all the while."""
    longest = transport.CONNECT_SECONDS + transport.REQUEST_SECONDS
    assert longest * 2 < progress.WORK_SECONDS
    silence = transport.CONNECT_SECONDS + transport.STREAM_SILENCE_SECONDS
    assert silence * 2 < progress.WATCH_SECONDS


class Way(StrEnum):
    """What becomes of requests."""

    OPEN = "open"
    # There is no answer, and the client says so.
    CUT = "cut"
    # Nothing ever comes back, as if we had forgotten that we wait.
    FORGOTTEN = "forgotten"


class Line:
    """A way to the server with faults in it."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self.creates = Way.OPEN
        self.watches = Way.OPEN
        self._mended = asyncio.Event()

    def mend(self) -> None:
        self.creates = self.watches = Way.OPEN
        self._mended.set()

    async def send(self, request: Request) -> Answer:
        if self.creates is Way.CUT:
            raise ConnectionFailedError("test", "the line is cut", "mend it")
        if self.creates is Way.FORGOTTEN and request.method != "GET":
            await self._mended.wait()
        return await self._sender.send(request)

    async def lines(self, request: Request) -> AsyncGenerator[bytes, None]:
        if self.watches is Way.CUT:
            raise ConnectionFailedError("test", "the line is cut", "mend it")
        async for line in self._sender.lines(request):
            if self.watches is Way.FORGOTTEN:
                await self._mended.wait()
            yield line

    def chunks(self, request: Request) -> AsyncGenerator[bytes, None]:
        return self._sender.chunks(request)


class Health:
    """A controller with its endpoints, and what they say."""

    def __init__(self, line: Line, serving: Serving, controller: Controller) -> None:
        self.line = line
        self.controller = controller
        self._url = f"http://127.0.0.1:{serving.port}/healthz"

    async def answer(self) -> tuple[int, str]:
        async with aiohttp.ClientSession() as session, session.get(self._url) as found:
            return found.status, await found.text()

    async def until_it_is(self, status: int) -> str:
        async def holds() -> str:
            found, text = await self.answer()
            return text if found == status else ""

        return await until(holds)


@asynccontextmanager
async def watched_over(where: Cluster, namespace: str, **seconds: float) -> AsyncIterator[Health]:
    limits = {"work_seconds": WORK_SECONDS, "watch_seconds": WATCH_SECONDS} | seconds
    async with Transport(where, request_seconds=1.0) as sender:
        line = Line(sender)
        metrics = Metrics()
        options = Options(namespace=namespace)
        subject = Progress(asyncio.get_running_loop().time, **limits)
        controller = Controller(line, options, metrics, subject)
        async with Serving(
            "127.0.0.1", 0, metrics, lambda: True, lambda: controller.standstill
        ) as serving:
            task = asyncio.create_task(controller.run())
            try:
                yield Health(line, serving, controller)
            finally:
                line.mend()
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task


Story = Callable[[Health, ApiCaller], Awaitable[None]]


@pytest.fixture
def tell(control_plane: ControlPlane, namespace: str, crds: None) -> Callable[..., None]:
    """Run a story with a controller of the test's namespace."""

    def told(story: Story, **seconds: float) -> None:
        async def scene() -> None:
            where = cluster_of(control_plane.kubeconfig)
            async with (
                ApiCaller(control_plane) as api,
                watched_over(where, namespace, **seconds) as health,
            ):
                await until(lambda: _synced(health.controller))
                await story(health, api)

        run(scene())

    return told


async def _synced(controller: Controller) -> bool:
    return controller.is_synced


async def made(api: ApiCaller, namespace: str, name: str) -> None:
    job = job_manifests.generic({"worker": 2})
    job["metadata"] = {"name": name}
    path = f"/apis/batch.tensorstack.dev/v1beta1/namespaces/{namespace}/genericjobs"
    answer = await api.request("POST", path, body=job)
    assert answer.status == 201, answer.text


async def pods(api: ApiCaller, namespace: str) -> list[Any]:
    answer = await api.request("GET", f"/api/v1/namespaces/{namespace}/pods")
    return list(answer.body["items"])


def test_it_fails_while_passes_wait_for_what_never_comes(
    tell: Callable[..., None], namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(health: Health, api: ApiCaller) -> None:
        assert (await health.answer())[0] == 200
        health.line.creates = Way.FORGOTTEN
        # More jobs than are looked at at a time: some are due, and nobody comes.
        for n in range(20):
            await made(api, namespace, f"job-{n}")
        said = await health.until_it_is(503)
        assert "jobs are due, and nothing was done for" in said
        health.line.mend()
        await health.until_it_is(200)
        await until(lambda: pods(api, namespace))

    # Of kinds without jobs nothing is heard for a minute, which is no matter of this test.
    tell(story, watch_seconds=1000.0)
    assert "/healthz fails: jobs are due" in caplog.text


def test_it_fails_while_a_watch_is_not_heard_of(tell: Callable[..., None], namespace: str) -> None:
    async def story(health: Health, api: ApiCaller) -> None:
        health.line.watches = Way.FORGOTTEN
        await made(api, namespace, "job")
        said = await health.until_it_is(503)
        assert "nothing was heard of the watch of" in said

    # Bookmarks come once a minute; who hears of nothing for longer than that stands still.
    tell(story, watch_seconds=20.0)


def test_an_api_server_that_is_away_is_no_standstill(
    tell: Callable[..., None], namespace: str
) -> None:
    """To start anew wouldn't bring it back, and would cost the caches."""

    async def story(health: Health, api: ApiCaller) -> None:
        health.line.creates = health.line.watches = Way.CUT
        for n in range(20):
            await made(api, namespace, f"job-{n}")
        loop = asyncio.get_running_loop()
        end = loop.time() + 3 * WORK_SECONDS

        async def past() -> bool:
            assert (await health.answer()) == (200, "ok\n")
            return loop.time() > end

        await until(past)
        health.line.mend()
        await until(lambda: pods(api, namespace))

    tell(story, watch_seconds=1000.0)


def test_a_server_that_never_answers_is_no_standstill() -> None:
    """Each request is given up, and tried again."""

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.CancelledError):
            await reader.read()
        writer.transport.abort()

    async def scene() -> None:
        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        try:
            where = Cluster(server=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
            async with watched_over(where, "default") as health:
                loop = asyncio.get_running_loop()
                end = loop.time() + 2 * WATCH_SECONDS

                async def past() -> bool:
                    assert (await health.answer()) == (200, "ok\n")
                    return loop.time() > end

                await until(past)
        finally:
            server.close()

    run(scene())


def test_much_work_is_no_standstill(tell: Callable[..., None], namespace: str) -> None:
    async def story(health: Health, api: ApiCaller) -> None:
        for n in range(60):
            await made(api, namespace, f"job-{n}")

        async def all_made() -> bool:
            assert (await health.answer()) == (200, "ok\n")
            return len(await pods(api, namespace)) == 120

        await until(all_made)

    tell(story, watch_seconds=1000.0)


def test_passes_that_are_repeated_count_as_errors(
    control_plane: ControlPlane, namespace: str, crds: None
) -> None:
    class Counting(Metrics):
        errors = 0

        def failed(self, kind: str) -> None:
            super().failed(kind)
            self.errors += 1

    async def scene() -> None:
        metrics = Counting()
        async with (
            ApiCaller(control_plane) as api,
            Transport(cluster_of(control_plane.kubeconfig)) as sender,
        ):
            controller = Controller(sender, Options(namespace=namespace), metrics)
            task = asyncio.create_task(controller.run())
            job = job_manifests.generic({"worker": 1})
            job["metadata"] = {"name": "job"}
            container = job["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]
            container["env"] = [{"name": "no name", "value": ""}, {"name": "=", "value": ""}]
            path = f"/apis/batch.tensorstack.dev/v1beta1/namespaces/{namespace}/genericjobs"
            answer = await api.request("POST", path, body=job)
            assert answer.status == 201, answer.text

            async def counted() -> bool:
                return metrics.errors >= 3

            await until(counted)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    run(scene())


def test_a_pass_that_raises_counts_as_one_error(
    control_plane: ControlPlane, namespace: str, crds: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Counting(Metrics):
        passes = errors = 0

        def failed(self, kind: str) -> None:
            super().failed(kind)
            self.errors += 1

        def reconciled(self, kind: str, seconds: float) -> None:
            super().reconciled(kind, seconds)
            self.passes += 1

    def stumble(*_: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr(table, "decide", stumble)

    async def scene() -> None:
        metrics = Counting()
        async with (
            ApiCaller(control_plane) as api,
            Transport(cluster_of(control_plane.kubeconfig)) as sender,
        ):
            controller = Controller(sender, Options(namespace=namespace), metrics)
            task = asyncio.create_task(controller.run())
            await made(api, namespace, "job")

            async def repeated() -> bool:
                return metrics.passes >= 3

            await until(repeated)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        assert metrics.errors == metrics.passes

    run(scene())


def test_the_command_asks_the_controller_while_it_leads_and_not_while_it_stands_by(
    control_plane: ControlPlane, namespace: str, crds: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Controller, "standstill", property(lambda _: "it stands still"))
    ports: list[int] = []
    opened = Serving.__aenter__

    async def noted(self: Serving) -> Serving:
        serving = await opened(self)
        ports.append(serving.port)
        return serving

    monkeypatch.setattr(Serving, "__aenter__", noted)
    flags = Flags(
        kubeconfig=control_plane.kubeconfig,
        context=None,
        namespace=namespace,
        gang_scheduler="t9k",
        workers=1,
        lease=LeaseName(namespace, "lease"),
        listen=("127.0.0.1", 0),
        log_format="text",
    )

    async def answered(port: int, status: int) -> None:
        async def holds() -> bool:
            url = f"http://127.0.0.1:{port}/healthz"
            async with aiohttp.ClientSession() as session, session.get(url) as found:
                return found.status == status

        await until(holds)

    async def is_open(count: int) -> None:
        async def holds() -> bool:
            return len(ports) == count

        await until(holds)

    async def scene() -> None:
        leader = asyncio.create_task(controller_command._run(flags))
        await is_open(1)
        await answered(ports[0], 503)
        async with Transport(cluster_of(control_plane.kubeconfig)) as sender:
            # It leads, and another one takes its place.
            taken = {"spec": {"holderIdentity": "another"}}
            await sender.send(merge_patch(LEASES, namespace, "lease", taken))
            with pytest.raises(LeadershipLostError):
                await leader
            follower = asyncio.create_task(controller_command._run(flags))
            await is_open(2)
            await answered(ports[1], 200)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait([follower])

    run(scene())
