"""The client against a real API server, and against connections that fail."""

from __future__ import annotations

import asyncio
import base64
import errno
import gc
import json
import os
import signal
import ssl
import stat
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
import pytest
import yaml
from aiohttp import web
from rig.kube.certificates import make_credentials
from rig.kube.kubectl import Kubectl
from rig.kube.plane import ControlPlane

from jobyard.api.kinds import KINDS
from jobyard.client.backoff import Backoff
from jobyard.client.credentials import login, plugins
from jobyard.client.credentials.cluster import Certificate, Cluster, Credentials, Trust
from jobyard.client.credentials.locating import cluster_of
from jobyard.client.errors import (
    ClientError,
    ClusterError,
    ConnectionFailedError,
    CredentialsError,
    GarbledError,
    KubeconfigError,
    NoClusterError,
    RefusedError,
)
from jobyard.client.request import (
    CONFIG_MAPS,
    EVENTS,
    LEASES,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
    Answer,
    Cause,
    Problem,
    Propagation,
    Request,
    Resource,
    create,
    delete,
    get,
    listing,
    merge_patch,
    replace,
    resource_named,
    resource_of,
    watching,
)
from jobyard.client.retrying import is_repeatable, send_patiently
from jobyard.client.sender import Sender
from jobyard.client.transport import LINE_BYTES_MAX, Transport
from jobyard.client.watching import Watched, follow

DEADLINE_SECONDS = 60
# Where nobody listens; of the ports that are given out it is none.
NOBODY = "http://127.0.0.1:1"
PROXIES = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy")
SECRET = "s3cret-that-nobody-may-see"
T = TypeVar("T")

WHO_AM_I = Request(
    method="POST",
    path="/apis/authentication.k8s.io/v1/selfsubjectreviews",
    body=b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}',
)


def run(work: Awaitable[T]) -> T:
    """Run to the end within the deadline, and leave no task behind."""

    async def bounded() -> T:
        async with asyncio.timeout(DEADLINE_SECONDS):
            result = await work
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return result

    result = asyncio.run(bounded())
    # What was left open is reported here and not by some later test.
    gc.collect()
    return result


def config_map(name: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **more}


# Served only since its CRD was made, so that the server has no events of version 1.
POD_GROUPS = resource_named("scheduler.tensorstack.dev/v1beta1", "PodGroup")


def pod_group(name: str) -> dict[str, Any]:
    about = {"apiVersion": POD_GROUPS.api_version, "kind": "PodGroup"}
    return {**about, "metadata": {"name": name}, "spec": {"minMember": 2}}


def cluster(plane: ControlPlane, **changes: Any) -> Cluster:
    return msgspec.structs.replace(cluster_of(plane.kubeconfig), **changes)


def decoded(answer: Answer) -> dict[str, Any]:
    assert answer.is_ok, answer.problem
    value: dict[str, Any] = json.loads(answer.body)
    return value


async def made(sender: Sender, namespace: str, name: str, **more: Any) -> dict[str, Any]:
    return decoded(await sender.send(create(CONFIG_MAPS, namespace, config_map(name, **more))))


def username(where: Cluster) -> str:
    """Who the server takes us for, or its refusal."""

    async def ask() -> str:
        async with Transport(where) as transport:
            return await asked(transport)

    return run(ask())


async def asked(transport: Transport) -> str:
    answer = await transport.send(WHO_AM_I)
    if not answer.is_ok:
        return f"{answer.status}"
    return str(json.loads(answer.body)["status"]["userInfo"]["username"])


# Requests as values


@pytest.mark.parametrize(
    ("request_", "line", "verb"),
    [
        pytest.param(get(PODS, "a", "b"), "GET /api/v1/namespaces/a/pods/b", "get", id="a pod"),
        pytest.param(get(NODES, "", "n"), "GET /api/v1/nodes/n", "get", id="a node"),
        pytest.param(listing(NODES), "GET /api/v1/nodes", "list", id="all nodes"),
        pytest.param(listing(PODS), "GET /api/v1/pods", "list", id="all pods"),
        pytest.param(
            listing(LEASES, "a"),
            "GET /apis/coordination.k8s.io/v1/namespaces/a/leases",
            "list",
            id="leases of a namespace",
        ),
        pytest.param(
            watching(EVENTS, resource_version="7", timeout_seconds=5),
            "GET /api/v1/events",
            "watch",
            id="a watch",
        ),
        pytest.param(
            create(SECRETS, "a", {}), "POST /api/v1/namespaces/a/secrets", "create", id="a create"
        ),
        pytest.param(
            replace(SERVICES, "a", "b", {}),
            "PUT /api/v1/namespaces/a/services/b",
            "update",
            id="a replacement",
        ),
        pytest.param(
            merge_patch(resource_of(KINDS[0]), "a", "b", {}, subresource="status"),
            "PATCH /apis/batch.tensorstack.dev/v1beta1/namespaces/a/genericjobs/b/status",
            "patch",
            id="a patch of a status",
        ),
        pytest.param(
            get(PODS, "a", "b/c?d"),
            "GET /api/v1/namespaces/a/pods/b%2Fc%3Fd",
            "get",
            id="a name can't leave its place",
        ),
    ],
)
def test_a_request_says_what_it_asks(request_: Request, line: str, verb: str) -> None:
    assert (str(request_), request_.verb) == (line, verb)


def test_a_deletion_carries_its_conditions() -> None:
    request = delete(PODS, "a", "b", uid="u", grace_seconds=0, propagation=Propagation.FOREGROUND)
    assert request.method == "DELETE"
    assert json.loads(request.body or b"") == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u"},
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Foreground",
    }


def test_a_continued_list_names_no_version() -> None:
    first = listing(PODS, label_selector="a=b", limit=5, resource_version="0")
    assert first.query == (("labelSelector", "a=b"), ("limit", "5"), ("resourceVersion", "0"))
    later = listing(PODS, limit=5, continue_token="t", resource_version="0")
    assert later.query == (("limit", "5"), ("continue", "t"))


def test_every_kind_has_its_resource() -> None:
    for kind in KINDS:
        found = resource_named(kind.api_version, kind.name)
        assert found == resource_of(kind)
        assert (found.api_version, found.namespaced) == (kind.api_version, kind.namespaced)
    for resource in (PODS, SERVICES, CONFIG_MAPS, SECRETS, EVENTS, NODES, LEASES):
        assert resource_named(resource.api_version, resource.kind) is resource
    assert resource_named("scheduler.tensorstack.dev/v1beta1", "PodGroup").plural == "podgroups"
    with pytest.raises(LookupError, match=r"Pod of v2 is not a kind .* knows BeamJob of batch"):
        resource_named("v2", "Pod")


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param(
            b'{"kind":"Status","code":422,"reason":"Invalid","message":"m","details":'
            b'{"causes":[{"reason":"r","message":"c","field":"spec.x"}]}}',
            Problem(422, "Invalid", "m", (Cause("r", "c", "spec.x"),)),
            id="a Status with causes",
        ),
        pytest.param(
            b'{"kind":"Status","message":"m","details":{"causes":null}}',
            Problem(500, "", "m"),
            id="a bare Status",
        ),
        pytest.param(
            b"<html>\n <b>Bad Gateway", Problem(500, "", "<html> <b>Bad Gateway"), id="HTML"
        ),
        pytest.param(b'{"kind":"Pod"}', Problem(500, "", '{"kind":"Pod"}'), id="other JSON"),
        pytest.param(b"[1]", Problem(500, "", "[1]"), id="no object"),
        pytest.param(b"", Problem(500, "", "the answer has no text"), id="nothing"),
        pytest.param(b"\xff", Problem(500, "", "\ufffd"), id="no text at all"),
        pytest.param(b"x" * 5000, Problem(500, "", "x" * 200), id="far too much"),
    ],
)
def test_a_problem_is_read_from_anything(body: bytes, problem: Problem) -> None:
    assert Answer(500, body).problem == problem


