"""MPIJob: a launcher that runs mpirun, and workers that run sshd."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import msgspec

from jobyard.api.mpijob import MPIConfig, MPIJobSpec, MPISsh, MPIWorker
from jobyard.api.parts.launching import DEFAULT_AUTH_MOUNT_PATH, DEFAULT_SSHD_PATH, LauncherType
from jobyard.plan.lowering.description import Description, Identity, Naming, Role, Start
from jobyard.plan.lowering.gangs import gang_of
from jobyard.plan.lowering.launching import (
    LAUNCHED,
    cleaned_workers,
    launching_advice,
    listed_launcher,
    listed_workers,
    overruled,
    worker_role,
)
from jobyard.plan.lowering.names import host_name
from jobyard.plan.lowering.slots import per_node, slots_per_worker
from jobyard.plan.lowering.ssh import (
    FILES_PATH,
    PLACED_BY,
    PREPARED_SLEEP,
    launcher_start,
    scripts,
    worker_start,
)
from jobyard.schema.finding import Finding, Path, warning

_PLACE: Path = ("spec", "worker", "template")
# By trying with Open MPI 4.1: MPI_Abort of one rank then leaves the others waiting, too.
_RECOVERING = ("enable-recovery", "max-restarts")
_ROOT_ENV = (("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"))


def lower(spec: MPIJobSpec, identity: Identity) -> Description:
    launcher, workers = _roles(spec)
    workers = cleaned_workers(workers, spec.run_policy)
    config, ssh = _config(spec), _ssh(spec)
    hosts = [host_name(identity, workers, rank) for rank in range(workers.replicas)]
    slots = slots_per_worker(config.extra_args, workers)
    return Description(
        identity=identity,
        roles=(launcher, workers),
        naming=Naming.JOB,
        ending=LAUNCHED,
        start=partial(_start, config, ssh, _home_field(spec), identity),
        gang=gang_of(spec.scheduler, (launcher, workers)),
        run_mode=spec.run_mode,
        ttl_seconds_after_finished=spec.run_policy.ttl_seconds_after_finished,
        is_rigid=True,
        warnings=(
            *_shape_advice(spec),
            *_recovery_advice(spec),
            *launching_advice(spec.replica_specs, launcher),
        ),
        ssh_files={
            **scripts(),
            "hostfile": "".join(f"{host} slots={slots}\n" for host in hosts),
        },
    )


def _roles(spec: MPIJobSpec) -> tuple[Role, Role]:
    worker = spec.worker
    if worker is None:
        containers: tuple[str, ...] = ("worker", "mpi-worker")
        workers = listed_workers(spec.replica_specs, *containers)
    else:
        containers = ("mpi-worker",)
        workers = worker_role(worker.replicas, worker.template, _PLACE, *containers)
    launcher = listed_launcher(spec.replica_specs, workers, *containers)
    # Whoever debugs wants to start mpirun by hand, and that needs sshd on the workers and
    # the keys in place on the launcher.
    sshd = ("sh", f"{FILES_PATH}/worker.sh")
    return (
        msgspec.structs.replace(launcher, debug_command=PREPARED_SLEEP),
        msgspec.structs.replace(workers, debug_command=sshd),
    )


def _config(spec: MPIJobSpec) -> MPIConfig:
    """Both shapes as one: what either says, and where they differ the second."""
    second = spec.mpi_config or MPIConfig()
    said = (*(spec.worker.extra_mpi_args if spec.worker else ()), *second.extra_args)
    return MPIConfig(
        mca={**(spec.mca or {}), **(second.mca or {})},
        home=second.home or spec.mpi_home,
        extra_args=(*_oldest_args(spec.worker, said), *said),
        script=second.script or (spec.worker.cmd if spec.worker else ()),
    )


def _oldest_args(worker: MPIWorker | None, said: tuple[str, ...]) -> tuple[str, ...]:
    """What fields of the oldest shape say, as arguments of mpirun; it takes one number only."""
    out: list[str] = []
    if worker is not None and worker.processes_per_worker and per_node(said) is None:
        out += ["-N", str(worker.processes_per_worker)]
    recovery = worker.process_recovery if worker is not None else None
    if recovery is not None and (recovery.enable or recovery.enabled):
        out.append("--enable-recovery")
        if recovery.limit is not None:
            out += ["--max-restarts", str(recovery.limit)]
    return tuple(out)


def _ssh(spec: MPIJobSpec) -> MPISsh:
    said = spec.ssh or MPISsh()
    return MPISsh(
        sshd_path=said.sshd_path or DEFAULT_SSHD_PATH,
        ssh_auth_mount_path=said.ssh_auth_mount_path or DEFAULT_AUTH_MOUNT_PATH,
    )


def _shape_advice(spec: MPIJobSpec) -> Iterator[Finding]:
    second, worker = spec.mpi_config or MPIConfig(), spec.worker
    for name, value in (spec.mca or {}).items():
        yield from overruled(
            ("spec", "mca", name), value, f"mpiConfig.mca.{name}", (second.mca or {}).get(name)
        )
    yield from overruled(("spec", "mpiHome"), spec.mpi_home, "mpiConfig.home", second.home)
    if worker is None:
        return
    yield from overruled(("spec", "worker", "cmd"), worker.cmd, "mpiConfig.script", second.script)
    told = per_node((*worker.extra_mpi_args, *second.extra_args))
    yield from overruled(
        ("spec", "worker", "processesPerWorker"),
        worker.processes_per_worker,
        "an argument of mpirun",
        told,
    )
    recovery = worker.process_recovery
    if recovery is not None and recovery.limit and not (recovery.enable or recovery.enabled):
        yield warning(
            ("spec", "worker", "processRecovery", "limit"),
            "has no effect: processRecovery.enable isn't true",
        )


def _home_field(spec: MPIJobSpec) -> str:
    """Where the author has said in which folder mpirun is; empty if nowhere."""
    if spec.mpi_config is not None and spec.mpi_config.home:
        return "spec.mpiConfig.home"
    return "spec.mpiHome" if spec.mpi_home else ""


def _start(
    config: MPIConfig, ssh: MPISsh, home_field: str, identity: Identity, role: Role, _rank: int
) -> Start:
    path = ssh.ssh_auth_mount_path
    if role.type == LauncherType.WORKER:
        return worker_start(identity, ssh.sshd_path, path)
    env = (
        *_ROOT_ENV,
        # Hosts are named with their domain here; by default Open MPI cuts it off.
        ("OMPI_MCA_orte_keep_fqdn_hostnames", "true"),
        ("OMPI_MCA_plm_rsh_args", f"-F {path}/config"),
        *(((PLACED_BY, home_field),) if home_field else ()),
    )
    return launcher_start(identity, path, _mpirun(config), config.script, env=env)


def _recovery_advice(spec: MPIJobSpec) -> Iterator[Finding]:
    """Each place that makes mpirun hide failures."""
    worker, second = spec.worker, spec.mpi_config
    places: list[tuple[Path, tuple[str, ...]]] = []
    if worker is not None:
        oldest = _oldest_args(worker, worker.extra_mpi_args)
        places.append((("spec", "worker", "processRecovery"), oldest))
        places.append((("spec", "worker", "extraMPIArgs"), worker.extra_mpi_args))
    if second is not None:
        places.append((("spec", "mpiConfig", "extraArgs"), second.extra_args))
    for place, arguments in places:
        said = [word for word in arguments if word.lstrip("-") in _RECOVERING]
        if said:
            yield warning(
                place,
                f"gives mpirun {' and '.join(said)}: it then ends with 0, and the job succeeds,"
                " even if a process failed; only the log tells",
            )


def _mpirun(config: MPIConfig) -> tuple[str, ...]:
    mca = tuple(word for pair in sorted((config.mca or {}).items()) for word in ("-mca", *pair))
    program = (f"{config.home}/bin/mpirun", "--prefix", config.home) if config.home else ("mpirun",)
    return (*program, "--hostfile", f"{FILES_PATH}/hostfile", *mca, *config.extra_args)
