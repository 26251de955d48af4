"""TensorFlowTrainingJob: its task types are the roles."""

from __future__ import annotations

from jobyard.api.tensorflowtrainingjob import TensorFlowTrainingJobSpec
from jobyard.plan.description import Description, Naming
from jobyard.plan.gangs import gang_of
from jobyard.plan.listing import listed_roles


def lower(spec: TensorFlowTrainingJobSpec) -> Description:
    roles = listed_roles(spec.replica_specs, "tensorflow")
    return Description(
        roles=roles,
        naming=Naming.JOB,
        gang=gang_of(spec.scheduler, roles),
        has_tensorboard=spec.tensorboard_spec is not None,
    )
