"""The objects that cases write: as small as they may be, and nothing filled in for the server."""

from __future__ import annotations

from typing import Any

from conformance.script import Json


def config_map(name: str, data: Json | None = None, **metadata: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": {"k": "v"} if data is None else data,
    }


def secret(name: str, **metadata: Any) -> Json:
    """Lists are of secrets: no controller puts any into a fresh namespace."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, **metadata},
        "stringData": {"k": "v"},
    }


def pod(name: str, metadata: Json | None = None, **spec: Any) -> Json:
    """Without a service account's token, which only a real cluster has to give."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {
            "automountServiceAccountToken": False,
            "containers": [{"name": "main", "image": "busybox"}],
            **spec,
        },
    }


def service(name: str, **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"ports": [{"port": 80}], "selector": {"app": "a"}, **spec},
    }


def generic_job(name: str, replicas: int = 2) -> Json:
    return {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "GenericJob",
        "metadata": {"name": name},
        "spec": {
            "replicaSpecs": [{"type": "worker", "replicas": replicas, "template": template()}]
        },
    }


def elastic_job(name: str, expected: int = 2) -> Json:
    return {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "PyTorchTrainingJob",
        "metadata": {"name": name},
        "spec": {
            "torchrunConfig": {"enabled": True},
            "elastic": {
                "enabled": True,
                "minReplicas": 1,
                "maxReplicas": 3,
                "expectedReplicas": expected,
            },
            "replicaSpecs": [{"type": "worker", "template": template()}],
        },
    }


def template() -> Json:
    return {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}


def owned_by(name: str, kind: str = "ConfigMap", **more: Any) -> list[Json]:
    """A reference to the object whose uid was captured under `owner`."""
    return [{"apiVersion": "v1", "kind": kind, "name": name, "uid": "${owner}", **more}]
