"""GenericJob: its replica types are the roles; the first container is the main one."""

from __future__ import annotations

from functools import partial

from jobyard.api.genericjob import GenericJobSpec
from jobyard.plan.description import Description, Identity, Naming, Role, Start
from jobyard.plan.gangs import gang_of
from jobyard.plan.listing import listed_roles
from jobyard.plan.variables import Facts, replaced


def lower(spec: GenericJobSpec, identity: Identity) -> Description:
    roles = listed_roles(spec.replica_specs)
    return Description(
        identity=identity,
        roles=roles,
        naming=Naming.REPLICA if spec.service else Naming.NONE,
        start=partial(_start, Facts.of(identity.name, spec)),
        ports=spec.service.ports if spec.service else (),
        gang=gang_of(spec.scheduler, roles),
        run_mode=spec.run_mode,
    )


def _start(facts: Facts, role: Role, rank: int) -> Start:
    """As the template says, with the job's variables replaced."""
    return Start(expand=partial(replaced, facts=facts, type_=role.type, rank=rank))
