"""What is refused, and in which words: names, labels, fields of every sort."""

from __future__ import annotations

import pytest

from conformance.objects import config_map, generic_job, pod, secret, service
from conformance.script import Json, Script, merge, post, put, quiet
from conformance.stage import Stage
from conformance.widgets import widget

NAMES = {
    "upper case": "Upper",
    "an underscore": "a_b",
    "a dash at the end": "a-",
    "two dots": "a..b",
    "too long": "a" * 254,
    "a slash": "a/b",
    "a percent sign": "a%b",
}
METADATA: dict[str, Json] = {
    "a bad label key": {"labels": {"a b": "c"}},
    "a label key with two slashes": {"labels": {"a/b/c": "d"}},
    "a label key with an empty prefix": {"labels": {"/b": "d"}},
    "a label key that is too long": {"labels": {"a" * 64: "b"}},
    "a bad label value": {"labels": {"a": "b c"}},
    "a label value that is too long": {"labels": {"a": "b" * 64}},
    "a bad annotation key": {"annotations": {"a b": "c"}},
    "annotations that are too long": {"annotations": {"a": "b" * 262145}},
    "a bad finalizer": {"finalizers": ["a b"]},
    "an owner without a uid": {
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": ""}]
    },
    "two owners that control": {
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": n, "uid": n, "controller": True}
            for n in ("a", "b")
        ]
    },
    "labels that aren't strings": {"labels": {"a": 1}},
    "labels that are a list": {"labels": ["a"]},
}
WIDGETS: dict[str, Json] = {
    "a number below the minimum": {"size": -1},
    "a number above the maximum": {"size": 101},
    "a string for a number": {"size": "1"},
    "a fraction for an integer": {"size": 1.5},
    "a value outside of the enumeration": {"colour": "pink"},
    "a string that doesn't match": {"code": "ABC"},
    "a string that is too short": {"code": "a"},
    "a string that is too long": {"code": "abcdef"},
    "a date that is none": {"when": "yesterday"},
    "an item without its key": {"parts": [{"count": 1}]},
    "two items with one key": {"parts": [{"name": "a"}, {"name": "a"}]},
    "a set with a word twice": {"tags": ["a", "a"]},
    "too many items": {"parts": [{"name": n} for n in "abcdef"]},
    "a rule of two fields": {"low": 2, "high": 1},
    "a rule with a made message": {"low": 20, "high": 1},
    "a null where none may be": {"colour": None, "size": None},
    "a null where one may be": {"maybe": None},
    "a list for an object": {"options": []},
    "a map with a value of another type": {"labels": {"a": 1}},
    "text or number, either way": {"either": "50%"},
    "neither text nor number": {"either": True},
    "several faults at once": {"size": 101, "colour": "pink", "code": "A"},
}
PODS: dict[str, Json] = {
    "no containers": {"containers": []},
    "a container without an image": {"containers": [{"name": "a"}]},
    "a bad container name": {"containers": [{"name": "A_b", "image": "x"}]},
    "two containers of one name": {
        "containers": [{"name": "a", "image": "x"}, {"name": "a", "image": "y"}]
    },
    "an unknown restart policy": {"restartPolicy": "Sometimes"},
    "a mount of no volume": {
        "containers": [
            {"name": "a", "image": "x", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
        ]
    },
    "two volumes of one name": {
        "volumes": [{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]
    },
    "a volume with two sources": {
        "volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]
    },
    "a port out of range": {
        "containers": [{"name": "a", "image": "x", "ports": [{"containerPort": 70000}]}]
    },
    "a quantity that is none": {
        "containers": [{"name": "a", "image": "x", "resources": {"limits": {"cpu": "much"}}}]
    },
    "a request above its limit": {
        "containers": [
            {
                "name": "a",
                "image": "x",
                "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}},
            }
        ]
    },
    "a string for a number": {"terminationGracePeriodSeconds": "soon"},
    "a negative deadline": {"activeDeadlineSeconds": -1},
    "a bad variable name": {
        "containers": [{"name": "a", "image": "x", "env": [{"name": "", "value": "1"}]}]
    },
    "a bad host name": {"hostname": "A.b"},
}
OTHERS: dict[str, Script] = {
    "a config map with a bad key": (post("configmaps", config_map("a", {"a b": "c"})),),
    "a config map with a number for a string": (post("configmaps", config_map("a", {"a": 1})),),
    "a config map with a key twice": (
        post("configmaps", {**config_map("a", {"a": "1"}), "binaryData": {"a": "AA=="}}),
    ),
    "a secret that isn't base64": (
        post("secrets", {"metadata": {"name": "a"}, "data": {"k": "not base64!"}}),
    ),
    "a secret of a known type without its key": (
        post("secrets", {"metadata": {"name": "a"}, "type": "kubernetes.io/tls"}),
    ),
    "the type of a secret never changes": (
        *quiet(post("secrets", secret("a"))),
        merge("secrets/a", {"type": "example.com/own"}),
    ),
    "an immutable config map": (
        *quiet(post("configmaps", {**config_map("a"), "immutable": True})),
        merge("configmaps/a", {"data": {"k": "w"}}),
        merge("configmaps/a", {"immutable": False}),
        merge("configmaps/a", {"metadata": {"labels": {"a": "b"}}}, show=("metadata.labels",)),
    ),
    "a service without ports": (post("services", service("a", ports=[])),),
    "a service with a bad port": (post("services", service("a", ports=[{"port": 0}])),),
    "a service with ports without names": (
        post("services", service("a", ports=[{"port": 1}, {"port": 2}])),
    ),
    "a service name that begins with a digit": (post("services", service("1a", clusterIP="None")),),
    "the address of a service never changes": (
        *quiet(post("services", service("a", clusterIP="None"))),
        merge("services/a", {"spec": {"clusterIP": "10.0.0.77"}}),
    ),
    "the containers of a pod never change": (
        *quiet(post("pods", pod("a"))),
        merge("pods/a", {"spec": {"restartPolicy": "Never"}}),
        merge("pods/a", {"spec": {"containers": [{"name": "b", "image": "y"}]}}),
    ),
    "the image of a pod may change": (
        *quiet(post("pods", pod("a"))),
        merge(
            "pods/a",
            {"spec": {"containers": [{"name": "main", "image": "other"}]}},
            show=("spec.containers.*.image", "metadata.generation"),
        ),
    ),
    "a namespace with a dot": (post("/api/v1/namespaces", {"metadata": {"name": "a.b"}}),),
    "a job without replicas' template": (
        post(
            "genericjobs",
            {**generic_job("a"), "spec": {"replicaSpecs": [{"type": "worker", "replicas": 1}]}},
        ),
    ),
    "a job whose rule is broken": (
        post(
            "pytorchtrainingjobs",
            {
                **generic_job("a"),
                "kind": "PyTorchTrainingJob",
                "spec": {
                    **generic_job("a")["spec"],
                    "torchrunConfig": {"enabled": True},
                    "elastic": {"enabled": True, "minReplicas": 3, "maxReplicas": 1},
                },
            },
        ),
    ),
    "a field that never changes": (
        *quiet(post("widgets", widget("a", fixed="x"))),
        merge("widgets/a", {"spec": {"fixed": "y"}}),
        merge("widgets/a", {"spec": {"fixed": "x", "size": 2}}, show=("spec",)),
    ),
    "a field that only grows": (
        *quiet(post("widgets", widget("a", size=5))),
        merge("widgets/a", {"spec": {"size": 4}}),
        merge("widgets/a", {"spec": {"size": 6}}, show=("spec.size",)),
    ),
    "the schema of a status": (
        *quiet(post("widgets", widget("a"))),
        merge("widgets/a/status", {"status": {"replicas": "many"}}),
        merge("widgets/a/status", {"status": {"conditions": [{"status": "True"}]}}),
    ),
    "a finalizer without a prefix": (
        post("secrets", secret("a", finalizers=["plain"])),
        post("widgets", {**widget("a"), "metadata": {"name": "a", "finalizers": ["plain"]}}),
        *quiet(merge("widgets/a", {"metadata": {"finalizers": None}})),
    ),
    "metadata is checked on replacing too": (
        *quiet(post("secrets", secret("a"))),
        put("secrets/a", secret("a", labels={"a": "b c"})),
        put("secrets/a", secret("a", finalizers=["plain"])),
    ),
}


@pytest.mark.parametrize("fault", NAMES)
def test_a_name_with(api: Stage, fault: str) -> None:
    bad = NAMES[fault]
    steps = (
        post("secrets", secret(bad)),
        post("widgets", widget(bad)),
        post("services", service(bad, clusterIP="None")),
        post("pods", pod(bad)),
    )
    api.check("names", fault, steps)


@pytest.mark.parametrize("fault", METADATA)
def test_metadata_with(api: Stage, fault: str) -> None:
    metadata = METADATA[fault]
    steps = (
        post("secrets", secret("a", **metadata)),
        post("widgets", {**widget("a"), "metadata": {"name": "a", **metadata}}),
    )
    api.check("metadata", fault, steps)


@pytest.mark.parametrize("fault", WIDGETS)
def test_a_custom_resource_with(api: Stage, fault: str) -> None:
    api.check("widgets", fault, (post("widgets", widget("a", **WIDGETS[fault])),))


@pytest.mark.parametrize("fault", PODS)
def test_a_pod_with(api: Stage, fault: str) -> None:
    api.check("pods", fault, (post("pods", pod("a", **PODS[fault])),))


@pytest.mark.parametrize("sentence", OTHERS)
def test_validation(api: Stage, sentence: str) -> None:
    api.check("validation", sentence, OTHERS[sentence])
