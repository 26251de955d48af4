"""Jobs about which nothing can be decided: each says so itself, once, and the others go on.

The program is broken on purpose for some jobs; whatever breaks it by itself would be mended.
"""

from __future__ import annotations

import asyncio
import decimal
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
import pytest
from client.test_client import cluster
from rig.job_manifests import generic
from rig.kube.api import ApiCaller
from rig.kube.plane import ControlPlane
from rig.manifests import EXAMPLES, documents
from rig.waiting import run, until

from jobyard.api.beamjob import BeamCondition, BeamConditionType, BeamJobStatus, BeamPhase
from jobyard.api.kinds import kind_of
from jobyard.api.parts.status import Condition, ConditionType, JobStatus, Phase, TaskStatus, Truth
from jobyard.api.parts.taskset_status import RoleStatus, TaskSetPhase, TaskSetState, TaskSetStatus
from jobyard.api.parts.value import ObjectMeta, Value
from jobyard.client.request import Answer, Request
from jobyard.client.transport import Transport
from jobyard.controller import notes as notes_module
from jobyard.controller.notes import Notes
from jobyard.controller.operations.measuring import Meter
from jobyard.controller.records import JobKey, JobRecord
from jobyard.controller.running import Controller, Options
from jobyard.controller.troubles import Troubles
from jobyard.plan import table
from jobyard.plan.lowering.table import JOB_KINDS
from jobyard.plan.reporting.beam_status import as_job_status
from jobyard.plan.reporting.conditions import condition

Json = dict[str, Any]
NOW = 1_800_000_000.0
LATER = NOW + 100
TOLD = "Nothing can be decided about this job: KeyError: 'x'"
PROBLEMS: tuple[Exception, ...] = (
    ValueError("Exceeds the limit (4300 digits) for integer string conversion"),
    RecursionError("maximum recursion depth exceeded"),
    KeyError("replicaSpecs"),
    decimal.InvalidOperation(),
    AssertionError(),
    UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"),
)


# What a status says


def told(stored: Value | None, type_: type[Value], now: float = NOW) -> Value | None:
    kind = next(kind for kind in JOB_KINDS if table.status_type(kind) is type_)
    return table.decisions_of(kind).not_understood(stored, 2, TOLD, now)


def test_a_job_that_never_began_is_not_initialized() -> None:
    status = told(None, JobStatus)
    assert isinstance(status, JobStatus)
    assert (status.phase, status.observed_generation) == (Phase.PENDING, 2)
    assert [each.type for each in status.conditions] == [*ConditionType]
    found = condition(status.conditions, ConditionType.INITIALIZED)
    assert found is not None
    assert (found.status, found.reason, found.message) == (Truth.FALSE, "NotUnderstood", TOLD)


def test_a_job_that_runs_keeps_its_rows_and_says_so() -> None:
    conditions = tuple(
        Condition(type=type_, status=Truth.TRUE, last_transition_time="2026-01-01T00:00:00Z")
        for type_ in ConditionType
    )
    rows = (TaskStatus(type="worker", restart_count=3),)
    stored = JobStatus(phase=Phase.RUNNING, restarts=3, tasks=rows, conditions=conditions)
    status = told(stored, JobStatus)
    assert isinstance(status, JobStatus)
    assert (status.phase, status.restarts, status.tasks) == (Phase.RUNNING, 3, rows)
    running = condition(status.conditions, ConditionType.RUNNING)
    assert running == msgspec.structs.replace(conditions[1], reason="NotUnderstood", message=TOLD)
    others = [each for each in status.conditions if each.type is not ConditionType.RUNNING]
    assert others == [each for each in conditions if each.type is not ConditionType.RUNNING]


@pytest.mark.parametrize(
    ("stored", "type_"),
    [
        (JobStatus(phase=Phase.SUCCEEDED), JobStatus),
        (JobStatus(phase=Phase.FAILED), JobStatus),
        (BeamJobStatus(phase=BeamPhase.SUCCEEDED), BeamJobStatus),
        (BeamJobStatus(phase=BeamPhase.FAILED), BeamJobStatus),
        (TaskSetStatus(phase=TaskSetPhase.COMPLETED), TaskSetStatus),
    ],
    ids=repr,
)
def test_a_job_that_has_ended_stays_as_it_is(stored: Value, type_: type[Value]) -> None:
    assert told(stored, type_) is None


@pytest.mark.parametrize("type_", [JobStatus, BeamJobStatus, TaskSetStatus])
def test_the_same_problem_gives_the_same_status(type_: type[Value]) -> None:
    status = told(None, type_)
    assert status is not None
    assert told(status, type_, LATER) == status


