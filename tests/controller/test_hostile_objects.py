"""Objects that nobody thought of: one of them costs only itself, whoever wrote it.

Against a real API server, which takes them all; the client's part also without one.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
import pytest
from client.test_client import Scripted, cluster, following, ours, page, put, run
from manifest.hostility import DEPTH_MAX
from rig.kube.jobyard_controller import ControllerProcess, running_controller
from rig.kube.kubectl import Kubectl
from rig.kube.plane import ControlPlane
from rig.places import ROOT

from jobyard.api.kinds import KINDS
from jobyard.client.deep_json import LEVELS_MAX, without_depth
from jobyard.client.transport import Transport
from jobyard.client.unreadable import Unreadable
from jobyard.controller.records import job_decoder, pod_of
from jobyard.plan.facts.pod_facts import PodPhase

SOURCE = ROOT / "src" / "jobyard"
Json = dict[str, Any]
MANAGED = {"app.kubernetes.io/managed-by": "jobyard"}
PREFIX = "batch.tensorstack.dev"
HUGE = "9" * 4_400


# JSON without its depths


@pytest.mark.parametrize(
    ("text", "levels", "kept"),
    [
        pytest.param(b'{"a":{"b":{"c":1}},"d":2}', 1, b'{"a":null,"d":2}', id="an object"),
        pytest.param(b"[[[1],[2]],3]", 2, b"[[null,null],3]", id="lists side by side"),
        pytest.param(b'{"a":"}{[","b":{}}', 1, b'{"a":"}{[","b":null}', id="brackets in a text"),
        pytest.param(b'{"a":"\\"{","b":[]}', 1, b'{"a":"\\"{","b":null}', id="an escaped quote"),
        pytest.param(b'{"a":"\\\\","b":[]}', 1, b'{"a":"\\\\","b":null}', id="a backslash"),
        pytest.param(b'{"a":[1]}', 2, b'{"a":[1]}', id="not deep at all"),
    ],
)
def test_what_is_too_deep_becomes_null(text: bytes, levels: int, kept: bytes) -> None:
    assert without_depth(text, levels) == kept


@pytest.mark.parametrize("depth", [LEVELS_MAX, 1_000, DEPTH_MAX, 100_000])
def test_an_object_of_any_depth_can_be_read(depth: int) -> None:
    text = b'{"a":' * depth + b"1" + b"}" * depth
    assert msgspec.json.decode(without_depth(b'{"x":[%b],"y":2}' % text))["y"] == 2


def test_answers_are_read_in_the_one_way_that_stands_any_depth() -> None:
    """An object among thousands in a list is somebody else's, and so may be its depth."""
    bare = re.compile(r"(?:json|_?decoder|\))\.decode\((?:answer|outcome)\.body")
    found = [
        f"{path.relative_to(SOURCE)}: {line.strip()}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line in path.read_text().splitlines()
        if bare.search(line) and path.name != "discovery.py"
    ]
    assert not found, f"use decoded_json: {found}"
    assert bare.search("found = msgspec.json.decode(answer.body, type=_List)")


# The watch


def odd(raw: bytes) -> str:
    """A decoder that stumbles over some."""
    name = str(json.loads(raw)["metadata"]["name"])
    match name:
        case "value":
            raise ValueError("Exceeds the limit (4300 digits)")
        case "key":
            raise KeyError("metadata")
        case "deep":
            raise RecursionError("maximum recursion depth exceeded")
        case "assert":
            raise AssertionError
        case "decode":
            raise msgspec.ValidationError("Expected `int`")
    return name


@asynccontextmanager
async def stumbling(sender: Any, reported: list[Unreadable]) -> AsyncIterator[Any]:
    async with following(sender, ours("n"), decode=odd, report=reported.append) as sink:
        yield sink


def line(type_: str, name: str, version: int) -> bytes:
    metadata = {"name": name, "namespace": "n", "uid": f"u-{name}", "resourceVersion": str(version)}
    return json.dumps({"type": type_, "object": {"metadata": metadata}}).encode()


ODD_NAMES = ("value", "key", "deep", "assert", "decode")


