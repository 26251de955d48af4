"""TensorFlowTrainingJob: its task types are the roles."""

from __future__ import annotations

from jobyard.api.tensorflowtrainingjob import TensorFlowTrainingJob
from jobyard.plan.description import Description, Naming, Role
from jobyard.plan.gangs import gang_of


def lower(job: TensorFlowTrainingJob) -> Description:
    roles = tuple(
        Role(
            type=spec.type,
            replicas=spec.replicas,
            template=spec.template,
            place=("spec", "replicaSpecs", n, "template"),
            main_container="tensorflow",
        )
        for n, spec in enumerate(job.spec.replica_specs)
    )
    return Description(
        kind="TensorFlowTrainingJob",
        name=job.metadata.name,
        namespace=job.metadata.namespace,
        roles=roles,
        naming=Naming.JOB,
        gang=gang_of(job.spec.scheduler, roles),
        has_tensorboard=job.spec.tensorboard_spec is not None,
    )
