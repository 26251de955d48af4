"""MPIJob: a launcher that runs mpirun, and workers that run sshd."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import msgspec

from jobyard.api.launching import LauncherType
from jobyard.api.mpijob import MPIConfig, MPIJobSpec, MPISsh
from jobyard.plan.description import Description, Identity, Naming, Role, Start
from jobyard.plan.gangs import gang_of
from jobyard.plan.launching import (
    LAUNCHED,
    cleaned_workers,
    launched_roles,
    launcher_like,
    worker_role,
)
from jobyard.plan.naming import host_name
from jobyard.plan.slots import slots_per_worker
from jobyard.plan.ssh import (
    FILES_PATH,
    PREPARED_SLEEP,
    launcher_start,
    scripts,
    worker_start,
)
from jobyard.schema.finding import Path

_PLACE: Path = ("spec", "worker", "template")
# By trying with Open MPI 4.1: MPI_Abort of one rank then leaves the others waiting, too.
_RECOVERING = ("enable-recovery", "max-restarts")
_ROOT_ENV = (("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"))


def lower(spec: MPIJobSpec, identity: Identity) -> Description:
    launcher, workers = _roles(spec)
    workers = cleaned_workers(workers, spec.run_policy)
    config, ssh = _config(spec), spec.ssh or MPISsh()
    hosts = [host_name(identity, workers, rank) for rank in range(workers.replicas)]
    slots = slots_per_worker(config.extra_args, workers)
    return Description(
        identity=identity,
        roles=(launcher, workers),
        naming=Naming.JOB,
        ending=LAUNCHED,
        start=partial(_start, config, ssh, identity),
        gang=gang_of(spec.scheduler, (launcher, workers)),
        run_mode=spec.run_mode,
        ttl_seconds_after_finished=spec.run_policy.ttl_seconds_after_finished,
        is_rigid=True,
        warnings=tuple(_recovery_advice(config)),
        ssh_files={
            **scripts(),
            "hostfile": "".join(f"{host} slots={slots}\n" for host in hosts),
        },
    )


def _roles(spec: MPIJobSpec) -> tuple[Role, Role]:
    worker = spec.worker
    if worker is None:
        launcher, workers = launched_roles(spec.replica_specs, "worker", "mpi-worker")
    else:
        launcher = launcher_like(worker.template, _PLACE, "mpi-worker")
        workers = worker_role(worker.replicas, worker.template, _PLACE, "mpi-worker")
    # Whoever debugs wants to start mpirun by hand, and that needs sshd on the workers and
    # the keys in place on the launcher.
    sshd = ("sh", f"{FILES_PATH}/worker.sh")
    return (
        msgspec.structs.replace(launcher, debug_command=PREPARED_SLEEP),
        msgspec.structs.replace(workers, debug_command=sshd),
    )


def _config(spec: MPIJobSpec) -> MPIConfig:
    """Both shapes as one."""
    if spec.worker is None:
        return spec.mpi_config or MPIConfig()
    return MPIConfig(
        mca=spec.mca,
        home=spec.mpi_home,
        extra_args=spec.worker.extra_mpi_args,
        script=spec.worker.cmd,
    )


def _start(config: MPIConfig, ssh: MPISsh, identity: Identity, role: Role, _rank: int) -> Start:
    path = ssh.ssh_auth_mount_path
    if role.type == LauncherType.WORKER:
        return worker_start(identity, ssh.sshd_path, path)
    env = (
        *_ROOT_ENV,
        # Hosts are named with their domain here; by default Open MPI cuts it off.
        ("OMPI_MCA_orte_keep_fqdn_hostnames", "true"),
        ("OMPI_MCA_plm_rsh_args", f"-F {path}/config"),
    )
    return launcher_start(identity, path, _mpirun(config), config.script, env=env)


def _recovery_advice(config: MPIConfig) -> Iterator[str]:
    said = [word for word in config.extra_args if word.lstrip("-") in _RECOVERING]
    if said:
        yield (
            f"gives mpirun {' and '.join(said)}: it then ends with 0, and the job succeeds, even"
            " if a process failed; only the log tells"
        )


def _mpirun(config: MPIConfig) -> tuple[str, ...]:
    mca = tuple(word for pair in sorted((config.mca or {}).items()) for word in ("-mca", *pair))
    program = (f"{config.home}/bin/mpirun", "--prefix", config.home) if config.home else ("mpirun",)
    return (*program, "--hostfile", f"{FILES_PATH}/hostfile", *mca, *config.extra_args)
