"""Watches: where they begin, what they tell in which order, and how they end."""

from __future__ import annotations

import pytest

from conformance.objects import config_map, pod, secret
from conformance.script import METADATA, TABLE, Script, delete, get, merge, post, put, quiet, watch
from conformance.stage import Stage
from conformance.widgets import widget

SINCE = {"resourceVersion": "${rv}"}
LIST = get("secrets", capture={"rv": "metadata.resourceVersion"}, silent=True)
WIDGET_LIST = get("widgets", capture={"rv": "metadata.resourceVersion"}, silent=True)
TOLD = ("type", "object.kind", "object.metadata.name", "object.metadata.labels")


def labelled(value: str | None) -> dict[str, object]:
    return {"metadata": {"labels": {"app": value}}}


CASES: dict[str, Script] = {
    "without a version it begins with what there is": (
        *quiet(post("secrets", secret("a")), post("secrets", secret("b"))),
        watch("secrets", *quiet(post("secrets", secret("c"))), count=3),
    ),
    "with version 0 it begins with what there is": (
        *quiet(post("secrets", secret("a"))),
        get("secrets/a", query={"resourceVersion": "0"}, until=lambda s, _: s == 200, silent=True),
        watch("secrets", query={"resourceVersion": "0"}, count=1, show=TOLD),
    ),
    "from a version it tells what came after": (
        *quiet(post("secrets", secret("a"))),
        LIST,
        *quiet(merge("secrets/a", labelled("x")), post("secrets", secret("b"))),
        watch("secrets", *quiet(delete("secrets/a")), query=SINCE, count=3),
    ),
    "from the version of an object it tells what came after": (
        *quiet(post("secrets", secret("a"), capture={"rv": "metadata.resourceVersion"})),
        *quiet(post("secrets", secret("b")), merge("secrets/a", labelled("x"))),
        watch("secrets", query=SINCE, count=2, show=TOLD),
    ),
    "a custom resource": (
        WIDGET_LIST,
        watch(
            "widgets",
            *quiet(
                post("widgets", widget("a")),
                merge("widgets/a", {"spec": {"size": 2}}),
                merge("widgets/a/status", {"status": {"phase": "New"}}),
                delete("widgets/a"),
            ),
            query=SINCE,
            count=4,
        ),
    ),
    "a write that changes nothing isn't told": (
        *quiet(post("widgets", widget("a"))),
        WIDGET_LIST,
        watch(
            "widgets",
            *quiet(
                merge("widgets/a", {"spec": {"size": 1}}),
                merge("widgets/a", {"spec": {"size": 2}}),
            ),
            query=SINCE,
            count=1,
            show=("type", "object.spec.size"),
        ),
    ),
    "an object comes and goes with its labels": (
        *quiet(post("secrets", secret("a"))),
        LIST,
        watch(
            "secrets",
            *quiet(
                merge("secrets/a", labelled("x")),
                merge("secrets/a", {"data": {"l": "dg=="}}),
                merge("secrets/a", labelled("y")),
                merge("secrets/a", labelled("x")),
                delete("secrets/a"),
            ),
            query={**SINCE, "labelSelector": "app=x"},
            count=5,
        ),
    ),
    "an object comes and goes with its field": (
        *quiet(post("pods", pod("a"))),
        get("pods", capture={"rv": "metadata.resourceVersion"}, silent=True),
        watch(
            "pods",
            *quiet(
                merge("pods/a/status", {"status": {"phase": "Running"}}),
                merge("pods/a", labelled("x")),
                merge("pods/a/status", {"status": {"phase": "Succeeded"}}),
            ),
            query={**SINCE, "fieldSelector": "status.phase=Running"},
            count=3,
            show=("type", "object.status.phase", "object.metadata.labels"),
        ),
    ),
    "a custom resource comes and goes with its field": (
        *quiet(post("widgets", widget("a", colour="red"))),
        WIDGET_LIST,
        watch(
            "widgets",
            *quiet(
                merge("widgets/a", {"spec": {"colour": "blue"}}),
                merge("widgets/a", {"spec": {"colour": "red"}}),
            ),
            query={**SINCE, "fieldSelector": "spec.colour=blue"},
            count=2,
            show=("type", "object.spec.colour", "object.metadata.resourceVersion"),
        ),
    ),
    "one object by a field selector": (
        LIST,
        watch(
            "secrets",
            *quiet(post("secrets", secret("b")), post("secrets", secret("a"))),
            query={**SINCE, "fieldSelector": "metadata.name=a"},
            count=1,
            show=TOLD,
        ),
    ),
    "the path of one object is read and not watched": (
        *quiet(post("secrets", secret("a"))),
        get("secrets/a", query={"watch": "true"}, show=("kind",)),
    ),
    "one object by the old path": (
        *quiet(post("secrets", secret("a"))),
        watch("/api/v1/watch/namespaces/${namespace}/secrets", count=1, show=TOLD),
        watch("/api/v1/watch/namespaces/${namespace}/secrets/a", count=1, show=TOLD),
    ),
    "over all namespaces": (
        LIST,
        watch(
            "/api/v1/secrets",
            *quiet(post("secrets", secret("a", labels={"app": "${namespace}"}))),
            query={**SINCE, "labelSelector": "app=${namespace}"},
            count=1,
            show=TOLD,
        ),
    ),
    "deletion with a finalizer is a change and then a deletion": (
        *quiet(post("secrets", secret("a", finalizers=["example.com/stay"]))),
        LIST,
        watch(
            "secrets",
            *quiet(delete("secrets/a"), merge("secrets/a", {"metadata": {"finalizers": None}})),
            query=SINCE,
            count=2,
            show=("type", "object.metadata"),
        ),
    ),
    "deletion of a collection": (
        *quiet(*(post("secrets", secret(name)) for name in "abc")),
        LIST,
        watch("secrets", *quiet(delete("secrets")), query=SINCE, count=3, show=("type",)),
    ),
    "events are in the order of the writes": (
        LIST,
        watch(
            "secrets",
            *quiet(
                post("secrets", secret("b")),
                post("secrets", secret("a")),
                delete("secrets/b"),
                post("secrets", secret("b")),
                merge("secrets/a", labelled("x")),
            ),
            query=SINCE,
            count=5,
            show=TOLD,
        ),
    ),
    "initial events end with a bookmark": (
        *quiet(post("secrets", secret("a")), post("secrets", secret("b"))),
        watch(
            "secrets",
            *quiet(post("secrets", secret("c"))),
            query={
                "sendInitialEvents": "true",
                "resourceVersionMatch": "NotOlderThan",
                "allowWatchBookmarks": "true",
            },
            count=4,
        ),
    ),
    "initial events of nothing": (
        watch(
            "widgets",
            query={
                "sendInitialEvents": "true",
                "resourceVersionMatch": "NotOlderThan",
                "allowWatchBookmarks": "true",
                "resourceVersion": "0",
            },
            count=1,
        ),
    ),
    "initial events that make no sense": (
        watch("secrets", query={"sendInitialEvents": "true"}),
        watch("secrets", query={"resourceVersionMatch": "NotOlderThan"}),
        watch(
            "secrets",
            query={"sendInitialEvents": "true", "resourceVersionMatch": "Exact"},
        ),
        get("secrets", query={"sendInitialEvents": "true"}),
    ),
    "initial events that aren't wanted": (
        *quiet(post("secrets", secret("a"))),
        watch(
            "secrets",
            *quiet(post("secrets", secret("b"))),
            query={"sendInitialEvents": "false", "resourceVersionMatch": "NotOlderThan"},
            count=1,
            show=TOLD,
        ),
    ),
    "a version that is too old": (watch("widgets", query={"resourceVersion": "1"}),),
    "a version that is none": (watch("secrets", query={"resourceVersion": "x"}),),
    "a selector that is none": (
        watch("secrets", query={"labelSelector": "a b c"}),
        watch("secrets", query={"fieldSelector": "data.x=1"}),
    ),
    "it ends after its time": (
        *quiet(post("secrets", secret("a"))),
        # Long enough for a slow server to tell what there is before.
        watch("secrets", query={"timeoutSeconds": "5"}, show=TOLD),
    ),
    "a kind that doesn't exist": (
        watch("/apis/conformance.example.com/v1/gadgets"),
        watch("/api/v1/namespaces/${namespace}/gadgets"),
    ),
    "what can't be watched": (watch("/api/v1/namespaces/${namespace}/pods/a/log"),),
    "as metadata alone": (
        *quiet(post("secrets", secret("a"))),
        watch("secrets", accept=METADATA, count=1),
    ),
    "as tables": (
        *quiet(post("widgets", widget("a"))),
        watch("widgets", *quiet(merge("widgets/a", labelled("x"))), accept=TABLE, count=2),
    ),
    "secrets don't tell of config maps": (
        get("configmaps", capture={"rv": "metadata.resourceVersion"}, silent=True),
        watch(
            "secrets",
            *quiet(post("configmaps", config_map("a")), post("secrets", secret("a"))),
            query=SINCE,
            count=1,
            show=TOLD,
        ),
    ),
    "a replacement": (
        *quiet(post("secrets", secret("a"))),
        LIST,
        watch(
            "secrets",
            *quiet(put("secrets/a", secret("a", annotations={"a": "b"}))),
            query=SINCE,
            count=1,
        ),
    ),
}


@pytest.mark.parametrize("sentence", CASES)
def test_watching(api: Stage, sentence: str) -> None:
    api.check("watching", sentence, CASES[sentence])
