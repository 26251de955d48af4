"""MPIJob: a launcher that runs mpirun, and workers that run sshd."""

from __future__ import annotations

from jobyard.api.mpijob import MPIJob
from jobyard.plan.description import Description, Naming, Role
from jobyard.plan.gangs import gang_of
from jobyard.plan.launching import launcher_role, listed_roles, worker_role
from jobyard.schema.finding import Path

_PLACE: Path = ("spec", "worker", "template")


def lower(job: MPIJob) -> Description:
    roles = _roles(job)
    return Description(
        kind="MPIJob",
        name=job.metadata.name,
        namespace=job.metadata.namespace,
        roles=roles,
        naming=Naming.JOB,
        gang=gang_of(job.spec.scheduler, roles),
    )


def _roles(job: MPIJob) -> tuple[Role, ...]:
    worker = job.spec.worker
    if worker is None:
        return listed_roles(job.spec.replica_specs, "worker", "mpi-worker")
    return (
        launcher_role(worker.template, _PLACE, "mpi-worker"),
        worker_role(worker.replicas, worker.template, _PLACE, "mpi-worker"),
    )
