"""XGBoostTrainingJob: a master with the tracker, and workers."""

from __future__ import annotations

from jobyard.api.xgboosttrainingjob import XGBoostTrainingJob
from jobyard.plan.description import Description, Naming, Role
from jobyard.plan.gangs import gang_of


def lower(job: XGBoostTrainingJob) -> Description:
    roles = tuple(
        Role(
            type=spec.type,
            replicas=spec.replicas,
            template=spec.template,
            place=("spec", "replicaSpecs", n, "template"),
            main_container="xgboost",
        )
        for n, spec in enumerate(job.spec.replica_specs)
    )
    return Description(
        kind="XGBoostTrainingJob",
        name=job.metadata.name,
        namespace=job.metadata.namespace,
        roles=roles,
        naming=Naming.JOB,
        gang=gang_of(job.spec.scheduler, roles),
    )
