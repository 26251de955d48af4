"""Server-side apply: who owns what, conflicts, removals, lists, and managed fields at large."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.objects import pod, service
from conformance.script import APPLY, Script, apply, get, merge, patch, post, put, quiet
from conformance.stage import Stage
from conformance.widgets import widget


def config(data: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", **metadata},
        "data": data,
    }


FIELDS = ("spec", "metadata.managedFields", "metadata.generation")
DATA = ("data", "metadata.managedFields")

CASES: dict[str, Script] = {
    "creates what isn't there": (apply("configmaps/a", config({"x": "1"})),),
    "creates a widget with its defaults": (apply("widgets/a", widget("a", size=2)),),
    "changes what is its own": (
        *quiet(apply("configmaps/a", config({"x": "1"}))),
        apply("configmaps/a", config({"x": "2"}), show=DATA),
    ),
    "the same again changes nothing": (
        apply("widgets/a", widget("a", size=2)),
        apply("widgets/a", widget("a", size=2)),
    ),
    "removes what it doesn't say any more": (
        *quiet(apply("configmaps/a", config({"x": "1", "y": "2"}))),
        apply("configmaps/a", config({"x": "1"}), show=DATA),
    ),
    "a default comes back when its field is dropped": (
        *quiet(apply("widgets/a", widget("a", size=5, options={"fast": False}))),
        apply("widgets/a", widget("a", size=6), show=FIELDS),
    ),
    "a conflict with another one who applies": (
        *quiet(apply("configmaps/a", config({"x": "1"}))),
        apply("configmaps/a", config({"x": "2"}), "two"),
    ),
    "a conflict with one who updates": (
        *quiet(post("configmaps", config({"x": "1", "y": "1"}))),
        apply("configmaps/a", config({"x": "2"}), "two"),
        apply("configmaps/a", config({"x": "2", "y": "2"}), "two"),
    ),
    "a conflict about a widget, with several": (
        *quiet(apply("widgets/a", widget("a", size=1, code="abc"))),
        *quiet(apply("widgets/a", widget("a", colour="red"), "three")),
        apply("widgets/a", widget("a", size=2, code="xyz", colour="blue"), "two"),
    ),
    "force takes what is another's": (
        *quiet(apply("configmaps/a", config({"x": "1", "y": "1"}))),
        apply("configmaps/a", config({"x": "2"}), "two", force=True, show=DATA),
        apply("configmaps/a", config({"x": "1", "y": "1"})),
    ),
    "the same value is shared and not fought over": (
        *quiet(apply("configmaps/a", config({"x": "1"}))),
        apply("configmaps/a", config({"x": "1"}), "two", show=DATA),
        apply("configmaps/a", config({}), "two", show=DATA),
        apply("configmaps/a", config({})),
    ),
    "what is another's stays when one leaves it": (
        *quiet(apply("configmaps/a", config({"x": "1"}))),
        *quiet(apply("configmaps/a", config({"y": "1"}), "two")),
        apply("configmaps/a", config({}), show=DATA),
    ),
    "an update takes fields over": (
        *quiet(apply("configmaps/a", config({"x": "1", "y": "1"}))),
        merge("configmaps/a", {"data": {"x": "2"}}, show=DATA),
        apply("configmaps/a", config({"x": "1", "y": "1"})),
        apply("configmaps/a", config({"y": "1"}), show=DATA),
    ),
    "an item of a list with keys is its own": (
        *quiet(apply("widgets/a", widget("a", parts=[{"name": "p", "count": 1}]))),
        apply("widgets/a", widget("a", parts=[{"name": "q", "count": 2}]), "two", show=FIELDS),
        apply("widgets/a", widget("a", parts=[{"name": "p", "count": 3}]), "two"),
        apply("widgets/a", widget("a", parts=[]), show=FIELDS),
    ),
    "a set is merged": (
        *quiet(apply("widgets/a", widget("a", tags=["b", "a"]))),
        apply("widgets/a", widget("a", tags=["c", "a"]), "two", show=FIELDS),
        apply("widgets/a", widget("a", tags=["b"]), show=FIELDS),
    ),
    "a plain list is one value": (
        *quiet(apply("widgets/a", widget("a", words=["b", "a"]))),
        apply("widgets/a", widget("a", words=["c"]), "two"),
        apply("widgets/a", widget("a", words=["c"]), "two", force=True, show=FIELDS),
    ),
    "an atomic map is one value": (
        *quiet(apply("widgets/a", widget("a", whole={"a": "1"}))),
        apply("widgets/a", widget("a", whole={"b": "1"}), "two"),
        apply("widgets/a", widget("a", whole={"b": "1"}), "two", force=True, show=FIELDS),
    ),
    "a free map is merged": (
        *quiet(apply("widgets/a", widget("a", free={"x": {"y": 1}, "l": [1]}))),
        apply("widgets/a", widget("a", free={"x": {"z": 2}}), "two", show=FIELDS),
    ),
    "a key twice in a list is refused": (
        apply("widgets/a", widget("a", parts=[{"name": "p"}, {"name": "p"}])),
        apply("widgets/a", widget("a", tags=["x", "x"])),
        apply("widgets/a", widget("a", parts=[{"count": 1}])),
    ),
    "two share one label map": (
        *quiet(apply("configmaps/a", config({}, labels={"a": "1"}))),
        apply(
            "configmaps/a",
            config({}, labels={"b": "1"}),
            "two",
            show=("metadata.labels", "metadata.managedFields"),
        ),
        apply("configmaps/a", config({}), show=("metadata.labels", "metadata.managedFields")),
    ),
    "a pod": (
        apply("pods/a", pod("a")),
        apply("pods/a", pod("a", {"labels": {"a": "b"}}), show=("metadata",)),
    ),
    "a service and its ports": (
        *quiet(
            apply("services/a", service("a", clusterIP="None", ports=[{"port": 1, "name": "p"}]))
        ),
        apply(
            "services/a",
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "a"},
                "spec": {"ports": [{"port": 2, "name": "q"}]},
            },
            "two",
            show=("spec.ports", "metadata.managedFields"),
        ),
    ),
    "the status through its door": (
        *quiet(post("widgets", widget("a"))),
        apply(
            "widgets/a/status",
            {
                "apiVersion": "conformance.example.com/v1",
                "kind": "Widget",
                "metadata": {"name": "a"},
                "status": {"phase": "New", "conditions": [{"type": "Ready", "status": "True"}]},
            },
        ),
        apply(
            "widgets/a/status",
            {
                "apiVersion": "conformance.example.com/v1",
                "kind": "Widget",
                "metadata": {"name": "a"},
                "status": {"conditions": [{"type": "Other", "status": "True"}]},
            },
            "two",
        ),
    ),
    "the status isn't written by the front door": (
        apply("widgets/a", {**widget("a", size=1), "status": {"phase": "New"}}),
    ),
    "the status of what doesn't exist": (
        apply("widgets/a/status", {**widget("a"), "status": {"phase": "New"}}),
    ),
    "a dry run stores nothing": (
        apply("configmaps/a", config({"x": "1"}), query={"dryRun": "All"}),
        get("configmaps/a"),
    ),
    "no name for the one who applies": (
        patch("configmaps/a", APPLY, config({"x": "1"})),
        patch("configmaps/a", APPLY, config({"x": "1"}), query={"force": "true"}),
    ),
    "a body without a name, a kind or a version": (
        apply("configmaps/a", {"apiVersion": "v1", "kind": "ConfigMap"}),
        apply("configmaps/a", {"apiVersion": "v1"}),
        apply("configmaps/a", {"kind": "ConfigMap"}),
        apply("widgets/a", {"metadata": {"name": "a"}}),
    ),
    "another name than in the path": (apply("configmaps/b", config({"x": "1"})),),
    "another kind than in the path": (
        apply("secrets/a", config({"x": "1"})),
        apply("widgets/a", config({"x": "1"})),
    ),
    "managed fields in what is applied": (
        apply(
            "configmaps/a",
            config({"x": "1"}, managedFields=[{"manager": "me", "operation": "Apply"}]),
        ),
    ),
    "an old version is a conflict": (
        *quiet(
            apply("configmaps/a", config({"x": "1"}), capture={"rv": "metadata.resourceVersion"})
        ),
        *quiet(apply("configmaps/a", config({"x": "2"}))),
        apply("configmaps/a", config({"x": "3"}, resourceVersion="${rv}")),
    ),
    "a version of what isn't there": (
        apply("configmaps/a", config({"x": "3"}, resourceVersion="5")),
        apply("configmaps/a", config({"x": "3"}, uid="00000000-0000-0000-0000-000000000000")),
    ),
    "an unknown field": (
        apply("configmaps/a", {**config({"x": "1"}), "unknown": 1}),
        apply("widgets/a", widget("a", unknown=1)),
    ),
    "a value of a wrong type": (
        apply("configmaps/a", config({"x": 1})),
        apply("widgets/a", widget("a", size="x")),
        apply("widgets/a", widget("a", parts={})),
    ),
    "an outcome that is invalid": (apply("widgets/a", widget("a", size=1000)),),
    "a null": (apply("widgets/a", widget("a", size=None, code=None, maybe=None), show=FIELDS),),
    "nulls of every shape": (
        apply("widgets/a", widget("a", parts=None, labels=None, options=None), show=FIELDS),
        apply("widgets/a", widget("a", labels={"x": None}), show=FIELDS),
        apply("widgets/a", widget("a", free={"x": None}), show=FIELDS),
        apply("widgets/b", widget("b", parts=[{"name": "x", "count": None}]), show=FIELDS),
        apply("widgets/b", widget("b", parts=[{"name": "x", "kind": None}]), show=FIELDS),
        apply("widgets/c", widget("c", whole={"a": None}), show=FIELDS),
        apply("widgets/c", widget("c", words=[None]), show=FIELDS),
        apply("widgets/c", widget("c", maybe=None, size=None), show=FIELDS),
        apply("widgets/c", widget("c", maybe=None, code=None), show=FIELDS),
        apply("widgets/c", {**widget("c"), "spec": None}, show=FIELDS),
        apply("configmaps/a", config({"x": None}), show=DATA),
        apply("configmaps/b", {**config({"x": "1"}), "binaryData": None}, show=DATA),
    ),
    "in YAML": (
        apply(
            "configmaps/a",
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  x: '1'\n",
        ),
    ),
    "text that is no YAML": (apply("configmaps/a", "a: [\n"), apply("configmaps/a", "- a\n")),
    "updates of two are told apart": (
        *quiet(post("configmaps", config({"x": "1"}), query={"fieldManager": "first"})),
        merge("configmaps/a", {"data": {"y": "1"}}, query={"fieldManager": "second"}, show=DATA),
        merge("configmaps/a", {"data": {"x": "2"}}, query={"fieldManager": "second"}, show=DATA),
        merge("configmaps/a", {"data": {"y": None}}, query={"fieldManager": "first"}, show=DATA),
    ),
    "applying and updating under one name are two": (
        *quiet(apply("configmaps/a", config({"x": "1"}))),
        merge("configmaps/a", {"data": {"y": "1"}}, query={"fieldManager": "one"}, show=DATA),
    ),
    "managed fields can be wiped": (
        *quiet(apply("configmaps/a", config({"x": "1"}))),
        merge("configmaps/a", {"metadata": {"managedFields": [{}]}}, show=DATA),
        merge("configmaps/a", {"data": {"y": "1"}}, show=DATA),
        apply("configmaps/a", config({"x": "1"}), show=DATA),
    ),
    "managed fields can be set": (
        *quiet(apply("configmaps/a", config({"x": "1"}))),
        put(
            "configmaps/a",
            config(
                {"x": "1"},
                managedFields=[
                    {
                        "manager": "other",
                        "operation": "Apply",
                        "apiVersion": "v1",
                        "fieldsType": "FieldsV1",
                        "fieldsV1": {"f:data": {"f:x": {}}},
                    }
                ],
            ),
            show=DATA,
        ),
    ),
    "managed fields that make no sense": (
        *quiet(apply("configmaps/a", config({"x": "1"}))),
        put("configmaps/a", config({"x": "1"}, managedFields=[{"operation": "Frob"}])),
    ),
    "a name for the manager that is too long": (
        apply("configmaps/a", config({"x": "1"}), "m" * 129),
        merge("configmaps/a", {}, query={"fieldManager": "m" * 129}),
    ),
    "a scale belongs to who scaled": (
        *quiet(apply("widgets/a", widget("a", size=2))),
        merge("widgets/a/scale", {"spec": {"replicas": 5}}, query={"fieldManager": "scaler"}),
        get("widgets/a", show=FIELDS),
        apply("widgets/a", widget("a", size=2)),
    ),
}


@pytest.mark.parametrize("sentence", CASES)
def test_applying(api: Stage, sentence: str) -> None:
    api.check("applying", sentence, CASES[sentence])
