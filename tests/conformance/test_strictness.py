"""Dry runs of every verb, unknown and duplicate fields, and what is said about them."""

from __future__ import annotations

import pytest

from conformance.objects import config_map, pod, secret
from conformance.script import YAML, Json, Script, apply, delete, get, merge, post, put, quiet
from conformance.stage import Stage
from conformance.widgets import widget

DRY = {"dryRun": "All"}
RV = {"rv": "metadata.resourceVersion"}
DOUBLE = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"1","x":"2"}}'
DOUBLE_WIDGET = (
    '{"apiVersion":"conformance.example.com/v1","kind":"Widget","metadata":{"name":"a"},'
    '"spec":{"size":1,"size":2}}'
)
UNKNOWN_WIDGET: Json = {
    **widget("a", unknown=1, parts=[{"name": "p", "extra": 1}], options={"slow": True}),
    "top": 1,
}
UNKNOWN_POD = {
    **pod("a", unknown=1, containers=[{"name": "c", "image": "x", "extra": {"a": 1}}]),
    "top": 1,
}
UNKNOWN_METADATA = {"name": "a", "labelz": {}, "annotations": {"a": "b"}}


def strict(how: str) -> dict[str, str]:
    return {"fieldValidation": how}


CASES: dict[str, Script] = {
    "a dry run of a creation": (
        post("secrets", secret("a"), query=DRY),
        post("widgets", widget("a"), query=DRY),
        get("secrets/a"),
    ),
    "a dry run of a generated name": (
        post(
            "secrets",
            {"metadata": {"generateName": "a-"}},
            query=DRY,
            show=("metadata.generateName",),
        ),
    ),
    "a dry run of what is there": (
        *quiet(post("secrets", secret("a"))),
        post("secrets", secret("a"), query=DRY),
    ),
    "a dry run of a replacement": (
        *quiet(post("widgets", widget("a"), capture=RV)),
        put(
            "widgets/a",
            {**widget("a", size=7), "metadata": {"name": "a", "resourceVersion": "${rv}"}},
            query=DRY,
        ),
        get("widgets/a", show=("spec.size", "metadata.generation", "metadata.resourceVersion")),
    ),
    "a dry run of a patch": (
        *quiet(post("widgets", widget("a"))),
        merge("widgets/a", {"spec": {"size": 7}}, query=DRY),
        merge("widgets/a", {"spec": {"size": 1000}}, query=DRY),
        merge("widgets/a/status", {"status": {"phase": "x"}}, query=DRY, show=("status",)),
        merge("widgets/a/scale", {"spec": {"replicas": 3}}, query=DRY, show=("spec",)),
        get("widgets/a", show=("spec.size", "status")),
    ),
    "a dry run of an unknown sort": (
        post("secrets", secret("a"), query={"dryRun": "Some"}),
        merge("secrets/a", {}, query={"dryRun": "Some"}),
        put("secrets/a", secret("a"), query={"dryRun": "Some"}),
    ),
    "a dry run of a binding": (
        *quiet(post("pods", pod("a"))),
        post(
            "pods/a/binding",
            {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}},
            query=DRY,
        ),
        get("pods/a", show=("spec.nodeName",)),
    ),
    "unknown fields by default": (
        post("widgets", UNKNOWN_WIDGET),
        post("pods", UNKNOWN_POD, show=("spec.containers.*.name",)),
    ),
    "unknown fields with a warning": (
        post("widgets", UNKNOWN_WIDGET, query=strict("Warn"), show=("spec",)),
        post("pods", UNKNOWN_POD, query=strict("Warn"), show=("kind",)),
    ),
    "unknown fields ignored": (
        post("widgets", UNKNOWN_WIDGET, query=strict("Ignore"), show=("spec",)),
        post("pods", UNKNOWN_POD, query=strict("Ignore"), show=("kind",)),
    ),
    "unknown fields refused": (
        post("widgets", UNKNOWN_WIDGET, query=strict("Strict")),
        post("pods", UNKNOWN_POD, query=strict("Strict")),
    ),
    "unknown metadata": (
        *(
            post(
                resource,
                {**manifest, "metadata": UNKNOWN_METADATA},
                query=strict(how),
                show=("metadata.annotations",),
            )
            for how in ("Strict", "Warn")
            for resource, manifest in (("secrets", secret("a")), ("widgets", widget("a")))
        ),
    ),
    "a duplicate field by default": (
        post("configmaps", DOUBLE, show=("data",)),
        post("widgets", DOUBLE_WIDGET, show=("spec.size",)),
    ),
    "a duplicate field refused": (
        post("configmaps", DOUBLE, query=strict("Strict")),
        post("widgets", DOUBLE_WIDGET, query=strict("Strict")),
    ),
    "a duplicate field in YAML": (
        post(
            "configmaps",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  x: '1'\n  x: '2'\n",
            content_type=YAML,
            query=strict("Strict"),
        ),
        post(
            "configmaps",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  x: '1'\n  x: '2'\n",
            content_type=YAML,
            show=("data",),
        ),
    ),
    "an unknown field in a replacement": (
        *quiet(post("secrets", secret("a"))),
        put("secrets/a", {**secret("a"), "extra": 1}, query=strict("Strict")),
        put("secrets/a", {**secret("a"), "extra": 1}, show=("kind",)),
    ),
    "an unknown field in a patch": (
        *quiet(post("secrets", secret("a")), post("widgets", widget("a"))),
        merge("secrets/a", {"extra": 1}, query=strict("Strict")),
        merge("widgets/a", {"spec": {"extra": 1}}, query=strict("Strict")),
        merge("secrets/a", {"extra": 1}, show=("kind",)),
        merge("secrets/a", '{"metadata":{"labels":{"a":"1","a":"2"}}}', query=strict("Strict")),
    ),
    "an unknown field in what is applied": (
        apply("widgets/a", widget("a", extra=1), query=strict("Strict")),
        apply("widgets/a", widget("a", extra=1), query=strict("Ignore")),
    ),
    "strictness of an unknown sort": (
        post("secrets", secret("a"), query=strict("Maybe")),
        put("secrets/a", secret("a"), query=strict("Maybe")),
        merge("secrets/a", {}, query=strict("Maybe")),
    ),
    "fields in another case": (
        post("configmaps", {**config_map("a"), "Data": {"x": "y"}}, show=("data",)),
        post("configmaps", {**config_map("b"), "Data": {"x": "y"}}, query=strict("Strict")),
    ),
    "unknown fields where they may be": (
        post(
            "widgets",
            widget("a", free={"any": {"thing": [1, {"a": None}]}}),
            query=strict("Strict"),
        ),
    ),
    "unknown fields in the options of a deletion": (
        *quiet(post("secrets", secret("a"))),
        delete("secrets/a", {"kind": "DeleteOptions", "apiVersion": "v1", "extra": 1}),
    ),
}


@pytest.mark.parametrize("sentence", CASES)
def test_strictness(api: Stage, sentence: str) -> None:
    api.check("strictness", sentence, CASES[sentence])
