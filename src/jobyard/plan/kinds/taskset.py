"""TaskSet: its roles are the roles; names and placement are left to the template."""

from __future__ import annotations

from jobyard.api.taskset import TaskSet
from jobyard.plan.description import Description, Naming, Role, main_container


def lower(taskset: TaskSet) -> Description:
    roles = tuple(
        Role(
            type=role.name,
            replicas=role.replicas,
            template=role.template,
            place=("spec", "roles", n, "template"),
            main_container=main_container(role.template),
        )
        for n, role in enumerate(taskset.spec.roles)
    )
    return Description(
        kind="TaskSet",
        name=taskset.metadata.name,
        namespace=taskset.metadata.namespace,
        roles=roles,
        naming=Naming.NONE,
    )
