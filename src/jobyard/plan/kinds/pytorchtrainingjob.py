"""PyTorchTrainingJob: ranks go on through the replica specs, the first is the master."""

from __future__ import annotations

from jobyard.api.pytorchtrainingjob import PyTorchTrainingJobSpec
from jobyard.plan.description import Command, Description, Naming
from jobyard.plan.gangs import gang_of
from jobyard.plan.listing import listed_roles
from jobyard.plan.sharing import shares


def lower(spec: PyTorchTrainingJobSpec) -> Description:
    torchrun = spec.torchrun_config is not None and spec.torchrun_config.enabled
    counts = tuple(replica.replicas for replica in spec.replica_specs)
    if spec.elastic is not None and spec.elastic.enabled:
        assert spec.elastic.expected_replicas is not None
        weights = tuple(replica.scaling_weight for replica in spec.replica_specs)
        counts = shares(spec.elastic.expected_replicas, weights)
    roles = listed_roles(
        spec.replica_specs,
        "pytorch",
        "python",
        counts=counts,
        command=Command.REPLACED_BY_TORCHRUN if torchrun else Command.KEPT,
    )
    return Description(
        roles=roles,
        naming=Naming.JOB,
        gang=gang_of(spec.scheduler, roles, spec.elastic),
        has_tensorboard=spec.tensorboard_spec is not None,
    )