def test_a_beam_job_says_it_where_its_cluster_is() -> None:
    status = told(None, BeamJobStatus)
    assert isinstance(status, BeamJobStatus)
    assert [each.type for each in status.conditions] == [*BeamConditionType]
    assert (status.conditions[0].status, status.conditions[0].message) == (Truth.FALSE, TOLD)
    # What was put right goes on: nothing of it counts as initialized.
    seen = condition(as_job_status(status).conditions, ConditionType.INITIALIZED)
    assert seen is not None
    assert seen.status is Truth.FALSE


def test_a_beam_job_that_runs_stays_initialized() -> None:
    cluster_runs = BeamCondition(
        type=BeamConditionType.CLUSTER_RUNNING,
        status=Truth.TRUE,
        last_transition_time="2026-01-01T00:00:00Z",
    )
    stored = BeamJobStatus(
        phase=BeamPhase.RUNNING, start_time="2026-01-01T00:00:00Z", conditions=(cluster_runs,)
    )
    status = told(stored, BeamJobStatus)
    assert isinstance(status, BeamJobStatus)
    want = msgspec.structs.replace(cluster_runs, reason="NotUnderstood", message=TOLD)
    assert status.conditions[0] == want
    assert status.phase is BeamPhase.RUNNING


def test_a_taskset_that_runs_keeps_its_roles_and_its_state() -> None:
    roles = (RoleStatus(name="worker", phase="TaskRoleRunning"),)  # type: ignore[arg-type]
    stored = TaskSetStatus(
        phase=TaskSetPhase.RUNNING,
        state=TaskSetState.RUNNING,
        state_message="Attempt 0 is running.",
        role_status=roles,
    )
    status = told(stored, TaskSetStatus)
    assert isinstance(status, TaskSetStatus)
    assert (status.phase_message, status.state_message) == (TOLD, "Attempt 0 is running.")
    assert (status.phase, status.state) == (TaskSetPhase.RUNNING, TaskSetState.RUNNING)
    assert status.role_status == roles


# How often it is told


T = TypeVar("T")


@dataclass
class Told:
    """What troubles write and tell, and what is answered."""

    statuses: list[msgspec.Struct] = field(default_factory=list)
    events: list[Json] = field(default_factory=list)
    is_taken: bool = True

    async def write(self, _: JobRecord, status: msgspec.Struct) -> bool:
        self.statuses.append(status)
        return self.is_taken

    async def perform(
        self, _: JobKey, requests: Sequence[Request], take: Callable[[int, Answer | None], T], /
    ) -> Sequence[T]:
        self.events += [msgspec.json.decode(request.body or b"") for request in requests]
        return [take(n, Answer(201, b"{}")) for n in range(len(requests))]


def record(status: JobStatus | None = None) -> JobRecord:
    kind = kind_of("batch.tensorstack.dev/v1beta1", "GenericJob")
    assert kind is not None
    job = msgspec.convert({**generic(), "status": None}, kind.type)
    job = msgspec.structs.replace(job, status=status)
    metadata = ObjectMeta(name="job", namespace="default", uid="u", resource_version="7")
    return JobRecord(kind=kind, metadata=metadata, job=job)


def test_a_problem_is_told_once_and_another_one_again(caplog: pytest.LogCaptureFixture) -> None:
    seen = Told()

    async def work() -> None:
        troubles = Troubles(Notes(), seen.write, seen.perform)
        before = record()
        for problem in (KeyError("a"), KeyError("a"), KeyError("a"), KeyError("b"), KeyError("b")):
            await troubles.raised(before, problem, NOW)
            if seen.statuses:
                found = seen.statuses[-1]
                assert isinstance(found, JobStatus)
                before = record(found)

    with caplog.at_level(logging.ERROR):
        run(work())
    assert len(seen.statuses) == 2
    assert [(each["reason"], each["message"]) for each in seen.events] == [
        ("NotUnderstood", "Nothing can be decided: KeyError: 'a'"),
        ("NotUnderstood", "Nothing can be decided: KeyError: 'b'"),
    ]
    assert len(caplog.records) == 2


def test_a_problem_that_names_a_place_in_memory_is_the_same_problem() -> None:
    seen = Told()

    async def work() -> None:
        troubles = Troubles(Notes(), seen.write, seen.perform)
        for place in ("0x7f8f419eb7b0", "0x7f8f419eb7f8"):
            problem = TypeError(f"<object at {place}> has no length")
            await troubles.raised(record(), problem, NOW)

    run(work())
    assert len(seen.events) == 1