def test_an_item_of_a_list_that_cannot_be_decoded_is_left_out() -> None:
    reported: list[Unreadable] = []

    async def work() -> None:
        sender = Scripted([page("a", *ODD_NAMES, "b")], [[line("ADDED", "c", 6)]])
        async with stumbling(sender, reported) as sink:
            await sink.saw("+c")
        assert sink.log == ["all: a b", "+c"]

    run(work())
    assert [each.name for each in reported] == [*ODD_NAMES]
    text = "ConfigMap /value can't be read: ValueError: Exceeds the limit (4300 digits)"
    assert str(reported[0]) == text


def test_an_event_that_cannot_be_decoded_moves_the_place_and_is_told_once() -> None:
    reported: list[Unreadable] = []

    async def work() -> Scripted:
        watches = [
            [line("ADDED", "value", 6), line("MODIFIED", "value", 7), line("ADDED", "c", 8)],
            [line("MODIFIED", "value", 9)],
        ]
        sender = Scripted([page("a")], watches)
        async with stumbling(sender, reported) as sink:
            await sender.asked_for(4)
        assert sink.log == ["all: a", "+c"]
        return sender

    asked = [dict(request.query).get("resourceVersion") for request in run(work()).requests]
    assert asked == [None, "5", "8", "9"]
    assert [(each.name, each.version) for each in reported] == [
        ("value", "6"),
        ("value", "7"),
        ("value", "9"),
    ]


def test_the_same_version_is_reported_once_however_often_it_is_listed() -> None:
    reported: list[Unreadable] = []

    async def work() -> None:
        error = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}
        gone = [json.dumps(error).encode()]
        sender = Scripted([page("value"), page("value"), page("value", "z")], [gone, gone])
        async with stumbling(sender, reported) as sink:
            await sink.saw("all: z")

    run(work())
    assert [each.name for each in reported] == ["value"]


def test_an_object_without_metadata_is_left_out_and_the_place_stays() -> None:
    reported: list[Unreadable] = []
    odd_objects: list[Any] = [
        {"metadata": None},
        {"metadata": {"resourceVersion": 7, "name": "seven"}},
        {},
        [],
        "text",
        None,
        {"metadata": {"name": "deep", "resourceVersion": "DEEP"}},
    ]

    async def work() -> Scripted:
        found = [json.dumps({"type": "MODIFIED", "object": each}) for each in odd_objects]
        lines = [with_fields(text, 3_000).encode() for text in found]
        sender = Scripted([page("a")], [lines, [line("ADDED", "c", 8)]])
        async with stumbling(sender, reported) as sink:
            await sink.saw("+c")
        assert sink.log == ["all: a", "+c"]
        return sender

    asked = [dict(request.query).get("resourceVersion") for request in run(work()).requests]
    assert asked[:3] == [None, "5", "5"]
    assert {each.name for each in reported} == {"", "seven", "deep"}


def test_the_end_of_an_object_that_cannot_be_decoded_means_a_new_list() -> None:
    async def work() -> None:
        sender = Scripted([page("a"), page("b")], [[line("DELETED", "value", 6)]])
        async with stumbling(sender, []) as sink:
            await sink.saw("all: b")

    run(work())


def test_objects_of_any_depth_are_followed(
    control_plane: ControlPlane, namespace: str, kubectl: Kubectl
) -> None:
    """In a list and in a watch; the server keeps all levels."""

    def make(name: str, depth: int) -> None:
        create_deep(kubectl, config_map(name, ours="yes"), depth)

    async def work() -> None:
        await asyncio.to_thread(make, "listed", DEPTH_MAX)
        async with (
            Transport(cluster(control_plane)) as transport,
            following(transport, ours(namespace)) as sink,
        ):
            await sink.saw("all: listed")
            await asyncio.to_thread(make, "seen", 3_000)
            await sink.saw("+seen")
            await asyncio.to_thread(kubectl, "delete", "configmap", "listed")
            await sink.saw("-listed")

    run(work())


