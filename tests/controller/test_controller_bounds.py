"""What tenants make the controller read, build or wait for has bounds: each of them alone."""

from __future__ import annotations

import asyncio
import json
import logging
import tracemalloc
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec
import pytest
from aiohttp import web
from plan.deciding.job_world import World as JobWorld
from rig import job_manifests
from rig.waiting import run, until

from controller.hostile_objects import packed, taskset
from jobyard.api.crd import schema_node
from jobyard.api.kinds import kind_of
from jobyard.client.credentials.cluster import Cluster
from jobyard.client.errors import ConnectionFailedError, RefusedError, TooLargeError
from jobyard.client.request import (
    CONFIG_MAPS,
    PODS,
    Answer,
    Cause,
    Problem,
    Request,
    get,
)
from jobyard.client.sender import Sender
from jobyard.client.transport import Transport
from jobyard.client.watching import PAGE_BYTES_MAX, PAGE_LIMIT, Watched, follow
from jobyard.controller.asking import ANSWER_BYTES_MAX, PAUSE_SECONDS, SLOTS, Asking
from jobyard.controller.creating import MESSAGE_LENGTH_MAX, STILL_THERE, Creating
from jobyard.controller.notes import Notes
from jobyard.controller.performing import Outcome, Performer, UnsendableError, as_it_is
from jobyard.controller.records import JobKey, JobRecord
from jobyard.controller.refusals import LENGTH_MAX, brief
from jobyard.controller.world import World
from jobyard.plan.facts.decision import INVALID_TEMPLATE, NAME_TAKEN, Observed, Obstacle, Plan
from jobyard.plan.lowering.table import described
from jobyard.plan.objects.manifests import Manifests
from jobyard.plan.objects.pods import Replica, replica_pod
from jobyard.plan.table import decisions_of
from jobyard.schema.admission import admitted

T = TypeVar("T")
JSON = dict[str, Any]
MIB = 2**20


# What is read of an answer


@asynccontextmanager
async def answering(
    answer: Callable[[web.Request], Awaitable[web.StreamResponse]],
) -> AsyncIterator[Transport]:
    """A transport to a server that answers everything in this way."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        where = Cluster(server=f"http://127.0.0.1:{runner.addresses[0][1]}")
        async with Transport(where) as transport:
            yield transport
    finally:
        await runner.cleanup()


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(status=int(request.query.get("status", "200")))
    await response.prepare(request)
    try:
        while True:
            await response.write(b"x" * 2**16)
    except ConnectionError:
        return response


def of_at_most(bytes_max: int | None, path: str = "/api/v1/x") -> Request:
    return Request(method="GET", path=path, answer_bytes_max=bytes_max)


@pytest.mark.parametrize("status", [200, 500])
def test_an_endless_answer_is_given_up(status: int) -> None:
    async def story() -> None:
        async with answering(endless) as transport:
            query = (("status", str(status)),)
            request = msgspec.structs.replace(of_at_most(MIB), query=query)
            with pytest.raises(TooLargeError, match="more than 1048576 bytes"):
                await transport.send(request)

    run(story())


def test_an_endless_refusal_of_a_stream_is_given_up() -> None:
    async def story() -> None:
        async with answering(endless) as transport:
            request = Request(method="GET", path="/api/v1/x", query=(("status", "500"),))
            with pytest.raises(RefusedError):
                await anext(transport.lines(request))

    run(story())


@pytest.mark.parametrize("size", [0, 1, MIB - 1, MIB])
def test_an_answer_within_its_bound_is_whole(size: int) -> None:
    async def sized(_: web.Request) -> web.StreamResponse:
        return web.Response(body=b"x" * size)

    async def story() -> None:
        async with answering(sized) as transport:
            for _ in range(3):
                assert (await transport.send(of_at_most(MIB))).body == b"x" * size

    run(story())


def test_a_packed_answer_is_not_unpacked() -> None:
    """Nobody asked for it; what a user's program packs could be any number of bytes."""

    async def bomb(_: web.Request) -> web.StreamResponse:
        return web.Response(body=packed(), headers={"Content-Encoding": "gzip"})

    async def story() -> None:
        async with answering(bomb) as transport:
            answer = await transport.send(of_at_most(4 * MIB))
            assert answer.body == packed()

    run(story())


