"""The pod of one replica of a TaskSet.

Octopus has its own labels and annotations, and leaves scheduler and restart policy to the
template. The control unit, a ConfigMap, owns the pods of one attempt.
"""

from __future__ import annotations

from typing import Any

import msgspec

from jobyard.plan.lowering.description import Description, Role
from jobyard.plan.lowering.names import (
    ATTEMPT,
    MANAGED_BY,
    OWN_ANNOTATIONS,
    ROLE_INDEX,
    TASK_ROLE,
    TASKSET,
    TASKSET_UID,
    label_value,
    pod_name,
)
from jobyard.plan.objects.pods import with_env, with_last_words


class TaskReplica(msgspec.Struct, frozen=True, kw_only=True):
    """Which replica a pod is for; `attempts` are the TaskSet's and the replica's."""

    role: Role
    index: int
    attempts: tuple[int, int] = (0, 0)
    control_unit_uid: str = "<uid>"


def taskset_pod(description: Description, replica: TaskReplica) -> dict[str, Any]:
    identity, role = description.identity, replica.role
    start = description.start(role, replica.index)
    given = role.template.get("metadata", {})
    metadata: dict[str, Any] = {
        "name": pod_name(identity.name, role, replica.index, replica.attempts)
    }
    if identity.namespace:
        metadata["namespace"] = identity.namespace
    metadata["labels"] = {
        **given.get("labels", {}),
        TASKSET: label_value(identity.name),
        TASK_ROLE: role.type,
        MANAGED_BY: "jobyard",
    }
    theirs = {k: v for k, v in given.get("annotations", {}).items() if k not in OWN_ANNOTATIONS}
    metadata["annotations"] = {
        **theirs,
        "TaskSet": identity.name,
        "Namespace": identity.namespace or "default",
        ROLE_INDEX: str(replica.index),
        TASKSET_UID: identity.uid,
        "CID": replica.control_unit_uid,
        ATTEMPT: str(replica.attempts[1]),
    }
    spec: dict[str, Any] = {"restartPolicy": "Never", **role.template["spec"]}
    # A pod's own API takes an empty one for Always, and such a replica would never end.
    spec["restartPolicy"] = spec["restartPolicy"] or "Never"
    for listed in ("initContainers", "containers"):
        if listed in spec:
            spec[listed] = [with_last_words(with_env(c, start.env, start)) for c in spec[listed]]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
