"""The names and labels of what a job is made of. The same across restarts."""

from __future__ import annotations

from collections.abc import Iterator

from jobyard.plan.description import Description, Role

MANAGED_BY = "app.kubernetes.io/managed-by"
COMPONENT = "tensorstack.dev/component"
COMPONENT_TYPE = "tensorstack.dev/component-type"
OWNER_NAME = "tensorstack.dev/owner-name"
JOB_NAME = "batch.tensorstack.dev/job-name"
REPLICA_TYPE = "batch.tensorstack.dev/replica-type"
REPLICA_RANK = "batch.tensorstack.dev/replica-rank"


def pod_name(job: str, role: Role, rank: int) -> str:
    """`<job>-<type>-<rank>`, or `<job>-<type>` for what there is only one of by nature."""
    return f"{job}-{role.type}" if role.is_single else f"{job}-{role.type}-{rank}"


def pod_names(description: Description) -> Iterator[tuple[Role, int, str]]:
    for role in description.roles:
        for rank in range(role.replicas):
            yield role, rank, pod_name(description.name, role, rank)


def job_labels(description: Description) -> dict[str, str]:
    """The labels on everything a job owns."""
    component = description.kind.lower()
    return {
        component: description.name,
        OWNER_NAME: description.name,
        COMPONENT: component,
        COMPONENT_TYPE: "user",
        MANAGED_BY: "jobyard",
        JOB_NAME: description.name,
    }


def replica_label(description: Description) -> str:
    """The key of the label that carries a pod's own name."""
    return f"{description.kind.lower()}-replica"


def job_selector(description: Description) -> dict[str, str]:
    return {description.kind.lower(): description.name}