def test_a_config_map_of_a_million_angles_is_followed(
    control_plane: ControlPlane, namespace: str
) -> None:
    """The server writes each of them as six characters, on one line."""

    async def work() -> None:
        async with (
            Transport(cluster(control_plane)) as transport,
            following(transport, ours(namespace)) as sink,
        ):
            await sink.saw("all: ")
            await put(transport, namespace, "wide", data={"a": "<" * 1_000_000})
            await sink.saw("+wide")

    run(work())


# Records


def test_a_pod_of_a_phase_that_nobody_knows_is_kept_with_the_problem() -> None:
    raw = json.dumps({"metadata": {"name": "p", "uid": "u"}, "status": {"phase": "Weird"}}).encode()
    pod = pod_of(raw)
    assert (pod.phase, pod.problem) == (
        PodPhase.UNKNOWN,
        "its phase is 'Weird', which is none of a pod's",
    )


@pytest.mark.parametrize(
    "status",
    [
        {"containerStatuses": "none"},
        {"containerStatuses": [{"name": 5}]},
        {"conditions": [{}]},
        {"containerStatuses": [{"name": "a", "state": {"running": {"startedAt": "soon"}}}]},
        "text",
    ],
    ids=str,
)
def test_a_pod_that_cannot_be_read_is_there_all_the_same(status: Any) -> None:
    metadata = {
        "name": "p",
        "namespace": "n",
        "uid": "u",
        "labels": {f"{PREFIX}/replica-type": "worker", f"{PREFIX}/replica-rank": "3"},
        "ownerReferences": [{"kind": "GenericJob", "name": "j", "uid": "ju", "controller": True}],
    }
    pod = pod_of(json.dumps({"metadata": metadata, "status": status}).encode())
    assert (pod.name, pod.role, pod.rank, pod.job_uid) == ("p", "worker", 3, "ju")
    assert pod.phase is PodPhase.UNKNOWN
    assert pod.problem.startswith("the pod can't be read: ")


@pytest.mark.parametrize("number", [HUGE, "²", "٣", "-1", "1e3", "2147483648", "500000"])
def test_a_number_that_no_pod_has_counts_as_none(number: str) -> None:
    metadata = {
        "name": "p",
        "annotations": {f"{PREFIX}/attempt": number, f"{PREFIX}/pods-before": number},
        "labels": {f"{PREFIX}/replica-type": "worker", f"{PREFIX}/replica-rank": HUGE},
    }
    pod = pod_of(json.dumps({"metadata": metadata}).encode())
    assert (pod.rank, pod.attempt, pod.pods_before) == (0, 0, 0)


def test_a_job_that_cannot_be_read_keeps_what_can_be() -> None:
    kind = next(kind for kind in KINDS if kind.name == "GenericJob")
    status = {"phase": "Running", "restarts": 3}
    raw = {"metadata": {"name": "j", "uid": "u"}, "spec": {"replicaSpecs": 5}, "status": status}
    record = job_decoder(kind)(json.dumps(raw).encode())
    assert record.job is None
    assert "Expected `array`, got `int` - at `$.spec.replicaSpecs`" in record.problem
    assert (record.name, record.phase) == ("j", "Running")


def test_a_job_of_any_depth_is_read() -> None:
    kind = next(kind for kind in KINDS if kind.name == "GenericJob")
    worker = {"type": "worker", "template": template()}
    metadata = {"name": "j", "managedFields": [{"fieldsV1": "DEEP"}]}
    text = json.dumps({"metadata": metadata, "spec": {"replicaSpecs": [worker]}})
    assert job_decoder(kind)(with_fields(text, DEPTH_MAX).encode()).job is not None


# The controller on a real API server


def template() -> Json:
    return {"spec": {"containers": [{"name": "main", "image": "i", "command": ["train"]}]}}


def config_map(name: str, **labels: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}}


def generic(name: str) -> Json:
    spec = {"replicaSpecs": [{"type": "worker", "replicas": 1, "template": template()}]}
    about = {"apiVersion": f"{PREFIX}/v1beta1", "kind": "GenericJob"}
    return {**about, "metadata": {"name": name}, "spec": spec}


