"""A user's CRDs: served soon after they are made, held to their rules, gone with their objects."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from conformance.script import Json, Script, Step, apply, delete, get, gone, merge, post, quiet
from conformance.stage import Stage

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
# The namespace is this case's alone, so a group below it is too.
GROUP = "${namespace}.example.com"
GADGETS = f"/apis/{GROUP}/v1/namespaces/${{namespace}}/gadgets"
NAME = f"{CRDS}/gadgets.{GROUP}"
ANY: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def version(name: str = "v1", schema: Json | None = None, **more: Any) -> Json:
    return {
        "name": name,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": ANY if schema is None else schema},
        **more,
    }


def crd(*versions: Json, scope: str = "Namespaced", **spec: Any) -> Json:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"gadgets.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": scope,
            "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": list(versions or (version(),)),
            **spec,
        },
    }


def gadget(name: str, api_version: str = "v1", **spec: Any) -> Json:
    return {
        "apiVersion": f"{GROUP}/{api_version}",
        "kind": "Gadget",
        "metadata": {"name": name},
        "spec": spec,
    }


def of(**properties: Any) -> Json:
    """A schema with these properties of the spec."""
    return {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": properties}},
    }


def served(path: str = GADGETS) -> Step:
    return get(path, until=lambda status, _: status == 200, silent=True)


def is_ready(_: int, body: Json) -> bool:
    conditions = body.get("status", {}).get("conditions") or ()
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


def ready(manifest: Json) -> tuple[Step, ...]:
    return (*quiet(post(CRDS, manifest)), served())


NOT_SERVED = get(GADGETS, until=lambda status, _: status == 404)
END = delete(NAME, silent=True)
NESTED = {"type": "object", "properties": {"deep": {"type": "string", "default": "d"}}}
SIMPLE = of(size={"type": "integer"})

CASES: dict[str, Script] = {
    "a definition is accepted, and told to be so": (
        post(CRDS, crd(), show=("metadata.name", "spec", "status.storedVersions")),
        get(NAME, until=is_ready, show=("spec", "status")),
        END,
    ),
    "its objects can be written at once when it is served": (
        *ready(crd(version(schema=SIMPLE))),
        post(GADGETS, gadget("a", size=1)),
        get(GADGETS),
        END,
    ),
    "nothing is served before and after": (
        get(GADGETS),
        *ready(crd()),
        *quiet(delete(NAME)),
        gone(NAME),
        NOT_SERVED,
    ),
    "its objects go with it": (
        *ready(crd()),
        *quiet(post(GADGETS, gadget("a"))),
        *quiet(delete(NAME)),
        gone(NAME),
        # Else the old definition might be what is served.
        *quiet(NOT_SERVED),
        *quiet(post(CRDS, crd())),
        served(),
        get(GADGETS, show=("items",)),
        END,
    ),
    "nothing new goes into a definition that is going": (
        *ready(crd()),
        *quiet(
            post(
                GADGETS, {**gadget("a"), "metadata": {"name": "a", "finalizers": ["example.com/x"]}}
            )
        ),
        delete(NAME, show=("metadata.finalizers", "metadata.deletionGracePeriodSeconds")),
        get(
            f"{GADGETS}/a",
            until=lambda _, body: "deletionTimestamp" in body.get("metadata", {}),
            show=("metadata.finalizers",),
        ),
        # Who serves objects may learn of the end later than who deletes them.
        post(GADGETS, gadget("b"), query={"dryRun": "All"}, until=lambda s, _: s != 201),
        *quiet(merge(f"{GADGETS}/a", {"metadata": {"finalizers": None}})),
    ),
    "defaults go deep": (
        *ready(
            crd(
                version(
                    schema=of(
                        a={"type": "integer", "default": 3},
                        b={**NESTED, "default": {}},
                        c=NESTED,
                        d={"type": "array", "items": NESTED},
                        e={"type": "object", "additionalProperties": NESTED},
                        f={"type": "string", "nullable": True, "default": "x"},
                    )
                )
            )
        ),
        post(GADGETS, gadget("a", d=[{}, {"deep": "e"}], e={"k": {}}, f=None), show=("spec",)),
        post(GADGETS, gadget("b", a=None, c={}), show=("spec",)),
        post(GADGETS, {k: v for k, v in gadget("c").items() if k != "spec"}, show=("spec",)),
        END,
    ),
    "unknown fields are pruned and told": (
        *ready(crd(version(schema=SIMPLE))),
        post(GADGETS, gadget("a", size=1, other=2, deep={"x": 1})),
        END,
    ),
    "unknown fields are kept where the schema says so": (
        *ready(
            crd(
                version(
                    schema=of(
                        kept={
                            "type": "object",
                            "x-kubernetes-preserve-unknown-fields": True,
                            "properties": {"pruned": SIMPLE["properties"]["spec"]},
                        }
                    )
                )
            )
        ),
        post(GADGETS, gadget("a", kept={"x": 1, "pruned": {"y": 1, "size": 2}}), show=("spec",)),
        END,
    ),
    "a whole object inside": (
        *ready(
            crd(
                version(
                    schema=of(
                        inner={
                            "type": "object",
                            "x-kubernetes-embedded-resource": True,
                            "x-kubernetes-preserve-unknown-fields": True,
                        }
                    )
                )
            )
        ),
        post(
            GADGETS,
            gadget("a", inner={"apiVersion": "v1", "kind": "X", "metadata": {"name": "n", "z": 1}}),
        ),
        post(GADGETS, gadget("b", inner={"metadata": {"name": "n"}})),
        END,
    ),
    "rules across fields": (
        *ready(
            crd(
                version(
                    schema={
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "min": {"type": "integer"},
                                    "max": {"type": "integer"},
                                    "names": {
                                        "type": "array",
                                        "maxItems": 4,
                                        "items": {"type": "string", "maxLength": 9},
                                        "x-kubernetes-validations": [
                                            {
                                                "rule": "self.all(n, n.startsWith('x-'))",
                                                "message": "names begin with x-",
                                            }
                                        ],
                                    },
                                },
                                "x-kubernetes-validations": [{"rule": "self.min <= self.max"}],
                            }
                        },
                    }
                )
            )
        ),
        post(GADGETS, gadget("a", min=1, max=2, names=["x-a"]), show=("spec",)),
        post(GADGETS, gadget("b", min=3, max=2)),
        post(GADGETS, gadget("c", min=1, max=2, names=["y"])),
        post(GADGETS, gadget("d", min=1)),
        merge(f"{GADGETS}/a", {"spec": {"min": 5, "names": ["z"]}}),
        END,
    ),
    "rules about the object's name": (
        *ready(
            crd(
                version(
                    schema={
                        **ANY,
                        "x-kubernetes-validations": [
                            {"rule": "self.metadata.name.size() < 4", "message": "name is too long"}
                        ],
                    }
                )
            )
        ),
        post(GADGETS, gadget("long-name")),
        post(GADGETS, gadget("abc"), show=("metadata.name",)),
        END,
    ),
    "rules about change": (
        *ready(
            crd(
                version(
                    schema=of(
                        once={
                            "type": "string",
                            "maxLength": 9,
                            "x-kubernetes-validations": [
                                {"rule": "self == oldSelf", "message": "once is for ever"}
                            ],
                        },
                        up={
                            "type": "integer",
                            "x-kubernetes-validations": [
                                {
                                    "rule": "!oldSelf.hasValue() || self >= oldSelf.value()",
                                    "optionalOldSelf": True,
                                    "message": "up never goes down",
                                }
                            ],
                        },
                    )
                )
            )
        ),
        post(GADGETS, gadget("a", once="x", up=2), show=("spec",)),
        merge(f"{GADGETS}/a", {"spec": {"once": "y"}}),
        merge(f"{GADGETS}/a", {"spec": {"up": 1}}),
        merge(f"{GADGETS}/a", {"spec": {"once": None}}, show=("spec",)),
        merge(f"{GADGETS}/a", {"spec": {"once": "y", "up": 3}}, show=("spec",)),
        END,
    ),
    "old faults are let be": (
        *ready(crd(version(schema=of(size={"type": "integer"}, note={"type": "string"})))),
        *quiet(post(GADGETS, gadget("a", size=50))),
        *quiet(
            get(NAME, capture={"rv": "metadata.resourceVersion"}),
            merge(
                NAME,
                {
                    "spec": {
                        "versions": [
                            version(
                                schema=of(
                                    size={"type": "integer", "maximum": 10},
                                    note={"type": "string"},
                                )
                            )
                        ]
                    }
                },
            ),
        ),
        post(GADGETS, gadget("b", size=20), query={"dryRun": "All"}, until=lambda s, _: s == 422),
        merge(f"{GADGETS}/a", {"spec": {"note": "x"}}, show=("spec",)),
        merge(f"{GADGETS}/a", {"spec": {"size": 60}}),
        END,
    ),
    "several versions of one object": (
        *ready(
            crd(
                version("v1", SIMPLE),
                version("v2", of(size={"type": "integer"}, new={"type": "string"}), storage=False),
            )
        ),
        post(GADGETS, gadget("a", size=1)),
        get(GADGETS.replace("/v1/", "/v2/") + "/a", until=lambda s, _: s == 200),
        merge(GADGETS.replace("/v1/", "/v2/") + "/a", {"spec": {"size": 5}}),
        get(f"{GADGETS}/a", show=("apiVersion", "spec", "metadata.managedFields")),
        END,
    ),
    "versions that are deprecated": (
        *ready(
            crd(
                version("v1", deprecated=True),
                version("v2", storage=False, deprecated=True, deprecationWarning="take v3"),
                version("v3", storage=False),
            )
        ),
        post(GADGETS, gadget("a"), show=("kind",)),
        get(f"{GADGETS}/a", show=("kind",)),
        get(f"{GADGETS}/b"),
        get(GADGETS, show=("kind",)),
        get(GADGETS.replace("/v1/", "/v2/"), show=("kind",)),
        get(GADGETS.replace("/v1/", "/v3/"), show=("kind",)),
        merge(f"{GADGETS}/a", {"spec": {"x": 1}}, show=("kind",)),
        delete(f"{GADGETS}/a", show=("kind",)),
        END,
    ),
    "a version that isn't served": (
        *ready(crd(version("v1", SIMPLE), version("v2", SIMPLE, storage=False, served=False))),
        get(GADGETS.replace("/v1/", "/v2/")),
        END,
    ),
    "a kind without a namespace": (
        *quiet(post(CRDS, crd(scope="Cluster"))),
        served(f"/apis/{GROUP}/v1/gadgets"),
        post(f"/apis/{GROUP}/v1/gadgets", gadget("a")),
        get(GADGETS),
        END,
    ),
    "a kind without a status door": (
        *ready(crd()),
        post(GADGETS, {**gadget("a"), "status": {"phase": "x"}}),
        get(f"{GADGETS}/a/status"),
        merge(f"{GADGETS}/a", {"status": {"phase": "y"}}, show=("status", "metadata.generation")),
        END,
    ),
    "apply to a kind without a schema": (
        *ready(crd()),
        apply(f"{GADGETS}/a", gadget("a", x={"y": 1}, list=[1])),
        apply(f"{GADGETS}/a", gadget("a", x={"z": 1}), "two"),
        apply(f"{GADGETS}/a", gadget("a", list=[2]), "two"),
        END,
    ),
    "a second version of a definition": (
        *ready(crd(version(schema=SIMPLE))),
        *quiet(
            merge(
                NAME,
                {
                    "spec": {
                        "versions": [
                            version(schema=of(size={"type": "integer"}, new={"type": "string"}))
                        ]
                    }
                },
            )
        ),
        post(
            GADGETS,
            gadget("a", new="x"),
            query={"dryRun": "All", "fieldValidation": "Strict"},
            until=lambda s, _: s == 201,
            show=("spec",),
        ),
        get(NAME, show=("metadata.generation", "status.storedVersions", "status.acceptedNames")),
        END,
    ),
    "what never changes in a definition": (
        *ready(crd()),
        merge(NAME, {"spec": {"scope": "Cluster"}}),
        merge(NAME, {"spec": {"group": "other.example.com"}}),
        merge(NAME, {"spec": {"names": {"plural": "others"}}}),
        END,
    ),
    "a definition under a wrong name": (
        post(CRDS, {**crd(), "metadata": {"name": "others.example.com"}}),
    ),
    "a definition that is there": (*ready(crd()), post(CRDS, crd()), END),
    "a short name and a singular": (
        *ready(
            crd(
                names={
                    "plural": "gadgets",
                    "kind": "Gadget",
                    "singular": "thing",
                    "shortNames": ["gd"],
                    "categories": ["all"],
                    "listKind": "Gadgetry",
                }
            )
        ),
        get(f"/apis/{GROUP}/v1", until=lambda s, _: s == 200),
        get(GADGETS, show=("kind",)),
        END,
    ),
}


def wrong(change: Any) -> Json:
    manifest = copy.deepcopy(crd(version(schema=of())))
    change(manifest["spec"])
    return manifest


def schema(value: Json) -> Any:
    return lambda spec: spec["versions"][0]["schema"].update(openAPIV3Schema=value)


def in_spec(**properties: Any) -> Any:
    return schema(of(**properties))


def rule(text: str, **more: Any) -> Json:
    return {"type": "string", "maxLength": 5, "x-kubernetes-validations": [{"rule": text, **more}]}


FAULTS: dict[str, Any] = {
    "no schema": lambda spec: spec["versions"][0].pop("schema"),
    "no type at the root": schema({"properties": {"spec": {"type": "object"}}}),
    "another type at the root": schema({"type": "string"}),
    "no type of a property": in_spec(a={"description": "x"}),
    "an unknown type": in_spec(a={"type": "text"}),
    "a list without items": in_spec(a={"type": "array"}),
    "a default of a wrong type": in_spec(a={"type": "integer", "default": "x"}),
    "a default outside of the bounds": in_spec(a={"type": "integer", "maximum": 1, "default": 2}),
    "a pattern that is none": in_spec(a={"type": "string", "pattern": "("}),
    "properties and additional properties": in_spec(
        a={"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}
    ),
    "additional properties that are false": in_spec(
        a={"type": "object", "additionalProperties": False}
    ),
    "a reference": in_spec(a={"$ref": "#/definitions/x"}),
    "unique items": in_spec(a={"type": "array", "uniqueItems": True, "items": {"type": "string"}}),
    "a list of keys without keys": in_spec(
        a={"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"}
    ),
    "a key that isn't a property": in_spec(
        a={
            "type": "array",
            "items": {"type": "object", "properties": {"x": {"type": "string"}}},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["y"],
        }
    ),
    "an unknown list type": in_spec(
        a={"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "bag"}
    ),
    "a rule that isn't CEL": in_spec(a=rule("self ==")),
    "a rule about an unknown field": in_spec(a=rule("self.b == 1")),
    "a rule that isn't true or false": in_spec(a=rule("self")),
    "an empty rule": in_spec(a=rule("")),
    "a rule with a message of two lines": in_spec(a=rule("self == 'a'", message="a\nb")),
    "a rule that costs too much": in_spec(
        a={
            "type": "array",
            "items": {"type": "string"},
            "x-kubernetes-validations": [{"rule": "self.all(x, self.all(y, x == y))"}],
        }
    ),
    "no versions": lambda spec: spec.update(versions=[]),
    "no version that is stored": lambda spec: spec["versions"][0].update(storage=False),
    "two versions that are stored": lambda spec: spec["versions"].append(version("v2")),
    "two versions of one name": lambda spec: spec["versions"].append(version("v1", storage=False)),
    "a bad version name": lambda spec: spec["versions"][0].update(name="V_1"),
    "a bad plural": lambda spec: spec["names"].update(plural="Gadgets"),
    "a bad kind": lambda spec: spec["names"].update(kind="gad get"),
    "no kind": lambda spec: spec["names"].pop("kind"),
    "no group": lambda spec: spec.pop("group"),
    "an unknown scope": lambda spec: spec.update(scope="Galaxy"),
    "a column with a bad path": lambda spec: spec["versions"][0].update(
        additionalPrinterColumns=[{"name": "a", "type": "string", "jsonPath": "spec.a["}]
    ),
    "a column of an unknown type": lambda spec: spec["versions"][0].update(
        additionalPrinterColumns=[{"name": "a", "type": "text", "jsonPath": ".spec.a"}]
    ),
    "a scale without paths": lambda spec: spec["versions"][0].update(subresources={"scale": {}}),
    "a scale with paths outside": lambda spec: spec["versions"][0].update(
        subresources={"scale": {"specReplicasPath": ".a", "statusReplicasPath": ".b"}}
    ),
    "unknown fields preserved for all": lambda spec: spec.update(preserveUnknownFields=True),
    "a selectable field that isn't there": lambda spec: spec["versions"][0].update(
        selectableFields=[{"jsonPath": ".spec.a"}]
    ),
    "a field of metadata in the schema": schema(
        {
            "type": "object",
            "properties": {
                "metadata": {"type": "object", "properties": {"uid": {"type": "string"}}}
            },
        }
    ),
}


@pytest.mark.parametrize("sentence", CASES)
def test_a_definition(api: Stage, sentence: str) -> None:
    api.check("definitions", sentence, CASES[sentence])


@pytest.mark.parametrize("fault", FAULTS)
def test_a_definition_with(api: Stage, fault: str) -> None:
    api.check(
        "bad_definitions",
        fault,
        (post(CRDS, wrong(FAULTS[fault]), query={"dryRun": "All"}, show=("spec",)),),
    )
