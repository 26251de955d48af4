"""Managed fields and server-side apply: the same as a real API server, write by write.

Every write goes to the real server and through `tracked` or `applied`; objects, managed fields
with their order, and refusals must agree. Random sequences are the definition of right.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from rig.kube.api import Answer, ApiCaller
from rig.kube.plane import ControlPlane

from jobyard.server.apply import applied, tracked
from jobyard.server.kinds.types.kubernetes_schemas import definitions
from jobyard.server.resource import Part
from server.server_mirror import Json, Mirror, OpenApi, entries
from server.server_mirror_kinds import (
    DEFINED_SECONDS,
    GROUP,
    OWN_KINDS,
    SCHEMA,
    Chance,
    custom,
    define,
    definition,
    settled_thing,
)

SEED = int(os.environ.get("JOBYARD_SEED", "1"))
SEQUENCES = 6
STEPS = 30
MANAGERS = ("alice", "bob", "carol", "kubectl")

THING = custom("things", "Thing", SCHEMA, has_status=True)
CORE = "io.k8s.api.core.v1."


@asynccontextmanager
async def lab(plane: ControlPlane) -> AsyncIterator[tuple[ApiCaller, OpenApi]]:
    async with ApiCaller(plane) as api:
        open_api = OpenApi()
        await open_api.load(api, "api/v1", "apis/coordination.k8s.io/v1", "apis/events.k8s.io/v1")
        yield api, open_api


# Random sequences


def written(chance: Chance, mirror: Mirror) -> Json:
    """The object as a client sends it back after changing some of it."""
    assert mirror.mine is not None
    metadata = {**mirror.mine["metadata"], **chance.metadata()}
    match chance.random.randrange(12):
        case 0:
            metadata["managedFields"] = []
        case 1:
            metadata["managedFields"] = [{}]
        case 2:
            metadata["managedFields"] = entries(mirror.mine)[1:]
        case 3:
            metadata["managedFields"] = [{"manager": "nobody", "operation": "Guess"}]
        case 4 | 5 | 6 | 7:
            metadata.pop("managedFields", None)
    spec = {**mirror.mine.get("spec", {}), **chance.spec(0.2)}
    for name in list(spec):
        if chance.random.random() < 0.15:
            del spec[name]
    return {**mirror.mine, "metadata": metadata, "spec": spec}


def operations(chance: Chance, mirror: Mirror) -> list[Json]:
    """A random JSON patch, of which some operations may not apply."""
    out: list[Json] = []
    for _ in range(chance.random.randrange(1, 5)):
        name, value = chance.random.choice([*chance.spec(1.0).items()])
        step = chance.random.choice(["", "/0", "/-", "/1", "/k1", "/p/a", "/u"])
        path = f"/spec/{name}{step}"
        other = f"/spec/{chance.random.choice(['map', 'texts', 'items/0', 'free'])}"
        op = chance.random.choice(["add", "replace", "add", "remove", "move", "copy", "test"])
        if step and op in ("add", "replace", "test"):
            value = chance.text() if step in ("/k1", "/p/a") else chance.free()
            if name == "items":
                value = chance.item("t9")
        out.append({"op": op, "path": path, "value": value, "from": other})
    return out


def step(chance: Chance, mirror: Mirror) -> Awaitable[Answer]:
    """One random write."""
    roll = chance.random.random()
    manager = chance.random.choice(MANAGERS)
    force = chance.random.random() < 0.5
    if mirror.mine is None:
        full = {**mirror.head(**chance.metadata()), "spec": chance.spec()}
        return mirror.create(full, manager) if roll < 0.5 else mirror.apply(full, manager)
    if roll < 0.45:
        body = {**mirror.head(**chance.metadata()), "spec": chance.spec(0.25)}
        for name in list(body["spec"]):
            if chance.random.random() < 0.05:
                body["spec"][name] = None
        return mirror.apply(body, manager, force=force)
    if roll < 0.55:
        status = {**mirror.head(), "status": chance.status()}
        return mirror.apply(status, manager, force=force, part=Part.STATUS)
    if roll < 0.65:
        status = {**mirror.mine, "status": chance.status()}
        return mirror.update(status, manager, Part.STATUS)
    if roll < 0.8:
        return mirror.update(written(chance, mirror), manager)
    if roll < 0.9:
        return mirror.patch(operations(chance, mirror), "json-patch", manager)
    changes = chance.spec(0.2)
    for name in chance.some("map", "items", "free", "pair"):
        changes[name] = None
    return mirror.patch({"spec": changes}, "merge-patch", manager)


@pytest.mark.parametrize("number", range(SEQUENCES))
def test_random_writes_to_a_custom_object(
    number: int, control_plane: ControlPlane, namespace: str
) -> None:
    async def scenario() -> None:
        async with lab(control_plane) as (api, open_api):
            await define(api, definition("things", "Thing", SCHEMA, has_status=True))
            mirror = Mirror(api, THING, open_api, (namespace, "one"))
            mirror.defaulted = settled_thing
            chance = Chance(SEED + number)
            answers = [(await step(chance, mirror)).status for _ in range(STEPS)]
            # Most writes must get through, or little was compared.
            assert answers.count(200) >= STEPS // 3
            # Nothing may keep the namespace from going.
            await api.request(
                "PATCH",
                mirror.path,
                body={"metadata": {"finalizers": None}},
                content_type="application/merge-patch+json",
            )

    asyncio.run(scenario())


class Templates(Chance):
    """Random pod templates, whose lists merge by keys that have defaults."""

    def probably(self, **makers: Callable[[], Any]) -> Json:
        return {name: maker() for name, maker in makers.items() if self.random.random() < 0.5}

    def ports(self) -> list[Json]:
        found = {}
        for port in self.shuffled([80, 443, 8080]):
            protocol = self.random.choice([None, "TCP", "UDP"])
            found[port, protocol or "TCP"] = {
                "containerPort": port,
                **({} if protocol is None else {"protocol": protocol}),
            }
        return list(found.values())[: self.random.randrange(4)]

    def env(self) -> list[Json]:
        return [
            {"name": name, "value": self.random.choice("12")}
            if self.random.random() < 0.7
            else {"name": name, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
            for name in self.shuffled(self.some("A", "B", "C"))
        ]

    def container(self, name: str) -> Json:
        return {
            "name": name,
            "image": self.random.choice(["i1", "i2"]),
            **self.probably(
                env=self.env,
                ports=self.ports,
                args=self.texts,
                resources=lambda: {"limits": {"cpu": self.random.choice(["1", "2"])}},
                volumeMounts=lambda: [
                    {"name": "v", "mountPath": f"/{at}"} for at in self.some("a", "b")
                ],
            ),
        }

    def template(self) -> Json:
        names = self.shuffled(self.some("c1", "c2", "c3")) or ["c1"]
        return {
            "metadata": {"labels": self.labels()},
            "spec": {
                "containers": [self.container(name) for name in names],
                "volumes": [{"name": "v", "emptyDir": {}}],
                **self.probably(
                    nodeSelector=self.labels,
                    securityContext=lambda: {"runAsUser": self.random.randrange(3)},
                    tolerations=lambda: [{"key": self.random.choice("xy"), "operator": "Exists"}],
                    topologySpreadConstraints=lambda: [
                        {
                            "topologyKey": key,
                            "whenUnsatisfiable": "DoNotSchedule",
                            "maxSkew": 1 + self.random.randrange(2),
                        }
                        for key in self.some("zone", "host")
                    ],
                ),
            },
        }


@pytest.mark.parametrize("number", range(SEQUENCES))
def test_random_writes_to_a_pod_template(
    number: int, control_plane: ControlPlane, namespace: str
) -> None:
    async def scenario() -> None:
        async with lab(control_plane) as (api, open_api):
            kind = open_api.resource(CORE + "PodTemplate", "podtemplates", has_status=False)
            mirror = Mirror(api, kind, open_api, (namespace, "one"))
            await pod_template_steps(Templates(SEED + number), mirror, STEPS)

    asyncio.run(scenario())


async def pod_template_steps(chance: Templates, mirror: Mirror, count: int) -> Counter[int]:
    answers: Counter[int] = Counter()
    mirror.is_filled_in = True
    for _ in range(count):
        manager = chance.random.choice(MANAGERS)
        body = {**mirror.head(**chance.metadata()), "template": chance.template()}
        roll = chance.random.random()
        if mirror.mine is None and roll < 0.5:
            answer = await mirror.create(body, manager)
        elif mirror.mine is None or roll < 0.8:
            answer = await mirror.apply(body, manager, force=roll < 0.5)
        elif roll < 0.9:
            if roll < 0.85:
                env = body["template"]["spec"]["containers"][0].setdefault("env", [])
                # Nobody keeps a client from giving a variable twice.
                env += [{"name": "A", "value": "1"}, {"name": "A", "value": chance.text()}]
            answer = await mirror.update(body, manager)
        else:
            changes = {"template": chance.template()}
            answer = await mirror.patch(changes, "strategic-merge-patch", manager)
        answers[answer.status] += 1
    return answers


# Kubernetes' own kinds


@pytest.mark.parametrize("title", OWN_KINDS)
@pytest.mark.parametrize("schemas", ["published", "packaged"])
def test_one_of_kubernetes_own_kinds(
    title: str, schemas: str, control_plane: ControlPlane, namespace: str
) -> None:
    definition_name, plural, has_status, body, added = OWN_KINDS[title]

    async def scenario() -> None:
        async with lab(control_plane) as (api, open_api):
            ours = OpenApi(definitions()) if schemas == "packaged" else open_api
            kind = ours.resource(definition_name, plural, has_status=has_status)
            # Events about what has no namespace are in the default one.
            folder = "default" if "Event" in title else namespace
            for name in ("created", "applied"):
                mirror = Mirror(api, kind, ours, (folder, f"{name}-{namespace[-8:]}"))
                mirror.added = added
                mirror.is_filled_in = True
                full = {**mirror.head(labels={"x": "y"}), **body}
                write = mirror.create if name == "created" else mirror.apply
                assert (await write(full, "alice")).status == 201
                # The same again, by somebody else, and with something changed.
                await mirror.apply(full, "bob")
                other = {**mirror.head(labels={"x": "z"}, annotations={"n": "1"})}
                assert (await mirror.apply(other, "bob")).status == 409
                assert (await mirror.apply(other, "bob", force=True)).status == 200
                assert (await mirror.apply(mirror.head(), "bob")).status == 200
                await mirror.patch({"metadata": {"labels": None}}, "merge-patch", "carol")
                await api.request("DELETE", mirror.path, query={"gracePeriodSeconds": "0"})

    asyncio.run(scenario())


def test_the_status_door_of_a_pod(control_plane: ControlPlane, namespace: str) -> None:
    definition_name, plural, has_status, body, added = OWN_KINDS["Pod"]
    ready = {"type": "Ready", "status": "True", "lastProbeTime": None}

    async def scenario() -> None:
        async with lab(control_plane) as (api, open_api):
            kind = open_api.resource(definition_name, plural, has_status=has_status)
            mirror = Mirror(api, kind, open_api, (namespace, "one"))
            mirror.added, mirror.is_filled_in = added, True
            await mirror.create({**mirror.head(), **body}, "alice")
            status = {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}
            assert mirror.mine is not None
            running = {**mirror.mine, "status": {**mirror.mine["status"], **status}}
            await mirror.update(running, "kubelet", Part.STATUS)
            for change in (
                {"status": {"conditions": [ready]}},
                {"status": {"conditions": [{**ready, "status": "False"}], "phase": "Failed"}},
                {"metadata": {"labels": {"seen": "yes"}}, "status": {"message": "m"}},
                {"spec": {"nodeName": "ignored"}},
                {"status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}},
            ):
                await mirror.patch(change, "strategic-merge-patch", "kubelet", Part.STATUS)
            await mirror.apply(
                {**mirror.head(), "status": {"message": "other"}}, "bob", part=Part.STATUS
            )
            await mirror.update(mirror.mine, "alice")
            await api.request("DELETE", mirror.path, query={"gracePeriodSeconds": "0"})

    asyncio.run(scenario())


# One rule each, on a ConfigMap


async def config_map(api: ApiCaller, open_api: OpenApi, namespace: str) -> Mirror:
    kind = open_api.resource(CORE + "ConfigMap", "configmaps", has_status=False)
    return Mirror(api, kind, open_api, (namespace, "one"))


def test_conflicts_with_several_owners(control_plane: ControlPlane, namespace: str) -> None:
    async def scenario() -> None:
        async with lab(control_plane) as (api, open_api):
            mirror = await config_map(api, open_api, namespace)
            await mirror.create({**mirror.head(), "data": {"a": "1", "b": "1"}}, "kubectl")
            answer = await mirror.apply({**mirror.head(), "data": {"a": "2"}}, "zoe")
            assert answer.body["message"] == (
                'Apply failed with 1 conflict: conflict with "kubectl" using v1: .data.a'
            )
            await mirror.apply({**mirror.head(), "data": {"c": "1"}}, "bob")
            wanted = {**mirror.head(), "data": {"a": "2", "b": "2", "c": "2"}}
            answer = await mirror.apply(wanted, "zoe")
            assert answer.status == 409
            assert "Apply failed with 3 conflicts: " in answer.body["message"]
            assert (await mirror.apply(wanted, "zoe", force=True)).status == 200
            owner = entries(mirror.mine)[0]
            assert (owner["manager"], owner["operation"]) == ("zoe", "Apply")
            assert owner["fieldsV1"] == {"f:data": {"f:a": {}, "f:b": {}, "f:c": {}}}

    asyncio.run(scenario())


def test_intents_that_cannot_be_merged(control_plane: ControlPlane, namespace: str) -> None:
    async def scenario() -> None:
        async with lab(control_plane) as (api, open_api):
            await define(api, definition("things", "Thing", SCHEMA, has_status=True))
            mirror = Mirror(api, THING, open_api, (namespace, "one"))
            await mirror.apply({**mirror.head(), "spec": {"number": 1}}, "alice")
            for spec, metadata in (
                ({"unknown": 1}, {}),
                ({"number": "text"}, {}),
                ({"pair": {"a": 5}}, {}),
                ({"flag": "yes"}, {}),
                ({"pair": ["a"]}, {}),
                ({"texts": {"a": 1, "b": [1]}}, {}),
                ({"texts": ["a", "b", "a"]}, {}),
                ({"texts": [{"a": 1}]}, {}),
                ({"items": ["a"]}, {}),
                ({"items": [{"name": "a"}, {"name": "a", "port": 80}]}, {}),
                ({"number": "a", "flag": 1, "map": {"x": 1}}, {}),
                ({"number": True, "ratio": "x", "either": {}}, {}),
                ({}, {"managedFields": []}),
                ({}, {"managedFields": [{"manager": "x"}]}),
            ):
                body = {**mirror.head(**metadata), "spec": spec}
                assert (await mirror.apply(body, "bob")).status in (400, 500)
            for kind in ({"kind": "Other"}, {"apiVersion": "v1"}, {"apiVersion": "x.dev/v1"}):
                await mirror.apply({**mirror.head(), **kind}, "bob")

    asyncio.run(scenario())


def test_going_over_from_client_side_apply(control_plane: ControlPlane, namespace: str) -> None:
    async def scenario() -> None:
        async with lab(control_plane) as (api, open_api):
            mirror = await config_map(api, open_api, namespace)
            body = {**mirror.head(), "data": {"a": "1<2", "b": "1", "c": "1"}}
            last = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(body)}
            annotated = {**mirror.head(annotations=last), "data": body["data"]}
            await mirror.create(annotated, "kubectl-client-side-apply")
            # What kubectl applied itself is no conflict, what somebody changed since is one.
            await mirror.patch({"data": {"c": "2"}}, "merge-patch", "bob")
            changed = {**mirror.head(), "data": {"a": "<new>", "b": "1", "c": "3"}}
            assert (await mirror.apply(changed, "alice")).status == 409
            assert (await mirror.apply(changed, "kubectl")).status == 409
            changed["data"]["c"] = "2"
            assert (await mirror.apply(changed, "kubectl")).status == 200
            assert mirror.mine is not None
            kept = next(iter(mirror.mine["metadata"]["annotations"].values()))
            assert json.loads(kept) == changed

    asyncio.run(scenario())


def test_the_first_apply_finds_fields_of_nobody(
    control_plane: ControlPlane, namespace: str
) -> None:
    async def scenario() -> None:
        async with lab(control_plane) as (api, open_api):
            mirror = await config_map(api, open_api, namespace)
            await mirror.create({**mirror.head(), "data": {"a": "1"}}, "alice")
            await mirror.update({**mirror.head(managedFields=[{}]), "data": {"a": "2"}}, "alice")
            assert entries(mirror.mine) == []
            await mirror.update({**mirror.head(), "data": {"a": "3"}}, "alice")
            assert entries(mirror.mine) == []
            assert (await mirror.apply({**mirror.head(), "data": {"b": "1"}}, "bob")).status == 200
            managers = {entry["manager"] for entry in entries(mirror.mine)}
            assert managers == {"bob", "before-first-apply"}
            await mirror.update({**mirror.head(managedFields=[]), "data": {"a": "3"}}, "alice")
            assert entries(mirror.mine) == []

    asyncio.run(scenario())


def test_the_oldest_of_many_writers_are_put_together(
    control_plane: ControlPlane, namespace: str
) -> None:
    async def scenario() -> None:
        async with lab(control_plane) as (api, open_api):
            mirror = await config_map(api, open_api, namespace)
            await mirror.create({**mirror.head(), "data": {"a": "1"}}, "m00")
            for number in range(1, 16):
                change = {"data": {f"k{number}": "1"}}
                await mirror.patch(change, "merge-patch", f"m{number:02}")
            assert len(entries(mirror.mine)) == 10
            assert "ancient-changes" in {entry["manager"] for entry in entries(mirror.mine)}

    asyncio.run(scenario())


async def probe(api: ApiCaller, path: str, change: Json) -> int:
    """What a merge patch would be answered with."""
    answer = await api.request(
        "PATCH",
        path,
        body=change,
        query={"dryRun": "All"},
        content_type="application/merge-patch+json",
    )
    return answer.status


def test_a_list_that_became_a_single_value(control_plane: ControlPlane, namespace: str) -> None:
    merging = {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}
    single = {**merging, "x-kubernetes-list-type": "atomic"}

    def schema(texts: Json) -> Json:
        spec = {"type": "object", "properties": {"texts": texts}}
        return {"type": "object", "properties": {"spec": spec}}

    async def scenario() -> None:
        async with lab(control_plane) as (api, open_api):
            plural = f"c{namespace[-8:]}s"
            crd = definition(plural, plural.title(), schema(merging), has_status=False)
            await define(api, crd)
            kind = custom(plural, plural.title(), schema(merging), has_status=False)
            mirror = Mirror(api, kind, open_api, (namespace, "one"))
            await mirror.apply({**mirror.head(), "spec": {"texts": ["a"]}}, "alice")
            await mirror.apply({**mirror.head(), "spec": {"texts": ["b"]}}, "bob")
            version = {**crd["spec"]["versions"][0], "schema": {"openAPIV3Schema": schema(single)}}
            path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.{GROUP}"
            answer = await api.request(
                "PATCH",
                path,
                body={"spec": {"versions": [version]}},
                content_type="application/merge-patch+json",
            )
            assert answer.status == 200, answer.text
            mirror.resource = custom(plural, plural.title(), schema(single), has_status=False)
            async with asyncio.timeout(DEFINED_SECONDS):
                # A set refuses what a single value takes; that is when the change has arrived.
                while (await probe(api, mirror.path, {"spec": {"texts": ["a", "a"]}})) != 200:
                    pass
            await mirror.patch({"metadata": {"labels": {"x": "y"}}}, "merge-patch", "carol")
            await mirror.apply({**mirror.head(), "spec": {"texts": ["c"]}}, "bob", force=True)
            await api.request("DELETE", path)

    asyncio.run(scenario())


# Without a server: what can't be seen from outside


THING_HEAD: Json = {"apiVersion": "mirror.jobyard.dev/v1", "kind": "Thing"}


def write(old: Json | None, new: Json, manager: str, time: str, part: Part = Part.WHOLE) -> Json:
    return tracked(
        old,
        new,
        manager=manager,
        time=time,
        part=part,
        resource=THING,
        resolve=OpenApi().resolved,
    )


def stored(obj: Json) -> Json:
    return {**THING_HEAD, "metadata": {"name": "one", "uid": "u"}, **obj}


def times(obj: Json) -> dict[str, str]:
    return {entry["manager"]: entry["time"] for entry in entries(obj)}


def test_a_time_changes_only_with_what_its_writer_sets() -> None:
    first = write(None, stored({"spec": {"map": {"a": "1", "b": "1"}}}), "alice", "T1")
    assert times(first) == {"alice": "T1"}
    changed = {**first, "spec": {"map": {"a": "1", "b": "2"}}}
    second = write(first, changed, "bob", "T2")
    assert times(second) == {"alice": "T1", "bob": "T2"}
    assert write(second, second, "carol", "T3") is second
    again = {**second, "spec": {"map": {"a": "1", "b": "3"}}}
    assert times(write(second, again, "bob", "T4")) == {"alice": "T1", "bob": "T4"}
    # To remove is to own nothing: the one who did isn't noted, and no time changes.
    removed = write(second, {**second, "spec": {"map": {"a": "1"}}}, "dave", "T5")
    assert times(removed) == {"alice": "T1"}


class Tripwire(dict[str, Any]):
    """A map that nobody may look into."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("looked into what didn't change")

    items = keys = values = __iter__  # type: ignore[assignment]


