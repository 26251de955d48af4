"""Operating the controller: one leader on a real API server, metrics, endpoints, logs."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
import socket
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families
from rig.kube.plane import ControlPlane
from rig.manifests import valid_manifests
from rig.waiting import run, until

from jobyard.client.credentials.locating import cluster_of
from jobyard.client.errors import ConnectionFailedError
from jobyard.client.request import LEASES, Answer, Request, delete, get, merge_patch
from jobyard.client.sender import Sender
from jobyard.client.transport import Transport
from jobyard.controller.notes import Notes
from jobyard.controller.operations.leading import (
    LeadershipLostError,
    Lease,
    LeaseName,
    LeaseSpec,
    Sighting,
    Standing,
    Term,
    Timing,
    lead,
    microtime,
    own_identity,
)
from jobyard.controller.operations.logs import TEXT_LENGTH_MAX, JsonLines, LogFormat, configure
from jobyard.controller.operations.metrics import PHASES, Metrics
from jobyard.controller.operations.serving import Serving, ServingError
from jobyard.controller.reconciling import Next, Reconciler
from jobyard.controller.records import JobKey
from jobyard.controller.world import World
from jobyard.plan.lowering.table import JOB_KINDS

SECRET = "s3cret-that-nobody-may-see"

# Runs out within a test, but not because a busy machine takes its time for a renewal.
SHORT = Timing(lease_seconds=8, deadline_seconds=6, renew_seconds=0.2, retry_seconds=0.1)
# Nothing runs out within a test.
LONG = Timing(lease_seconds=900, deadline_seconds=800, renew_seconds=0.2, retry_seconds=0.1)


# What may be done with a lease, as values


def spec(holder: str | None = "a", renewed: str = "1", seconds: int | None = 15) -> LeaseSpec:
    return LeaseSpec(holder_identity=holder, renew_time=renewed, lease_duration_seconds=seconds)


@pytest.mark.parametrize(
    ("found", "now_seconds", "standing"),
    [
        pytest.param(spec(None), 100, Standing.FREE, id="nobody ever held it"),
        pytest.param(spec(""), 100, Standing.FREE, id="it was given back"),
        pytest.param(spec("me"), 100, Standing.OURS, id="the answer to our write was lost"),
        pytest.param(spec("me"), 900, Standing.OURS, id="ours stays ours until another takes it"),
        pytest.param(spec(), 100, Standing.HELD, id="just seen"),
        pytest.param(spec(), 114.99, Standing.HELD, id="not yet over"),
        pytest.param(spec(), 115, Standing.EXPIRED, id="over"),
        pytest.param(spec(seconds=60), 159, Standing.HELD, id="the holder asked for longer"),
        pytest.param(spec(seconds=1), 101, Standing.EXPIRED, id="the holder asked for less"),
        pytest.param(spec(seconds=None), 114.99, Standing.HELD, id="no duration: our own, held"),
        pytest.param(spec(seconds=None), 115, Standing.EXPIRED, id="no duration: our own, over"),
        pytest.param(
            spec(renewed="1970-01-01T00:00:00.000000Z"),
            101,
            Standing.HELD,
            id="the holder's clock is wrong by decades",
        ),
    ],
)
def test_a_lease_stands(found: LeaseSpec, now_seconds: float, standing: Standing) -> None:
    assert Sighting(found, 100).standing("me", now_seconds, Timing()) == standing


@pytest.mark.parametrize(
    ("then", "since_seconds"),
    [
        pytest.param(spec(), 100, id="nothing new: the time goes on"),
        pytest.param(spec(renewed="2"), 110, id="renewed"),
        pytest.param(spec(renewed="0"), 110, id="renewed by a clock that went back"),
        pytest.param(spec("b"), 110, id="another holder"),
    ],
)
def test_a_change_is_a_sign_of_life(then: LeaseSpec, since_seconds: float) -> None:
    assert Sighting(spec(), 100).then(then, 110) == Sighting(then, since_seconds)


@pytest.mark.parametrize(
    ("now_seconds", "left_seconds"), [(100, 10), (105, 5), (110, 0), (170, -60)]
)
def test_a_leader_counts_from_what_it_sent(now_seconds: float, left_seconds: float) -> None:
    assert Term(100, Lease()).left_seconds(now_seconds, Timing()) == left_seconds


def test_a_leader_stops_before_anybody_may_follow() -> None:
    # However late the others see the renewal, the leader has stopped first.
    timing, sent_seconds = Timing(), 100.0
    stops_seconds = sent_seconds + Term(sent_seconds, Lease()).left_seconds(sent_seconds, timing)
    seen = Sighting(spec(seconds=timing.lease_seconds), sent_seconds)
    assert seen.standing("me", stops_seconds + 4.9, timing) is Standing.HELD


@pytest.mark.parametrize(
    "wrong",
    [
        {"deadline_seconds": 15},
        {"renew_seconds": 10},
        {"retry_seconds": 6},
        {"retry_seconds": 0},
        {"lease_seconds": 0},
    ],
)
def test_timing_that_lets_two_lead_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be 0 < retry <= renew < deadline < lease"):
        Timing(**wrong)


def test_a_request_that_hangs_leaves_time_for_another() -> None:
    timing = Timing()
    assert timing.renew_seconds + 2 * timing.attempt_seconds <= timing.deadline_seconds


def test_a_moment_is_written_as_a_lease_holds_it() -> None:
    moment = datetime(2031, 5, 6, 7, 8, 9, 12, tzinfo=timezone(timedelta(hours=2)))
    assert microtime(moment) == "2031-05-06T05:08:09.000012Z"


def test_no_two_processes_have_the_same_name() -> None:
    assert own_identity().startswith(socket.gethostname())
    assert own_identity() != own_identity()


# Leading, on a real API server


class Way(StrEnum):
    """What becomes of requests."""

    OPEN = "open"
    CUT = "cut"
    HANGS = "hangs"
    # The server carries it out, and the answer is lost.
    DEAF = "deaf"


class Line:
    """A way to the server that can be cut."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self.way = Way.OPEN
        self.writes = 0

    async def send(self, request: Request) -> Answer:
        self.writes += request.method != "GET"
        way = self.way
        if way is Way.HANGS:
            await asyncio.Event().wait()
        answer = await self._sender.send(request) if way is not Way.CUT else None
        if answer is None or (way is Way.DEAF and request.method != "GET"):
            raise ConnectionFailedError("test", "the line is cut", "mend it")
        return answer

    def lines(self, request: Request) -> AsyncGenerator[bytes, None]:
        return self._sender.lines(request)