class Pages:
    """A server whose pages are as long as their objects are many, each of a mebibyte."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.limits: list[int] = []

    async def send(self, request: Request) -> Answer:
        query = dict(request.query)
        first, limit = int(query.get("continue", "0")), int(query["limit"])
        self.limits.append(limit)
        names = range(first, min(first + limit, self._count))
        assert request.answer_bytes_max == PAGE_BYTES_MAX
        if len(names) * MIB > PAGE_BYTES_MAX:
            raise TooLargeError(str(request), PAGE_BYTES_MAX)
        more = str(names.stop) if names.stop < self._count else ""
        items = [{"metadata": {"name": str(n), "resourceVersion": "1"}} for n in names]
        page = {"metadata": {"resourceVersion": "5", "continue": more}, "items": items}
        return Answer(200, json.dumps(page).encode())

    async def lines(self, request: Request) -> AsyncGenerator[bytes, None]:
        await asyncio.Event().wait()
        yield b""

    def chunks(self, request: Request) -> AsyncGenerator[bytes, None]:
        return self.lines(request)


class Sink:
    """Hears of the first list."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.listed = asyncio.Event()

    def replaced(self, items: Sequence[str], resource_version: str) -> None:
        self.names = [*items]
        self.listed.set()

    def changed(self, obj: str) -> None: ...

    def removed(self, obj: str) -> None: ...

    def reached(self, resource_version: str) -> None: ...