# A real server


def test_an_object_is_made_read_changed_and_deleted(
    control_plane: ControlPlane, namespace: str
) -> None:
    async def work() -> None:
        async with Transport(cluster(control_plane)) as transport:
            send = transport.send
            first = await made(transport, namespace, "one", data={"a": "ü"})
            taken = await send(create(CONFIG_MAPS, namespace, config_map("one")))
            assert (taken.status, taken.problem.reason) == (409, "AlreadyExists")
            found = decoded(await send(get(CONFIG_MAPS, namespace, "one")))
            assert found["data"] == {"a": "ü"}
            patch = {"data": {"b": "2"}}
            patched = decoded(await send(merge_patch(CONFIG_MAPS, namespace, "one", patch)))
            assert patched["data"] == {"a": "ü", "b": "2"}
            stale = await send(replace(CONFIG_MAPS, namespace, "one", first))
            assert (stale.status, stale.problem.reason) == (409, "Conflict")
            fresh = decoded(await send(replace(CONFIG_MAPS, namespace, "one", patched)))

            other = await send(delete(CONFIG_MAPS, namespace, "one", uid="another"))
            assert (other.status, other.problem.reason) == (409, "Conflict")
            uid = fresh["metadata"]["uid"]
            assert (await send(delete(CONFIG_MAPS, namespace, "one", uid=uid))).is_ok
            gone = await send(get(CONFIG_MAPS, namespace, "one"))
            assert str(gone.problem) == '404 NotFound: configmaps "one" not found'

    run(work())


def test_a_dry_run_leaves_nothing(control_plane: ControlPlane, namespace: str) -> None:
    async def work() -> None:
        async with Transport(cluster(control_plane)) as transport:
            request = create(CONFIG_MAPS, namespace, config_map("one"), dry_run=True)
            assert (await transport.send(request)).status == 201
            assert (await transport.send(get(CONFIG_MAPS, namespace, "one"))).status == 404

    run(work())


def test_a_status_is_not_written_over_a_newer_object(
    control_plane: ControlPlane, namespace: str, crds: None
) -> None:
    async def work() -> None:
        async with Transport(cluster(control_plane)) as transport:
            first = decoded(await transport.send(create(POD_GROUPS, namespace, pod_group("one"))))

            def status(version: str) -> Request:
                patch = {"metadata": {"resourceVersion": version}, "status": {"running": 1}}
                return merge_patch(POD_GROUPS, namespace, "one", patch, subresource="status")

            version = first["metadata"]["resourceVersion"]
            assert decoded(await transport.send(status(version)))["status"]["running"] == 1
            stale = await transport.send(status(version))
            assert (stale.status, stale.problem.reason) == (409, "Conflict")
            bad = {"status": {"running": -1}}
            refused = await transport.send(
                merge_patch(POD_GROUPS, namespace, "one", bad, subresource="status")
            )
            assert (refused.status, refused.problem.reason) == (422, "Invalid")
            assert [cause.field for cause in refused.problem.causes] == ["status.running"]

    run(work())


def test_requests_are_counted_by_verb_and_code(control_plane: ControlPlane, namespace: str) -> None:
    seen = []

    async def work() -> None:
        def observe(verb: str, code: int, seconds: float) -> None:
            assert 0 <= seconds < DEADLINE_SECONDS
            seen.append((verb, code))

        async with Transport(cluster(control_plane), observe=observe) as transport:
            await transport.send(get(CONFIG_MAPS, namespace, "absent"))
            await transport.send(listing(CONFIG_MAPS, namespace))
        async with Transport(Cluster(server=NOBODY), observe=observe) as transport:
            with pytest.raises(ConnectionFailedError):
                await transport.send(listing(CONFIG_MAPS))

    run(work())
    assert seen == [("get", 404), ("list", 200), ("list", 0)]


# Following