class Candidate:
    """One who would like to lead, and what became of it."""

    def __init__(self, sender: Sender, lease: LeaseName, identity: str, timing: Timing) -> None:
        self.sender, self.lease, self.identity, self.timing = sender, lease, identity, timing
        self.leads = asyncio.Event()
        self.ended = asyncio.Event()
        self.may_end = asyncio.Event()
        self.at_the_end: Callable[[], Awaitable[None]] | None = None

    async def work(self) -> None:
        self.leads.set()
        try:
            await self.may_end.wait()
        finally:
            if self.at_the_end is not None:
                await self.at_the_end()
            self.leads.clear()
            self.ended.set()

    async def stand(self) -> None:
        await lead(self.sender, self.lease, self.identity, self.work, self.timing)

    @asynccontextmanager
    async def standing(self) -> AsyncIterator[asyncio.Task[None]]:
        task = asyncio.create_task(self.stand())
        try:
            yield task
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError, LeadershipLostError):
                await task


async def read(sender: Sender, lease: LeaseName) -> dict[str, Any]:
    answer = await sender.send(get(LEASES, lease.namespace, lease.name))
    assert answer.is_ok, answer.problem
    value: dict[str, Any] = json.loads(answer.body)
    return value


async def read_spec(sender: Sender, lease: LeaseName) -> dict[str, Any]:
    value: dict[str, Any] = (await read(sender, lease))["spec"]
    return value


