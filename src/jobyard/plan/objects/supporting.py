"""The objects beside a job's pods that follow from its description alone."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from jobyard.plan.facts.decision import ChildKey, child_key
from jobyard.plan.lowering.description import Description, Gang, Naming
from jobyard.plan.lowering.names import job_labels, job_selector, pod_names, replica_label
from jobyard.plan.lowering.ssh import KEY_FILES, files_name, keys_name
from jobyard.plan.objects.manifests import Build, Manifests
from jobyard.plan.objects.tensorboard import tensorboard_objects

# Stands for what is secret: it is never printed.
HIDDEN = "<hidden>"


def supporting_objects(description: Description) -> Manifests:
    """Services, the gang, and the control unit that owns the pods where the job doesn't."""
    return Manifests(dict(_recipes(description)))


def _recipes(description: Description) -> Iterator[tuple[ChildKey, Build]]:
    identity = description.identity
    match description.naming:
        case Naming.JOB:
            yield ("Service", identity.name), partial(_job_service, description)
        case Naming.REPLICA:
            for _, _, name in pod_names(description):
                yield ("Service", name), partial(_replica_service, description, name)
        case Naming.NONE:
            pass
    if description.ssh_files:
        yield ("ConfigMap", files_name(identity)), partial(_ssh_files, description)
        yield ("Secret", keys_name(identity)), partial(_ssh_keys, description)
    if description.tensorboard is not None:
        for manifest in tensorboard_objects(description.tensorboard, identity):
            yield child_key(manifest), partial(dict[str, Any], manifest)
    if description.gang is not None:
        yield ("PodGroup", identity.name), partial(_pod_group, description, description.gang)
    if unit := description.control_unit:
        yield ("ConfigMap", unit), partial(_object, description, "v1", "ConfigMap", unit)


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


def _replica_service(description: Description, name: str) -> dict[str, Any]:
    # A headless service maps no ports, so one whose ports differ needs an address.
    maps = any(port.get("targetPort", port["port"]) != port["port"] for port in description.ports)
    spec: dict[str, Any] = {
        "publishNotReadyAddresses": True,
        "selector": {replica_label(description.identity): name},
        "ports": [dict(port) for port in description.ports],
    }
    if not maps:
        spec["clusterIP"] = "None"
    return _object(description, "v1", "Service", name) | {"spec": spec}


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


def _ssh_files(description: Description) -> dict[str, Any]:
    """Scripts and hosts."""
    name = files_name(description.identity)
    return _object(description, "v1", "ConfigMap", name) | {"data": dict(description.ssh_files)}


def _ssh_keys(description: Description) -> dict[str, Any]:
    """Only whoever makes the keys knows them."""
    return _object(description, "v1", "Secret", keys_name(description.identity)) | {
        "type": "Opaque",
        "stringData": dict.fromkeys(KEY_FILES, HIDDEN),
    }
