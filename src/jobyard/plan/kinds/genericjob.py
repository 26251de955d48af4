"""GenericJob: its replica types are the roles; the first container is the main one."""

from __future__ import annotations

from jobyard.api.genericjob import GenericJob
from jobyard.plan.description import Description, Naming, Role, main_container
from jobyard.plan.gangs import gang_of


def lower(job: GenericJob) -> Description:
    roles = tuple(
        Role(
            type=spec.type,
            replicas=spec.replicas,
            template=spec.template,
            place=("spec", "replicaSpecs", n, "template"),
            main_container=main_container(spec.template),
        )
        for n, spec in enumerate(job.spec.replica_specs)
    )
    return Description(
        kind="GenericJob",
        name=job.metadata.name,
        namespace=job.metadata.namespace,
        roles=roles,
        naming=Naming.REPLICA if job.spec.service else Naming.NONE,
        ports=job.spec.service.ports if job.spec.service else (),
        gang=gang_of(job.spec.scheduler, roles),
    )
