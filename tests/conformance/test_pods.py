"""What is particular to pods, events and reviews: binding, eviction, two event groups."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.objects import pod
from conformance.script import Json, Script, delete, get, merge, post, put, quiet
from conformance.stage import Stage


def binding(node: str, name: str = "a", **more: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, **more},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def eviction(name: str = "a", **more: Any) -> Json:
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, **more}


def core_event(name: str, **more: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "p",
            "namespace": "${namespace}",
            "uid": "u",
            "fieldPath": "spec.containers{main}",
        },
        "reason": "Started",
        "message": "Started container",
        "type": "Normal",
        "source": {"component": "kubelet", "host": "n"},
        "firstTimestamp": "2025-01-02T03:04:05Z",
        "lastTimestamp": "2025-01-02T03:04:06Z",
        "count": 2,
        **more,
    }


def new_event(name: str, **more: Any) -> Json:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name},
        "eventTime": "2025-01-02T03:04:05.000006Z",
        "reportingController": "example.com/me",
        "reportingInstance": "me-1",
        "action": "Start",
        "reason": "Started",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "${namespace}"},
        "note": "Started container",
        "type": "Normal",
        **more,
    }


NEW_EVENTS = "/apis/events.k8s.io/v1/namespaces/${namespace}/events"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
NOBODY = "00000000-0000-4000-8000-000000000000"
PLACE = ("spec.nodeName", "status.conditions.*.type", "metadata.annotations", "metadata.labels")


def review(**attributes: str) -> Json:
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }


CASES: dict[str, Script] = {
    "binding gives a pod its node": (
        *quiet(post("pods", pod("a"))),
        post("pods/a/binding", binding("n", annotations={"x": "y"})),
        get("pods/a"),
    ),
    "a pod is bound but once": (
        *quiet(post("pods", pod("a")), post("pods/a/binding", binding("n"))),
        post("pods/a/binding", binding("m")),
        post("pods/a/binding", binding("n")),
    ),
    "binding by the collection": (
        *quiet(post("pods", pod("a"))),
        post("bindings", binding("n")),
        get("pods/a", show=PLACE),
    ),
    "binding a pod that had the name before": (
        *quiet(post("pods", pod("a"), capture={"uid": "metadata.uid"})),
        post("pods/a/binding", binding("n", uid=NOBODY)),
        get("pods/a", show=PLACE),
        post("pods/a/binding", binding("n", uid="${uid}")),
        post("pods/a/binding", binding("m", uid=NOBODY)),
        post("pods/b/binding", binding("m", "b", uid=NOBODY)),
        post("pods/a/binding", {**binding("n", uid=NOBODY), "target": {}}),
    ),
    "binding a pod as it was": (
        *quiet(
            post("pods", pod("a"), capture={"version": "metadata.resourceVersion"}),
            merge("pods/a", {"metadata": {"labels": {"a": "b"}}}),
        ),
        post("pods/a/binding", binding("n", resourceVersion="${version}")),
        post("bindings", binding("n", resourceVersion="${version}")),
        post("pods/a/binding", binding("n", uid=NOBODY, resourceVersion="${version}")),
        *quiet(get("pods/a", capture={"version": "metadata.resourceVersion"})),
        post("pods/a/binding", binding("n", resourceVersion="${version}")),
        get("pods/a", show=PLACE),
    ),
    "binding by the collection goes by the name alone": (
        *quiet(post("pods", pod("a"))),
        post("bindings", binding("n", uid=NOBODY)),
        get("pods/a", show=PLACE),
    ),
    "binding what isn't there": (post("pods/a/binding", binding("n")),),
    "binding to nothing": (
        *quiet(post("pods", pod("a"))),
        post("pods/a/binding", {**binding("n"), "target": {}}),
        post("pods/a/binding", {**binding("n"), "target": {"kind": "Pod", "name": "x"}}),
        post("pods/a/binding", binding("n", name="b")),
    ),
    "binding what is going": (
        *quiet(post("pods", pod("a", {"finalizers": ["example.com/x"]})), delete("pods/a")),
        post("pods/a/binding", binding("n")),
        *quiet(merge("pods/a", {"metadata": {"finalizers": None}})),
    ),
    "the node of a pod isn't written by the front door": (
        *quiet(post("pods", pod("a"))),
        merge("pods/a", {"spec": {"nodeName": "n"}}),
    ),
    "eviction deletes a pod": (
        *quiet(post("pods", pod("a"))),
        post("pods/a/eviction", eviction()),
        get("pods/a"),
    ),
    "eviction of a running pod gives it its grace": (
        *quiet(
            post("pods", pod("a", nodeName="n")),
            merge("pods/a/status", {"status": {"phase": "Running"}}),
        ),
        post("pods/a/eviction", eviction(deleteOptions={"gracePeriodSeconds": 5})),
        get("pods/a", show=("metadata.deletionGracePeriodSeconds",)),
        *quiet(delete("pods/a", {"gracePeriodSeconds": 0})),
    ),
    "eviction of what isn't there": (post("pods/a/eviction", eviction()),),
    "eviction under another name": (
        *quiet(post("pods", pod("a"))),
        post("pods/a/eviction", eviction("b")),
    ),
    "a dry run of an eviction": (
        *quiet(post("pods", pod("a"))),
        post("pods/a/eviction", eviction(deleteOptions={"dryRun": ["All"]})),
        get("pods/a", show=("metadata.deletionTimestamp", "metadata.name")),
    ),
    "the class of service of a pod": (
        *(
            post(
                "pods",
                pod(
                    name,
                    containers=[{"name": "main", "image": "busybox", "resources": resources}],
                ),
                show=("status.qosClass", "spec.containers.*.resources"),
            )
            for name, resources in (
                ("best-effort", {}),
                ("burstable", {"requests": {"cpu": "100m"}}),
                ("guaranteed", {"limits": {"cpu": "0.1", "memory": "1Gi"}}),
                ("other", {"limits": {"example.com/gpu": 1}}),
            )
        ),
    ),
    "the pull policy follows from the tag": (
        *(
            post(
                "pods",
                pod(f"p{n}", containers=[{"name": "main", "image": image}]),
                show=("spec.containers.*.imagePullPolicy",),
            )
            for n, image in enumerate(("a", "a:1", "a:latest", "a@sha256:" + "0" * 64))
        ),
    ),
    "a service account that isn't there": (post("pods", pod("a", serviceAccountName="nobody")),),
    "labels of a pod may change, its host name may not": (
        *quiet(post("pods", pod("a"))),
        merge(
            "pods/a",
            {"metadata": {"labels": {"a": "b"}}},
            show=("metadata.labels", "metadata.generation"),
        ),
        merge("pods/a", {"spec": {"hostname": "h"}}),
        merge(
            "pods/a", {"spec": {"activeDeadlineSeconds": 5}}, show=("spec.activeDeadlineSeconds",)
        ),
        merge("pods/a", {"spec": {"activeDeadlineSeconds": 6}}),
    ),
    "a pod's status is replaced": (
        *quiet(post("pods", pod("a"))),
        put(
            "pods/a/status",
            {**pod("a"), "status": {"phase": "Failed", "reason": "Evicted"}},
            show=("status",),
        ),
    ),
    "an event": (post("events", core_event("a")), get("events/a")),
    "an event of the new group": (post(NEW_EVENTS, new_event("a")),),
    "an event is seen in both groups": (
        *quiet(post("events", core_event("a")), post(NEW_EVENTS, new_event("b"))),
        get(f"{NEW_EVENTS}/a"),
        get("events/b"),
    ),
    "an event of the new group lacks something": (
        post(NEW_EVENTS, new_event("a", eventTime=None)),
        post(NEW_EVENTS, new_event("a", reportingController="")),
        post(NEW_EVENTS, new_event("a", type="Odd")),
    ),
    "an event about another namespace": (
        post("events", core_event("a", involvedObject={"kind": "Pod", "namespace": "other"})),
    ),
    "an event is counted up": (
        *quiet(post("events", core_event("a"))),
        merge("events/a", {"count": 5, "lastTimestamp": "2025-01-02T03:05:06Z"}, show=("count",)),
    ),
    "may I": (
        post(REVIEWS, review(verb="create", resource="pods", namespace="${namespace}")),
        post(
            REVIEWS,
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"nonResourceAttributes": {"path": "/api", "verb": "get"}},
            },
        ),
    ),
    "may I what": (
        post(
            REVIEWS,
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {},
            },
        ),
        get(REVIEWS),
    ),
    "the rules for me": (
        post(
            "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectRulesReview",
                "spec": {"namespace": "${namespace}"},
            },
            show=("kind", "status.incomplete"),
        ),
    ),
    "the log of a pod without a node": (
        *quiet(post("pods", pod("a"))),
        get("pods/a/log"),
        get("pods/a/log", query={"container": "other"}),
        get("pods/b/log"),
        get("pods/a/log", query={"tailLines": "-1"}),
    ),
}


@pytest.mark.parametrize("sentence", CASES)
def test_pods_and_events(api: Stage, sentence: str) -> None:
    api.check("pods_and_events", sentence, CASES[sentence])
