"""The TensorBoard beside a training job: one pod and one service.

It is no replica: it neither holds up nor fails the job, is in no gang, and lives as long
as the job object does, so the kubelet may restart it. Suspended, it has a service and no pod;
with no logs that it could serve, it has neither.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jobyard.api.kinds import Group
from jobyard.api.parts.scheduling import DEFAULT_QUEUE
from jobyard.api.parts.tensorboard import Dependent, TensorboardSpec, TensorboardStatus
from jobyard.plan.facts.decision import ChildKey, Obstacle
from jobyard.plan.facts.pod_facts import Pod
from jobyard.plan.lowering.description import Identity
from jobyard.plan.lowering.names import job_labels, replica_label
from jobyard.plan.objects.pods import T9K_SCHEDULER
from jobyard.schema.finding import Finding, Path, warning

PORT = 6006
# Has the command, and is published for all to pull.
DEFAULT_IMAGE = "tensorflow/tensorflow:2.19.0"
_SCHEME = "t9k://pvc/"
_MOUNT_ROOT = "/run/jobyard/logs"
_QUEUE_LABEL = f"{Group.SCHEDULER}/queue"
_PLACE: Path = ("spec", "tensorboardSpec")
_NOT_SERVED = "is not served: Jobyard's TensorBoard shows logs in persistentVolumeClaims only"

# A claim, and a folder in it ("" for all of it).
Folder = tuple[str, str]


def tensorboard_name(identity: Identity) -> str:
    return f"{identity.name}-tensorboard"


def tensorboard_objects(spec: TensorboardSpec, identity: Identity) -> tuple[dict[str, Any], ...]:
    folders = _folders(spec)
    if not folders:
        return ()
    name = tensorboard_name(identity)
    labels = {**job_labels(identity), replica_label(identity): name}
    metadata: dict[str, Any] = {"name": name}
    if identity.namespace:
        metadata["namespace"] = identity.namespace
    metadata["labels"] = labels
    ports = {
        "selector": {replica_label(identity): name},
        "ports": [{"name": "http", "port": PORT}],
    }
    service = {"apiVersion": "v1", "kind": "Service", "metadata": dict(metadata), "spec": ports}
    if spec.is_suspended:
        return (service,)
    pod = _pod(spec, folders)
    if spec.scheduler is not None and spec.scheduler.t9k_scheduler is not None:
        # With a queue and without a gang it is a gang of its own.
        metadata["labels"] = labels | {
            _QUEUE_LABEL: spec.scheduler.t9k_scheduler.queue or DEFAULT_QUEUE
        }
        pod["schedulerName"] = T9K_SCHEDULER
    return (service, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod})


def _pod(spec: TensorboardSpec, folders: Sequence[Folder]) -> dict[str, Any]:
    claims = dict.fromkeys(claim for claim, _ in folders)
    container: dict[str, Any] = {
        "name": "tensorboard",
        "image": spec.image or DEFAULT_IMAGE,
        "command": ["tensorboard"],
        "args": [_log_folders(folders), "--host=0.0.0.0", f"--port={PORT}"],
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


def _folders(spec: TensorboardSpec) -> tuple[Folder, ...]:
    """What it shows, each once; of filesets first."""
    found = [
        _within(*fileset.removeprefix(_SCHEME).partition("/")[::2])
        for fileset in spec.training_log_filesets
        if fileset.startswith(_SCHEME)
    ]
    for claim in spec.log_dir.pvc if spec.log_dir is not None else ():
        found += [_within(claim.name, path) for path in claim.sub_path or ("",)]
    return tuple(dict.fromkeys(found))


def _within(claim: str, path: str) -> Folder:
    """A folder never leads out of its claim, however it is spelled."""
    return claim, posixpath.normpath(f"/{path}").strip("/")


def _log_folders(folders: Sequence[Folder]) -> str:
    """One folder as it is; several get names, so that TensorBoard tells their runs apart."""
    paths = [f"{_MOUNT_ROOT}/{claim}/{path}".rstrip("/") for claim, path in folders]
    if len(paths) == 1:
        return f"--logdir={paths[0]}"
    return "--logdir_spec=" + ",".join(f"{n}:{path}" for n, path in enumerate(paths))


def tensorboard_advice(spec: TensorboardSpec) -> Iterator[Finding]:
    """What of it isn't done."""
    for n, fileset in enumerate(spec.training_log_filesets):
        if not fileset.startswith(_SCHEME):
            yield warning((*_PLACE, "trainingLogFilesets", n), _NOT_SERVED)
    logs = spec.log_dir
    if logs is not None and logs.s3 is not None and logs.s3.uri:
        yield warning((*_PLACE, "logDir", "s3"), _NOT_SERVED)
    if logs is not None and logs.http is not None and logs.http.url:
        yield warning((*_PLACE, "logDir", "http"), _NOT_SERVED)
    if spec.run_mode == "paused":
        text = "is the old spelling of suspend: true, and means that"
        yield warning((*_PLACE, "runMode"), text)
    if spec.scheduler and spec.scheduler.t9k_scheduler and spec.scheduler.t9k_scheduler.priority:
        yield warning(
            (*_PLACE, "scheduler", "t9kScheduler", "priority"),
            "has no effect: only gangs have a priority, and the TensorBoard's pod is in none",
        )
    if not _folders(spec):
        yield warning(
            _PLACE,
            "names no logs in a persistentVolumeClaim, so there is no TensorBoard: say where they"
            " are in logDir.pvc",
        )


def tensorboard_status(
    spec: TensorboardSpec,
    identity: Identity,
    pods: Sequence[Pod],
    obstacles: Mapping[ChildKey, Obstacle],
) -> TensorboardStatus:
    """What can be said of it, in the words of an event."""
    name = tensorboard_name(identity)
    if not _folders(spec):
        return TensorboardStatus(
            ready=False,
            reason="NoLogs",
            note="There is no TensorBoard: no logs in a persistentVolumeClaim are named.",
            type="Normal",
        )
    pod = next((pod for pod in pods if pod.name == name), None)
    serving = Dependent(api_version="v1", kind="Service", name=name)
    # Also of its service: a pod that nobody finds serves nobody.
    taken = [each for (_, key), each in obstacles.items() if key == name]

    def status(reason: str, note: str, action: str = "Created") -> TensorboardStatus:
        return TensorboardStatus(
            ready=reason == "Ready",
            reason=reason,
            note=note,
            type="Normal",
            action=action,
            dependent=serving,
        )

    if spec.is_suspended:
        text = "TensorBoard is suspended; set suspend to false to start it."
        return status("Suspended", text, "Suspended")
    if pod is not None and pod.is_ready and not taken:
        return status("Ready", f"TensorBoard answers at {name}:{PORT}.")
    waiting = next((c.reason for c in pod.containers if c.reason), "") if pod is not None else ""
    why = (pod.unschedulable or waiting or pod.phase) if pod is not None else "its pod is missing"
    if taken:
        why = f"{taken[0].reason}: {taken[0].message}"
    return status("NotReady", f"TensorBoard is not ready: {why}.")