class Recorder:
    """A sink that remembers, and lets a test wait for what it wants to see."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.lists = 0
        self.reached_versions: list[str] = []
        self._news = asyncio.Event()

    def replaced(self, items: Sequence[str], resource_version: str) -> None:
        assert resource_version.isdigit()
        self.lists += 1
        self._note(f"all: {' '.join(sorted(items))}")

    def changed(self, obj: str) -> None:
        self._note(f"+{obj}")

    def removed(self, obj: str) -> None:
        self._note(f"-{obj}")

    def reached(self, resource_version: str) -> None:
        self.reached_versions.append(resource_version)
        self._news.set()

    def _note(self, line: str) -> None:
        self.log.append(line)
        self._news.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._news.clear()
            await self._news.wait()

    async def saw(self, line: str) -> None:
        await self.until(lambda: line in self.log)


def name_of(raw: bytes) -> str:
    return str(json.loads(raw)["metadata"]["name"])


QUICK = Backoff(first_seconds=0.01, max_seconds=0.05)


def ours(namespace: str, **more: Any) -> Watched:
    """The config maps with the label `ours`: Kubernetes puts one of its own beside them."""
    return Watched(
        resource=CONFIG_MAPS, namespace=namespace, label_selector="ours in (yes)", **more
    )


def labelled(name: str, **more: Any) -> dict[str, Any]:
    obj = config_map(name, **more)
    obj["metadata"]["labels"] = {"ours": "yes"}
    return obj


async def put(sender: Sender, namespace: str, name: str, **more: Any) -> None:
    decoded(await sender.send(create(CONFIG_MAPS, namespace, labelled(name, **more))))


@asynccontextmanager
async def following(
    sender: Sender,
    watched: Watched,
    backoff: Backoff = QUICK,
    decode: Callable[[bytes], str] = name_of,
    **more: Any,
) -> AsyncIterator[Recorder]:
    recorder = Recorder()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(follow(sender, watched, decode, recorder, backoff=backoff, **more))
        yield recorder
        task.cancel()


def test_a_sink_gets_all_there_is_and_then_what_changes(
    control_plane: ControlPlane, namespace: str
) -> None:
    async def work() -> None:
        async with Transport(cluster(control_plane)) as transport:
            for i in range(5):
                await put(transport, namespace, f"c{i}")
            # Two objects a page, so that the list takes three requests.
            async with following(transport, ours(namespace, page_limit=2)) as sink:
                await sink.saw("all: c0 c1 c2 c3 c4")
                # Longer than the pieces in which a stream comes.
                await put(transport, namespace, "big", data={"a": "x" * 900_000})
                await sink.saw("+big")
                assert (await transport.send(delete(CONFIG_MAPS, namespace, "c1"))).is_ok
                await sink.saw("-c1")
            assert sink.log == ["all: c0 c1 c2 c3 c4", "+big", "-c1"]

    run(work())


def test_what_a_sink_knows_is_not_decoded(control_plane: ControlPlane, namespace: str) -> None:
    asked: list[tuple[str, str, str]] = []

    def knows(*version: str) -> bool:
        asked.append(version)  # type: ignore[arg-type]
        return version[1] == "known"

    async def work() -> None:
        async with Transport(cluster(control_plane)) as transport:
            async with following(transport, ours(namespace), knows=knows) as sink:
                await sink.saw("all: ")
                known = decoded(
                    await transport.send(create(CONFIG_MAPS, namespace, labelled("known")))
                )
                await put(transport, namespace, "new")
                await sink.saw("+new")
                # One that is gone is told all the same.
                assert (await transport.send(delete(CONFIG_MAPS, namespace, "known"))).is_ok
                await sink.saw("-known")
            assert sink.log == ["all: ", "+new", "-known"]
            assert asked[0] == (namespace, "known", known["metadata"]["resourceVersion"])

    run(work())


def test_a_list_comes_in_pages(control_plane: ControlPlane, namespace: str) -> None:
    seen = []

    async def work() -> None:
        def observe(verb: str, code: int, _: float) -> None:
            seen.append((verb, code))

        async with Transport(cluster(control_plane), observe=observe) as transport:
            for i in range(5):
                await put(transport, namespace, f"c{i}")
            seen.clear()
            async with following(transport, ours(namespace, page_limit=2)) as sink:
                await sink.saw("all: c0 c1 c2 c3 c4")

    run(work())
    assert [entry for entry in seen if entry[0] == "list"] == [("list", 200)] * 3


def test_an_object_that_is_no_longer_selected_is_removed(
    control_plane: ControlPlane, namespace: str
) -> None:
    async def work() -> None:
        async with (
            Transport(cluster(control_plane)) as transport,
            following(transport, ours(namespace)) as sink,
        ):
            await sink.saw("all: ")
            await put(transport, namespace, "one")
            await sink.saw("+one")
            patch = {"metadata": {"labels": {"ours": "no"}}}
            decoded(await transport.send(merge_patch(CONFIG_MAPS, namespace, "one", patch)))
            await sink.saw("-one")

    run(work())


class Proxy:
    """Passes connections on to a port of the loopback address until told to cut them."""

    def __init__(self, url: str) -> None:
        self._port = urlsplit(url).port
        # Both ends of each connection, and the tasks that serve them.
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self.connections = 0

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        try:
            yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            await self.cut()

    async def cut(self) -> None:
        """Reset every connection, as a router that forgot about them does."""
        self._flowing.set()
        for writer in self._writers:
            writer.transport.abort()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def stall(self) -> None:
        """Pass nothing on any more, and tell nobody."""
        self._flowing.clear()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.connections += 1
        self._tasks.add(task)
        there, thence = await asyncio.open_connection("127.0.0.1", self._port)
        ends = {writer, thence}
        self._writers |= ends
        await asyncio.gather(self._pump(reader, thence), self._pump(there, writer))
        for end in ends:
            with suppress(OSError):
                await end.wait_closed()
        self._writers -= ends
        self._tasks.discard(task)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()
        writer.transport.abort()


def test_a_watch_goes_on_where_it_was_cut(control_plane: ControlPlane, namespace: str) -> None:
    problems: list[ClientError] = []

    async def work() -> None:
        proxy = Proxy(control_plane.url)
        async with (
            Transport(cluster(control_plane)) as direct,
            proxy.listening() as url,
            Transport(cluster(control_plane, server=url)) as transport,
        ):
            await put(direct, namespace, "before")
            watched = ours(namespace)
            async with following(
                transport, watched, notice=lambda problem, _: problems.append(problem)
            ) as sink:
                await sink.saw("all: before")
                for i in range(3):
                    await put(direct, namespace, f"c{i}")
                    await sink.saw(f"+c{i}")
                    await proxy.cut()
                    # While nobody watches; the resumed watch has to tell it.
                    await put(direct, namespace, f"d{i}")
                await sink.saw("+d2")
            # Nothing twice, nothing left out, and no second list.
            assert sink.log == ["all: before", "+c0", "+d0", "+c1", "+d1", "+c2", "+d2"]
            assert proxy.connections >= 4

    run(work())
    assert problems
    assert {type(problem) for problem in problems} == {ConnectionFailedError}


class Tampering:
    """A real transport whose watches a test may change, one after another."""

    def __init__(
        self, transport: Transport, *watches: Callable[[Request], Request | ClientError]
    ) -> None:
        self._transport = transport
        self._watches = list(watches)
        self.versions: list[str] = []

    async def send(self, request: Request) -> Answer:
        return await self._transport.send(request)

    async def lines(self, request: Request) -> AsyncGenerator[bytes, None]:
        self.versions.append(dict(request.query)["resourceVersion"])
        instead = self._watches.pop(0)(request) if self._watches else request
        if isinstance(instead, ClientError):
            raise instead
        async with aclosing(self._transport.lines(instead)) as lines:
            async for line in lines:
                yield line


def ancient(request: Request) -> Request:
    query = tuple((k, "1" if k == "resourceVersion" else v) for k, v in request.query)
    return msgspec.structs.replace(request, query=query)


def refusal(code: int, reason: str) -> Callable[[Request], ClientError]:
    return lambda request: RefusedError(str(request), Problem(code, reason, "no"))


async def followed_once(transport: Transport, namespace: str) -> None:
    """Make a pod group, once the server tells of them.

    Of a kind that is new it refuses watches until it has looked at its objects.
    """
    async with following(transport, Watched(resource=POD_GROUPS, namespace=namespace)) as sink:
        await sink.saw("all: ")
        decoded(await transport.send(create(POD_GROUPS, namespace, pod_group("one"))))
        await sink.saw("+one")


def test_an_ancient_version_is_refused(
    control_plane: ControlPlane, namespace: str, crds: None
) -> None:
    async def work() -> list[dict[str, Any]]:
        request = watching(POD_GROUPS, namespace, resource_version="1", timeout_seconds=5)
        async with Transport(cluster(control_plane)) as transport:
            await followed_once(transport, namespace)
            async with aclosing(transport.lines(request)) as lines:
                return [json.loads(line) async for line in lines]

    # As an event of a stream that began well: this is how the server really says it.
    (event,) = run(work())
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


@pytest.mark.parametrize(
    "tampered",
    [
        pytest.param((refusal(410, "Expired"),), id="a status"),
        pytest.param((refusal(504, "Timeout"),) * 3, id="refused again and again"),
    ],
)
def test_a_place_that_is_gone_means_a_new_list(
    control_plane: ControlPlane, namespace: str, tampered: tuple[Any, ...]
) -> None:
    async def work() -> None:
        async with Transport(cluster(control_plane)) as transport:
            await put(transport, namespace, "one")
            sender = Tampering(transport, *tampered)
            async with following(sender, ours(namespace)) as sink:
                await sink.until(lambda: sink.lists == 2)
                await put(transport, namespace, "two")
                await sink.saw("+two")
            assert sink.log == ["all: one", "all: one", "+two"]

    run(work())


def test_an_error_event_of_the_server_means_a_new_list(
    control_plane: ControlPlane, namespace: str, crds: None
) -> None:
    async def work() -> None:
        async with Transport(cluster(control_plane)) as transport:
            await followed_once(transport, namespace)
            sender = Tampering(transport, ancient)
            watched = Watched(resource=POD_GROUPS, namespace=namespace)
            async with following(sender, watched) as sink:
                await sink.until(lambda: sink.lists == 2)
                decoded(await transport.send(create(POD_GROUPS, namespace, pod_group("two"))))
                await sink.saw("+two")
            assert sink.log == ["all: one", "all: one", "+two"]

    run(work())


def test_a_busy_server_is_not_asked_for_a_list(control_plane: ControlPlane, namespace: str) -> None:
    async def work() -> None:
        async with Transport(cluster(control_plane)) as transport:
            sender = Tampering(transport, *(refusal(429, "TooManyRequests"),) * 6)
            async with following(sender, ours(namespace)) as sink:
                await sink.saw("all: ")
                await put(transport, namespace, "one")
                await sink.saw("+one")
            assert (sink.lists, len(sender.versions), len(set(sender.versions))) == (1, 7, 1)

    run(work())


def test_a_bookmark_moves_the_place(control_plane: ControlPlane, namespace: str) -> None:
    async def work() -> None:
        async with Transport(cluster(control_plane)) as transport:
            sender = Tampering(transport)
            # The server sends a bookmark shortly before it ends a watch.
            watched = ours(namespace, watch_seconds=4)
            patient = msgspec.structs.replace(QUICK, dice=lambda: 0.0)
            async with following(sender, watched, patient) as sink:
                await sink.saw("all: ")
                # Not selected, so that only a bookmark can tell that it is over.
                other = await made(transport, namespace, "other")
                later = int(other["metadata"]["resourceVersion"])
                # The first bookmark may have come before.
                await sink.until(lambda: int(sender.versions[-1]) >= later)
            assert int(sender.versions[0]) < later
            assert sender.versions[-1] in sink.reached_versions
            assert sink.log == ["all: "]

    run(work())


class Scripted:
    """A sender that answers lists and watches as it is told; then it hangs."""

    def __init__(self, lists: Sequence[Answer], watches: Sequence[Sequence[bytes]] = ()) -> None:
        self._lists = list(lists)
        self._watches = list(watches)
        self.requests: list[Request] = []
        self._news = asyncio.Event()

    async def send(self, request: Request) -> Answer:
        self._note(request)
        if not self._lists:
            await asyncio.Event().wait()
        return self._lists.pop(0)

    async def lines(self, request: Request) -> AsyncGenerator[bytes, None]:
        self._note(request)
        if not self._watches:
            await asyncio.Event().wait()
        for line in self._watches.pop(0):
            yield line

    def _note(self, request: Request) -> None:
        self.requests.append(request)
        self._news.set()

    async def asked_for(self, count: int) -> None:
        while len(self.requests) < count:
            self._news.clear()
            await self._news.wait()


def page(*names: str, version: int = 5, more: str = "") -> Answer:
    items = [{"metadata": {"name": name, "resourceVersion": "1"}} for name in names]
    metadata = {"resourceVersion": str(version), "continue": more}
    return Answer(200, json.dumps({"metadata": metadata, "items": items}).encode())


def gone() -> Answer:
    body = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    return Answer(410, json.dumps(body).encode())


def test_a_list_whose_pages_expire_is_taken_in_one_piece() -> None:
    async def work() -> Scripted:
        sender = Scripted([page("a", more="t"), gone(), page("a", "b")])
        async with following(sender, ours("n")) as sink:
            await sink.saw("all: a b")
        assert sink.log == ["all: a b"]
        return sender

    queries = [dict(request.query) for request in run(work()).requests]
    assert [(query.get("limit"), query.get("continue")) for query in queries[:3]] == [
        ("500", None),
        ("500", "t"),
        (None, None),
    ]


def test_failures_are_paused_for_longer_and_longer() -> None:
    waited: list[float] = []
    noticed: list[tuple[str, int]] = []

    async def wait(seconds: float) -> None:
        waited.append(seconds)
        await asyncio.Event().wait() if len(waited) == 5 else None

    async def work() -> None:
        denied = Answer(403, b"no")
        busy = Answer(429, b"busy", retry_after_seconds=7.0)
        sender = Scripted([denied, denied, busy, page("a")], [[], []])
        backoff = Backoff(first_seconds=1, max_seconds=30, wait=wait, dice=lambda: 0.0)
        watched = ours("n")
        async with asyncio.TaskGroup() as group:
            sink = Recorder()
            task = group.create_task(
                follow(
                    sender,
                    watched,
                    name_of,
                    sink,
                    backoff=backoff,
                    notice=lambda problem, count: noticed.append((str(problem), count)),
                )
            )
            await sink.saw("all: a")
            while len(waited) < 5:
                await asyncio.wait([task], timeout=0.01)
            task.cancel()

    run(work())
    # Two refusals, one with Retry-After, and two watches that end as soon as they begin.
    assert waited == [1, 2, 8, 8, 16]
    path = "GET /api/v1/namespaces/n/configmaps"
    assert noticed == [
        (f"{path}: 403 : no", 1),
        (f"{path}: 403 : no", 2),
        (f"{path}: 429 : busy", 3),
    ]


def test_garbage_is_not_taken_for_an_answer() -> None:
    noticed: list[ClientError] = []

    async def work() -> None:
        html = Answer(200, b"<html>")
        sender = Scripted([html, page("a")], [[b'{"type":"ADDED","obj'], [b'{"a":1}']])
        async with following(
            sender, ours("n"), notice=lambda problem, _: noticed.append(problem)
        ) as sink:
            await sender.asked_for(5)
        assert sink.log == ["all: a"]

    run(work())
    assert [type(problem) for problem in noticed] == [GarbledError] * 3
    assert "configmaps: the answer is not what an API server says" in str(noticed[0])


# Retries, over a loopback server that plays the faults of a connection


@asynccontextmanager
async def faulty(*faults: web.Response | str) -> AsyncIterator[tuple[Cluster, list[str]]]:
    """A server that answers with each fault in turn, then with 200; `cut` drops the connection."""
    remaining = list(faults)
    seen: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        seen.append(f"{request.method} {request.headers['User-Agent']}")
        fault = remaining.pop(0) if remaining else web.Response(text="{}")
        if isinstance(fault, str):
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        return fault

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with serving(app) as url:
        yield Cluster(server=url), seen


@asynccontextmanager
async def serving(app: web.Application) -> AsyncIterator[str]:
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


def patiently(
    request: Request, *faults: web.Response | str, **more: Any
) -> tuple[Answer | ConnectionFailedError, list[float], list[str]]:
    waited: list[float] = []

    async def wait(seconds: float) -> None:
        waited.append(seconds)

    async def work() -> tuple[Answer | ConnectionFailedError, list[str]]:
        backoff = Backoff(first_seconds=1, max_seconds=3, wait=wait, dice=lambda: 0.0)
        async with faulty(*faults) as (where, seen), Transport(where) as transport:
            try:
                return await send_patiently(transport, request, backoff=backoff, **more), seen
            except ConnectionFailedError as error:
                return error, seen

    answer, seen = run(work())
    return answer, waited, seen


def failing(status: int, **headers: str) -> web.Response:
    return web.Response(status=status, text="busy", headers=headers)


def test_a_busy_server_is_asked_again() -> None:
    faults = (failing(500), failing(503), "cut", failing(429, **{"Retry-After": "7"}))
    request = create(CONFIG_MAPS, "n", config_map("one"))
    answer, waited, seen = patiently(request, *faults)
    assert isinstance(answer, Answer)
    assert answer.is_ok
    assert seen == ["POST jobyard/0.1.0"] * 5
    # Doubling up to the limit of 3; what the server asks for counts, with a little on top.
    assert waited == [1, 2, 3, 8]


def test_patience_ends() -> None:
    answer, waited, seen = patiently(get(PODS, "n", "p"), *[failing(503) for _ in range(9)])
    assert isinstance(answer, Answer)
    assert (answer.status, answer.problem.message) == (503, "busy")
    assert (len(waited), len(seen)) == (4, 5)
    # aiohttp itself repeats a GET on a connection that it had kept, so the count isn't ours.
    error, waited, _ = patiently(create(PODS, "n", config_map("p")), *["cut"] * 9, attempts_max=3)
    assert isinstance(error, ConnectionFailedError)
    assert waited == [1, 2]
    assert str(error).endswith("the connection broke; it is worth trying again")


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 422, 501])
def test_an_answer_that_stays_the_same_is_not_asked_for_again(status: int) -> None:
    answer, waited, seen = patiently(get(PODS, "n", "p"), failing(status))
    assert isinstance(answer, Answer)
    assert (answer.status, waited, len(seen)) == (status, [], 1)


def test_an_object_with_a_made_up_name_is_not_made_twice() -> None:
    obj = {"metadata": {"generateName": "one-"}}
    request = create(PODS, "n", obj)
    assert not is_repeatable(request)
    answer, waited, _ = patiently(request, failing(500))
    assert isinstance(answer, Answer)
    assert (answer.status, waited) == (500, [])
    assert isinstance(patiently(request, "cut")[0], ConnectionFailedError)
    # A 429 says that nothing was done.
    answer, waited, _ = patiently(request, failing(429))
    assert isinstance(answer, Answer)
    assert (answer.status, waited) == (200, [1])


@pytest.mark.parametrize("value", ["soon", "-1", "1e3", "Wed, 21 Oct 2015 07:28:00 GMT", "²"])
def test_a_strange_retry_after_is_ignored(value: str) -> None:
    _, waited, _ = patiently(get(PODS, "n", "p"), failing(429, **{"Retry-After": value}))
    assert waited == [1]


def test_a_create_that_happened_before_the_connection_broke_is_a_conflict(
    control_plane: ControlPlane, namespace: str
) -> None:
    class Forgetful:
        def __init__(self, transport: Transport) -> None:
            self._transport = transport
            self.sent = 0

        async def send(self, request: Request) -> Answer:
            self.sent += 1
            answer = await self._transport.send(request)
            if self.sent == 1:
                raise ConnectionFailedError("there", "broke", "try again")
            return answer

        def lines(self, request: Request) -> AsyncGenerator[bytes, None]:
            return self._transport.lines(request)

    async def work() -> None:
        async with Transport(cluster(control_plane)) as transport:
            sender = Forgetful(transport)
            request = create(CONFIG_MAPS, namespace, config_map("one"))
            answer = await send_patiently(sender, request, backoff=QUICK)
            assert (sender.sent, answer.status) == (2, 409)
            assert answer.problem.reason == "AlreadyExists"

    run(work())


def test_delays_are_cut_by_up_to_a_half_and_never_overflow() -> None:
    for dice, share in ((lambda: 0.0, 1.0), (lambda: 1.0, 0.5)):
        backoff = Backoff(first_seconds=1, max_seconds=30, dice=dice)
        delays = [backoff.delay_seconds(failures) for failures in (1, 2, 5, 6, 5000)]
        assert delays == [share * whole for whole in (1, 2, 16, 30, 30)]
    assert Backoff().delay_seconds(1, 86_400) <= 61


# Connections that fail


def failure(where: Cluster, **more: Any) -> ConnectionFailedError:
    async def work() -> ConnectionFailedError:
        async with Transport(where, **more) as transport:
            with pytest.raises(ConnectionFailedError) as caught:
                await transport.send(listing(PODS))
            return caught.value

    return run(work())


def test_a_server_that_does_not_run_is_named() -> None:
    error = failure(Cluster(server=NOBODY, source="context 'dev' of /x"))
    refused = os.strerror(errno.ECONNREFUSED).lower()
    assert str(error) == (
        f"API server {NOBODY}: {refused}; check that it runs and that context 'dev' of /x is right"
    )
    assert error.may_pass


def test_a_certificate_that_is_not_trusted_is_said_to_be(control_plane: ControlPlane) -> None:
    error = failure(cluster(control_plane, trust=Trust(), source="here"))
    assert "its certificate is refused: " in str(error)
    assert str(error).endswith("check certificate-authority and tls-server-name in here")
    assert not error.may_pass


def test_another_name_in_the_certificate_can_be_expected(control_plane: ControlPlane) -> None:
    where = cluster(control_plane)
    good = msgspec.structs.replace(where.trust, server_name="localhost")
    assert username(cluster(control_plane, trust=good)) != ""
    bad = msgspec.structs.replace(where.trust, server_name="example.com")
    assert "ostname mismatch" in str(failure(cluster(control_plane, trust=bad)))
    blind = Trust(server_name="example.com", is_blind=True)
    assert username(cluster(control_plane, trust=blind)) == username(where)


def test_a_silent_server_is_given_up() -> None:
    released = asyncio.Event()

    async def hang(request: web.Request) -> web.StreamResponse:
        await released.wait()
        return web.Response()

    async def work() -> str:
        app = web.Application()
        app.router.add_get("/{path:.*}", hang)
        async with (
            serving(app) as url,
            Transport(Cluster(server=url), request_seconds=0.2) as transport,
        ):
            with pytest.raises(ConnectionFailedError) as caught:
                await transport.send(listing(PODS))
            released.set()
            return str(caught.value)

    assert "no answer in time; check that it runs" in run(work())


@asynccontextmanager
async def cutting(folder: Path, cuts: int) -> AsyncIterator[tuple[Cluster, list[bytes]]]:
    """A server that cuts so many connections in their handshake; and the requests it got."""
    paths = make_credentials(folder / "pki")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(paths.server_cert, paths.server_key)
    left, seen = cuts, []

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal left
        if left:
            left -= 1
            writer.transport.abort()
            return
        await writer.start_tls(context)
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(served, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        trust = Trust(authorities=paths.ca.read_bytes())
        yield Cluster(server=f"https://127.0.0.1:{port}", trust=trust), seen


@pytest.mark.parametrize("cuts", [1, 4])
def test_a_connection_that_is_cut_in_its_handshake_is_begun_again(
    cuts: int, tmp_path: Path
) -> None:
    """Also for what must not be sent twice: nothing was."""

    async def work() -> None:
        async with cutting(tmp_path, cuts) as (where, seen), Transport(where) as transport:
            answer = await transport.send(
                Request(method="POST", path="/x", body=b'{"metadata":{"generateName":"x"}}')
            )
            assert answer.status == 200
            assert len(seen) == 1

    run(work())


def test_a_server_that_cuts_every_connection_is_given_up(tmp_path: Path) -> None:
    async def work() -> None:
        async with cutting(tmp_path, 1_000) as (where, seen), Transport(where) as transport:
            with pytest.raises(ConnectionFailedError, match="check that it runs"):
                await transport.send(listing(PODS))
            assert seen == []

    run(work())


def test_a_request_that_is_given_up_leaves_no_socket(
    control_plane: ControlPlane, namespace: str
) -> None:
    async def work() -> None:
        begun = asyncio.Event()
        proxy = Proxy(control_plane.url)
        async with proxy.listening() as url:
            port = urlsplit(url).port
            assert port is not None
            async with Transport(
                cluster(control_plane, server=url), observe=lambda *_: begun.set()
            ) as transport:
                endless = watching(CONFIG_MAPS, namespace, resource_version="0", timeout_seconds=60)
                async with asyncio.TaskGroup() as group:
                    task = group.create_task(transport.send(endless))
                    await begun.wait()
                    assert connections_to(port) == 1
                    # Nobody answers the goodbye of TLS now.
                    proxy.stall()
                    task.cancel()
            assert connections_to(port) == 0

    run(work())


def connections_to(port: int) -> int:
    """How many established connections there are to this port of the loopback address."""
    rows = [row.split() for row in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    return sum(row[2].endswith(f":{port:04X}") and row[3] == "01" for row in rows)


def stream_of(*pieces: bytes) -> tuple[list[bytes], BaseException | None]:
    """The lines that come out of a stream that is sent in these pieces, and how it ended."""

    async def write(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
        return response

    async def work() -> tuple[list[bytes], BaseException | None]:
        found: list[bytes] = []
        app = web.Application()
        app.router.add_get("/{path:.*}", write)
        async with serving(app) as url, Transport(Cluster(server=url)) as transport:
            try:
                async with aclosing(transport.lines(listing(PODS))) as lines:
                    async for line in lines:
                        found += [line]
            except ConnectionFailedError as error:
                return found, error
        return found, None

    return run(work())


def test_a_stream_is_cut_into_lines() -> None:
    long = b"x" * (LINE_BYTES_MAX - 1)
    assert stream_of(b"a\nb", b"c\n\n", long, b"\nhalf") == ([b"a", b"bc", long], None)


def test_a_line_without_end_is_given_up() -> None:
    found, error = stream_of(b"a\n", b"x" * (LINE_BYTES_MAX + 1))
    assert found == [b"a"]
    assert f"longer than {LINE_BYTES_MAX} bytes" in str(error)


def test_a_redirect_is_not_followed() -> None:
    answer, _, seen = patiently(get(PODS, "n", "p"), failing(307, Location="/elsewhere"))
    assert isinstance(answer, Answer)
    assert (answer.status, len(seen)) == (307, 1)


# Which cluster, and who we are


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An environment that says nothing about a cluster; gives its empty home folder."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", *PROXIES):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


def kubeconfig(path: Path, **sections: Any) -> Path:
    """A kubeconfig with one cluster, user and context `dev`; sections replace those."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "dev", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "dev", "user": {"token": SECRET}}],
        "contexts": [{"name": "dev", "context": {"cluster": "dev", "user": "dev"}}],
        "current-context": "dev",
        **{name.replace("_", "-"): section for name, section in sections.items()},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document))
    return path