def test_a_page_of_large_objects_has_fewer_of_them() -> None:
    async def story() -> None:
        server, sink = Pages(200), Sink()
        task = asyncio.create_task(
            follow(
                server,
                Watched(resource=CONFIG_MAPS),
                lambda raw: str(json.loads(raw)["metadata"]["name"]),
                sink,
            )
        )
        await sink.listed.wait()
        task.cancel()
        await asyncio.wait([task])
        assert sink.names == [str(n) for n in range(200)]
        assert server.limits[0] == PAGE_LIMIT
        assert set(server.limits[3:]) == {PAGE_LIMIT // 4 // 4}

    run(story())


# What users' programs are asked


class Programs:
    """Programs in pods: each answers when it is told to, if ever."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.answers: dict[str, asyncio.Future[Answer]] = {}

    async def send(self, request: Request) -> Answer:
        self.asked.append(request)
        future = self.answers.setdefault(request.path, asyncio.get_running_loop().create_future())
        return await future

    async def lines(self, request: Request) -> AsyncGenerator[bytes, None]:
        raise AssertionError(f"{request}: nothing is watched here")
        yield b""

    def chunks(self, request: Request) -> AsyncGenerator[bytes, None]:
        return self.lines(request)


def key(namespace: str, n: int) -> JobKey:
    return JobKey("BeamJob", namespace, f"job-{n}")


def page(namespace: str, n: int) -> Request:
    return get(PODS, namespace, f"job-{n}")


@asynccontextmanager
async def asking(sender: Sender) -> AsyncIterator[Asking]:
    subject = Asking(sender, lambda key: key.namespace)
    task = asyncio.create_task(subject.run())
    # It takes questions from its first step on.
    await until(lambda: _holds(subject._tasks is not None))
    try:
        yield subject
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _holds(it: bool) -> bool:
    return it


def test_a_job_is_asked_beside_its_passes_and_once_at_a_time() -> None:
    async def story() -> None:
        programs, got = Programs(), asyncio.Queue[bytes | None]()
        async with asking(programs) as subject:
            for _ in range(3):
                subject.ask(key("a", 1), page("a", 1), got.put_nowait)
            await until(lambda: _holds(bool(programs.asked)))
            assert [request.answer_bytes_max for request in programs.asked] == [ANSWER_BYTES_MAX]
            programs.answers[page("a", 1).path].set_result(Answer(200, b"{}"))
            assert await got.get() == b"{}"
            subject.ask(key("a", 1), page("a", 1), got.put_nowait)
            assert len(programs.asked) == 1, "not again at once"

            async def asked_again() -> bool:
                subject.ask(key("a", 1), page("a", 1), got.put_nowait)
                return len(programs.asked) == 2

            begun = asyncio.get_running_loop().time()
            await until(asked_again)
            assert asyncio.get_running_loop().time() - begun > PAUSE_SECONDS / 2

    run(story())


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(Answer(404, b"{}"), id="not there"),
        pytest.param(Answer(500, b"x" * 100), id="a fault"),
        pytest.param(ConnectionFailedError("s", "it broke", "try again"), id="broken"),
        pytest.param(TooLargeError("s", 1), id="too long"),
    ],
)
def test_what_is_no_answer_is_none(answer: Answer | Exception) -> None:
    async def story() -> None:
        programs, got = Programs(), asyncio.Queue[bytes | None]()
        async with asking(programs) as subject:
            subject.ask(key("a", 1), page("a", 1), got.put_nowait)
            await until(lambda: _holds(bool(programs.asked)))
            future = programs.answers[page("a", 1).path]
            if isinstance(answer, Answer):
                future.set_result(answer)
            else:
                future.set_exception(answer)
            assert await got.get() is None

    run(story())


def test_programs_that_never_answer_are_given_up_and_hold_up_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("jobyard.controller.asking.ANSWER_SECONDS", 0.3)

    async def story() -> None:
        programs, got = Programs(), asyncio.Queue[bytes | None]()
        async with asking(programs) as subject:
            for n in range(17):
                subject.ask(key("slow", n), page("slow", n), got.put_nowait)
            await until(lambda: _holds(bool(programs.asked)))
            assert len(programs.asked) <= SLOTS // 3
            subject.ask(key("quiet", 0), page("quiet", 0), got.put_nowait)
            # At once, and not after those that wait already.
            await until(lambda: _holds(programs.asked[-1].path == page("quiet", 0).path))
            assert len(programs.asked) < 17
            programs.answers[page("quiet", 0).path].set_result(Answer(200, b"here"))
            found = [await got.get() for _ in range(18)]
            assert found.count(None) == 17
            assert b"here" in found

    run(story())


def test_an_answer_that_makes_us_stumble_stops_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        programs, got = Programs(), asyncio.Queue[bytes | None]()

        def stumble(_: bytes | None) -> None:
            raise LookupError("a fault of ours")

        async with asking(programs) as subject:
            subject.ask(key("a", 1), page("a", 1), stumble)
            subject.ask(key("a", 2), page("a", 2), got.put_nowait)
            await until(lambda: _holds(len(programs.asked) == 2))
            for n in (1, 2):
                programs.answers[page("a", n).path].set_result(Answer(200, b"{}"))
            assert await got.get() == b"{}"

    run(story())
    assert "a fault of ours" in caplog.text


BEAM = job_manifests.beam(1)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b'{"jobs": ' + b"[" * 100_000, id="deep"),
        pytest.param(b'{"jobs": [{"jid": "' + b"j" * 200 + b'"}]}', id="long"),
        pytest.param(b'{"jobs": [{"jid": "a\\nb"}]}', id="two lines"),
        pytest.param(b'{"jobs": [{"jid": "../../x?y"}]}', id="another place"),
        pytest.param(b'{"jobs": [{"jid": ""}]}', id="nothing"),
        pytest.param(b'{"jobs": [{"jid": "\xff"}]}', id="no text"),
        pytest.param(b'{"jobs": [{"jid": 5}]}', id="a number"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b"", id="empty"),
    ],
)
def test_a_link_is_made_of_an_id_and_of_nothing_else(answer: bytes) -> None:
    kind = kind_of(BEAM["apiVersion"], BEAM["kind"])
    assert kind is not None
    description = described(kind, admitted(BEAM, schema_node(kind)).value)
    assert description is not None
    assert description.page is not None
    url = description.page.url
    root = url(None)
    assert url(answer) == root
    assert url(b'{"jobs": [{"jid": "0a1b"}]}') != root


# What is built and kept


def record_of(manifest: JSON, uid: str = "mine") -> tuple[World, Notes, JobRecord]:
    kind = kind_of(manifest["apiVersion"], manifest["kind"])
    assert kind is not None
    value = admitted(manifest, schema_node(kind)).value
    value["metadata"] |= {"namespace": "default", "uid": uid, "resourceVersion": "1"}
    world, notes = World(lambda _: None), Notes()
    return world, notes, world.decode_job[kind.name](json.dumps(value).encode())


class Server:
    """Takes what it is sent, or says what it is told to."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.requests: list[Request] = []

    async def __call__(
        self, _: JobKey, requests: Sequence[Request], take: Callable[[int, Outcome], T], /
    ) -> Sequence[T]:
        taken = []
        for n in range(len(requests)):
            try:
                request = requests[n]
            except UnsendableError:
                taken.append(take(n, None))
                continue
            self.requests.append(request)
            answer = self._answers.pop(0) if self._answers else _made(request)
            taken.append(take(n, answer))
        return taken


def _made(request: Request) -> Answer:
    return Answer(201, request.body or b"{}")


def refusal(status: int, message: str) -> Answer:
    said = {"kind": "Status", "code": status, "message": message, "reason": "Invalid"}
    return Answer(status, json.dumps(said).encode())


def pods_of(record: JobRecord, notes: Notes) -> Manifests:
    description = notes.lowered(record).description
    (role,) = description.roles
    replicas = [Replica(role=role, rank=rank) for rank in range(role.replicas)]
    return Manifests(
        {
            ("Pod", replica.name_in(description)): lambda replica=replica: replica_pod(
                description, replica
            )
            for replica in replicas
        }
    )


def test_a_template_that_is_refused_costs_a_few_calls_and_not_thousands() -> None:
    world, notes, record = record_of(job_manifests.generic({"worker": 5000}))
    server = Server(*[refusal(422, "no")] * 4)
    creating = Creating(record, notes.of(record), world, server)
    assert asyncio.run(creating.make(pods_of(record, notes))) is False
    assert len(server.requests) == 4


def test_what_is_refused_at_length_is_kept_in_short() -> None:
    world, notes, record = record_of(job_manifests.generic({"worker": 4}))
    server = Server(*[refusal(422, "no" * MIB)] * 4)
    asyncio.run(Creating(record, notes.of(record), world, server).make(pods_of(record, notes)))
    lengths = {len(obstacle.message) for obstacle in notes.of(record).obstacles.values()}
    assert lengths == {MESSAGE_LENGTH_MAX}


def test_a_pod_larger_than_a_request_may_be_is_not_sent_and_told_of() -> None:
    job = job_manifests.generic({"worker": 2})
    container = job["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]
    container["args"] = ["x" * 100_000] * 40
    world, notes, record = record_of(job)
    server = Server()
    note = notes.of(record)
    creating = Creating(record, note, world, server)
    assert asyncio.run(creating.probe(pods_of(record, notes))) is False
    assert server.requests == []
    (first, _) = note.obstacles.values()
    assert first.reason == INVALID_TEMPLATE
    assert "an API server takes 3145728" in first.message


def test_what_etcd_would_not_store_stays_so_although_a_dry_run_takes_it() -> None:
    world, notes, record = record_of(job_manifests.generic({"worker": 1}))
    note = notes.of(record)
    server = Server(refusal(500, "etcdserver: request is too large"))
    creating = Creating(record, note, world, server)
    assert asyncio.run(creating.make(pods_of(record, notes))) is False
    (obstacle,) = note.obstacles.values()
    assert (obstacle.reason, obstacle.may_pass) == (INVALID_TEMPLATE, False)
    assert asyncio.run(creating.probe(pods_of(record, notes))) is False
    assert len(note.obstacles) == 1
    assert not note.is_probed


def test_an_error_of_the_server_is_no_fault_of_the_template() -> None:
    world, notes, record = record_of(job_manifests.generic({"worker": 1}))
    creating = Creating(record, notes.of(record), world, Server(refusal(500, "etcd is away")))
    assert asyncio.run(creating.make(pods_of(record, notes))) is False
    assert notes.of(record).obstacles == {}


def holder(**owner: Any) -> Answer:
    reference = {"controller": True, "blockOwnerDeletion": True, **owner}
    metadata = {"name": "job-worker-0", "uid": "p", "ownerReferences": [reference]}
    return Answer(200, json.dumps({"metadata": metadata}).encode())


OWN_KIND = {"apiVersion": "batch.tensorstack.dev/v1beta1", "kind": "GenericJob"}


@pytest.mark.parametrize(
    ("owner", "reason"),
    [
        pytest.param({**OWN_KIND, "name": "job", "uid": "old"}, STILL_THERE, id="made again"),
        pytest.param({**OWN_KIND, "name": "other", "uid": "x"}, NAME_TAKEN, id="another job"),
        pytest.param(
            {**OWN_KIND, "apiVersion": "kubeflow.org/v1", "name": "job", "uid": "x"},
            NAME_TAKEN,
            id="a kind of that name from elsewhere",
        ),
        pytest.param(
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "job", "uid": "x"},
            NAME_TAKEN,
            id="somebody else",
        ),
    ],
)
def test_a_job_made_again_waits_for_the_pods_of_its_name(
    owner: dict[str, str], reason: str
) -> None:
    """It was told to delete what its own predecessor had left, which goes by itself."""
    world, notes, record = record_of(job_manifests.generic({"worker": 1}))
    server = Server(refusal(409, "it exists"), holder(**owner))
    note = notes.of(record)
    assert asyncio.run(Creating(record, note, world, server).make(pods_of(record, notes))) is False
    (obstacle,) = note.obstacles.values()
    assert obstacle.reason == reason
    assert ("delete" in obstacle.message) == (reason == NAME_TAKEN)


def test_a_taskset_made_again_waits_for_the_pods_of_its_unit() -> None:
    """Its pods belong to a config map, which has the same name each time."""
    world, notes, record = record_of(taskset("t"))
    unit = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c-t-0", "controller": True}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "t-worker-0-0-0", "ownerReferences": [{**unit, "uid": "new"}]},
        "spec": {},
    }
    server = Server(refusal(409, "it exists"), holder(**{**unit, "uid": "old"}))
    note = notes.of(record)
    assert asyncio.run(Creating(record, note, world, server).make([pod])) is False
    (obstacle,) = note.obstacles.values()
    assert obstacle.reason == STILL_THERE


