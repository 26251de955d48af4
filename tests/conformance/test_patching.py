"""JSON patches, merge patches and strategic merge patches, in many shapes."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.objects import config_map, pod, service
from conformance.script import (
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    YAML,
    Body,
    Script,
    merge,
    patch,
    post,
    quiet,
)
from conformance.stage import Stage
from conformance.widgets import widget

FULL = widget(
    "a",
    size=3,
    free={"deep": {"x": 1, "y": [1, 2]}, "a/b": 1, "m~n": 2},
    parts=[{"name": "p", "count": 1}, {"name": "q"}],
    tags=["t", "u"],
    words=["one", "two"],
    labels={"a": "1", "b": "2"},
)


def op(name: str, path: str, *value: Any, **more: Any) -> dict[str, Any]:
    return {"op": name, "path": path, **({"value": value[0]} if value else {}), **more}


OPERATIONS: dict[str, Body] = {
    "adds a member": [op("add", "/spec/code", "abc")],
    "adds a member that is there": [op("add", "/spec/size", 5)],
    "adds to a list at an index": [op("add", "/spec/words/1", "new")],
    "adds to the end of a list": [op("add", "/spec/words/-", "new")],
    "adds beyond the end of a list": [op("add", "/spec/words/9", "new")],
    "adds below what isn't there": [op("add", "/spec/nothing/x", 1)],
    "adds labels where there are none": [op("add", "/metadata/labels", {"a": "b"})],
    "adds one label where there are none": [op("add", "/metadata/labels/a", "b")],
    "removes a member": [op("remove", "/spec/tags")],
    "removes an item": [op("remove", "/spec/words/0")],
    "removes what isn't there": [op("remove", "/spec/code")],
    "replaces a member": [op("replace", "/spec/size", 4)],
    "replaces what isn't there": [op("replace", "/spec/code", "abc")],
    "replaces an item": [op("replace", "/spec/words/1", "zwei")],
    "moves a member": [op("move", "/spec/code", **{"from": "/spec/tags/0"})],
    "copies a member": [op("copy", "/spec/free/copy", **{"from": "/spec/free/deep"})],
    "tests and goes on": [op("test", "/spec/size", 3), op("replace", "/spec/size", 4)],
    "tests and stops": [op("test", "/spec/size", 9), op("replace", "/spec/size", 4)],
    "tests for what isn't there": [op("test", "/spec/code", "x")],
    "tests that something isn't there": [op("test", "/spec/code", None)],
    "names with a slash and a tilde": [
        op("replace", "/spec/free/a~1b", 5),
        op("remove", "/spec/free/m~0n"),
    ],
    "several in order": [
        op("add", "/spec/words/0", "a"),
        op("add", "/spec/words/0", "b"),
        op("remove", "/spec/words/2"),
    ],
    "an unknown operation": [op("frob", "/spec/size", 1)],
    "no operations": [],
    "an object and no list": {"op": "add"},
    "a path without a slash": [op("add", "spec/code", "abc")],
    "an index that isn't a number": [op("add", "/spec/words/x", "a")],
    "the whole object": [op("replace", "", {"a": 1})],
    "an outcome that is invalid": [op("replace", "/spec/size", 1000)],
    "an outcome of a wrong type": [op("replace", "/spec/size", "x")],
    "no value": [op("add", "/spec/code")],
    "text that isn't JSON": "[{",
}

MERGES: dict[str, Body] = {
    "sets and removes members": {"spec": {"code": "abc", "tags": None}},
    "merges maps": {"spec": {"labels": {"a": None, "c": "3"}}},
    "replaces lists": {"spec": {"parts": [{"name": "z"}], "words": []}},
    "removes what has a default": {"spec": {"options": None, "size": None}},
    "removes the whole spec": {"spec": None},
    "merges deep in a free map": {"spec": {"free": {"deep": {"x": None, "z": 3}}}},
    "replaces a map by a string": {"spec": {"options": "x"}},
    "keeps an unknown field out": {"spec": {"unknown": 1}},
    "is empty": {},
    "is a list": [],
    "isn't JSON": "{",
    "is null": "null",
}

STRATEGIES: dict[str, Script] = {
    "containers are merged by name": (
        *quiet(post("pods", pod("a"))),
        patch(
            "pods/a",
            STRATEGIC,
            {"spec": {"containers": [{"name": "main", "image": "other"}]}},
            show=("spec.containers",),
        ),
    ),
    "tolerations are a list of their own": (
        *quiet(post("pods", pod("a"))),
        patch(
            "pods/a",
            STRATEGIC,
            {"spec": {"tolerations": [{"key": "k", "operator": "Exists"}]}},
            show=("spec.tolerations",),
        ),
    ),
    "ports of a service are merged by port": (
        *quiet(post("services", service("a", clusterIP="None", ports=[{"port": 80, "name": "a"}]))),
        patch(
            "services/a",
            STRATEGIC,
            {"spec": {"ports": [{"port": 81, "name": "b"}]}},
            show=("spec.ports",),
        ),
        patch(
            "services/a",
            STRATEGIC,
            {"spec": {"ports": [{"port": 80, "$patch": "delete"}]}},
            show=("spec.ports",),
        ),
        patch(
            "services/a",
            STRATEGIC,
            {"spec": {"ports": [{"$patch": "replace"}, {"port": 90, "name": "c"}]}},
            show=("spec.ports",),
        ),
        patch("services/a", STRATEGIC, {"spec": {"ports": [{"name": "c"}]}}),
    ),
    "a map is replaced by a directive": (
        *quiet(post("configmaps", config_map("a", {"x": "1", "y": "2"}))),
        patch("configmaps/a", STRATEGIC, {"data": {"$patch": "replace", "z": "3"}}, show=("data",)),
        patch("configmaps/a", STRATEGIC, {"data": {"z": None, "w": "4"}}, show=("data",)),
        patch("configmaps/a", STRATEGIC, {"data": {"$patch": "delete"}}, show=("data",)),
    ),
    "finalizers are merged as a set": (
        *quiet(post("configmaps", config_map("a", finalizers=["example.com/a"]))),
        patch(
            "configmaps/a",
            STRATEGIC,
            {"metadata": {"finalizers": ["example.com/b"]}},
            show=("metadata.finalizers",),
        ),
        patch(
            "configmaps/a",
            STRATEGIC,
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}},
            show=("metadata.finalizers",),
        ),
        patch("configmaps/a", STRATEGIC, {"metadata": {"finalizers": None}}, show=("kind",)),
    ),
    "owners are merged by uid": (
        *quiet(post("configmaps", config_map("a"))),
        *(
            patch(
                "configmaps/a",
                STRATEGIC,
                {
                    "metadata": {
                        "ownerReferences": [
                            {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
                        ]
                    }
                },
                show=("metadata.ownerReferences",),
                query={"dryRun": "All"},
            )
            for name, uid in (("a", "1"), ("b", "2"))
        ),
    ),
    "conditions of a pod are merged by type": (
        *quiet(post("pods", pod("a"))),
        *(
            patch(
                "pods/a/status",
                STRATEGIC,
                {"status": {"conditions": [{"type": kind, "status": value}]}},
                show=("status.conditions",),
            )
            for kind, value in (("Ready", "False"), ("Initialized", "True"), ("Ready", "True"))
        ),
    ),
    "the order of a list is set by a directive": (
        *quiet(
            post(
                "services",
                service(
                    "a", clusterIP="None", ports=[{"port": p, "name": f"p{p}"} for p in (1, 2)]
                ),
            )
        ),
        patch(
            "services/a",
            STRATEGIC,
            {"spec": {"$setElementOrder/ports": [{"port": 2}, {"port": 1}]}},
            show=("spec.ports",),
        ),
    ),
    "keys are retained by a directive": (
        *quiet(post("services", service("a", clusterIP="None", sessionAffinity="None"))),
        patch(
            "services/a",
            STRATEGIC,
            {"spec": {"selector": {"$retainKeys": ["b"], "b": "2"}}},
            show=("spec.selector",),
        ),
    ),
    "custom resources take none": (
        *quiet(post("widgets", widget("a"))),
        patch("widgets/a", STRATEGIC, {"spec": {"size": 2}}),
    ),
    "an unknown directive": (
        *quiet(post("configmaps", config_map("a"))),
        patch("configmaps/a", STRATEGIC, {"data": {"$patch": "frob"}}),
    ),
    "a field of a wrong type": (
        *quiet(post("configmaps", config_map("a"))),
        patch("configmaps/a", STRATEGIC, {"data": "x"}),
        patch("configmaps/a", STRATEGIC, {"data": {"x": 1}}),
    ),
}

OTHERS: dict[str, Script] = {
    "a patch of what doesn't exist": (
        merge("configmaps/a", {"data": {}}),
        merge("widgets/a", {}),
        patch("pods/a", JSON_PATCH, []),
    ),
    "a patch of an unknown sort": (
        *quiet(post("configmaps", config_map("a"))),
        patch("configmaps/a", "application/json", {"data": {}}),
        patch("configmaps/a", "text/plain", {"data": {}}),
        patch("widgets/a", YAML, {"data": {}}),
    ),
    "a merge patch of a core object": (
        *quiet(post("configmaps", config_map("a", {"x": "1", "y": "2"}))),
        merge("configmaps/a", {"data": {"x": None, "z": "3"}}),
        patch("configmaps/a", MERGE, {"data": None}),
    ),
    "a JSON patch of a core object": (
        *quiet(post("configmaps", config_map("a", {"x": "1", "y": "2"}))),
        patch("configmaps/a", JSON_PATCH, [op("remove", "/data/x"), op("add", "/data/z", "3")]),
        patch("configmaps/a", JSON_PATCH, [op("add", "/data/w", 3)]),
    ),
}


@pytest.mark.parametrize("sentence", OPERATIONS)
def test_a_json_patch(api: Stage, sentence: str) -> None:
    script = (*quiet(post("widgets", FULL)), patch("widgets/a", JSON_PATCH, OPERATIONS[sentence]))
    api.check("json_patch", sentence, script)


@pytest.mark.parametrize("sentence", MERGES)
def test_a_merge_patch_that(api: Stage, sentence: str) -> None:
    script = (*quiet(post("widgets", FULL)), merge("widgets/a", MERGES[sentence]))
    api.check("merge_patch", sentence, script)


@pytest.mark.parametrize("sentence", STRATEGIES)
def test_a_strategic_patch(api: Stage, sentence: str) -> None:
    api.check("strategic_patch", sentence, STRATEGIES[sentence])


@pytest.mark.parametrize("sentence", OTHERS)
def test_patching(api: Stage, sentence: str) -> None:
    api.check("patching", sentence, OTHERS[sentence])