def user(**fields: Any) -> list[dict[str, Any]]:
    named = {name.replace("_", "-"): value for name, value in fields.items()}
    return [{"name": "dev", "user": named}]


def at(server: str, **fields: Any) -> list[dict[str, Any]]:
    named = {name.replace("_", "-"): value for name, value in fields.items()}
    return [{"name": "dev", "cluster": {"server": server, **named}}]


def test_no_cluster_says_where_it_was_looked_for(nowhere: Path, tmp_path: Path) -> None:
    with pytest.raises(NoClusterError) as caught:
        cluster_of(service_account=tmp_path)
    assert str(caught.value) == (
        "no cluster: no kubeconfig was named, $KUBECONFIG is not set, this is not a pod with a"
        f" service account ($KUBERNETES_SERVICE_HOST and {tmp_path}/token), and there is no"
        f" {nowhere}/.kube/config; name a file with --kubeconfig or set $KUBECONFIG"
    )


def test_the_order_of_places(
    nowhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def server(explicit: Path | None = None, context: str | None = None) -> str:
        return cluster_of(explicit, context, service_account=tmp_path / "sa").server

    kubeconfig(nowhere / ".kube" / "config", clusters=at("https://home"))
    assert server() == "https://home"
    (tmp_path / "sa").mkdir()
    (tmp_path / "sa" / "token").write_text("t")
    (tmp_path / "sa" / "ca.crt").write_text("")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    assert server() == "https://[fd00::1]:443"
    assert server(context="dev") == "https://home"
    listed = kubeconfig(tmp_path / "listed", clusters=at("https://listed"))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/absent:{listed}:")
    assert server() == "https://listed"
    named = kubeconfig(tmp_path / "named", clusters=at("https://named"))
    assert server(named) == "https://named"
    with pytest.raises(NoClusterError, match=r"absent: there is no such file"):
        server(tmp_path / "absent")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    with pytest.raises(NoClusterError, match=r"^\$KUBECONFIG is .*/absent, and there is no such"):
        server()


def test_files_are_merged_and_the_first_wins(
    control_plane: ControlPlane, nowhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane = control_plane
    first = tmp_path / "one" / "config"
    kubeconfig(
        first,
        clusters=None,
        users=user(client_certificate="admin.crt", client_key="keys/admin.key"),
        contexts=[
            {"name": "dev", "context": {"cluster": "dev", "user": "dev", "namespace": "ours"}}
        ],
        current_context="",
    )
    # Relative to the file they are named in, not to where we are.
    (first.parent / "admin.crt").write_bytes(plane.cert.read_bytes())
    (first.parent / "keys").mkdir()
    (first.parent / "keys" / "admin.key").write_bytes(plane.key.read_bytes())
    second = kubeconfig(
        tmp_path / "two" / "config",
        clusters=at(plane.url, certificate_authority=str(plane.ca)),
        users=user(token="wrong"),
    )
    monkeypatch.setenv("KUBECONFIG", f"{first}{os.pathsep}{second}")
    where = cluster_of()
    assert (where.server, where.namespace) == (plane.url, "ours")
    assert where.source == f"context 'dev' of {first} and {second}"
    assert username(where) == username(cluster(plane))


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        pytest.param(
            {"current_context": ""},
            "current-context is not set; name a context (dev) or run",
            id="no context",
        ),
        pytest.param(
            {"current_context": "prod"}, "there is no context 'prod'; there is dev", id="wrong one"
        ),
        pytest.param(
            {"clusters": None},
            "context 'dev': cluster 'dev' is not in the file; there is none",
            id="no cluster",
        ),
        pytest.param({"users": None}, "context 'dev': user 'dev' is not in", id="no user"),
        pytest.param({"clusters": at("")}, "cluster 'dev': server is missing", id="no server"),
        pytest.param({"clusters": at("127.0.0.1:1")}, "must look like https://", id="no URL"),
        pytest.param(
            {"clusters": at(f"https://me:{SECRET}@host")}, "has a user name in it", id="login in it"
        ),
        pytest.param(
            {"clusters": at(f"https://me:{SECRET}@[host")}, "is not the URL", id="broken URL"
        ),
        pytest.param(
            {"clusters": at("https://h", proxy_url=f"ftp://me:{SECRET}@p")},
            "proxy-url has a scheme that is not supported; it must be one of http, https, socks5",
            id="proxy",
        ),
        pytest.param(
            {"clusters": at("https://h", certificate_authority="absent.crt")},
            "absent.crt can't be read (No such file",
            id="no CA",
        ),
        pytest.param(
            {
                "clusters": at(
                    "https://h", insecure_skip_tls_verify=True, certificate_authority_data="YQ=="
                )
            },
            "exclude each other; remove one",
            id="insecure with CA",
        ),
        pytest.param(
            {"users": user(client_key_data=f"{SECRET}!")},
            "user 'dev': client-key-data is not base64",
            id="no base64",
        ),
        pytest.param(
            {"users": user(client_key_data="YQ==")},
            "there is a client-key without a client-certificate; set both",
            id="key alone",
        ),
        pytest.param(
            {"users": user(client_certificate_data="YQ==")},
            "there is a client-certificate without a client-key; set both",
            id="certificate alone",
        ),
        pytest.param(
            {"users": user(token=SECRET, **{"as": "root"})}, "as (impersonation)", id="as"
        ),
        pytest.param(
            {"users": user(username="me", password=SECRET)}, "username and password", id="password"
        ),
        pytest.param(
            {"users": user(auth_provider={"name": "gcp"})}, "use a plugin", id="auth-provider"
        ),
        pytest.param({"users": user(token=5)}, "Expected `str", id="a token that is a number"),
        pytest.param(
            {"users": user(exec={"command": "x", "apiVersion": "v1"})},
            "exec.apiVersion is 'v1'; must be one of client.authentication.k8s.io/v1,",
            id="unknown protocol",
        ),
        pytest.param(
            {
                "users": user(
                    exec={
                        "command": "x",
                        "apiVersion": "client.authentication.k8s.io/v1",
                        "interactiveMode": "Always",
                    }
                )
            },
            "interactiveMode is Always",
            id="wants a terminal",
        ),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_says_why(
    tmp_path: Path, sections: dict[str, Any], message: str
) -> None:
    path = kubeconfig(tmp_path / "config", **sections)
    with pytest.raises(ClusterError) as caught:
        cluster_of(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "text", [f"token: *{SECRET}", f"token: '{SECRET}", f"- {SECRET}", SECRET, "\x00", "a: [" * 2000]
)
def test_a_kubeconfig_that_cannot_be_read_keeps_its_secrets(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(KubeconfigError) as caught:
        cluster_of(path)
    assert str(path) in str(caught.value)
    error: BaseException | None = caught.value
    while error is not None:
        assert SECRET not in str(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def test_no_secret_is_shown(tmp_path: Path) -> None:
    secret = base64.b64encode(SECRET.encode()).decode()
    plugin = {
        "command": "login",
        "args": [SECRET],
        "env": [{"name": "A", "value": SECRET}],
        "apiVersion": "client.authentication.k8s.io/v1",
    }
    users = user(token=SECRET, exec=plugin, client_key_data=secret, client_certificate_data=secret)
    where = cluster_of(kubeconfig(tmp_path / "config", users=users))
    assert where.credentials.token == SECRET
    assert where.credentials.certificate == Certificate(SECRET.encode(), SECRET.encode())
    assert SECRET not in f"{where!r} {where}"
    assert repr(where.credentials) == (
        "Credentials(token=…, certificate=Certificate(…), plugin=Plugin('login', …))"
    )


def token_of(kubectl: Kubectl) -> str:
    """A real token of the default service account of the test's namespace."""
    return kubectl("create", "token", "default").stdout.strip()


def test_a_pod_speaks_as_its_service_account(
    controllers: ControlPlane,
    kubectl: Kubectl,
    namespace: str,
    nowhere: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    token = token_of(kubectl)
    (folder / "token").write_text(f"{token}\n")
    (folder / "ca.crt").write_bytes(controllers.ca.read_bytes())
    (folder / "namespace").write_text(namespace)
    url = urlsplit(controllers.url)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", str(url.hostname))
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(url.port))
    where = cluster_of(service_account=folder)
    assert (where.namespace, where.source) == (namespace, "the pod's service account")
    assert token not in repr(where)
    account = f"system:serviceaccount:{namespace}:default"

    async def work() -> None:
        async with Transport(where) as transport:
            assert await asked(transport) == account
            # It is read at most once a minute ...
            (folder / "token").write_text("another")
            assert await asked(transport) == account
            # ... and then what is there counts; a file that is gone for a moment doesn't.
            monkeypatch.setattr(login, "TOKEN_FILE_SECONDS", 0.0)
            assert await asked(transport) == "401"
            (folder / "token").write_text(token)
            assert await asked(transport) == account
            (folder / "token").unlink()
            assert await asked(transport) == account

    run(work())


def test_a_refused_token_is_read_again_at_once(
    controllers: ControlPlane, kubectl: Kubectl, namespace: str, tmp_path: Path
) -> None:
    path = tmp_path / "token"
    path.write_text("stale")
    where = cluster(controllers, credentials=Credentials(token_file=path))
    seen: list[int] = []

    async def work() -> str:
        def observe(verb: str, code: int, seconds: float) -> None:
            seen.append(code)
            # Renewed between our reading it and the server's refusal.
            path.write_text(token)

        token = token_of(kubectl)
        async with Transport(where, observe=observe) as transport:
            return await asked(transport)

    assert run(work()) == f"system:serviceaccount:{namespace}:default"
    assert seen == [401, 201]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(None, "can't be read (No such file or directory); check what", id="absent"),
        pytest.param(" \n", "is empty; it must hold a bearer token", id="empty"),
        pytest.param(f"{SECRET}\n{SECRET}", "can't be a bearer token", id="two lines"),
        pytest.param(f"{SECRET}ü", "can't be a bearer token", id="not ASCII"),
    ],
)
def test_a_token_file_that_cannot_be_used(
    tmp_path: Path, content: str | None, message: str
) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content)
    where = Cluster(server=NOBODY, credentials=Credentials(token_file=path))
    with pytest.raises(CredentialsError) as caught:
        username(where)
    assert message in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("trust", "certificate", "message"),
    [
        pytest.param(Trust(authorities=b"x"), None, "certificate-authority holds no", id="CA"),
        pytest.param(
            Trust(), Certificate(b"x", SECRET.encode()), "must not be encrypted", id="certificate"
        ),
    ],
)
def test_certificates_that_are_none(
    trust: Trust, certificate: Certificate | None, message: str
) -> None:
    credentials = Credentials(certificate=certificate)
    where = Cluster(server="https://127.0.0.1:1", trust=trust, credentials=credentials, source="S")
    with pytest.raises(ClusterError) as caught:
        username(where)
    assert str(caught.value).startswith("S: ")
    assert message in str(caught.value)
    assert SECRET not in str(caught.value)


