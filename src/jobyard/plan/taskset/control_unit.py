"""The control unit: the ConfigMap that owns the pods of one attempt of a TaskSet.

Its name has the attempt's number, so a pod's owner says which attempt the pod is of. An
attempt is removed by removing the unit; its pods are deleted one by one as well, so that it
works the same where nothing collects garbage.
"""

from __future__ import annotations

from jobyard.numerals import whole_number
from jobyard.plan.facts.decision import Child, Delete
from jobyard.plan.facts.pod_facts import COUNT_MAX
from jobyard.plan.lowering.description import JSON, Description
from jobyard.plan.lowering.names import job_labels

KIND = "ConfigMap"


def unit_name(taskset: str, attempt: int) -> str:
    return f"c-{taskset}-{attempt}"


def attempt_of(taskset: str, name: str) -> int | None:
    """The attempt that a control unit is of; None for another object."""
    prefix = f"c-{taskset}-"
    number = name.removeprefix(prefix)
    return whole_number(number, COUNT_MAX) if name.startswith(prefix) else None


def unit_manifest(description: Description, attempt: int) -> JSON:
    identity = description.identity
    metadata = {"name": unit_name(identity.name, attempt), "labels": job_labels(identity)}
    if identity.namespace:
        metadata["namespace"] = identity.namespace
    return {"apiVersion": "v1", "kind": KIND, "metadata": metadata}


def owned_by(unit: Child, pod: JSON) -> JSON:
    reference = {
        "apiVersion": "v1",
        "kind": KIND,
        "name": unit.name,
        "uid": unit.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {**pod, "metadata": {**pod["metadata"], "ownerReferences": [reference]}}


def delete_unit(unit: Child) -> Delete:
    return Delete(kind=KIND, name=unit.name, uid=unit.uid, propagation="Background")
