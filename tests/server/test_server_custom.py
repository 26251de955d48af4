"""Custom resources in the embedded API server: CRDs, ours and users', judged as by a real one."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import secrets
from typing import Any

import pytest
from manifest.mutation import Mutator
from rig.kube.api import ApiCaller
from rig.kube.plane import ControlPlane
from rig.manifests import valid_manifests

from jobyard.api.crd import crd, schema_node
from jobyard.api.kinds import KINDS, kind_of
from jobyard.schema.admission import admitted
from jobyard.server.built_in_kinds import builtin_resources
from jobyard.server.crds.definitions import custom_resources
from jobyard.server.crds.wording import joined
from jobyard.server.problem import ProblemError
from jobyard.server.resource import Part, ServedResource
from server.server_verdicts import change_differences, comparable, creation_differences, differences

Object = dict[str, Any]

CRDS = next(row for row in builtin_resources() if row.kind == "CustomResourceDefinition")
PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
READY_SECONDS = 60
MUTATIONS = 1_500


def field(kind: str = "string", **rest: Any) -> Object:
    return {"type": kind, **rest}


def rules(*texts: str | Object) -> list[Object]:
    return [{"rule": text} if isinstance(text, str) else text for text in texts]


_EITHER = {"properties": {"p": field("integer"), "r": field("integer")}, "type": "object"}
_FORMATS = ("date-time", "date", "duration", "email", "ipv4", "uri", "uuid", "byte", "hostname")
SPEC: Object = {
    "type": "object",
    "required": ["need"],
    "x-kubernetes-validations": rules(
        {"rule": "self.a < 50", "message": "a too big"},
        "!has(self.q) || self.q == 'ok'",
        {"rule": "self.a >= oldSelf.a", "messageExpression": "'a was %d'.format([oldSelf.a])"},
        {
            "rule": "!has(self.fp) || self.fp < 3",
            "fieldPath": ".fp",
            "reason": "FieldValueForbidden",
            "message": "no fp",
        },
        "self.a != 13 || self.missing == 1",
        "!has(self.two__dash__words) || self.two__dash__words != 'no'",
    ),
    "properties": {
        "need": field(),
        "a": field("integer", default=1),
        "missing": field("integer"),
        "q": field(maxLength=20),
        "fp": field("integer"),
        "two-words": field(maxLength=20),
        "int": field("integer", minimum=1, maximum=5, format="int32"),
        "num": field("number", minimum=1, exclusiveMinimum=True, maximum=5, exclusiveMaximum=True),
        "half": field("number", multipleOf=0.5),
        "str": field(minLength=2, maxLength=4, pattern="^a"),
        "enum": field(enum=["x", "y"]),
        "bool": field("boolean"),
        "arr": field("array", minItems=1, maxItems=2, items=field("integer")),
        "set": field("array", items=field()) | {"x-kubernetes-list-type": "set"},
        "lmap": field(
            "array",
            maxItems=10,
            items={
                "type": "object",
                "required": ["k"],
                "properties": {
                    "k": field(),
                    "v": field("integer")
                    | {
                        "x-kubernetes-validations": rules(
                            {"rule": "self >= oldSelf", "message": "v shrank"}
                        )
                    },
                },
            },
        )
        | {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]},
        "obj": field(
            "object", minProperties=1, maxProperties=2, additionalProperties=field("integer")
        ),
        "free": field("object") | {"x-kubernetes-preserve-unknown-fields": True},
        "any": {"x-kubernetes-preserve-unknown-fields": True},
        "ios": {"x-kubernetes-int-or-string": True},
        "nul": field(nullable=True),
        "emb": field("object")
        | {
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        },
        **{f"f-{name}": field(format=name) for name in _FORMATS},
        "anyo": _EITHER | {"anyOf": [{"required": ["p"]}, {"required": ["r"]}]},
        "oneo": _EITHER | {"oneOf": [{"required": ["p"]}, {"required": ["r"]}]},
        "allo": _EITHER | {"allOf": [{"required": ["p"]}, {"properties": {"r": {"minimum": 5}}}]},
        "nott": field() | {"not": {"enum": ["bad"]}},
        "deep": field(
            "object",
            properties={
                "x": field("object", default={}, properties={"y": field("integer", default=7)})
            },
        ),
        "opt": field(maxLength=10)
        | {
            "x-kubernetes-validations": rules(
                {
                    "rule": "!oldSelf.hasValue() || self == oldSelf.value()",
                    "optionalOldSelf": True,
                    "message": "opt frozen",
                }
            )
        },
    },
}


def definition(schema: Object | None = None, plural: str = "things", **spec: Any) -> Object:
    """A CRD; `version` in the spec adds to its only version."""
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object"} if schema is None else schema},
    } | spec.pop("version", {})
    base = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": plural, "kind": plural.title().removesuffix("s")},
        "versions": [version],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": base | spec,
    }


def whole(spec: Object) -> Object:
    phase = {"type": "object", "properties": {"phase": field()}}
    return {"type": "object", "required": ["spec"], "properties": {"spec": spec, "status": phase}}


def thing(**spec: Any) -> Object:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "sample"},
        "spec": {"need": "x", **spec},
    }


def row_of(given: Object) -> ServedResource:
    taken = CRDS.strategy.created(given)
    assert not taken.causes
    (row,) = custom_resources(taken.value)
    return row


THING = definition(whole(SPEC), version={"subresources": {"status": {}}})


@pytest.fixture(scope="module")
def things(control_plane: ControlPlane) -> ServedResource:
    """Our row for THING, which the real server serves as well.

    It stays there: other workers may still be at it.
    """
    asyncio.run(establish(control_plane, THING))
    return row_of(THING)


async def establish(plane: ControlPlane, given: Object) -> None:
    name = given["metadata"]["name"]
    async with ApiCaller(plane) as api, asyncio.timeout(READY_SECONDS):
        answer = await api.request("POST", PATH, body=given)
        assert answer.status in (201, 409), answer.text
        query = {"fieldSelector": f"metadata.name={name}"}
        async for event in api.watch(PATH, query=query):
            if is_established(event["object"]):
                break
        # Established is what one controller says; the path is another's.
        kind = given["spec"]["names"]["plural"]
        while (await api.request("GET", f"/apis/example.com/v1/{kind}")).status != 200:
            pass


def is_established(value: Object) -> bool:
    conditions = value.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


OBJECTS: dict[str, Object] = {
    "the least": thing(),
    "a text for an integer": thing(int="a"),
    "too small": thing(int=0),
    "too large": thing(int=9),
    "a fraction for an integer": thing(int=1.5),
    "a whole fraction": thing(int=2.0),
    "at an exclusive minimum": thing(num=1.0),
    "at an exclusive maximum": thing(num=5.0),
    "no multiple": thing(half=1.7),
    "a multiple": thing(half=1.5),
    "too short": thing(str="a"),
    "too long": thing(str="bbbbbb"),
    "no match": thing(str="bb"),
    "not listed": thing(enum="z"),
    "no truth value": thing(bool="x"),
    "too few items": thing(arr=[]),
    "too many items": thing(arr=[1, 2, 3]),
    "items of a wrong type": thing(arr=["x", None]),
    "an object for a list": thing(arr={}),
    "a set with repetition": thing(set=["a", "b", "a"]),
    "a map with repetition": thing(lmap=[{"k": "a"}, {"k": "a"}]),
    "a map without its key": thing(lmap=[{"v": 1}]),
    "too few entries": thing(obj={}),
    "too many entries": thing(obj={"a": 1, "b": 2, "c": 3}),
    "an entry of a wrong type": thing(obj={"a": "x"}),
    "free fields": thing(free={"a": [1]}, any=[1, {"z": None}]),
    "a text for an object": thing(free="x"),
    "a fraction for int-or-string": thing(ios=1.5),
    "a text for int-or-string": thing(ios="5"),
    "null where it may be, and where not": thing(nul=None, enum=None),
    "an embedded object without a kind": thing(emb={}),
    "an embedded object": thing(
        emb={"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "A B", "foo": 1}, "x": 1}
    ),
    "formats": thing(**{f"f-{name}": "!?" for name in _FORMATS}),
    "good formats": thing(
        **{
            "f-date-time": "2024-01-01T00:00:00Z",
            "f-date": "2024-01-01",
            "f-duration": "1h30m",
            "f-email": "a@b.c",
            "f-ipv4": "1.2.3.4",
            "f-uri": "http://a",
            "f-uuid": "123e4567-e89b-12d3-a456-426614174000",
            "f-byte": "eA==",
            "f-hostname": "a.example",
        }
    ),
    "none of any": thing(anyo={}),
    "none of one": thing(oneo={}),
    "both of one": thing(oneo={"p": 1, "r": 1}),
    "none of all": thing(allo={"r": 1}),
    "some of all": thing(allo={"p": 1, "r": 1}),
    "what is excluded": thing(nott="bad"),
    "defaults inside": thing(deep={}),
    "null for what is required": thing(need=None),
    "a rule": thing(a=60),
    "a rule without words": thing(q="no"),
    "a rule at a field": thing(fp=5),
    "a rule that breaks": thing(a=13),
    "a rule on an escaped name": thing(**{"two-words": "no"}),
    "a rule and a bound": thing(a=60, int=0),
    "a rule and a type": thing(a=60, int="x"),
    "unknown fields": thing(bogus=1, deep={"x": {"z": 2}}),
    "no spec": {key: value for key, value in thing().items() if key != "spec"},
    "a number for a spec": thing() | {"spec": 5},
    "a number for a label": thing() | {"metadata": {"name": "a", "labels": {"a": 5}}},
    "bad metadata": thing()
    | {"metadata": {"name": "A", "labels": {"a b": "5"}, "foo": 1, "finalizers": ["foo"]}},
    "no name": thing() | {"metadata": {}},
    "a number for metadata": thing() | {"metadata": 5},
    "a status": thing() | {"status": {"phase": 5}},
}


@pytest.mark.parametrize("name", OBJECTS)
def test_a_custom_object_is_judged_as_by_a_real_server(
    name: str, control_plane: ControlPlane, things: ServedResource
) -> None:
    async def compare() -> list[str]:
        async with ApiCaller(control_plane) as api:
            return await creation_differences(api, things, OBJECTS[name])

    assert asyncio.run(compare()) == []


CHANGES: dict[str, tuple[Object, Object, Part]] = {
    "a rule about the past": (thing(a=5), {"spec": {"need": "x", "a": 4}}, Part.WHOLE),
    "a rule that the change keeps": (thing(a=5), {"spec": {"need": "x", "a": 6}}, Part.WHOLE),
    "items are told apart by their keys": (
        thing(lmap=[{"k": "a", "v": 3}, {"k": "b", "v": 1}]),
        {"spec": {"need": "x", "lmap": [{"k": "b", "v": 2}, {"k": "a", "v": 2}]}},
        Part.WHOLE,
    ),
    "optional old value": (thing(opt="x"), {"spec": {"need": "x", "opt": "y"}}, Part.WHOLE),
    "no old value": (thing(), {"spec": {"need": "x", "opt": "y"}}, Part.WHOLE),
    "a type": (thing(), {"spec": {"need": "x", "int": "s"}}, Part.WHOLE),
    "status": (thing(), {"status": {"phase": "Running", "z": 1}}, Part.STATUS),
    "status and spec by the status' door": (
        thing(),
        {"status": {"phase": "Running"}, "spec": {"need": "x", "a": 40}},
        Part.STATUS,
    ),
    "status by the front door": (thing(), {"status": {"phase": "Running"}}, Part.WHOLE),
}


def changed(plane: ControlPlane, row: ServedResource, base: Object, new: Object, part: Part) -> Any:
    name = f"t{secrets.token_hex(4)}"
    given = base | {"metadata": {"name": name}}

    async def compare() -> list[str]:
        async with ApiCaller(plane) as api:
            path = f"/apis/example.com/v1/namespaces/default/{row.plural}"
            stored = await api.request("POST", path, body=given)
            assert stored.status == 201, stored.text
            return await change_differences(api, row, stored.body, stored.body | new, part)

    return asyncio.run(compare())


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_a_custom_object_is_judged_as_by_a_real_server(
    name: str, control_plane: ControlPlane, things: ServedResource
) -> None:
    base, new, part = CHANGES[name]
    assert changed(control_plane, things, base, new, part) == []


def test_what_was_wrong_before_may_stay(things: ServedResource) -> None:
    """An object from before its CRD was made stricter can still be touched."""
    old = thing(int=0, enum="zz", arr=[1, 2, 3]) | {"status": {}}
    labelled = copy.deepcopy(old) | {"metadata": {"name": "sample", "labels": {"a": "b"}}}
    assert not things.strategy.updated(labelled, old, Part.WHOLE).causes
    worse = copy.deepcopy(old)
    worse["spec"]["arr"] = [1, 2, 3, 4]
    (first, *_) = things.strategy.updated(worse, old, Part.WHOLE).causes
    assert first.field == "spec.arr"


def at(**keywords: Any) -> Object:
    """A schema with one field of these keywords."""
    return whole({"type": "object", "properties": {"x": keywords}})


def ruled(*texts: str | Object) -> Object:
    return at(type="integer") | at(**{"type": "integer", "x-kubernetes-validations": rules(*texts)})


_KEYED = {"type": "array", "x-kubernetes-list-type": "map"}
DEFINITIONS: dict[str, Object] = {
    "fine": definition(),
    "names": definition(
        names={
            "plural": "Foos",
            "kind": "foo",
            "singular": "A",
            "shortNames": ["B"],
            "categories": ["C"],
            "listKind": "X Y",
        }
    ),
    "no names": definition(names={}),
    "group": definition(group="ex"),
    "no group": definition(group=""),
    "scope": definition(scope="x"),
    "no scope": definition(scope=""),
    "no versions": definition(versions=[]),
    "not stored": definition(version={"storage": False}),
    "version's name": definition(version={"name": "V1"}),
    "no schema": definition(version={"schema": None}),
    "no type at the root": definition({}),
    "a text at the root": definition({"type": "string"}),
    "a field without type": definition(at()),
    "an unknown type": definition(at(type="x")),
    "a list without items": definition(at(type="array")),
    "items without type": definition(at(type="array", items={})),
    "items in a list": definition(at(type="array", items=[field()])),
    "both kinds of properties": definition(
        at(type="object", properties={"b": field()}, additionalProperties=field())
    ),
    "uniqueItems": definition(at(type="string", uniqueItems=True)),
    "a reference": definition(at(**{"$ref": "x"})),
    "a default of a wrong type": definition(at(type="integer", default="x")),
    "a default with unknown fields": definition(
        at(type="object", default={"z": 1}, properties={"b": field()})
    ),
    "a default that isn't listed": definition(at(type="string", enum=["a"], default="b")),
    "a type in a junction": definition(at(type="object", anyOf=[{"type": "string"}])),
    "int-or-string": definition(
        at(**{"x-kubernetes-int-or-string": True, "anyOf": [field("integer"), field()]})
    ),
    "embedded": definition(at(**{"x-kubernetes-embedded-resource": True})),
    "preserve is false": definition(
        at(**{"type": "string", "x-kubernetes-preserve-unknown-fields": False})
    ),
    "an unknown list type": definition(
        at(**{"type": "array", "x-kubernetes-list-type": "x", "items": field()})
    ),
    "a keyed list without keys": definition(at(**_KEYED, items=field("object"))),
    "a key that may be missing": definition(
        at(
            **_KEYED,
            items=field("object", properties={"k": field()}),
            **{"x-kubernetes-list-map-keys": ["k"]},
        )
    ),
    "a set of objects": definition(
        at(**{"type": "array", "x-kubernetes-list-type": "set", "items": field("object")})
    ),
    "labels in the metadata": definition(
        {
            "type": "object",
            "properties": {"metadata": field("object", properties={"labels": field("object")})},
        }
    ),
    "a rule": definition(ruled("self > 1")),
    "a rule that is no CEL": definition(ruled("self >")),
    "a rule with an unknown function": definition(ruled("foo(self)")),
    "a rule that is a number": definition(ruled("self + 1")),
    "a rule that compares apples": definition(ruled("self == 'a'")),
    "an empty rule": definition(ruled("")),
    "a message of two lines": definition(ruled({"rule": "true", "message": "a\nb"})),
    "a reason": definition(ruled({"rule": "true", "reason": "x"})),
    "a message that is a number": definition(ruled({"rule": "true", "messageExpression": "1"})),
    "a path to nowhere": definition(ruled({"rule": "true", "fieldPath": ".zz"})),
    "optional and not used": definition(ruled({"rule": "true", "optionalOldSelf": True})),
    "columns": definition(
        version={
            "additionalPrinterColumns": [
                {"name": "", "type": "x", "jsonPath": "a"},
                {"name": "A", "type": "string", "jsonPath": ".spec.x"},
            ]
        }
    ),
    "scale without paths": definition(version={"subresources": {"scale": {}}}),
    "scale": definition(
        version={
            "subresources": {
                "scale": {
                    "specReplicasPath": ".a",
                    "statusReplicasPath": ".spec.r",
                    "labelSelectorPath": "x",
                }
            }
        }
    ),
    "conversion": definition(conversion={"strategy": "x"}),
    "preserveUnknownFields": definition(preserveUnknownFields=True),
    "selectable fields": definition(
        version={"selectableFields": [{"jsonPath": "x"}, {"jsonPath": ".spec.a"}]}
    ),
    "unknown fields": definition({"type": "object", "properties": {"a": field(foo=1)}}, foo=1),
    "a number for properties": definition({"type": "object", "properties": 5}),
}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_definition_is_judged_as_by_a_real_server(name: str, control_plane: ControlPlane) -> None:
    # Its own plural, so that it isn't in the way of the one that is there.
    text = json.dumps(DEFINITIONS[name]).replace("things", "others").replace("Thing", "Other")
    given = json.loads(text)

    async def compare() -> list[str]:
        async with ApiCaller(control_plane) as api:
            return await creation_differences(api, CRDS, given, ignored=("status",))

    assert asyncio.run(compare()) == []


def test_a_definition_is_established_as_on_a_real_server(
    control_plane: ControlPlane, things: ServedResource
) -> None:
    async def stored() -> Object:
        async with ApiCaller(control_plane) as api:
            return (await api.request("GET", f"{PATH}/things.example.com")).body

    ours = comparable(CRDS.strategy.created(THING).value)
    found = [
        line
        for line in differences(ours, comparable(asyncio.run(stored())))
        if "lastTransitionTime" not in line
    ]
    assert found == []
    assert things.subresource("status") is not None


def test_a_function_that_is_missing_here_is_named() -> None:
    (cause,) = CRDS.strategy.created(
        definition(at(**field() | {"x-kubernetes-validations": rules("isURL(self)")}))
    ).causes
    assert "undeclared reference to 'isURL'" in cause.message


def test_a_row_follows_its_definition() -> None:
    row = row_of(
        definition(
            at(type="integer"),
            names={"plural": "things", "kind": "Thing", "shortNames": ["th"]},
            version={
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.x",
                        "statusReplicasPath": ".status.x",
                    },
                },
                "additionalPrinterColumns": [
                    {"name": "X", "type": "integer", "jsonPath": ".spec.x", "priority": 1}
                ],
            },
        )
    )
    assert [sub.name for sub in row.subresources] == ["status", "scale"]
    assert row.columns is not None
    assert [(column.name, column.priority) for column in row.columns] == [("X", 1)]
    assert row.scale is not None
    assert row.short_names == ("th",)
    assert row.schema["properties"]["metadata"] == {
        "$ref": "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    }
    bare = row_of(definition())
    assert bare.columns is not None
    assert [column.name for column in bare.columns] == ["Age"]


def test_a_version_that_is_not_served_has_no_row() -> None:
    hidden = CRDS.strategy.created(definition(version={"served": False})).value
    assert custom_resources(hidden) == ()


OURS = {(kind.api_version, kind.name): row_of(crd(kind)) for kind in KINDS}


def test_our_own_kinds_get_the_verdict_of_validate() -> None:
    """Random manifests of our kinds: taken and stored as `schema.admission` says."""
    seed = int(os.environ["JOBYARD_SEED"])
    mutator = Mutator(valid_manifests(), seed)
    for _ in range(MUTATIONS):
        manifest = mutator.draw()
        kind = kind_of(manifest["apiVersion"], manifest["kind"])
        assert kind is not None
        verdict = admitted(manifest, schema_node(kind))
        try:
            ours = OURS[kind.api_version, kind.name].strategy.created(manifest)
        except ProblemError:
            # Metadata that no server could read.
            assert verdict.errors, manifest
            continue
        assert bool(ours.causes) == bool(verdict.errors), (manifest, ours.causes, verdict.errors)
        if not verdict.errors:
            assert ours.value == verdict.value
            assert set(ours.unknown) == {joined(path) for path in verdict.unknown}


def test_our_own_definitions_are_right_though_they_are_not_checked() -> None:
    """What is let through for its name would also pass under another."""
    for kind in KINDS:
        given = copy.deepcopy(crd(kind))
        given["metadata"]["name"] = f"{kind.plural}.example.com"
        given["spec"]["group"] = "example.com"
        assert CRDS.strategy.created(given).causes == ()