def with_depth(manifest: Json, depth: int) -> str:
    """The manifest with managed fields of that depth."""
    entry = {"manager": "m", "operation": "Update", "apiVersion": manifest["apiVersion"],
             "fieldsType": "FieldsV1", "fieldsV1": "DEEP"}  # fmt: skip
    metadata = {**manifest["metadata"], "managedFields": [entry]}
    text = json.dumps({**manifest, "metadata": metadata})
    return with_fields(text, depth)


def with_fields(text: str, depth: int) -> str:
    """JSON with fields of that depth for DEEP; Python's own encoders call themselves for each."""
    return text.replace('"DEEP"', '{"f:a":' * depth + "{}" + "}" * depth)


def create_deep(kubectl: Kubectl, manifest: Json, depth: int) -> None:
    kubectl("create", "--validate=false", "-f", "-", stdin=with_depth(manifest, depth))


class Place:
    """One namespace with the controller in it, seen through kubectl: Go reads any depth."""

    def __init__(self, kubectl: Kubectl, controller: ControllerProcess) -> None:
        self._kubectl = kubectl
        self.controller = controller

    async def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        done = await asyncio.to_thread(partial(self._kubectl, *arguments, stdin=stdin))
        return done.stdout

    async def create(self, *manifests: Json) -> None:
        items = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        await self.kubectl("create", "-f", "-", stdin=json.dumps(items))

    async def path(self, what: str, path: str) -> str:
        return await self.kubectl("get", what, "--ignore-not-found", f"-o=jsonpath={path}")

    async def until(self, what: str, path: str, holds: Callable[[str], bool]) -> str:
        """What jsonpath shows of an object, once it holds."""
        found = ""
        try:
            async with asyncio.timeout(60):
                while not holds(found := await self.path(what, path)):
                    assert self.controller.process.returncode is None, self.controller.lines[-5:]
        except TimeoutError:
            raise AssertionError(
                f"{what} {path}: {found!r}\n{self.controller.lines[-5:]}"
            ) from None
        return found

    async def events(self, name: str) -> list[str]:
        path = "{range .items[*]}{.reason}: {.message}{'\\n'}{end}"
        found = await self.kubectl(
            "get", "events", f"--field-selector=involvedObject.name={name}", f"-o=jsonpath={path}"
        )
        return found.splitlines()

    async def told(self, name: str, text: str) -> list[str]:
        async with asyncio.timeout(60):
            while not any(text in each for each in await self.events(name)):
                pass
        return [each for each in await self.events(name) if text in each]

    async def still_works(self, name: str) -> None:
        """A new job gets its pod and says so."""
        await self.create(generic(name))
        await self.until(f"pod/{name}-worker-0", "{.metadata.name}", bool)
        path = "{.status.conditions[?(@.type=='Initialized')].status}"
        await self.until(f"genericjob/{name}", path, lambda found: found == "True")

    def logged(self, *words: str) -> int:
        return sum(all(word in str(line) for word in words) for line in self.controller.lines)


def play(
    plane: ControlPlane,
    namespace: str,
    kubectl: Kubectl,
    act: Callable[[Place], Awaitable[None]],
    before: Callable[[], None] | None = None,
) -> None:
    async def scene() -> None:
        if before is not None:
            await asyncio.to_thread(before)
        async with running_controller(plane.kubeconfig, namespace) as controller:
            place = Place(kubectl, controller)
            await act(place)
            assert controller.process.returncode is None, controller.lines[-5:]
        assert controller.process.returncode == 0

    asyncio.run(scene())


def poison_pod(name: str, **metadata: Any) -> Json:
    labels = {**MANAGED, f"{PREFIX}/replica-type": "worker", **metadata.pop("labels", {})}
    about = {"apiVersion": "v1", "kind": "Pod"}
    return {**about, "metadata": {"name": name, "labels": labels, **metadata}, **template()}


