"""The names and labels of what a job is made of. The same across restarts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

from jobyard.api.kinds import kind_named
from jobyard.plan.lowering.description import Description, Identity, Role

MANAGED_BY = "app.kubernetes.io/managed-by"
COMPONENT = "tensorstack.dev/component"
COMPONENT_TYPE = "tensorstack.dev/component-type"
OWNER_NAME = "tensorstack.dev/owner-name"
JOB_NAME = "batch.tensorstack.dev/job-name"
REPLICA_TYPE = "batch.tensorstack.dev/replica-type"
REPLICA_RANK = "batch.tensorstack.dev/replica-rank"
# The originals' names for about the same, by which their users select pods: with the group, as
# the labels above, and bare, as those that are named after the kind.
JOB_ROLE = ("batch.tensorstack.dev/job-role", "job-role")
REPLICA_INDEX = ("batch.tensorstack.dev/replica-index", "replica-index")
MASTER = "master"
# Annotations: which attempt of its replica and of the job a pod is, and what it was made for.
ATTEMPT = "batch.tensorstack.dev/attempt"
JOB_ATTEMPT = "batch.tensorstack.dev/job-attempt"
PODS_BEFORE = "batch.tensorstack.dev/pods-before"
REVISION = "batch.tensorstack.dev/revision"
# Of a supporting object: what it was made from, so that another wish is noticed.
DIGEST = "batch.tensorstack.dev/digest"
# They say how a pod came to be; copied into a template they would say it of every pod.
OWN_ANNOTATIONS = (ATTEMPT, JOB_ATTEMPT, PODS_BEFORE, REVISION, DIGEST)
# Octopus' own label and annotation on a TaskSet's pods.
TASK_ROLE = "PodTaskRole"
ROLE_INDEX = "RoleReplicaIndex"
TASKSET_UID = "TSUID"
# Octopus' label for the TaskSet that something is of.
TASKSET: Final = "TaskSet"
_LABEL_LENGTH_MAX: Final = 63
_DIGEST_LENGTH: Final = 10


def pod_name(job: str, role: Role, rank: int, attempts: tuple[int, int] = (0, 0)) -> str:
    """`<job>-<type>-<rank>`, or `<job>-<type>` for what there is only one of by nature.

    A TaskSet's pods have `attempts` before the rank: the TaskSet's and the replica's.
    """
    if role.is_single and role.is_numbered:
        return f"{job}-{role.type}-{attempts[1]}"
    if role.is_single:
        return f"{job}-{role.type}"
    if role.is_numbered:
        return f"{job}-{role.type}-{attempts[0]}-{attempts[1]}-{rank}"
    return f"{job}-{role.type}-{rank}"


def pod_names(description: Description) -> Iterator[tuple[Role, int, str]]:
    for role in description.roles:
        for rank in range(role.replicas):
            yield role, rank, pod_name(description.identity.name, role, rank)


def host_name(identity: Identity, role: Role, rank: int) -> str:
    """`<pod>.<job>`: resolves by the job's headless service, whatever the cluster's domain is."""
    return f"{pod_name(identity.name, role, rank)}.{identity.name}"


def label_value(name: str) -> str:
    """An object's name as the value of a label, which has less room: a longer one ends in a digest.

    Only a TaskSet's name can be as long.
    """
    if len(name) <= _LABEL_LENGTH_MAX:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST_LENGTH]
    return f"{name[: _LABEL_LENGTH_MAX - _DIGEST_LENGTH - 1].rstrip('-.')}-{digest}"


def job_labels(identity: Identity) -> dict[str, str]:
    """The labels on everything a job owns."""
    if is_octopus(identity.kind):
        return {TASKSET: label_value(identity.name), MANAGED_BY: "jobyard"}
    component = identity.kind.lower()
    return {
        component: identity.name,
        OWNER_NAME: identity.name,
        COMPONENT: component,
        COMPONENT_TYPE: "user",
        MANAGED_BY: "jobyard",
        JOB_NAME: identity.name,
    }


def is_octopus(kind: str) -> bool:
    """Whether a kind has the labels and names that Octopus gave its own."""
    row = kind_named(kind)
    return row is not None and row.is_octopus


def pod_selector(kind: str, name: str) -> str:
    """The labels that all pods of a job have, and no others."""
    if is_octopus(kind):
        return f"{TASKSET}={label_value(name)}"
    return f"{kind.lower()}={name},{JOB_NAME}={name}"


def role_labels(description: Description, role: Role, rank: int) -> dict[str, str]:
    """Which role of the job and which of its replicas a pod is, in the originals' words."""
    word = MASTER if role.type == description.main_type else role.type
    return {**dict.fromkeys(JOB_ROLE, word), **dict.fromkeys(REPLICA_INDEX, str(rank))}


def replica_label(identity: Identity) -> str:
    """The key of the label that carries a pod's own name."""
    return f"{identity.kind.lower()}-replica"


def job_selector(identity: Identity) -> dict[str, str]:
    return {identity.kind.lower(): identity.name}
