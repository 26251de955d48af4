"""Patches do to an object what they do to it on a real API server, refusals included."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from conformance.normal import reworded
from rig.kube.plane import ControlPlane

from jobyard.server.patching import patched
from jobyard.server.problem import ProblemError
from server.server_mirror import Json, Mirror, OpenApi, RawCaller
from server.server_mirror_kinds import SCHEMA, Chance, custom, define, definition

SEED = int(os.environ.get("JOBYARD_SEED", "1"))
SEQUENCES = 4
STEPS = 40

CORE = "io.k8s.api.core.v1."
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


@asynccontextmanager
async def lab(plane: ControlPlane) -> AsyncIterator[tuple[RawCaller, OpenApi]]:
    async with RawCaller(plane) as api:
        open_api = OpenApi()
        await open_api.load(api, "api/v1")
        yield api, open_api


# JSON patches, one by one

DATA = {"a": "1", "b": "2"}
# With its quotes a third of what may be copied in one patch.
THIRD = 2**20


def copying(value: str, times: int) -> list[Json]:
    """A large value put in, copied so many times, and taken out again."""
    return [
        {"op": "add", "path": "/data/large", "value": value},
        *([{"op": "copy", "from": "/data/large", "path": "/data/copy"}] * times),
        {"op": "remove", "path": "/data/large"},
        {"op": "remove", "path": "/data/copy"},
    ]


OPERATIONS: dict[str, Any] = {
    "adding a field": [{"op": "add", "path": "/data/c", "value": "3"}],
    "adding in place of a field": [{"op": "add", "path": "/data/a", "value": "3"}],
    "replacing a field that isn't there": [{"op": "replace", "path": "/data/no", "value": "3"}],
    "adding below what isn't there": [{"op": "add", "path": "/no/c", "value": "3"}],
    "adding below a text": [{"op": "add", "path": "/data/a/b", "value": "3"}],
    "removing a field": [{"op": "remove", "path": "/data/a"}],
    "removing what isn't there": [{"op": "remove", "path": "/data/no"}],
    "a slash and a tilde in names": [
        {"op": "add", "path": "/metadata/annotations", "value": {"x.dev/a": "1"}},
        {"op": "replace", "path": "/metadata/annotations/x.dev~1a", "value": "x"},
        {"op": "test", "path": "/metadata/annotations/x.dev~01a", "value": None},
    ],
    "a path without its slash": [{"op": "add", "path": "data", "value": {"z": "1"}}],
    "something before the first slash": [{"op": "add", "path": "what/data/z", "value": "1"}],
    "a test that holds": [
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "remove", "path": "/data/a"},
    ],
    "a test that fails": [{"op": "test", "path": "/data/a", "value": "2"}],
    "a test of a whole map": [{"op": "test", "path": "/data", "value": DATA}],
    "a test of what isn't there": [{"op": "test", "path": "/data/no", "value": "2"}],
    "a test that something isn't there": [{"op": "test", "path": "/data/no", "value": None}],
    "a test without a value": [{"op": "test", "path": "/data/a"}],
    "moving": [{"op": "move", "from": "/data/a", "path": "/data/z"}],
    "moving what isn't there": [{"op": "move", "from": "/data/no", "path": "/data/z"}],
    "moving without from": [{"op": "move", "path": "/data/z"}],
    "copying": [{"op": "copy", "from": "/data/a", "path": "/data/z"}],
    "copying a map and changing the copy": [
        {"op": "copy", "from": "/data", "path": "/metadata/labels"},
        {"op": "replace", "path": "/metadata/labels", "value": {"x": "y"}},
        {"op": "copy", "from": "/metadata/labels", "path": "/metadata/annotations"},
        {"op": "add", "path": "/metadata/annotations/more", "value": "yes"},
        {"op": "add", "path": "/metadata/labels/other", "value": "no"},
    ],
    "copying as much as may be": copying("x" * (THIRD - 2), 3),
    "copying a byte more": copying("x" * (THIRD - 1), 3),
    "copying what a server spells in more bytes, as much as may be": copying(
        "<" * (THIRD // 6 - 1), 3
    ),
    "copying what a server spells in more bytes": copying("<" * (THIRD // 6), 3),
    "doubling a map again and again": [
        {"op": "add", "path": "/metadata/annotations", "value": {"x": "y" * 100}},
        *(
            {"op": "copy", "from": "/metadata/annotations", "path": f"/metadata/annotations/{n}"}
            for n in range(20)
        ),
    ],
    "copying what isn't there": [{"op": "copy", "from": "/data/no", "path": "/data/z"}] * 2000,
    "an unknown operation": [{"op": "frobnicate", "path": "/data/a"}],
    "no operation": [{"path": "/data/a"}],
    "no path": [{"op": "add", "value": "1"}],
    "the path null": [{"op": "add", "path": None, "value": "1"}],
    "nothing to do": [],
    "an operation that is null": [None],
    "an object": {"op": "add"},
    "a list of texts": ["add"],
    "a path that is a number": [{"op": "add", "path": 5, "value": "1"}],
    "an operation that is a list": [{"op": [], "path": "/data/a", "value": "1"}],
    "a list in place of the object": [{"op": "replace", "path": "", "value": ["x"]}],
    "a text in place of the object": [{"op": "replace", "path": "", "value": "x"}],
    "too many operations": [{"op": "test", "path": "/data/a", "value": "1"}] * 10_001,
    "list items by index": [
        {"op": "add", "path": "/metadata/finalizers", "value": ["x.dev/a", "x.dev/b"]},
        {"op": "add", "path": "/metadata/finalizers/-", "value": "x.dev/c"},
        {"op": "add", "path": "/metadata/finalizers/0", "value": "x.dev/d"},
        {"op": "replace", "path": "/metadata/finalizers/-1", "value": "x.dev/e"},
        {"op": "remove", "path": "/metadata/finalizers/1"},
        {"op": "add", "path": "/metadata/finalizers/+1", "value": "x.dev/f"},
        {"op": "move", "from": "/metadata/finalizers/0", "path": "/metadata/finalizers/02"},
    ],
    "an index too far": [
        {"op": "add", "path": "/metadata/finalizers", "value": ["x.dev/a"]},
        {"op": "add", "path": "/metadata/finalizers/2", "value": "x.dev/c"},
    ],
    "an index that is no number": [
        {"op": "add", "path": "/metadata/finalizers", "value": ["x.dev/a"]},
        {"op": "add", "path": "/metadata/finalizers/1_0", "value": "x.dev/c"},
    ],
}


# The caller of the tests sends all in one piece, and that is what is wanted here.
@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
def test_json_patches_one_by_one(control_plane: ControlPlane, namespace: str) -> None:
    async def scenario() -> None:
        async with lab(control_plane) as (api, open_api):
            config_map = open_api.resource(CORE + "ConfigMap", "configmaps", has_status=False)
            mirror = Mirror(api, config_map, open_api, (namespace, "one"))
            await mirror.create({**mirror.head(), "data": DATA}, "alice")
            for title, operations in OPERATIONS.items():
                mirror.steps.append(f"# {title}")
                await mirror.patch(operations, "json-patch", "bob")
                assert mirror.mine is not None
                back = {**dict.fromkeys(mirror.mine["data"]), **DATA}
                await mirror.patch({"data": back}, "merge-patch", "carol")

    asyncio.run(scenario())


BODIES: list[tuple[str, bytes]] = [
    (JSON_PATCH, b"null"),
    (JSON_PATCH, b""),
    (JSON_PATCH, b"{"),
    (JSON_PATCH, b"[{]"),
    (JSON_PATCH, b'[{"op" "add"}]'),
    (JSON_PATCH, b'[{"op": "add"]'),
    (JSON_PATCH, b'[{"op": add}]'),
    (JSON_PATCH, b"[] []"),
    (JSON_PATCH, b"[1 2]"),
    (JSON_PATCH, b"true"),
    (JSON_PATCH, b"5"),
    (MERGE_PATCH, b"null"),
    (MERGE_PATCH, b"[]"),
    (MERGE_PATCH, b'"text"'),
    (MERGE_PATCH, b"{"),
    (STRATEGIC, b"[]"),
    (STRATEGIC, b"null"),
    (STRATEGIC, b"}"),
]


def test_bodies_that_are_no_patches(control_plane: ControlPlane, namespace: str) -> None:
    async def scenario() -> None:
        async with lab(control_plane) as (api, open_api):
            config_map = open_api.resource(CORE + "ConfigMap", "configmaps", has_status=False)
            mirror = Mirror(api, config_map, open_api, (namespace, "one"))
            await mirror.create({**mirror.head(), "data": DATA}, "alice")
            for content_type, body in BODIES:
                theirs = await api.raw(mirror.path, body, content_type)
                ours = outcome(mirror, content_type, body)
                if "status" in ours:
                    assert plain(ours) == plain(theirs), (content_type, body)
                else:
                    assert ours == mirror.mine, (content_type, body)
                    assert theirs["kind"] == "ConfigMap", (content_type, body, theirs)

    asyncio.run(scenario())


def plain(status: Json) -> Json:
    """Without what a decoder says in its own words."""
    return {**status, "message": reworded(status["message"])}


def outcome(mirror: Mirror, content_type: str, body: bytes) -> Json:
    """The object that the patch makes, or the Status that refuses it."""
    assert mirror.mine is not None
    try:
        return patched(mirror.mine, body, content_type, mirror.resource, mirror.resolve)
    except ProblemError as problem:
        return problem.status


def test_types_that_are_not_taken(control_plane: ControlPlane, namespace: str) -> None:
    async def scenario() -> None:
        async with lab(control_plane) as (api, open_api):
            await define(api, definition("things", "Thing", SCHEMA, has_status=True))
            own = open_api.resource(CORE + "ConfigMap", "configmaps", has_status=False)
            for resource in (own, custom("things", "Thing", SCHEMA, has_status=True)):
                mirror = Mirror(api, resource, open_api, (namespace, "one"))
                await mirror.create(mirror.head(), "alice")
                for content_type in (STRATEGIC, "application/json", "text/plain"):
                    if resource is own and content_type == STRATEGIC:
                        continue
                    theirs = await api.raw(mirror.path, b"{}", content_type)
                    assert outcome(mirror, content_type, b"{}") == theirs
                assert outcome(mirror, f"{MERGE_PATCH}; charset=utf-8", b"{}") == mirror.mine

    asyncio.run(scenario())


# Strategic merge patches of a pod template, which may change as a whole

TEMPLATE: Json = {
    "metadata": {"labels": {"l1": "v1"}},
    "spec": {
        "containers": [
            {
                "name": "c1",
                "image": "i1",
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                "ports": [{"containerPort": 80}, {"containerPort": 443, "name": "tls"}],
                "args": ["x", "y"],
            },
            {"name": "c2", "image": "i2"},
            {"name": "c3", "image": "i3"},
        ],
        "volumes": [{"name": "v1", "emptyDir": {}}, {"name": "v2", "hostPath": {"path": "/x"}}],
        "nodeSelector": {"a": "b"},
        "securityContext": {"runAsUser": 1, "supplementalGroups": [1, 2]},
    },
}


class Patches(Chance):
    """Random strategic merge patches of a pod template, with every directive."""

    def chosen(self, *names: str) -> list[str]:
        return self.shuffled(self.some(*names))

    def directed(self, patch: Json, key: str, often: float = 0.15) -> Json:
        """The item, or an item that deletes it."""
        if self.random.random() < often:
            return {key: patch[key], "$patch": "delete"}
        return patch

    def with_order(self, patch: Json, field: str, key: str, names: list[Any]) -> None:
        """Sometimes with the order of the list, which mostly names all that is patched."""
        if self.random.random() < 0.4:
            items = [i[key] for i in patch.get(field, []) if "$patch" not in i and key in i]
            order = [*items, *(n for n in names if n not in items and self.random.random() < 0.5)]
            if self.random.random() < 0.1:
                order = self.shuffled(order)
            patch[f"$setElementOrder/{field}"] = [{key: name} for name in order]

    def env(self) -> list[Json]:
        return [
            self.directed({"name": name, "value": self.random.choice("123")}, "name")
            for name in self.chosen("A", "B", "C")
        ]

    def ports(self) -> list[Json]:
        return [
            self.directed({"containerPort": port}, "containerPort")
            for port in self.shuffled([80, 443, 8080])
            if self.random.random() < 0.6
        ]

    def container(self, name: str) -> Json:
        out: Json = {"name": name, "image": self.random.choice(["i1", "i2"])}
        for part in self.some("env", "ports", "args", "resources", "stdin"):
            match part:
                case "env":
                    out["env"] = self.env()
                    self.with_order(out, "env", "name", ["A", "B", "C"])
                case "ports":
                    out["ports"] = self.ports()
                case "args":
                    out["args"] = self.random.choice([None, ["z"], []])
                case "resources":
                    out["resources"] = self.random.choice(
                        [{"limits": {"cpu": "1"}}, {"$patch": "replace"}, {"$patch": "delete"}]
                    )
                case "stdin":
                    out["stdin"] = self.random.choice([None, True])
        return self.directed(out, "name")

    def containers(self) -> list[Json]:
        out = [self.container(name) for name in self.chosen("c1", "c2", "c3", "c4")]
        if self.random.random() < 0.1:
            out = [{"$patch": "replace"}, *out]
        if self.random.random() < 0.05:
            out.append({"image": "nameless"})
        return out

    def volumes(self) -> list[Json]:
        out = []
        for name in self.chosen("v1", "v2", "v3"):
            source = self.random.choice([{"emptyDir": {}}, {"hostPath": {"path": "/y"}}])
            patch: Json = {"name": name, **source}
            if self.random.random() < 0.7:
                patch["$retainKeys"] = ["name", *source]
            out.append(self.directed(patch, "name"))
        return out

    def patch(self) -> Json:
        spec: Json = {}
        for part in self.some("containers", "volumes", "nodeSelector", "securityContext"):
            match part:
                case "containers":
                    spec["containers"] = self.containers()
                    self.with_order(spec, "containers", "name", ["c1", "c2", "c3"])
                case "volumes":
                    spec["volumes"] = self.volumes()
                case "nodeSelector":
                    spec[part] = self.random.choice(
                        [None, {"a": None, "c": "d"}, {"$patch": "replace", "e": "f"}, {"a": "b"}]
                    )
                case "securityContext":
                    spec[part] = {"supplementalGroups": self.random.choice([[3], None, [1, 3]])}
        template: Json = {"spec": spec}
        if self.random.random() < 0.3:
            template["metadata"] = {"labels": self.random.choice([None, self.labels()])}
        out: Json = {"template": template}
        names = [f"x.dev/{name}" for name in self.chosen("f1", "f2", "f3")]
        match self.random.randrange(6):
            case 0:
                out["metadata"] = {"finalizers": names}
            case 1:
                out["metadata"] = {"$deleteFromPrimitiveList/finalizers": names}
            case 2:
                out["metadata"] = {
                    "finalizers": names[:1],
                    "$setElementOrder/finalizers": names,
                }
        return out


@pytest.mark.parametrize("number", range(SEQUENCES))
def test_random_strategic_merge_patches(
    number: int, control_plane: ControlPlane, namespace: str
) -> None:
    async def scenario() -> None:
        async with lab(control_plane) as (api, open_api):
            kind = open_api.resource(CORE + "PodTemplate", "podtemplates", has_status=False)
            mirror = Mirror(api, kind, open_api, (namespace, "one"))
            mirror.is_filled_in = True
            await mirror.create({**mirror.head(), "template": TEMPLATE}, "alice")
            chance = Patches(SEED + number)
            for _ in range(STEPS):
                manager = chance.random.choice(["alice", "bob"])
                await mirror.patch(chance.patch(), "strategic-merge-patch", manager)
            await mirror.patch({"metadata": {"finalizers": None}}, "merge-patch", "alice")

    asyncio.run(scenario())
