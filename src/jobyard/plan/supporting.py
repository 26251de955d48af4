"""The objects beside a job's pods that follow from its description alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jobyard.plan.description import Description, Gang, Naming
from jobyard.plan.naming import job_labels, job_selector, pod_names, replica_label
from jobyard.plan.ssh import KEY_FILES, files_name, keys_name
from jobyard.plan.tensorboard import tensorboard_objects

# Stands for what is secret: it is never printed.
HIDDEN = "<hidden>"


def supporting_objects(description: Description) -> Iterator[dict[str, Any]]:
    """Services, the gang and, for a TaskSet, the control unit that owns its pods."""
    match description.naming:
        case Naming.JOB:
            yield _job_service(description)
        case Naming.REPLICA:
            yield from _replica_services(description)
        case Naming.NONE:
            pass
    if description.ssh_files:
        yield from _ssh_objects(description)
    if description.tensorboard is not None:
        yield from tensorboard_objects(description.tensorboard, description.identity)
    if description.gang is not None:
        yield _pod_group(description, description.gang)
    if description.identity.kind == "TaskSet":
        yield _object(description, "v1", "ConfigMap", f"c-{description.identity.name}-0")


def _object(description: Description, api_version: str, kind: str, name: str) -> dict[str, Any]:
    identity = description.identity
    metadata: dict[str, Any] = {"name": name}
    if identity.namespace:
        metadata["namespace"] = identity.namespace
    metadata["labels"] = job_labels(identity)
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def _job_service(description: Description) -> dict[str, Any]:
    return _object(description, "v1", "Service", description.identity.name) | {
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": job_selector(description.identity),
        }
    }


def _replica_services(description: Description) -> Iterator[dict[str, Any]]:
    # A headless service maps no ports, so one whose ports differ needs an address.
    maps = any(port.get("targetPort", port["port"]) != port["port"] for port in description.ports)
    for _, _, name in pod_names(description):
        spec: dict[str, Any] = {
            "publishNotReadyAddresses": True,
            "selector": {replica_label(description.identity): name},
            "ports": [dict(port) for port in description.ports],
        }
        if not maps:
            spec["clusterIP"] = "None"
        yield _object(description, "v1", "Service", name) | {"spec": spec}


def _pod_group(description: Description, gang: Gang) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "queue": gang.queue,
        "priority": gang.priority,
        "minMember": gang.min_member,
    }
    if gang.roles:
        spec["roles"] = [{"name": name, "minMember": count} for name, count in gang.roles]
    api_version = "scheduler.tensorstack.dev/v1beta1"
    return _object(description, api_version, "PodGroup", description.identity.name) | {"spec": spec}


def _ssh_objects(description: Description) -> Iterator[dict[str, Any]]:
    """Scripts and hosts; and the keys, which only whoever makes them knows."""
    identity = description.identity
    yield _object(description, "v1", "ConfigMap", files_name(identity)) | {
        "data": dict(description.ssh_files)
    }
    yield _object(description, "v1", "Secret", keys_name(identity)) | {
        "type": "Opaque",
        "stringData": dict.fromkeys(KEY_FILES, HIDDEN),
    }