def test_a_new_controller_does_not_tell_again_what_the_status_says() -> None:
    seen = Told()

    async def work() -> None:
        await Troubles(Notes(), seen.write, seen.perform).raised(record(), KeyError("a"), NOW)
        (status,) = seen.statuses
        assert isinstance(status, JobStatus)
        await Troubles(Notes(), seen.write, seen.perform).raised(
            record(status), KeyError("a"), LATER
        )

    run(work())
    assert (len(seen.statuses), len(seen.events)) == (1, 1)


def test_a_job_that_has_ended_is_told_of_by_an_event_alone() -> None:
    seen = Told()

    async def work() -> None:
        troubles = Troubles(Notes(), seen.write, seen.perform)
        for _ in range(3):
            ended = record(JobStatus(phase=Phase.FAILED))
            await troubles.raised(ended, KeyError("a"), NOW)

    run(work())
    assert (seen.statuses, len(seen.events)) == ([], 1)


def test_a_job_that_cannot_be_read_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    seen = Told()

    async def work() -> None:
        troubles = Troubles(Notes(), seen.write, seen.perform)
        before = msgspec.structs.replace(record(), job=None, problem="Expected `int`")
        for _ in range(3):
            assert await troubles.unreadable(before, NOW)
            found = seen.statuses[-1]
            assert isinstance(found, JobStatus)
            before = msgspec.structs.replace(before, bare_status=found)

    with caplog.at_level(logging.ERROR):
        run(work())
    (status,) = seen.statuses
    assert isinstance(status, JobStatus)
    message = "Nothing can be decided about this job: it can't be read: Expected `int`"
    assert status.conditions[0].message == message
    assert (len(seen.events), len(caplog.records)) == (1, 1)


def test_a_job_that_goes_is_left_alone() -> None:
    seen = Told()

    async def work() -> None:
        going = record()
        metadata = msgspec.structs.replace(
            going.metadata, deletion_timestamp="2026-01-01T00:00:00Z"
        )
        going = msgspec.structs.replace(going, metadata=metadata)
        troubles = Troubles(Notes(), seen.write, seen.perform)
        await troubles.raised(going, KeyError("a"), NOW)

    run(work())
    assert (seen.statuses, seen.events) == ([], [])


def test_a_status_that_is_refused_is_told_once() -> None:
    seen = Told()

    async def work() -> None:
        troubles = Troubles(Notes(), seen.write, seen.perform)
        body = {"kind": "Status", "code": 422, "message": "status.restarts: Invalid value"}
        refused, taken = Answer(422, json.dumps(body).encode()), Answer(200, b"{}")
        for answer in (refused, refused, taken, refused, Answer(409, b"{}")):
            await troubles.answered(record(), answer, NOW)

    run(work())
    text = "The API server refuses this job's status: status.restarts: Invalid value"
    assert [(each["reason"], each["message"]) for each in seen.events] == [
        ("StatusRefused", text),
        ("StatusRefused", text),
    ]


# On a real API server


@dataclass
class Yard:
    """One namespace, with a controller that stumbles over some jobs."""

    api: ApiCaller
    namespace: str
    # By name of job: what its lowering or its decision raises.
    broken: dict[str, Exception] = field(default_factory=dict)

    def path(self, manifest: Json) -> str:
        kind = kind_of(manifest["apiVersion"], manifest["kind"])
        assert kind is not None
        return f"/apis/{kind.api_version}/namespaces/{self.namespace}/{kind.plural}"

    async def create(self, manifest: Json) -> None:
        answer = await self.api.request("POST", self.path(manifest), body=manifest)
        assert answer.status == 201, answer.text

    async def status(self, manifest: Json) -> Json:
        name = manifest["metadata"]["name"]
        answer = await self.api.request("GET", f"{self.path(manifest)}/{name}")
        found: Json = answer.body.get("status") or {}
        return found

    async def until_status(self, manifest: Json, holds: Callable[[Json], bool]) -> Json:
        async def found() -> Json | None:
            status = await self.status(manifest)
            return status if status and holds(status) else None

        seen = await until(found)
        assert seen is not None
        return seen

    async def events(self, name: str) -> list[tuple[str, str]]:
        path = f"/api/v1/namespaces/{self.namespace}/events"
        query = {"fieldSelector": f"involvedObject.name={name},reason=NotUnderstood"}
        answer = await self.api.request("GET", path, query=query)
        return [(each["reason"], each["message"]) for each in answer.body["items"]]