async def renewals(sender: Sender, lease: LeaseName, count: int) -> None:
    """Come back once the lease was renewed so many times more."""
    seen = {(await read_spec(sender, lease))["renewTime"]}

    async def enough() -> bool:
        seen.add((await read_spec(sender, lease))["renewTime"])
        return len(seen) > count

    await until(enough)


Story = Callable[[Transport, LeaseName], Awaitable[None]]


@pytest.fixture
def tell(control_plane: ControlPlane, namespace: str) -> Callable[[Story], None]:
    """Run a story with a way to the server and a lease of its own."""

    async def told(story: Story) -> None:
        async with Transport(cluster_of(control_plane.kubeconfig)) as transport:
            await story(transport, LeaseName(namespace))

    return lambda story: run(told(story))


def test_of_several_candidates_exactly_one_leads(tell: Callable[[Story], None]) -> None:
    async def story(transport: Transport, lease: LeaseName) -> None:
        candidates = [Candidate(transport, lease, name, LONG) for name in "abc"]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one.stand()) for one in candidates]

            async def leaders() -> list[str]:
                return [one.identity for one in candidates if one.leads.is_set()]

            (leader,) = await until(leaders)
            await renewals(transport, lease, 4)
            assert await leaders() == [leader]
            written = await read_spec(transport, lease)
            for task in tasks:
                task.cancel()
        assert written["holderIdentity"] == leader
        assert (written["leaseDurationSeconds"], written["leaseTransitions"]) == (900, 0)
        assert written["acquireTime"] < written["renewTime"]

    tell(story)


def test_a_leader_that_stops_hands_over_at_once(tell: Callable[[Story], None]) -> None:
    async def story(transport: Transport, lease: LeaseName) -> None:
        first, second = (Candidate(transport, lease, name, LONG) for name in ("one", "two"))

        async def still_held() -> None:
            # The work takes its time for stopping, and the lease is renewed meanwhile.
            await renewals(transport, lease, 2)
            assert (await read_spec(transport, lease))["holderIdentity"] == "one"
            assert not second.leads.is_set()

        first.at_the_end = still_held
        async with first.standing() as stopping:
            await first.leads.wait()
            async with second.standing():
                stopping.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await stopping
                assert first.ended.is_set()
                # The lease lasts longer than this test: it was given back.
                await second.leads.wait()
                written = await read_spec(transport, lease)
        assert (written["holderIdentity"], written["leaseTransitions"]) == ("two", 1)
        given_back = await read_spec(transport, lease)
        assert (given_back["holderIdentity"], given_back["leaseTransitions"]) == ("", 1)

    tell(story)


A_LEADER = """
import asyncio, sys
from pathlib import Path
from jobyard.client.credentials.locating import cluster_of
from jobyard.client.transport import Transport
from jobyard.controller.operations.leading import LeaseName, Timing, lead

async def work():
    print("leads", flush=True)
    await asyncio.Event().wait()

async def main(kubeconfig, namespace):
    timing = Timing(lease_seconds=8, deadline_seconds=6, renew_seconds=0.2, retry_seconds=0.1)
    async with Transport(cluster_of(Path(kubeconfig))) as transport:
        await lead(transport, LeaseName(namespace), "killed", work, timing)

asyncio.run(main(*sys.argv[1:]))
"""


def test_a_leader_that_is_killed_is_followed_after_its_lease(
    tell: Callable[[Story], None], control_plane: ControlPlane
) -> None:
    async def story(transport: Transport, lease: LeaseName) -> None:
        arguments = (A_LEADER, str(control_plane.kubeconfig), lease.namespace)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", *arguments, stdout=asyncio.subprocess.PIPE
        )
        try:
            assert process.stdout is not None
            assert await process.stdout.readline() == b"leads\n"
            follower = Candidate(transport, lease, "next", SHORT)
            async with follower.standing():
                await renewals(transport, lease, 3)
                assert not follower.leads.is_set()
                process.kill()
                await process.wait()
                left = await read_spec(transport, lease)
                assert left["holderIdentity"] == "killed"
                await follower.leads.wait()
                taken = await read_spec(transport, lease)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert (taken["holderIdentity"], taken["leaseTransitions"]) == ("next", 1)
        # Both ran on this machine, so here the two clocks can be compared.
        before, after = (
            datetime.fromisoformat(text) for text in (left["renewTime"], taken["acquireTime"])
        )
        assert after - before >= timedelta(seconds=SHORT.lease_seconds)

    tell(story)


