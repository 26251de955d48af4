"""MPIJob: a launcher that runs mpirun, and workers that run sshd."""

from __future__ import annotations

from jobyard.api.mpijob import MPIJobSpec
from jobyard.plan.description import Description, Identity, Naming, Role
from jobyard.plan.gangs import gang_of
from jobyard.plan.launching import launched_roles, launcher_role, worker_role
from jobyard.schema.finding import Path

_PLACE: Path = ("spec", "worker", "template")


def lower(spec: MPIJobSpec, identity: Identity) -> Description:
    roles = _roles(spec)
    return Description(
        identity=identity,
        roles=roles,
        naming=Naming.JOB,
        gang=gang_of(spec.scheduler, roles),
    )


def _roles(spec: MPIJobSpec) -> tuple[Role, ...]:
    worker = spec.worker
    if worker is None:
        return launched_roles(spec.replica_specs, "worker", "mpi-worker")
    return (
        launcher_role(worker.template, _PLACE, "mpi-worker"),
        worker_role(worker.replicas, worker.template, _PLACE, "mpi-worker"),
    )