def poison_taskset(name: str) -> Json:
    annotations = {
        f"{PREFIX}/{word}": HUGE for word in ("attempt", "pods-before", "revision", "digest")
    }
    role = {
        "name": "worker",
        "replicas": 1,
        "template": {"metadata": {"annotations": annotations}, **template()},
        "completionPolicy": {"minSucceeded": 1},
    }
    about = {"apiVersion": "octopus.openi.pcl.cn/v1alpha1", "kind": "TaskSet"}
    return {**about, "metadata": {"name": name}, "spec": {"roles": [role]}}


def plant(kubectl: Kubectl, suffix: str) -> None:
    """Everything odd that a real API server keeps."""
    numbers = {f"{PREFIX}/{word}": HUGE for word in ("attempt", "pods-before")}
    kubectl(
        "create", "-f", "-", stdin=json.dumps(poison_pod(f"huge-{suffix}", annotations=numbers))
    )
    weird = poison_pod(f"weird-{suffix}")
    kubectl("create", "-f", "-", stdin=json.dumps(weird))
    kubectl(
        *("patch", "pod", f"weird-{suffix}", "--subresource=status", "--type=merge"),
        "--patch",
        '{"status":{"phase":"Weird"}}',
    )
    create_deep(kubectl, poison_pod(f"deep-{suffix}"), DEPTH_MAX)
    create_deep(kubectl, config_map(f"deep-{suffix}", **MANAGED), DEPTH_MAX)
    create_deep(kubectl, generic(f"deep-{suffix}"), DEPTH_MAX)
    service = {"ports": [{"port": 80}], "selector": {"a": "b"}}
    about = {"apiVersion": "v1", "kind": "Service", "spec": service}
    create_deep(
        kubectl, {**about, "metadata": {"name": f"deep-{suffix}", "labels": MANAGED}}, 3_000
    )


def test_odd_objects_neither_stop_the_controller_nor_keep_it_from_the_others(
    control_plane: ControlPlane, namespace: str, kubectl: Kubectl, crds: None
) -> None:
    """There when it starts, and made while it runs."""

    async def act(place: Place) -> None:
        await place.still_works("first")
        await place.until("genericjob/deep-early", "{.status.phase}", bool)
        await asyncio.to_thread(plant, kubectl, "late")
        await place.until("genericjob/deep-late", "{.status.phase}", bool)
        await place.still_works("second")
        await place.told("weird-late", "NotUnderstood: Pod")
        assert len(await place.told("weird-early", "its phase is 'Weird'")) == 1
        for name in ("weird-early", "weird-late"):
            assert place.logged(f"Pod {namespace}/{name} can't be read: its phase is 'Weird'") == 1
        assert not place.logged("Traceback")

    play(control_plane, namespace, kubectl, act, partial(plant, kubectl, "early"))


def test_a_taskset_cannot_tell_its_pods_how_they_came_to_be(
    control_plane: ControlPlane, namespace: str, kubectl: Kubectl, crds: None
) -> None:
    async def act(place: Place) -> None:
        await place.create(poison_taskset("poison"))
        found = await place.until("pod/poison-worker-0-0-0", "{.metadata.annotations}", bool)
        annotations = json.loads(found)
        assert HUGE not in annotations.values()
        assert annotations[f"{PREFIX}/attempt"] == "0"
        await place.until(
            "taskset/poison", "{.status.roleStatus[0].replicaStatus[0].podName}", bool
        )
        await place.still_works("first")

    play(control_plane, namespace, kubectl, act)


def test_a_pod_of_a_job_that_turns_odd_is_told_of_with_the_job(
    control_plane: ControlPlane, namespace: str, kubectl: Kubectl, crds: None
) -> None:
    async def act(place: Place) -> None:
        await place.still_works("job")
        await place.kubectl(
            *("patch", "pod", "job-worker-0", "--subresource=status", "--type=merge"),
            *("--patch", '{"status":{"phase":"Weird"}}'),
        )
        await place.told("job", "NotUnderstood: Pod")
        path = "{.status.tasks[0].status[0].phase}"
        await place.until("genericjob/job", path, lambda found: found == "Unknown")
        path = "{.status.conditions[?(@.type=='Running')].message}"
        await place.until("genericjob/job", path, lambda found: "its phase is 'Weird'" in found)

    play(control_plane, namespace, kubectl, act)