# Login plugins


V1 = "client.authentication.k8s.io/v1"


def credential(api_version: str = V1, **status: str) -> str:
    return json.dumps({"apiVersion": api_version, "kind": "ExecCredential", "status": status})


def plugin_cluster(
    plane: ControlPlane, folder: Path, script: str, api_version: str = V1, **more: Any
) -> Cluster:
    """The rig's cluster, with a shell script in place of the admin's certificate."""
    command = folder / "login.sh"
    command.write_text(f"#!/bin/sh\necho run >> '{folder}/calls'\n{script}\n")
    command.chmod(stat.S_IRWXU)
    part = {
        # Relative to the kubeconfig.
        "command": "./login.sh",
        "apiVersion": api_version,
        "interactiveMode": "Never",
        **more,
    }
    ca = base64.b64encode(plane.ca.read_bytes()).decode()
    path = kubeconfig(
        folder / "config",
        clusters=at(plane.url, certificate_authority_data=ca),
        users=user(exec=part),
    )
    return cluster_of(path)


def calls(folder: Path) -> int:
    return (folder / "calls").read_text().count("run")


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_plugin_gives_a_certificate(
    control_plane: ControlPlane, tmp_path: Path, version: str
) -> None:
    plane, api_version = control_plane, f"client.authentication.k8s.io/{version}"
    answer = tmp_path / "answer.json"
    answer.write_text(
        credential(
            api_version,
            clientCertificateData=plane.cert.read_text(),
            clientKeyData=plane.key.read_text(),
        )
    )
    script = f'echo "$KUBERNETES_EXEC_INFO" > "$1"; test "$A" = b && cat \'{answer}\''
    where = plugin_cluster(
        plane,
        tmp_path,
        script,
        api_version,
        args=[str(tmp_path / "info.json")],
        env=[{"name": "A", "value": "b"}],
        provideClusterInfo=True,
    )

    async def work() -> list[str]:
        async with Transport(where) as transport:
            return await asyncio.gather(*(asked(transport) for _ in range(10)))

    assert set(run(work())) == {username(cluster(plane))}
    # However many requests there are, one of them runs it.
    assert calls(tmp_path) == 1
    ca = base64.b64encode(plane.ca.read_bytes()).decode()
    assert json.loads((tmp_path / "info.json").read_text()) == {
        "apiVersion": api_version,
        "kind": "ExecCredential",
        "spec": {
            "interactive": False,
            "cluster": {"server": plane.url, "certificate-authority-data": ca},
        },
    }


