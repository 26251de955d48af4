"""PyTorchTrainingJob: ranks go on through the replica specs, the first is the master."""

from __future__ import annotations

from jobyard.api.pytorchtrainingjob import PyTorchTrainingJob
from jobyard.plan.description import Command, Description, Naming, Role, main_container
from jobyard.plan.gangs import gang_of
from jobyard.plan.sharing import shares


def lower(job: PyTorchTrainingJob) -> Description:
    spec = job.spec
    torchrun = spec.torchrun_config is not None and spec.torchrun_config.enabled
    counts = tuple(replica.replicas for replica in spec.replica_specs)
    if spec.elastic is not None and spec.elastic.enabled:
        assert spec.elastic.expected_replicas is not None
        weights = tuple(replica.scaling_weight for replica in spec.replica_specs)
        counts = shares(spec.elastic.expected_replicas, weights)
    roles = tuple(
        Role(
            type=replica.type,
            replicas=count,
            template=replica.template,
            place=("spec", "replicaSpecs", n, "template"),
            main_container=main_container(replica.template, "pytorch", "python"),
            command=Command.REPLACED_BY_TORCHRUN if torchrun else Command.KEPT,
        )
        for n, (replica, count) in enumerate(zip(spec.replica_specs, counts, strict=True))
    )
    return Description(
        kind="PyTorchTrainingJob",
        name=job.metadata.name,
        namespace=job.metadata.namespace,
        roles=roles,
        naming=Naming.JOB,
        gang=gang_of(spec.scheduler, roles, spec.elastic),
        has_tensorboard=spec.tensorboard_spec is not None,
    )