def traced(act: Callable[[], T]) -> tuple[T, int]:
    """What it comes to, and the most memory that it held."""
    tracemalloc.start()
    try:
        result = act()
        return result, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_plan_of_thousands_of_pods_holds_none_of_them() -> None:
    """Each names all others: built together they would be a hundred megabytes and more."""
    job = job_manifests.tensorflow({"worker": 1000})
    job["metadata"]["name"] = "n" * 50
    world = JobWorld(job)
    while not world.is_probed:
        world.step()
    plan, most = traced(world.decide)
    assert len(plan.pods) == 1000
    assert len(json.dumps(plan.pods[999])) > 120_000
    assert most < 20_000_000


def test_a_job_whose_names_are_all_taken_has_its_probes_built_one_by_one() -> None:
    job = job_manifests.tensorflow({"worker": 1000})
    job["metadata"]["name"] = "n" * 50
    world = JobWorld(job)
    world.settle()
    seen = msgspec.structs.replace(world.seen, pods=(), is_probed=False)
    name = job["metadata"]["name"]
    taken = {
        ("Pod", f"{name}-worker-{rank}"): Obstacle(NAME_TAKEN, "taken") for rank in range(1000)
    }
    seen = msgspec.structs.replace(seen, obstacles=taken, status=None)
    plan, most = traced(lambda: decided(seen, world))
    assert len(plan.probes) == 1000
    assert most < 20_000_000


