"""Versions and generations, what never changes, the door of the status, and scale."""

from __future__ import annotations

import pytest

from conformance.objects import config_map, elastic_job, generic_job, pod, secret
from conformance.script import JSON_PATCH, Script, delete, get, merge, patch, post, put, quiet
from conformance.stage import Stage
from conformance.widgets import widget

RV = {"rv": "metadata.resourceVersion"}
META = ("metadata.generation", "metadata.resourceVersion", "metadata.managedFields")


def versioned(manifest: dict[str, object], version: str = "${rv}") -> dict[str, object]:
    metadata = manifest["metadata"]
    assert isinstance(metadata, dict)
    return {**manifest, "metadata": {**metadata, "resourceVersion": version}}


CASES: dict[str, Script] = {
    "a replacement on an old version is a conflict": (
        *quiet(
            post("secrets", secret("a"), capture=RV), merge("secrets/a", {"data": {"x": "eA=="}})
        ),
        put("secrets/a", versioned(secret("a"))),
    ),
    "a replacement of a widget on an old version is a conflict": (
        *quiet(post("widgets", widget("a"), capture=RV), merge("widgets/a", {"spec": {"size": 3}})),
        put("widgets/a", versioned(widget("a"))),
    ),
    "a patch with an old version is a conflict": (
        *quiet(post("widgets", widget("a"), capture=RV), merge("widgets/a", {"spec": {"size": 3}})),
        merge("widgets/a", {"metadata": {"resourceVersion": "${rv}"}, "spec": {"size": 4}}),
    ),
    "a patch with the current version goes in": (
        *quiet(post("widgets", widget("a"), capture=RV)),
        merge(
            "widgets/a",
            {"metadata": {"resourceVersion": "${rv}"}, "spec": {"size": 4}},
            show=("spec.size", *META),
        ),
    ),
    "a replacement without a version goes in where that is allowed": (
        *quiet(post("secrets", secret("a")), post("configmaps", config_map("a"))),
        put("secrets/a", secret("a", labels={"x": "y"}), show=("metadata.labels",)),
        put("configmaps/a", config_map("a", {}), show=("data",)),
    ),
    "a replacement of a widget without a version is refused": (
        *quiet(post("widgets", widget("a"))),
        put("widgets/a", widget("a", size=2)),
    ),
    "a version that isn't a number": (
        *quiet(post("secrets", secret("a")), post("widgets", widget("a"))),
        put("secrets/a", versioned(secret("a"), "abc")),
        put("widgets/a", versioned(widget("a"), "abc")),
    ),
    "another uid is a conflict": (
        *quiet(post("secrets", secret("a")), post("widgets", widget("a"))),
        put("secrets/a", secret("a", uid="00000000-0000-0000-0000-000000000000")),
        merge("widgets/a", {"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}}),
    ),
    "the generation counts changes of the spec": (
        *quiet(post("widgets", widget("a"))),
        merge("widgets/a", {"spec": {"size": 2}}, show=META),
        merge("widgets/a", {"metadata": {"labels": {"a": "b"}}}, show=META),
        merge("widgets/a/status", {"status": {"phase": "New"}}, show=META),
        merge("widgets/a", {"spec": {"size": 3}}, show=META),
    ),
    "the generation of a job": (
        *quiet(post("genericjobs", generic_job("a"))),
        merge("genericjobs/a", {"spec": {"runMode": {"pause": {"enabled": True}}}}, show=META[:2]),
        merge("genericjobs/a/status", {"status": {"phase": "Running"}}, show=META[:2]),
    ),
    "a write that changes nothing keeps the version": (
        *quiet(post("secrets", secret("a")), post("widgets", widget("a"))),
        get("secrets/a", show=META[:2]),
        merge("secrets/a", {"data": {"k": "dg=="}}, show=META[:2]),
        put("secrets/a", secret("a"), show=META[:2]),
        get("widgets/a", show=META[:2], capture=RV),
        put("widgets/a", versioned(widget("a")), show=META[:2]),
        merge("widgets/a", {"spec": {"size": 1}}, show=META[:2]),
    ),
    "metadata that never changes": (
        *quiet(post("secrets", secret("a"))),
        merge("secrets/a", {"metadata": {"name": "b"}}),
        merge("secrets/a", {"metadata": {"namespace": "b"}}),
        merge("secrets/a", {"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z"}}),
        merge("secrets/a", {"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}}),
        merge("secrets/a", {"metadata": {"generation": 9, "selfLink": "/x"}}),
    ),
    "metadata of a widget that never changes": (
        *quiet(post("widgets", widget("a"))),
        merge("widgets/a", {"metadata": {"name": "b"}}),
        merge("widgets/a", {"metadata": {"namespace": "b"}}),
        merge("widgets/a", {"metadata": {"creationTimestamp": None}}, show=META),
        merge("widgets/a", {"metadata": {"generation": 9}}, show=META),
        merge("widgets/a", {"kind": "Gadget"}),
        merge("widgets/a", {"apiVersion": "v9"}),
    ),
    "labels, annotations and owners may change": (
        *quiet(post("widgets", widget("a"))),
        merge(
            "widgets/a", {"metadata": {"labels": {"a": "1", "b": "2"}, "annotations": {"c": "3"}}}
        ),
        merge("widgets/a", {"metadata": {"labels": {"a": None}, "annotations": None}}),
    ),
    "a status that is sent on creation is dropped": (
        post("widgets", {**widget("a"), "status": {"phase": "New"}}),
        post("pods", {**pod("a"), "status": {"phase": "Running"}}, show=("status",)),
    ),
    "a whole write leaves the status alone": (
        *quiet(
            post("widgets", widget("a")), merge("widgets/a/status", {"status": {"phase": "New"}})
        ),
        merge("widgets/a", {"spec": {"size": 2}, "status": {"phase": "Old"}}),
    ),
    "a status write leaves the rest alone": (
        *quiet(post("widgets", widget("a"))),
        merge(
            "widgets/a/status",
            {
                "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
                "spec": {"size": 9},
                "status": {"phase": "New", "unknown": 1},
            },
        ),
        get("widgets/a/status"),
    ),
    "the status is replaced through its door": (
        *quiet(post("widgets", widget("a"), capture=RV)),
        put("widgets/a/status", {**versioned(widget("a", size=9)), "status": {"replicas": 2}}),
        put("widgets/a/status", {**versioned(widget("a")), "status": {"replicas": 3}}),
    ),
    "the status of a pod": (
        *quiet(post("pods", pod("a"))),
        merge(
            "pods/a/status",
            {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"nodeName": "n"},
                "status": {
                    "phase": "Running",
                    "podIP": "192.0.2.7",
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            },
        ),
    ),
    "the status of what has none": (
        *quiet(post("secrets", secret("a"))),
        get("secrets/a/status"),
        merge("secrets/a/status", {"status": {}}),
    ),
    "the status of what doesn't exist": (
        get("widgets/a/status"),
        merge("widgets/a/status", {"status": {}}),
        put("pods/a/status", pod("a")),
    ),
    "the scale of a widget is read": (
        *quiet(
            post("widgets", widget("a", size=4)),
            merge("widgets/a/status", {"status": {"replicas": 2, "selector": "app=a"}}),
        ),
        get("widgets/a/scale"),
    ),
    "the scale of a widget without a status": (
        *quiet(post("widgets", widget("a", size=4))),
        get("widgets/a/scale"),
    ),
    "a widget is scaled by a patch": (
        *quiet(post("widgets", widget("a", size=4))),
        merge("widgets/a/scale", {"spec": {"replicas": 6}}),
        patch(
            "widgets/a/scale",
            JSON_PATCH,
            [{"op": "replace", "path": "/spec/replicas", "value": 7}],
        ),
        get("widgets/a"),
    ),
    "a widget is scaled by a replacement": (
        *quiet(post("widgets", widget("a", size=4), capture=RV)),
        put(
            "widgets/a/scale",
            {
                "apiVersion": "autoscaling/v1",
                "kind": "Scale",
                "metadata": {"name": "a", "namespace": "${namespace}", "resourceVersion": "${rv}"},
                "spec": {"replicas": 5},
            },
        ),
        put(
            "widgets/a/scale",
            {
                "apiVersion": "autoscaling/v1",
                "kind": "Scale",
                "metadata": {"name": "a", "namespace": "${namespace}", "resourceVersion": "${rv}"},
                "spec": {"replicas": 6},
            },
        ),
    ),
    "a scale that isn't right": (
        *quiet(post("widgets", widget("a", size=4))),
        merge("widgets/a/scale", {"spec": {"replicas": -1}}),
        merge("widgets/a/scale", {"spec": {"replicas": 1000}}),
        merge("widgets/a/scale", {"spec": {"replicas": "two"}}),
        get("widgets/b/scale"),
        merge("widgets/b/scale", {"spec": {"replicas": 1}}),
    ),
    "an elastic job is scaled": (
        *quiet(post("pytorchtrainingjobs", elastic_job("a"))),
        get("pytorchtrainingjobs/a/scale"),
        merge("pytorchtrainingjobs/a/scale", {"spec": {"replicas": 3}}),
        get(
            "pytorchtrainingjobs/a",
            show=("spec.elastic", "metadata.generation", "metadata.managedFields"),
        ),
    ),
    "an elastic job isn't scaled beyond its bounds": (
        *quiet(post("pytorchtrainingjobs", elastic_job("a"))),
        merge("pytorchtrainingjobs/a/scale", {"spec": {"replicas": 4}}),
        merge("pytorchtrainingjobs/a/scale", {"spec": {"replicas": 0}}),
    ),
    "a job that isn't elastic has no scale": (
        *quiet(post("genericjobs", generic_job("a"))),
        get("genericjobs/a/scale"),
    ),
    "a replaced object loses what isn't sent": (
        *quiet(post("widgets", widget("a", code="abc", size=3), capture=RV)),
        put("widgets/a", versioned(widget("a", size=4))),
    ),
    "finalizers and owners through a replacement": (
        *quiet(post("secrets", secret("a"))),
        put("secrets/a", secret("a", finalizers=["example.com/b", "example.com/a"])),
        put("secrets/a", secret("a")),
        delete("secrets/a", show=("status",)),
    ),
}


@pytest.mark.parametrize("sentence", CASES)
def test_writing(api: Stage, sentence: str) -> None:
    api.check("writing", sentence, CASES[sentence])
