"""GenericJob: its replica types are the roles; the first container is the main one."""

from __future__ import annotations

from jobyard.api.genericjob import GenericJobSpec
from jobyard.plan.description import Description, Identity, Naming, Role, Start
from jobyard.plan.gangs import gang_of
from jobyard.plan.listing import listed_roles


def lower(spec: GenericJobSpec, identity: Identity) -> Description:
    roles = listed_roles(spec.replica_specs)
    return Description(
        identity=identity,
        roles=roles,
        naming=Naming.REPLICA if spec.service else Naming.NONE,
        start=_start,
        ports=spec.service.ports if spec.service else (),
        gang=gang_of(spec.scheduler, roles),
        run_mode=spec.run_mode,
    )


def _start(_role: Role, _rank: int) -> Start:
    """As the template says; the job's variables are the user's own way to tell replicas apart."""
    return Start()