def decided(seen: Observed, world: JobWorld) -> Plan:
    return decisions_of(world.kind).decide(seen, world.now, None)


def test_services_of_thousands_of_replicas_are_not_kept() -> None:
    ports = [{"name": f"p{n}", "port": n + 1, "targetPort": n + 2} for n in range(32)]
    job = job_manifests.generic({"worker": 5000}, service={"ports": ports})
    _, notes, record = record_of(job)
    notes.lowered(record)
    tracemalloc.start()
    try:
        _, fresh_notes, fresh = record_of(job)
        before = tracemalloc.get_traced_memory()[0]
        lowered = fresh_notes.lowered(fresh)
        kept = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(lowered.wanted) == 5000
    assert len(lowered.wanted["Service", "job-worker-4999"].build()["spec"]["ports"]) == 32
    assert kept < 10_000_000


def test_mistakes_by_the_thousand_are_told_in_short() -> None:
    job = job_manifests.generic({f"type-{n}-{'t' * 40}": 1 for n in range(16)})
    container = job["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]
    container["args"] = ["$(replicas[x])"] * 50_000
    _, notes, record = record_of(job)
    lowered, most = traced(lambda: notes.lowered(record))
    assert 1 < len(lowered.description.faults) <= 20
    assert most < 5_000_000


def test_advice_by_the_thousand_is_told_in_short() -> None:
    job = job_manifests.generic({"worker": 1})
    pod = job["spec"]["replicaSpecs"][0]["template"]["spec"]
    pod["volumes"] = [{"name": f"v{n}", "emptyDir": {}} for n in range(5000)]
    mounts = [{"name": "no", "mountPath": f"/m{m}"} for m in range(64)]
    pod["containers"] = [{"name": f"c{n}", "image": "i", "volumeMounts": mounts} for n in range(32)]
    world = JobWorld(job)
    plan, most = traced(world.decide)
    assert 1 < len(plan.events) <= 25
    assert all(len(event.message) < 1000 for event in plan.events)
    assert most < 5_000_000


# What is logged

SECRET = "s3cret-that-nobody-may-see"


@pytest.mark.parametrize(
    "said",
    [
        Problem(
            422,
            "Invalid",
            f'Pod "a" is invalid: spec.containers[0].env[0].name: Invalid value: "{SECRET}": no',
            (Cause("FieldValueInvalid", f'Invalid value: "{SECRET}"', "spec.env[0].name"),),
        ),
        Problem(422, "Invalid", f'Pod "a" is invalid: x: Invalid value: "{SECRET}": must be'),
        Problem(422, "Invalid", f'x: Unsupported value: "{SECRET}": supported values: "a", "b"'),
        Problem(422, "Invalid", f'x: Invalid value: core.EnvVar{{Value:"{SECRET}"}}: no'),
        Problem(422, "Invalid", f"x: Invalid value: {SECRET}: not a number"),
        Problem(403, "Forbidden", f'admission webhook "w" denied the request: "{SECRET} is bad"'),
        Problem(400, "BadRequest", f'"a \\" {SECRET}" can\'t be read'),
        Problem(400, "BadRequest", f'the beginning of a quote "{SECRET}'),
        RefusedError("GET /x", Problem(403, "Forbidden", f'"{SECRET}" is not allowed')),
    ],
    ids=str,
)
def test_a_log_tells_of_a_refusal_and_not_what_was_refused(said: Any) -> None:
    told = brief(said)
    assert SECRET not in told
    assert len(told) <= LENGTH_MAX
    assert any(word in told for word in ("Invalid", "Forbidden", "BadRequest"))


def test_a_refusal_of_any_length_is_a_short_line() -> None:
    causes = tuple(Cause("FieldValueInvalid", "m" * 1000, f"f{n}" * 1000) for n in range(10_000))
    for problem in (Problem(422, "r" * 10**6, "m" * 10**7), Problem(422, "Invalid", "", causes)):
        assert len(brief(problem)) <= LENGTH_MAX


def test_what_we_say_ourselves_is_told_as_it_is() -> None:
    error = ConnectionFailedError("https://a", "its name can't be resolved", "check the address")
    assert brief(error) == str(error)
    quota = Problem(403, "Forbidden", "exceeded quota: small, requested: pods=1, limited: pods=3")
    assert brief(quota) == f"403 Forbidden: {quota.message}"


def test_the_performer_logs_no_values(caplog: pytest.LogCaptureFixture) -> None:
    class Refusing(Programs):
        async def send(self, request: Request) -> Answer:
            return refusal(422, f'Pod "a" is invalid: x: Invalid value: "{SECRET}": no')

    async def story() -> None:
        perform = Performer(Refusing(), lambda key: key.namespace)
        await perform(key("a", 1), [page("a", 1)], as_it_is)

    with caplog.at_level(logging.WARNING):
        run(story())
    assert "422 Invalid" in caplog.text
    assert SECRET not in caplog.text