@pytest.mark.parametrize("way", [Way.CUT, Way.HANGS])
def test_work_is_cancelled_when_the_lease_cannot_be_renewed(
    tell: Callable[[Story], None], way: Way, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(transport: Transport, lease: LeaseName) -> None:
        line = Line(transport)
        candidate = Candidate(line, lease, "cut-off", SHORT)
        async with candidate.standing() as task:
            await candidate.leads.wait()
            await renewals(transport, lease, 1)
            line.way = way
            line.writes = 0
            with pytest.raises(LeadershipLostError) as lost:
                await task
            stopped = datetime.now(UTC)
        assert candidate.ended.is_set()
        assert line.writes >= 2
        reason = "the line is cut" if way is Way.CUT else "no answer in time"
        assert re.fullmatch(
            rf"lease {lease.namespace}/jobyard-controller: cut-off no longer leads,"
            rf" not renewed for {SHORT.deadline_seconds} s \(.*{reason}.*\);"
            r" restart the process",
            str(lost.value),
        )
        assert str(lost.value) in caplog.messages
        # Not released, since the way was cut: those who follow wait for its end.
        left = await read_spec(transport, lease)
        assert left["holderIdentity"] == "cut-off"
        used = stopped - datetime.fromisoformat(left["renewTime"])
        # Its own clock is read a moment before the one that the lease shows.
        assert used >= timedelta(seconds=SHORT.deadline_seconds - 1)

    tell(story)


def test_a_short_interruption_costs_nothing(tell: Callable[[Story], None]) -> None:
    async def story(transport: Transport, lease: LeaseName) -> None:
        line = Line(transport)
        candidate = Candidate(line, lease, "patient", LONG)
        async with candidate.standing():
            await candidate.leads.wait()
            for way in (Way.CUT, Way.DEAF):
                line.way, line.writes = way, 0

                async def tried() -> bool:
                    return line.writes >= 2

                await until(tried)
                line.way = Way.OPEN
                await renewals(transport, lease, 2)
            assert candidate.leads.is_set()
            assert not candidate.ended.is_set()
            assert (await read_spec(transport, lease))["leaseTransitions"] == 0

    tell(story)


def test_a_leader_that_was_not_told_of_its_election_leads(tell: Callable[[Story], None]) -> None:
    async def story(transport: Transport, lease: LeaseName) -> None:
        line = Line(transport)
        line.way = Way.DEAF
        candidate = Candidate(line, lease, "deaf", LONG)
        async with candidate.standing():

            async def tried() -> bool:
                return line.writes >= 2

            await until(tried)
            assert not candidate.leads.is_set()
            line.way = Way.OPEN
            await candidate.leads.wait()
            assert (await read_spec(transport, lease))["leaseTransitions"] == 0

    tell(story)


def test_a_leader_sees_another_name_and_stops(tell: Callable[[Story], None]) -> None:
    async def story(transport: Transport, lease: LeaseName) -> None:
        for taken_by, said in (("usurper", "usurper"), ("", "nobody")):
            candidate = Candidate(transport, lease, f"robbed-by-{said}", LONG)
            async with candidate.standing() as task:
                await candidate.leads.wait()
                patch = {"spec": {"holderIdentity": taken_by}}
                await transport.send(merge_patch(LEASES, lease.namespace, lease.name, patch))
                with pytest.raises(LeadershipLostError, match=f"its holder is {said} now"):
                    await task
            assert candidate.ended.is_set()
            assert (await read_spec(transport, lease))["holderIdentity"] == taken_by
            await transport.send(delete(LEASES, lease.namespace, lease.name))

    tell(story)


def test_others_may_label_or_delete_the_lease(tell: Callable[[Story], None]) -> None:
    async def story(transport: Transport, lease: LeaseName) -> None:
        candidate = Candidate(transport, lease, "steady", LONG)
        async with candidate.standing():
            await candidate.leads.wait()
            patch = {"metadata": {"labels": {"colour": "blue"}}}
            await transport.send(merge_patch(LEASES, lease.namespace, lease.name, patch))
            await renewals(transport, lease, 2)
            found = await read(transport, lease)
            assert found["metadata"]["labels"] == {"colour": "blue"}
            await transport.send(delete(LEASES, lease.namespace, lease.name))

            async def is_there_again() -> bool:
                answer = await transport.send(get(LEASES, lease.namespace, lease.name))
                return answer.is_ok

            await until(is_there_again)
            again = await read(transport, lease)
            assert again["metadata"]["uid"] != found["metadata"]["uid"]
            assert again["spec"]["holderIdentity"] == "steady"
            assert candidate.leads.is_set()
            assert not candidate.ended.is_set()

    tell(story)


def test_work_that_ends_or_fails_gives_the_lease_back(tell: Callable[[Story], None]) -> None:
    async def story(transport: Transport, lease: LeaseName) -> None:
        async def fails() -> None:
            raise LookupError("the work failed")

        async def ends() -> None:
            pass

        with pytest.raises(LookupError, match="the work failed"):
            await lead(transport, lease, "fails", fails, LONG)
        assert (await read_spec(transport, lease))["holderIdentity"] == ""
        await lead(transport, lease, "ends", ends, LONG)
        assert (await read_spec(transport, lease))["holderIdentity"] == ""

    tell(story)


def test_a_candidate_says_once_why_it_waits(
    tell: Callable[[Story], None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def story(transport: Transport, lease: LeaseName) -> None:
        line = Line(transport)
        nowhere = LeaseName("no-such-namespace")
        candidate = Candidate(line, nowhere, "lost", LONG)
        async with candidate.standing():

            async def tried() -> bool:
                return line.writes >= 3

            await until(tried)
        said = [text for text in caplog.messages if text.startswith(str(nowhere))]
        assert len(said) == 1
        assert 'namespaces "no-such-namespace" not found' in said[0]

    tell(story)


# Metrics


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = text_string_to_metric_families(metrics.exposition().decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def value(metrics: Metrics, name: str, **labels: str) -> float:
    return samples(metrics)[name, tuple(sorted(labels.items()))]


def test_metrics_count_what_they_are_told() -> None:
    metrics = Metrics()
    metrics.reconciled("MPIJob", 0.02)
    metrics.failed("MPIJob")
    metrics.queued(7)
    metrics.waited(0.3)
    metrics.created_pods("TaskSet", 40)
    metrics.restarted("TaskSet", 2)
    metrics.started("GenericJob", 65)
    # The clock of the API server may be ahead of ours.
    metrics.started("GenericJob", -3)
    metrics.called("patch", 409, 0.004)
    metrics.called("get", 0, 1)
    metrics.leading(True)
    metrics.count_jobs_with(lambda: {("MPIJob", "Running"): 3, ("TaskSet", "Odd"): 1})
    want = [
        (1, "jobyard_reconcile_duration_seconds_count", {"kind": "MPIJob"}),
        (0, "jobyard_reconcile_duration_seconds_bucket", {"kind": "MPIJob", "le": "0.01"}),
        (1, "jobyard_reconcile_duration_seconds_bucket", {"kind": "MPIJob", "le": "0.025"}),
        (1, "jobyard_reconcile_errors_total", {"kind": "MPIJob"}),
        (0, "jobyard_reconcile_errors_total", {"kind": "BeamJob"}),
        (7, "jobyard_queue_depth", {}),
        (1, "jobyard_queue_wait_seconds_count", {}),
        (0.3, "jobyard_queue_wait_seconds_sum", {}),
        (40, "jobyard_pods_created_total", {"kind": "TaskSet"}),
        (2, "jobyard_restarts_total", {"kind": "TaskSet"}),
        (2, "jobyard_job_start_duration_seconds_count", {"kind": "GenericJob"}),
        (65, "jobyard_job_start_duration_seconds_sum", {"kind": "GenericJob"}),
        (1, "jobyard_api_requests_total", {"verb": "patch", "code": "409"}),
        (1, "jobyard_api_requests_total", {"verb": "get", "code": "0"}),
        (1, "jobyard_api_request_duration_seconds_count", {"verb": "patch"}),
        (1, "jobyard_leader", {}),
        (3, "jobyard_jobs", {"kind": "MPIJob", "phase": "Running"}),
        (0, "jobyard_jobs", {"kind": "MPIJob", "phase": "Failed"}),
        (1, "jobyard_jobs", {"kind": "TaskSet", "phase": "Unknown"}),
    ]
    found = samples(metrics)
    got = [(found[name, tuple(sorted(labels.items()))], name, labels) for _, name, labels in want]
    assert got == want
    metrics.leading(False)
    assert value(metrics, "jobyard_leader") == 0


def test_the_process_is_measured() -> None:
    found = samples(Metrics())
    for name in ("process_cpu_seconds_total", "process_resident_memory_bytes"):
        assert found[name, ()] > 0


def test_jobs_are_counted_at_each_scrape() -> None:
    metrics = Metrics()
    counts = {("MPIJob", "Running"): 1}
    metrics.count_jobs_with(lambda: counts)
    assert value(metrics, "jobyard_jobs", kind="MPIJob", phase="Running") == 1
    counts = {("MPIJob", "Succeeded"): 1}
    assert value(metrics, "jobyard_jobs", kind="MPIJob", phase="Running") == 0
    assert value(metrics, "jobyard_jobs", kind="MPIJob", phase="Succeeded") == 1


def test_the_number_of_series_is_bounded() -> None:
    metrics = Metrics()
    for n in range(300):
        metrics.called(f"verb-{n}", 1000 + n, 0.1)
    metrics.count_jobs_with(lambda: {("MPIJob", f"phase-{n}"): 1 for n in range(300)})
    with pytest.raises(AssertionError, match="train-7 is not a kind of job"):
        metrics.restarted("train-7", 1)
    found = samples(metrics)
    allowed = {
        "kind": {kind.name for kind in JOB_KINDS},
        "phase": set(PHASES),
        "verb": {"other"},
        "code": {"other"},
    }
    for _, labels in found:
        for name, label in labels:
            assert name == "le" or label in allowed[name], (name, label)
    assert len(found) < 600
    # Each comes with a text for people, and none with the moment it was made.
    families = list(text_string_to_metric_families(metrics.exposition().decode()))
    assert all(family.documentation for family in families)
    assert not [name for name, _ in found if name.endswith("_created")]


def test_two_controllers_in_a_process_count_apart() -> None:
    one, other = Metrics(), Metrics()
    one.failed("MPIJob")
    assert value(one, "jobyard_reconcile_errors_total", kind="MPIJob") == 1
    assert value(other, "jobyard_reconcile_errors_total", kind="MPIJob") == 0


def test_a_transport_tells_the_metrics(control_plane: ControlPlane, namespace: str) -> None:
    metrics = Metrics()

    async def ask() -> None:
        where = cluster_of(control_plane.kubeconfig)
        async with Transport(where, observe=metrics.called) as transport:
            await transport.send(get(LEASES, namespace, "nothing"))

    run(ask())
    assert value(metrics, "jobyard_api_requests_total", verb="get", code="404") == 1


# Endpoints


async def fetched(serving: Serving, path: str) -> tuple[int, str, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{serving.port}{path}") as answer,
    ):
        return answer.status, await answer.text(), answer.headers["Content-Type"]


def test_the_endpoints_answer() -> None:
    metrics = Metrics()
    metrics.queued(5)
    is_ready, standstill = False, ""

    async def ask() -> None:
        nonlocal is_ready, standstill
        async with Serving(
            "127.0.0.1", 0, metrics, lambda: is_ready, lambda: standstill
        ) as serving:
            assert serving.port != 0
            assert (await fetched(serving, "/healthz"))[:2] == (200, "ok\n")
            unready = await fetched(serving, "/readyz")
            assert unready[:2] == (503, "the caches are not filled yet\n")
            is_ready, standstill = True, "nothing was done for 200 s"
            assert (await fetched(serving, "/readyz"))[:2] == (200, "ok\n")
            stuck = await fetched(serving, "/healthz")
            assert stuck[:2] == (503, "nothing was done for 200 s\n")
            status, text, kind = await fetched(serving, "/metrics")
            assert (status, kind) == (200, "text/plain; version=1.0.0; charset=utf-8")
            (depth,) = (
                family
                for family in text_string_to_metric_families(text)
                if family.name == "jobyard_queue_depth"
            )
            assert depth.samples[0].value == 5
            assert (await fetched(serving, "/other"))[0] == 404
        with pytest.raises(aiohttp.ClientConnectorError):
            await fetched(serving, "/healthz")

    run(ask())


async def half_asked(port: int) -> asyncio.StreamWriter:
    """A client that was answered, and never sends the rest of its request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf")
    assert (await reader.readline()).startswith(b"HTTP/1.1 ")
    return writer


def test_a_request_that_never_ends_does_not_hold_up_our_end() -> None:
    """Told by who ends first, not by a clock: a server that takes no care waits for its client."""

    async def ask() -> None:
        careless = web.AppRunner(web.Application(), access_log=None)
        await careless.setup()
        await web.TCPSite(careless, "127.0.0.1", 0).start()
        async with AsyncExitStack() as stack:
            serving = Serving("127.0.0.1", 0, Metrics(), lambda: True)
            await stack.enter_async_context(serving)
            ports = serving.port, careless.addresses[0][1]
            writers = [await half_asked(port) for port in ports]
            ours = asyncio.create_task(stack.pop_all().aclose())
        theirs = asyncio.create_task(careless.cleanup())
        done, _ = await asyncio.wait({ours, theirs}, return_when=asyncio.FIRST_COMPLETED)
        assert done == {ours}
        for writer in writers:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
        await theirs

    run(ask())


def test_a_port_that_is_taken_is_named() -> None:
    async def ask() -> None:
        async with Serving("127.0.0.1", 0, Metrics(), lambda: True) as first:
            second = Serving("127.0.0.1", first.port, Metrics(), lambda: True)
            with pytest.raises(
                ServingError,
                match=f"^metrics and health at 127.0.0.1:{first.port}: address already in use;"
                " choose another --listen$",
            ):
                await second.__aenter__()

    run(ask())


# Logs


@pytest.fixture
def untouched_root() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = tuple(root.handlers), root.level
    yield
    for handler in tuple(root.handlers):
        root.removeHandler(handler)
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(level)


@pytest.fixture
def log(untouched_root: None) -> logging.Logger:
    return logging.getLogger("jobyard.test")


class Holder(msgspec.Struct):
    """A value with something in it."""

    password: str


class Titled(Holder):
    """A value that says how it reads."""

    def __str__(self) -> str:
        return "a title"


def logged(log_format: LogFormat, act: Callable[[], None]) -> str:
    stream = io.StringIO()
    configure(log_format, stream=stream)
    act()
    return stream.getvalue()


def test_a_record_is_a_json_object_on_a_line(log: logging.Logger) -> None:
    fields = {"job": "default/train", "kind": "MPIJob", "namespace": "default", "seconds": 0.5}

    def act() -> None:
        log.warning("restart %d of %s\nnow", 2, "three", extra=fields)
        log.debug("not shown")

    (line,) = logged(LogFormat.JSON, act).splitlines()
    record = json.loads(line)
    moment = datetime.fromisoformat(record.pop("time"))
    assert abs(datetime.now(UTC) - moment) < timedelta(minutes=1)
    assert record == {
        "level": "warning",
        "message": "restart 2 of three\nnow",
        "logger": "jobyard.test",
        **fields,
    }


def test_time_is_utc_in_milliseconds() -> None:
    record = logging.LogRecord("a", logging.INFO, "f", 1, "m", None, None)
    record.created = 1_900_000_000.0079
    assert json.loads(JsonLines().format(record))["time"] == "2030-03-17T17:46:40.007Z"


def test_text_is_one_line_even_with_hostile_names(log: logging.Logger) -> None:
    text = logged(
        LogFormat.TEXT,
        lambda: log.info("made %s", "pod\n2030 ERROR forged\x1b[2J", extra={"job": "a/b"}),
    )
    assert text.count("\n") == 1
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO    "
        r"made pod\\n2030 ERROR forged\\x1b\[2J \[job=a/b\]\n",
        text,
    )


@pytest.mark.parametrize("log_format", LogFormat)
@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"data": {"password": SECRET}}, id="a Secret as JSON"),
        pytest.param([{"name": "TOKEN", "value": SECRET}], id="an environment"),
        pytest.param(("env", SECRET), id="a tuple"),
        pytest.param(SECRET.encode(), id="bytes"),
        pytest.param(Holder(SECRET), id="a struct"),
        pytest.param(Titled(SECRET), id="a struct with a title"),
    ],
)
def test_nothing_inside_an_object_is_logged(
    log: logging.Logger, value: Any, log_format: LogFormat
) -> None:
    def act() -> None:
        log.error("made %s", value)
        log.error("made %r and %s", value, 1)
        log.error("made %(it)s", {"it": value})
        log.error(value)
        log.error("made", extra={"job": value, "environment": SECRET})

    text = logged(log_format, act)
    assert text.count("\n") == 5
    assert SECRET not in text
    name = "a title" if isinstance(value, Titled) else f"<{type(value).__name__}>"
    assert text.count(name) == 5


def test_an_error_comes_with_its_traceback(log: logging.Logger) -> None:
    def act() -> None:
        try:
            raise LookupError("gone")
        except LookupError as error:
            log.exception("pass failed: %s", error)

    record = json.loads(logged(LogFormat.JSON, act))
    assert record["message"] == "pass failed: gone"
    assert record["traceback"].endswith("LookupError: gone")
    text = logged(LogFormat.TEXT, act)
    assert "pass failed: gone\nTraceback" in text


def test_a_record_is_bounded_and_always_encodes(log: logging.Logger, tmp_path: Path) -> None:
    def act() -> None:
        log.info("x" * 100_000)
        log.info("half \udc80 a letter")

    long, half = map(json.loads, logged(LogFormat.JSON, act).splitlines())
    assert long["message"] == "x" * TEXT_LENGTH_MAX + "…"
    assert half["message"] == "half \udc80 a letter"
    with (tmp_path / "log").open("w", encoding="ascii") as stream:
        configure(LogFormat.JSON, stream=stream)
        act()
    assert len((tmp_path / "log").read_bytes().splitlines()) == 2


def test_a_job_that_is_gone_is_forgotten() -> None:
    """What is kept between passes must not grow with the jobs there ever were."""

    async def nothing(
        _: JobKey, requests: Sequence[Request], take: Callable[[int, Answer | None], Any]
    ) -> Sequence[Any]:
        return [take(n, None) for n in range(len(requests))]

    manifest = next(m for m in valid_manifests() if m["kind"] == "GenericJob")
    manifest["metadata"] |= {"namespace": "default", "uid": "u", "resourceVersion": "1"}
    world, notes = World(lambda _: None), Notes()
    record = world.decode_job["GenericJob"](json.dumps(manifest).encode())
    world.jobs["GenericJob"].changed(record)
    notes.of(record)
    world.jobs["GenericJob"].removed(record)
    reconciler = Reconciler(world, notes, nothing, lambda: 0.0, dict, lambda *_: None)
    passed = reconciler.reconcile(record.key)
    with pytest.raises(StopIteration) as ended:
        passed.send(None)
    assert ended.value.value.next is Next.GONE
    assert world.forget(record.key) is None
    assert len(notes) == 0
