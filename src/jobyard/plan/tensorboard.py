"""The TensorBoard beside a training job: one pod and one service.

It is no replica: it neither holds up nor fails the job, is in no gang, and lives as long
as the job object does, so the kubelet may restart it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jobyard.api.tensorboard import Dependent, TensorboardSpec, TensorboardStatus
from jobyard.plan.decision import ChildKey, Obstacle
from jobyard.plan.description import Identity
from jobyard.plan.naming import job_labels, replica_label
from jobyard.plan.pod_facts import Pod

PORT = 6006
_SCHEME = "t9k://pvc/"
_MOUNT_ROOT = "/run/jobyard/logs"


def tensorboard_name(identity: Identity) -> str:
    return f"{identity.name}-tensorboard"


def tensorboard_objects(spec: TensorboardSpec, identity: Identity) -> tuple[dict[str, Any], ...]:
    name = tensorboard_name(identity)
    labels = {**job_labels(identity), replica_label(identity): name}
    metadata: dict[str, Any] = {"name": name}
    if identity.namespace:
        metadata["namespace"] = identity.namespace
    metadata["labels"] = labels
    service = {
        "selector": {replica_label(identity): name},
        "ports": [{"name": "http", "port": PORT}],
    }
    return (
        {"apiVersion": "v1", "kind": "Service", "metadata": dict(metadata), "spec": service},
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": _pod(spec)},
    )


def _pod(spec: TensorboardSpec) -> dict[str, Any]:
    claims = dict.fromkeys(_claim(fileset) for fileset in spec.training_log_filesets)
    container: dict[str, Any] = {
        "name": "tensorboard",
        "image": spec.image,
        "command": ["tensorboard"],
        "args": [_log_folders(spec.training_log_filesets), "--host=0.0.0.0", f"--port={PORT}"],
        "ports": [{"name": "http", "containerPort": PORT}],
        "readinessProbe": {"httpGet": {"path": "/", "port": PORT}},
        "volumeMounts": [
            {"name": f"logs-{n}", "mountPath": f"{_MOUNT_ROOT}/{claim}", "readOnly": True}
            for n, claim in enumerate(claims)
        ],
    }
    if spec.resources is not None:
        container["resources"] = spec.resources
    return {
        "restartPolicy": "Always",
        "containers": [container],
        "volumes": [
            {"name": f"logs-{n}", "persistentVolumeClaim": {"claimName": claim, "readOnly": True}}
            for n, claim in enumerate(claims)
        ],
    }


def _claim(fileset: str) -> str:
    return fileset.removeprefix(_SCHEME).partition("/")[0]


def _log_folders(filesets: tuple[str, ...]) -> str:
    """One folder as it is; several get names, so that TensorBoard tells their runs apart."""
    paths = [f"{_MOUNT_ROOT}/{fileset.removeprefix(_SCHEME)}".rstrip("/") for fileset in filesets]
    if len(paths) == 1:
        return f"--logdir={paths[0]}"
    return "--logdir_spec=" + ",".join(f"{n}:{path}" for n, path in enumerate(paths))


def tensorboard_status(
    identity: Identity, pods: Sequence[Pod], obstacles: Mapping[ChildKey, Obstacle]
) -> TensorboardStatus:
    """What can be said of it, in the words of an event."""
    name = tensorboard_name(identity)
    pod = next((pod for pod in pods if pod.name == name), None)
    serving = Dependent(api_version="v1", kind="Service", name=name)
    # Also of its service: a pod that nobody finds serves nobody.
    taken = [each for (_, key), each in obstacles.items() if key == name]
    if pod is not None and pod.is_ready and not taken:
        return TensorboardStatus(
            ready=True,
            reason="Ready",
            note=f"TensorBoard answers at {name}:{PORT}.",
            type="Normal",
            action="Created",
            dependent=serving,
        )
    waiting = next((c.reason for c in pod.containers if c.reason), "") if pod is not None else ""
    why = (pod.unschedulable or waiting or pod.phase) if pod is not None else "its pod is missing"
    if taken:
        why = f"{taken[0].reason}: {taken[0].message}"
    return TensorboardStatus(
        ready=False,
        reason="NotReady",
        note=f"TensorBoard is not ready: {why}.",
        type="Normal",
        action="Created",
        dependent=serving,
    )
