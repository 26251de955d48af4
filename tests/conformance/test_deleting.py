"""Deletion: finalizers, preconditions, propagation, grace periods and whole collections."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.objects import config_map, owned_by, pod, secret
from conformance.script import Script, Step, delete, get, gone, merge, post, put, quiet
from conformance.stage import Stage
from conformance.widgets import widget

OWNER = {"owner": "metadata.uid"}
NAMES = ("items.*.metadata.name",)
DYING = ("metadata.deletionTimestamp", "metadata.deletionGracePeriodSeconds", "metadata.finalizers")
ZERO = "00000000-0000-0000-0000-000000000000"


def binding(node: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "a"},
        "target": {"kind": "Node", "name": node},
    }


def owned_widget(name: str, **more: object) -> dict[str, object]:
    return {**widget(name), "metadata": {"name": name, "ownerReferences": owned_by("a", **more)}}  # type: ignore[arg-type]


FAMILY = quiet(
    post("secrets", secret("a"), capture=OWNER),
    post("widgets", owned_widget("child", kind="Secret", blockOwnerDeletion=True)),
)


def _without_the_last(_: int, body: dict[str, Any]) -> bool:
    return "last" not in [item["metadata"]["name"] for item in body["items"]]


# A server's collector knows of children a little later than they are there. One whose owner never
# was is collected, and by then all that were made before it are known.
ARE_KNOWN = quiet(
    post(
        "widgets",
        {
            **widget("last"),
            "metadata": {
                "name": "last",
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Secret", "name": "nobody", "uid": ZERO}
                ],
            },
        },
    ),
    get("widgets", until=_without_the_last),
)


def until_dying(path: str) -> Step:
    return get(
        path,
        until=lambda _, body: "deletionTimestamp" in body.get("metadata", {}),
        show=DYING,
    )


CASES: dict[str, Script] = {
    "what doesn't exist": (delete("secrets/a"), delete("widgets/a"), delete("pods/a")),
    "a finalizer keeps an object until it is taken away": (
        *quiet(
            post(
                "widgets",
                {**widget("a"), "metadata": {"name": "a", "finalizers": ["example.com/x"]}},
            )
        ),
        delete("widgets/a"),
        get("widgets/a", show=DYING),
        delete("widgets/a", show=DYING),
        merge("widgets/a", {"metadata": {"finalizers": None}}),
        get("widgets/a"),
    ),
    "a finalizer of a secret": (
        *quiet(post("secrets", secret("a", finalizers=["example.com/x"]))),
        delete("secrets/a"),
        put("secrets/a", secret("a")),
        get("secrets/a"),
    ),
    "no finalizer is added to what is going": (
        *quiet(post("secrets", secret("a", finalizers=["example.com/x"])), delete("secrets/a")),
        merge("secrets/a", {"metadata": {"finalizers": ["example.com/x", "example.com/y"]}}),
        merge(
            "secrets/a", {"metadata": {"labels": {"still": "changes"}}}, show=("metadata.labels",)
        ),
        *quiet(merge("secrets/a", {"metadata": {"finalizers": None}})),
    ),
    "a name is free again after the last finalizer": (
        *quiet(post("secrets", secret("a", finalizers=["example.com/x"])), delete("secrets/a")),
        post("secrets", secret("a")),
        *quiet(merge("secrets/a", {"metadata": {"finalizers": None}})),
        post("secrets", secret("a"), show=("metadata.name",)),
    ),
    "the generation of what is going": (
        *quiet(
            post(
                "widgets",
                {**widget("a"), "metadata": {"name": "a", "finalizers": ["example.com/x"]}},
            )
        ),
        delete("widgets/a", show=("metadata.generation",)),
        *quiet(merge("widgets/a", {"metadata": {"finalizers": None}})),
    ),
    "a uid as a precondition": (
        *quiet(post("secrets", secret("a"), capture=OWNER)),
        delete("secrets/a", {"preconditions": {"uid": ZERO}}),
        delete("secrets/a", {"preconditions": {"uid": "${owner}"}}),
    ),
    "a version as a precondition": (
        *quiet(post("widgets", widget("a"), capture={"rv": "metadata.resourceVersion"})),
        *quiet(
            merge("widgets/a", {"spec": {"size": 2}}, capture={"rv2": "metadata.resourceVersion"})
        ),
        delete("widgets/a", {"preconditions": {"resourceVersion": "${rv}"}}, show=("x",)),
        delete("widgets/a", {"preconditions": {"resourceVersion": "${rv2}"}}),
    ),
    "options that make no sense": (
        *quiet(post("secrets", secret("a"))),
        delete("secrets/a", {"propagationPolicy": "Sideways"}),
        delete("secrets/a", {"propagationPolicy": "Orphan", "orphanDependents": True}),
        delete("secrets/a", {"gracePeriodSeconds": "soon"}),
        delete("secrets/a", "{"),
        delete("secrets/a", config_map("a")),
        delete("secrets/a", {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["Some"]}),
    ),
    "options in the query": (
        *quiet(post("secrets", secret("a"))),
        delete("secrets/a", query={"propagationPolicy": "Sideways"}),
        delete("secrets/a", query={"gracePeriodSeconds": "5", "propagationPolicy": "Background"}),
    ),
    "in the background children follow": (
        *FAMILY,
        delete("secrets/a", {"propagationPolicy": "Background"}),
        gone("widgets/child"),
    ),
    "without a word children follow": (
        *FAMILY,
        delete("secrets/a"),
        gone("widgets/child"),
    ),
    "in the foreground children go first": (
        *quiet(
            post("secrets", secret("a"), capture=OWNER),
            post(
                "widgets",
                {
                    **owned_widget("child", kind="Secret", blockOwnerDeletion=True),
                    "metadata": {
                        "name": "child",
                        "finalizers": ["example.com/x"],
                        "ownerReferences": owned_by("a", "Secret", blockOwnerDeletion=True),
                    },
                },
            ),
        ),
        *ARE_KNOWN,
        delete("secrets/a", {"propagationPolicy": "Foreground"}),
        until_dying("widgets/child"),
        get("secrets/a", show=DYING),
        *quiet(merge("widgets/child", {"metadata": {"finalizers": None}})),
        gone("secrets/a"),
        get("widgets/child"),
    ),
    "in the foreground without children": (
        *quiet(post("secrets", secret("a"))),
        delete("secrets/a", {"propagationPolicy": "Foreground"}),
        gone("secrets/a"),
    ),
    "orphans stay, without their owner": (
        *FAMILY,
        *ARE_KNOWN,
        delete("secrets/a", {"propagationPolicy": "Orphan"}),
        gone("secrets/a"),
        get("widgets/child", show=("metadata.ownerReferences", "metadata.name")),
    ),
    "orphans in the old words": (
        *FAMILY,
        *ARE_KNOWN,
        delete("secrets/a", {"orphanDependents": True}, show=DYING),
        gone("secrets/a"),
        get("widgets/child", show=("metadata.ownerReferences",)),
    ),
    "a child of an owner that never was is collected": (
        *quiet(
            post(
                "secrets",
                secret(
                    "a",
                    ownerReferences=[
                        {"apiVersion": "v1", "kind": "ConfigMap", "name": "no", "uid": ZERO}
                    ],
                ),
            )
        ),
        gone("secrets/a"),
    ),
    "a child with a second owner stays": (
        *quiet(
            post("secrets", secret("a"), capture=OWNER),
            post("secrets", secret("b"), capture={"second": "metadata.uid"}),
            post(
                "widgets",
                {
                    **widget("child"),
                    "metadata": {
                        "name": "child",
                        "ownerReferences": [
                            {"apiVersion": "v1", "kind": "Secret", "name": "a", "uid": "${owner}"},
                            {"apiVersion": "v1", "kind": "Secret", "name": "b", "uid": "${second}"},
                        ],
                    },
                },
            ),
            delete("secrets/a"),
        ),
        get(
            "widgets/child",
            until=lambda _, body: len(body["metadata"]["ownerReferences"]) == 1,
            show=("metadata.ownerReferences",),
        ),
        *quiet(delete("secrets/b")),
        gone("widgets/child"),
    ),
    "grandchildren follow": (
        *quiet(
            post("secrets", secret("a"), capture=OWNER),
            post("secrets", secret("b", ownerReferences=owned_by("a", "Secret")), capture=OWNER),
            post("secrets", secret("c", ownerReferences=owned_by("b", "Secret"))),
            delete("secrets/a"),
        ),
        gone("secrets/c"),
    ),
    "a pod that waits for a node goes at once": (
        *quiet(post("pods", pod("a"))),
        delete("pods/a"),
        get("pods/a"),
    ),
    "a pod on a node gets its grace period": (
        *quiet(post("pods", pod("a", terminationGracePeriodSeconds=7))),
        post("pods/a/binding", binding("n")),
        delete("pods/a"),
        get("pods/a", show=DYING),
        delete("pods/a", {"gracePeriodSeconds": 3}, show=DYING),
        delete("pods/a", {"gracePeriodSeconds": 60}, show=DYING),
        delete("pods/a", {"gracePeriodSeconds": 0}, show=DYING),
        get("pods/a"),
    ),
    "a pod on a node goes at once without grace": (
        *quiet(post("pods", pod("a")), post("pods/a/binding", binding("n"))),
        delete("pods/a", query={"gracePeriodSeconds": "0"}),
        get("pods/a"),
    ),
    "a pod that is over goes at once": (
        *quiet(
            post("pods", pod("a", nodeName="n")),
            merge("pods/a/status", {"status": {"phase": "Succeeded"}}),
        ),
        delete("pods/a", show=DYING),
        get("pods/a"),
    ),
    "a pod with a finalizer": (
        *quiet(post("pods", pod("a", {"finalizers": ["example.com/x"]}))),
        delete("pods/a", show=DYING),
        merge("pods/a", {"metadata": {"finalizers": None}}, show=DYING),
        get("pods/a"),
    ),
    "a pod with a finalizer on a node": (
        *quiet(post("pods", pod("a", {"finalizers": ["example.com/x"]}, nodeName="n"))),
        delete("pods/a", show=DYING),
        merge("pods/a", {"metadata": {"finalizers": None}}, show=DYING),
        get("pods/a", show=DYING),
        delete("pods/a", {"gracePeriodSeconds": 0}, show=DYING),
        get("pods/a"),
    ),
    "a negative grace period": (
        *quiet(post("pods", pod("a", nodeName="n"))),
        delete("pods/a", {"gracePeriodSeconds": -1}, show=DYING),
        *quiet(delete("pods/a", {"gracePeriodSeconds": 0})),
    ),
    "a collection": (
        *quiet(post("secrets", secret("a")), post("secrets", secret("b"))),
        delete("secrets"),
        get("secrets", show=NAMES),
    ),
    "a collection by a label": (
        *quiet(post("widgets", widget("a")), post("widgets", widget("b"))),
        *quiet(merge("widgets/b", {"metadata": {"labels": {"x": "y"}}})),
        delete("widgets", query={"labelSelector": "x=y"}),
        get("widgets", show=NAMES),
    ),
    "a collection by a field": (
        *quiet(post("secrets", secret("a")), post("secrets", secret("b"))),
        delete("secrets", query={"fieldSelector": "metadata.name!=a"}, show=NAMES),
        get("secrets", show=NAMES),
    ),
    "an empty collection": (delete("secrets"),),
    "a collection with a finalizer in it": (
        *quiet(
            post("secrets", secret("a", finalizers=["example.com/x"])), post("secrets", secret("b"))
        ),
        delete("secrets", show=("items.*.metadata.deletionGracePeriodSeconds", *NAMES)),
        get("secrets", show=NAMES),
        *quiet(merge("secrets/a", {"metadata": {"finalizers": None}})),
    ),
    "a collection of pods": (
        *quiet(post("pods", pod("a")), post("pods", pod("b", nodeName="n"))),
        delete("pods", show=NAMES),
        get("pods", show=NAMES),
        *quiet(delete("pods/b", {"gracePeriodSeconds": 0})),
    ),
    "all namespaces at once": (delete("/api/v1/secrets"), delete("/api/v1/namespaces")),
    "a dry run": (
        *quiet(post("secrets", secret("a"))),
        delete("secrets/a", query={"dryRun": "All"}),
        delete("secrets/a", {"dryRun": ["All"]}),
        delete("secrets", query={"dryRun": "All"}, show=NAMES),
        get("secrets", show=NAMES),
    ),
}


@pytest.mark.parametrize("sentence", CASES)
def test_deleting(api: Stage, sentence: str) -> None:
    api.check("deleting", sentence, CASES[sentence])