def test_a_plugin_is_asked_again_when_its_token_is_refused(
    controllers: ControlPlane, kubectl: Kubectl, namespace: str, tmp_path: Path
) -> None:
    (tmp_path / "1.json").write_text(credential(token="stale"))
    (tmp_path / "2.json").write_text(credential(token=token_of(kubectl)))
    (tmp_path / "3.json").write_text(credential(token="stale"))
    script = f"cat '{tmp_path}'/$(wc -l < '{tmp_path}/calls').json"
    where = plugin_cluster(controllers, tmp_path, script)
    assert username(where) == f"system:serviceaccount:{namespace}:default"
    assert calls(tmp_path) == 2


def test_a_plugin_whose_tokens_are_all_refused_is_not_run_for_each_request(
    control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However long the requests take.
    monkeypatch.setattr(login, "REFUSAL_PAUSE_SECONDS", 3600.0)
    where = plugin_cluster(control_plane, tmp_path, f"echo '{credential(token='stale')}'")

    async def work() -> list[str]:
        async with Transport(where) as transport:
            return [await asked(transport) for _ in range(5)]

    assert run(work()) == ["401"] * 5
    assert calls(tmp_path) == 2


@pytest.mark.parametrize(
    ("expires", "count"),
    [
        pytest.param("2001-01-01T00:00:00Z", 3, id="expired"),
        pytest.param("2999-01-01T00:00:00+02:00", 1, id="good for long"),
    ],
)
def test_a_plugin_is_asked_again_when_its_token_expires(
    controllers: ControlPlane, kubectl: Kubectl, tmp_path: Path, expires: str, count: int
) -> None:
    answer = credential(token=token_of(kubectl), expirationTimestamp=expires)
    where = plugin_cluster(controllers, tmp_path, f"echo '{answer}'")

    async def work() -> None:
        async with Transport(where) as transport:
            for _ in range(3):
                assert await asked(transport) != "401"

    run(work())
    assert calls(tmp_path) == count


@pytest.mark.parametrize(
    ("script", "message"),
    [
        pytest.param("echo please log in >&2; exit 3", "ended with 3: please log in", id="fails"),
        pytest.param(f"echo {SECRET}", "something else than an ExecCredential", id="no JSON"),
        pytest.param(
            f"echo '{credential('client.authentication.k8s.io/v1beta1', token=SECRET)}'",
            "printed a ExecCredential of client.authentication.k8s.io/v1beta1; must be",
            id="another version",
        ),
        pytest.param(f"echo '{credential()}'", "neither a token nor a certificate", id="nothing"),
        pytest.param(
            f"echo '{credential(clientKeyData=SECRET)}'", "a key without one", id="half a pair"
        ),
        pytest.param(f"echo '{credential(token=SECRET + ' x')}'", "can't be a bearer", id="bad"),
    ],
)
def test_a_plugin_that_gives_nothing_usable(
    control_plane: ControlPlane, tmp_path: Path, script: str, message: str
) -> None:
    where = plugin_cluster(control_plane, tmp_path, script)
    with pytest.raises(CredentialsError) as caught:
        username(where)
    assert str(caught.value).startswith(f"login plugin {tmp_path}/login.sh")
    assert message in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_plugin_that_is_not_installed(control_plane: ControlPlane, tmp_path: Path) -> None:
    where = plugin_cluster(control_plane, tmp_path, "", installHint="Get it from the admin.")
    (tmp_path / "login.sh").unlink()
    with pytest.raises(CredentialsError, match=r"can't be run \(No such .*\); Get it from the"):
        username(where)


def test_a_plugin_that_hangs_is_ended(
    control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = asyncio.create_subprocess_exec
    started: list[asyncio.subprocess.Process] = []

    async def noted(*words: str, **how: Any) -> asyncio.subprocess.Process:
        started.append(await start(*words, **how))
        return started[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", noted)
    monkeypatch.setattr(plugins, "PLUGIN_SECONDS_MAX", 0.5)
    where = plugin_cluster(control_plane, tmp_path, "exec sleep 60")
    with pytest.raises(CredentialsError, match="hasn't ended after"):
        username(where)
    assert [process.returncode for process in started] == [-signal.SIGKILL]


def test_paths_need_what_they_name() -> None:
    with pytest.raises(AssertionError, match="a namespace is missing"):
        get(PODS, "", "p")
    with pytest.raises(AssertionError, match="Node has no namespace"):
        get(NODES, "n", "p")
    with pytest.raises(AssertionError, match="is not the name of an object"):
        get(PODS, "n", "..")
    assert Resource("", "v1", "pods", "Pod") == PODS
