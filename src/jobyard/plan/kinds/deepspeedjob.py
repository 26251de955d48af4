"""DeepSpeedJob: workers with sshd, the first of which also runs deepspeed."""

from __future__ import annotations

from jobyard.api.deepspeedjob import DeepSpeedJobSpec
from jobyard.plan.description import Command, Description, Identity, Naming, Role, main_container
from jobyard.plan.gangs import gang_of


def lower(spec: DeepSpeedJobSpec, identity: Identity) -> Description:
    workers = spec.worker.replicas
    if spec.elastic is not None and spec.elastic.enabled:
        assert spec.elastic.expected_replicas is not None
        workers = spec.elastic.expected_replicas
    roles = (
        Role(
            type="worker",
            replicas=workers,
            template=spec.worker.template,
            place=("spec", "worker", "template"),
            main_container=main_container(spec.worker.template, "worker"),
            command=Command.REPLACED_BY_SSHD,
        ),
    )
    return Description(
        identity=identity,
        roles=roles,
        naming=Naming.JOB,
        gang=gang_of(spec.scheduler, roles, spec.elastic),
    )
