"""TaskSet: its roles are the roles; names and placement are left to the template."""

from __future__ import annotations

from functools import partial

from jobyard.api.taskset import TaskSetSpec
from jobyard.plan.description import (
    Description,
    Ending,
    Identity,
    Naming,
    Role,
    Start,
    main_container,
)


def lower(spec: TaskSetSpec, identity: Identity) -> Description:
    roles = tuple(
        Role(
            type=role.name,
            replicas=role.replicas,
            template=role.template,
            place=("spec", "roles", n, "template"),
            main_container=main_container(role.template),
            is_numbered=True,
        )
        for n, role in enumerate(spec.roles)
    )
    return Description(
        identity=identity,
        roles=roles,
        naming=Naming.NONE,
        is_collective=False,
        # A TaskSet's roles have policies of their own for that.
        ending=Ending(success=()),
        start=partial(_start, identity),
    )


def _start(identity: Identity, role: Role, rank: int) -> Start:
    return Start(
        env=(
            ("TASKSET_NAME", identity.name),
            ("TASKSET_NAMESPACE", identity.namespace or "default"),
            ("TASKROLE_NAME", role.type),
            ("TASKROLE_REPLICA_INDEX", str(rank)),
        )
    )