def test_tracking_walks_only_where_something_changed() -> None:
    first = write(None, stored({"spec": {"map": {"a": "1"}}}), "alice", "T1")
    (entry,) = entries(first)
    old = {**first, "spec": Tripwire(first["spec"]), "status": {"phase": "x"}}
    new = write(old, {**old, "status": {"phase": "y"}}, "kubelet", "T2", Part.STATUS)
    assert [each["manager"] for each in entries(new)] == ["alice", "kubelet"]
    # The entry of who wasn't concerned is the very same.
    assert entries(new)[0] is entry
    assert new["spec"] is old["spec"]


def test_an_apply_that_changes_nothing_gives_back_the_object() -> None:
    intent = {**THING_HEAD, "metadata": {"name": "one"}, "spec": {"map": {"a": "1"}}}

    def apply(live: Json | None, time: str) -> Json:
        return applied(
            live,
            intent,
            manager="alice",
            force=False,
            time=time,
            part=Part.WHOLE,
            resource=THING,
            resolve=OpenApi().resolved,
        )

    made = apply(None, "T1")
    live = {**made, "metadata": {**made["metadata"], "uid": "u"}}
    assert apply(live, "T2") is live


def test_the_same_set_of_fields_in_any_spelling() -> None:
    live = write(None, stored({"spec": {"items": [{"name": "a", "port": 80}]}}), "alice", "T1")
    (entry,) = entries(live)
    spelt = {
        **entry,
        "fieldsV1": {
            "f:spec": {
                "f:items": {
                    'k:{ "port": 8e1, "name": "\\u0061" }': {"f:port": {}, "f:name": {}, ".": {}},
                    "x:unknown": {},
                    ".": {},
                },
                ".": {},
            }
        },
    }
    metadata = {**live["metadata"], "managedFields": [spelt]}
    assert entries(write(live, {**live, "metadata": metadata}, "bob", "T2")) == [entry]
