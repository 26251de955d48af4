"""TaskSet: its roles are the roles; names and placement are left to the template."""

from __future__ import annotations

from jobyard.api.taskset import TaskSetSpec
from jobyard.plan.description import Description, Identity, Naming, Role, main_container


def lower(spec: TaskSetSpec, identity: Identity) -> Description:
    roles = tuple(
        Role(
            type=role.name,
            replicas=role.replicas,
            template=role.template,
            place=("spec", "roles", n, "template"),
            main_container=main_container(role.template),
        )
        for n, role in enumerate(spec.roles)
    )
    return Description(
        identity=identity,
        roles=roles,
        naming=Naming.NONE,
    )
