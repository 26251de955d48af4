"""GenericJob: its replica types are the roles; the first container is the main one."""

from __future__ import annotations

from jobyard.api.genericjob import GenericJobSpec
from jobyard.plan.description import Description, Naming
from jobyard.plan.gangs import gang_of
from jobyard.plan.listing import listed_roles


def lower(spec: GenericJobSpec) -> Description:
    roles = listed_roles(spec.replica_specs)
    return Description(
        roles=roles,
        naming=Naming.REPLICA if spec.service else Naming.NONE,
        ports=spec.service.ports if spec.service else (),
        gang=gang_of(spec.scheduler, roles),
    )
