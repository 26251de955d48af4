"""Creating, reading, replacing and deleting objects of every sort; names and namespaces."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.objects import config_map, elastic_job, generic_job, pod, secret, service
from conformance.script import Json, Script, delete, get, gone, post, put, quiet
from conformance.stage import Stage
from conformance.widgets import widget


def life(resource: str, manifest: Json, **changed: Any) -> Script:
    """Created, read, replaced on the version that was read, and deleted."""
    name = manifest["metadata"]["name"]
    metadata = {**manifest["metadata"], "resourceVersion": "${rv}"}
    return (
        post(resource, manifest),
        get(f"{resource}/{name}", capture={"rv": "metadata.resourceVersion"}),
        put(f"{resource}/{name}", {**manifest, "metadata": metadata, **changed}),
        delete(f"{resource}/{name}"),
        get(f"{resource}/{name}"),
    )


NODES = "/api/v1/nodes"
LEASE = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "a"},
    "spec": {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "renewTime": "2025-01-02T03:04:05.000006Z",
        "leaseTransitions": 1,
    },
}
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "a"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "none",
    },
}
TASK_SET = {
    "apiVersion": "octopus.openi.pcl.cn/v1alpha1",
    "kind": "TaskSet",
    "metadata": {"name": "a"},
    "spec": {
        "roles": [
            {
                "name": "worker",
                "replicas": 1,
                "template": {"spec": {"containers": [{"name": "main", "image": "busybox"}]}},
            }
        ]
    },
}
POD_GROUP = {
    "apiVersion": "scheduler.tensorstack.dev/v1beta1",
    "kind": "PodGroup",
    "metadata": {"name": "a"},
    "spec": {"minMember": 2},
}
RICH_POD = pod(
    "a",
    containers=[
        {
            "name": "main",
            "image": "busybox:1.36",
            "command": ["sh"],
            "env": [
                {"name": "PLAIN", "value": "1"},
                {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            ],
            "envFrom": [{"configMapRef": {"name": "c"}}],
            "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}],
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "0.5"}},
            "readinessProbe": {"httpGet": {"port": 80}},
            "livenessProbe": {"tcpSocket": {"port": 80}, "periodSeconds": 3},
            "startupProbe": {"exec": {"command": ["true"]}},
            "lifecycle": {"preStop": {"exec": {"command": ["true"]}}},
            "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
        }
    ],
    initContainers=[{"name": "first", "image": "busybox"}],
    restartPolicy="Never",
    hostname="h",
    subdomain="s",
    volumes=[
        {"name": "scratch", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
        {"name": "config", "configMap": {"name": "c"}},
        {"name": "secret", "secret": {"secretName": "s"}},
        {"name": "claim", "persistentVolumeClaim": {"claimName": "p"}},
        {"name": "host", "hostPath": {"path": "/tmp"}},
        {
            "name": "all",
            "projected": {"sources": [{"configMap": {"name": "c"}}, {"secret": {"name": "s"}}]},
        },
        {
            "name": "down",
            "downwardAPI": {
                "items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]
            },
        },
    ],
)
ENDPOINTS = {
    "apiVersion": "v1",
    "kind": "Endpoints",
    "metadata": {"name": "a"},
    "subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}],
}

LIVES: dict[str, Script] = {
    "a config map": life("configmaps", config_map("a"), data={"k": "w", "l": ""}),
    "an empty config map": life("configmaps", {"metadata": {"name": "a"}}),
    "a config map with bytes": life(
        "configmaps", {"metadata": {"name": "a"}, "binaryData": {"b": "AAEC"}}
    ),
    "a secret with strings": life("secrets", secret("a"), stringData={"k": "w", "l": "x"}),
    "a secret with a type": life(
        "secrets", {"metadata": {"name": "a"}, "type": "example.com/own", "data": {"k": "dg=="}}
    ),
    "a service": life("services", service("a")),
    "a headless service": life("services", service("a", clusterIP="None")),
    "a service with several ports": life(
        "services",
        service(
            "a",
            clusterIP="None",
            publishNotReadyAddresses=True,
            ports=[
                {"name": "http", "port": 80, "targetPort": 8080},
                {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": "dns"},
            ],
        ),
    ),
    "a service account": life(
        "serviceaccounts",
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}},
        automountServiceAccountToken=False,
    ),
    "a lease": life("leases", LEASE, spec={"holderIdentity": "you", "leaseDurationSeconds": 9}),
    "a task set": life("tasksets", TASK_SET),
    "a pod group": life("podgroups", POD_GROUP, spec={"minMember": 3}),
    "a generic job": life("genericjobs", generic_job("a")),
    "an elastic job": life("pytorchtrainingjobs", elastic_job("a")),
    "a widget": life("widgets", widget("a", colour="red", parts=[{"name": "p"}])),
}

CREATIONS: dict[str, Script] = {
    "a pod gets its defaults": (post("pods", pod("a")), get("pods/a")),
    "a pod with everything gets its defaults": (post("pods", RICH_POD),),
    # A finalizer that a controller for volumes takes away again is none of ours.
    "a claim gets its defaults": (
        post("persistentvolumeclaims", CLAIM, show=("spec", "status", "metadata.managedFields")),
    ),
    "endpoints get their defaults": (post("endpoints", ENDPOINTS),),
    "a namespace gets its label and phase": (
        post("/api/v1/namespaces", {"metadata": {"name": "${namespace}-2"}}),
        delete("/api/v1/namespaces/${namespace}-2", show=("status.phase", "spec.finalizers")),
    ),
    "a node gets its defaults": (
        # Without the taint of a cluster whose controllers look after nodes.
        post(NODES, {"metadata": {"name": "${namespace}"}}, show=("metadata", "status")),
        delete(f"{NODES}/${{namespace}}"),
    ),
    "a generated name": (
        post(
            "secrets",
            {"metadata": {"generateName": "made-"}},
            capture={"name": "metadata.name"},
        ),
        get("secrets/${name}"),
    ),
    "a name comes before a generated one": (
        post("secrets", {"metadata": {"name": "a", "generateName": "made-"}}),
    ),
    "a generated name of a custom resource": (
        post(
            "widgets",
            {**widget("a"), "metadata": {"generateName": "made-"}},
            capture={"name": "metadata.name"},
        ),
    ),
    "a bad prefix for a generated name": (
        post("secrets", {"metadata": {"generateName": "Made_"}}),
        post("widgets", {**widget("a"), "metadata": {"generateName": "Made_"}}),
    ),
    "neither a name nor a prefix": (
        post("secrets", {"metadata": {}}),
        post("widgets", {**widget("a"), "metadata": {}}),
    ),
    "what the server alone sets is dropped on creation": (
        post(
            "secrets",
            secret(
                "a",
                uid="11111111-2222-3333-4444-555555555555",
                creationTimestamp="2001-01-01T00:00:00Z",
                generation=7,
                deletionTimestamp="2001-01-01T00:00:00Z",
                deletionGracePeriodSeconds=5,
                selfLink="/x",
            ),
        ),
        post("widgets", {**widget("a"), "metadata": {"name": "a", "generation": 7}}),
    ),
    "a version on creation is refused": (
        post("secrets", secret("a", resourceVersion="1")),
        post("widgets", {**widget("a"), "metadata": {"name": "a", "resourceVersion": "1"}}),
    ),
    "a second object of the same name": (
        *quiet(post("secrets", secret("a")), post("widgets", widget("a"))),
        post("secrets", secret("a")),
        post("widgets", widget("a")),
    ),
    "the same name in another kind is no matter": (
        post("secrets", secret("a"), show=("kind", "metadata.name")),
        post("configmaps", config_map("a"), show=("kind", "metadata.name")),
    ),
    "a namespace that doesn't exist": (
        post("/api/v1/namespaces/nowhere/secrets", secret("a")),
        post("/apis/conformance.example.com/v1/namespaces/nowhere/widgets", widget("a")),
        get("/api/v1/namespaces/nowhere/secrets", show=("items",)),
        get("/api/v1/namespaces/nowhere/secrets/a"),
    ),
    "a namespace that isn't the one of the path": (
        post("secrets", secret("a", namespace="other")),
        post("widgets", {**widget("a"), "metadata": {"name": "a", "namespace": "other"}}),
        *quiet(post("secrets", secret("a"))),
        put("secrets/a", secret("a", namespace="other")),
    ),
    "a namespace that ends takes nothing new": (
        *quiet(
            post("secrets", secret("a", finalizers=["example.com/stay"])),
            delete("/api/v1/namespaces/${namespace}"),
        ),
        get(
            "/api/v1/namespaces/${namespace}",
            until=lambda _, body: body["status"]["phase"] == "Terminating",
            show=("status.phase",),
        ),
        post("secrets", secret("b")),
        post("widgets", widget("b")),
        *quiet(put("secrets/a", secret("a"))),
    ),
    "a namespace goes with all that is in it": (
        *quiet(
            post("/api/v1/namespaces", {"metadata": {"name": "${namespace}-2"}}),
            post("/api/v1/namespaces/${namespace}-2/secrets", secret("a")),
            delete("/api/v1/namespaces/${namespace}-2"),
        ),
        gone("/api/v1/namespaces/${namespace}-2"),
        get("/api/v1/namespaces/${namespace}-2/secrets", show=("items",)),
    ),
    "replacing what doesn't exist": (
        put("secrets/a", secret("a")),
        put("widgets/a", widget("a")),
        put("leases/a", LEASE),
    ),
    "replacing under another name": (
        *quiet(post("secrets", secret("a")), post("widgets", widget("a"))),
        put("secrets/a", secret("b")),
        put("widgets/a", widget("b")),
    ),
    "a body without apiVersion and kind": (
        post("secrets", {"metadata": {"name": "a"}}, show=("apiVersion", "kind")),
        post("widgets", {"metadata": {"name": "a"}}),
    ),
    "a body of another kind": (
        post("secrets", config_map("a")),
        post("widgets", config_map("a")),
        post("secrets", {**secret("a"), "apiVersion": "v2"}),
    ),
}


@pytest.mark.parametrize("sentence", LIVES)
def test_a_whole_life(api: Stage, sentence: str) -> None:
    api.check("lives", sentence, LIVES[sentence])


@pytest.mark.parametrize("sentence", CREATIONS)
def test_creation(api: Stage, sentence: str) -> None:
    api.check("creation", sentence, CREATIONS[sentence])
