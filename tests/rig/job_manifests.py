"""Small jobs of every kind, for tests of what is decided about them."""

from __future__ import annotations

from typing import Any

JSON = dict[str, Any]


def manifest(kind: str, spec: JSON, name: str = "job") -> JSON:
    metadata = {"name": name, "namespace": "default"}
    api_version = "batch.tensorstack.dev/v1beta1"
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def template(*containers: str) -> JSON:
    names = containers or ("main",)
    return {"spec": {"containers": [{"name": n, "image": "i", "command": ["c"]} for n in names]}}


def generic(
    replicas: dict[str, int] | None = None, restart: JSON | None = None, **spec: Any
) -> JSON:
    """A GenericJob; `restart` is every type's restartPolicy."""
    specs = [
        {"type": type_, "replicas": count, "template": template()}
        | ({"restartPolicy": restart} if restart else {})
        for type_, count in (replicas or {"worker": 2}).items()
    ]
    return manifest("GenericJob", {"replicaSpecs": specs, **spec})


def training(
    kind: str, container: str, replicas: dict[str, int], policy: str | None, spec: JSON
) -> JSON:
    specs = [
        {"type": type_, "replicas": count, "template": template(container)}
        | ({"restartPolicy": policy} if policy else {})
        for type_, count in replicas.items()
    ]
    return manifest(kind, {"replicaSpecs": specs, **spec})


def pytorch(replicas: dict[str, int] | None = None, policy: str | None = None, **spec: Any) -> JSON:
    wanted = replicas or {"master": 1, "worker": 2}
    return training("PyTorchTrainingJob", "pytorch", wanted, policy, spec)


def elastic_pytorch(least: int, wanted: int, most: int, **spec: Any) -> JSON:
    return pytorch(
        {"worker": 1},
        torchrunConfig={"enabled": True, "maxRestarts": 3},
        elastic={
            "enabled": True,
            "minReplicas": least,
            "maxReplicas": most,
            "expectedReplicas": wanted,
        },
        **spec,
    )


def tensorflow(replicas: dict[str, int], policy: str | None = None, **spec: Any) -> JSON:
    return training("TensorFlowTrainingJob", "tensorflow", replicas, policy, spec)


def xgboost(workers: int = 2, policy: str | None = None, **spec: Any) -> JSON:
    replicas = {"master": 1, "worker": workers}
    return training("XGBoostTrainingJob", "xgboost", replicas, policy, spec)


def mpi(workers: int = 2, **spec: Any) -> JSON:
    worker = {"replicas": workers, "template": template("mpi-worker"), "cmd": ["p"]}
    return manifest("MPIJob", {"worker": worker, **spec})


def colossalai(workers: int = 2, **spec: Any) -> JSON:
    worker = {"replicas": workers, "template": template("worker"), "command": ["p.py"]}
    return manifest("ColossalAIJob", {"launcher": {"image": "i"}, "worker": worker, **spec})


def deepspeed(workers: int = 2, policy: str | None = None, **spec: Any) -> JSON:
    worker: JSON = {"replicas": workers, "template": template("worker")}
    if policy:
        worker["restartPolicy"] = policy
    return manifest(
        "DeepSpeedJob", {"worker": worker, "config": {"run": {"python": ["t.py"]}}, **spec}
    )


def elastic_deepspeed(least: int, wanted: int, most: int, **spec: Any) -> JSON:
    elastic = {
        "enabled": True,
        "minReplicas": least,
        "maxReplicas": most,
        "expectedReplicas": wanted,
    }
    return deepspeed(wanted, elastic=elastic, **spec)


def beam(task_managers: int = 2, backoff_limit: int | None = None, **spec: Any) -> JSON:
    pod = template("submit")
    pod["spec"]["restartPolicy"] = "Never"
    job: JSON = {"template": pod}
    if backoff_limit is not None:
        job["backoffLimit"] = backoff_limit
    cluster = {
        "flinkVersion": "1.19",
        "image": {"name": "flink:1.19"},
        "jobManager": {"replicas": 1},
        "taskManager": {"replicas": task_managers},
    }
    return manifest(
        "BeamJob",
        {"flinkClusterTemplate": {"spec": cluster}, "jobTemplate": {"spec": job}, **spec},
    )