def play(
    plane: ControlPlane,
    namespace: str,
    patch: pytest.MonkeyPatch,
    act: Callable[[Yard], Awaitable[None]],
) -> None:
    lowered, decide = notes_module.lowered, table.decide

    async def scene() -> None:
        async with ApiCaller(plane) as api, Transport(cluster(plane)) as transport:
            yard = Yard(api, namespace)

            def lower(kind: Any, job: Any) -> Any:
                if job.metadata.name in yard.broken:
                    raise yard.broken[job.metadata.name]
                return lowered(kind, job)

            def decided(seen: Any, *rest: Any) -> Any:
                late = f"decide {seen.description.identity.name}"
                if late in yard.broken:
                    raise yard.broken[late]
                return decide(seen, *rest)

            patch.setattr(notes_module, "lowered", lower)
            patch.setattr(table, "decide", decided)
            async with controlling(transport, namespace):
                await act(yard)

    run(scene())


@asynccontextmanager
async def controlling(transport: Transport, namespace: str) -> AsyncIterator[None]:
    controller = Controller(transport, Options(namespace=namespace), Meter())
    async with asyncio.TaskGroup() as group:
        task = group.create_task(controller.run())
        yield
        assert not task.done()
        controller.stop()


def job(name: str, kind: str) -> Json:
    """The first example of a kind, under another name."""
    for path in EXAMPLES:
        for document in documents(path):
            if document.value.get("kind") == kind:
                metadata = {"name": name}
                return {**document.value, "metadata": metadata}
    raise AssertionError(kind)


def initialized(status: Json) -> tuple[str, str, str]:
    first = status["conditions"][0]
    return first["status"], first["reason"], first["message"]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: type(problem).__name__)
def test_a_job_whose_lowering_raises_says_so_and_goes_on_when_it_does_not(
    control_plane: ControlPlane,
    namespace: str,
    crds: None,
    monkeypatch: pytest.MonkeyPatch,
    problem: Exception,
) -> None:
    async def act(yard: Yard) -> None:
        odd, plain = job("odd", "GenericJob"), job("plain", "GenericJob")
        yard.broken["odd"] = problem
        await yard.create(odd)
        status = await yard.until_status(odd, lambda s: "conditions" in s)
        truth, reason, message = initialized(status)
        assert (truth, reason) == ("False", "NotUnderstood")
        assert message.startswith("Nothing can be decided about this job: ")
        assert type(problem).__name__ in message
        await yard.create(plain)
        await yard.until_status(plain, lambda s: initialized(s)[0] == "True")
        yard.broken.clear()
        await yard.until_status(odd, lambda s: initialized(s)[0] == "True")
        assert len(await yard.events("odd")) == 1

    play(control_plane, namespace, monkeypatch, act)


@pytest.mark.parametrize("kind", ["BeamJob", "TaskSet", "MPIJob"])
def test_every_sort_of_status_can_say_it(
    control_plane: ControlPlane,
    namespace: str,
    crds: None,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    async def act(yard: Yard) -> None:
        odd = job("odd", kind)
        yard.broken["odd"] = KeyError("x")
        await yard.create(odd)
        said = (
            (lambda s: s.get("phaseMessage"))
            if kind == "TaskSet"
            else lambda s: s["conditions"][0]["message"]
        )
        await yard.until_status(odd, lambda s: said(s) == TOLD)
        yard.broken.clear()
        await yard.until_status(odd, lambda s: said(s) != TOLD)

    play(control_plane, namespace, monkeypatch, act)


def test_a_job_that_runs_keeps_its_rows_when_a_decision_raises(
    control_plane: ControlPlane, namespace: str, crds: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(yard: Yard) -> None:
        odd = job("odd", "GenericJob")
        await yard.create(odd)
        before = await yard.until_status(
            odd, lambda s: bool(s["tasks"]) and all(r.get("uid") for r in s["tasks"][0]["status"])
        )
        yard.broken["decide odd"] = RecursionError("maximum recursion depth exceeded")
        # Something that wakes it: one of its pods changes.
        (pod, *_) = [row["name"] for row in before["tasks"][0]["status"]]
        await yard.api.request(
            "PATCH",
            f"/api/v1/namespaces/{yard.namespace}/pods/{pod}",
            body={"metadata": {"annotations": {"a": "b"}}},
            content_type="application/merge-patch+json",
        )
        after = await yard.until_status(
            odd, lambda s: s["conditions"][1]["reason"] == "NotUnderstood"
        )
        assert "RecursionError" in after["conditions"][1]["message"]
        for name in ("phase", "tasks", "restarts", "aggregate"):
            assert after[name] == before[name]
        assert after["conditions"][0] == before["conditions"][0]
        yard.broken.clear()
        await yard.until_status(odd, lambda s: s["conditions"][1]["reason"] != "NotUnderstood")

    play(control_plane, namespace, monkeypatch, act)
