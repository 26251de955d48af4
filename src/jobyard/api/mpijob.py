"""MPIJob: Open MPI across workers that run sshd, driven by one launcher.

Two shapes are in use and both are accepted, also mixed: `worker` with `mca`, `mpiHome` at the
top, and `mpiConfig` with `replicaSpecs`. In its oldest form `worker` has fields for what
became arguments of mpirun.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from jobyard.api.changes import change_rules
from jobyard.api.parts.job_spec import RigidJobSpec
from jobyard.api.parts.launching import (
    DEFAULT_AUTH_MOUNT_PATH,
    DEFAULT_SSHD_PATH,
    LAUNCHER_POD_NAMES,
    LaunchedReplica,
    keys_unmounted,
    something_to_launch,
    worker_container,
    workers_once,
)
from jobyard.api.parts.replicas import ReplicaCount
from jobyard.api.parts.run_mode import Mode
from jobyard.api.parts.run_policy import LauncherRunPolicy
from jobyard.api.parts.status import JobStatus
from jobyard.api.parts.value import (
    JSON,
    AbsolutePath,
    Arguments,
    Count,
    Resource,
    Value,
    pod_template,
)
from jobyard.api.rules import (
    JOB_NAME,
    UNIQUE_TYPES,
    lacking,
    named_container,
)
from jobyard.schema.derive import described
from jobyard.schema.rule import Rule

MCA_MAX = 256
PROCESSES_MAX = 1024
Mca = Annotated[dict[str, str], described(max_length=MCA_MAX)]


class ProcessRecovery(Value):
    """Whether mpirun starts failed processes again: an older way to say --enable-recovery."""

    enable: Annotated[bool | None, described("Passes --enable-recovery to mpirun.")] = None
    enabled: Annotated[bool | None, described("Another spelling of enable.")] = None
    limit: Annotated[
        Count | None, described("How often a process is started again: --max-restarts.")
    ] = None


class MPIWorker(Value):
    """The workers and what runs on them."""

    replicas: ReplicaCount = 1
    processes_per_worker: Annotated[
        Annotated[int, described(ge=0, le=PROCESSES_MAX)] | None,
        described(
            "An older way to pass -N to mpirun: how many processes run on each worker;"
            " 0 and absent: as extraMPIArgs say."
        ),
    ] = None
    process_recovery: Annotated[
        ProcessRecovery | None,
        described("An older way to pass --enable-recovery and --max-restarts to mpirun."),
    ] = None
    cmd: Annotated[Arguments, described("What each MPI process runs.")] = ()
    extra_mpi_args: Annotated[Arguments, described("Arguments passed to mpirun as they are.")] = (
        msgspec.field(name="extraMPIArgs", default=())
    )
    template: Annotated[
        dict[str, JSON],
        pod_template(rules=(("spec.containers", named_container("mpi-worker")),)),
        described(
            "The pod of workers and launcher; must have a container named mpi-worker,"
            " whose command and args are ignored."
        ),
    ]


class MPIConfig(Value):
    """How mpirun is called (second shape)."""

    mca: Annotated[Mca | None, described("MCA parameters, each passed as -mca KEY VALUE.")] = None
    home: Annotated[
        AbsolutePath | None, described("The root folder of Open MPI; absent: mpirun from PATH.")
    ] = None
    extra_args: Annotated[Arguments, described("Arguments passed to mpirun as they are.")] = ()
    script: Annotated[Arguments, described("What each MPI process runs.")] = ()


class MPISsh(Value):
    """How the launcher reaches the workers."""

    sshd_path: Annotated[
        AbsolutePath, described("The absolute path of sshd in the workers' image.")
    ] = DEFAULT_SSHD_PATH
    ssh_auth_mount_path: Annotated[
        AbsolutePath, described("Where the job's keys appear in the containers.")
    ] = DEFAULT_AUTH_MOUNT_PATH


class MPIJobSpec(RigidJobSpec):
    """The workers, and how mpirun is called."""

    worker: Annotated[
        MPIWorker | None, described("The workers and what runs on them (first shape).")
    ] = None
    mca: Annotated[
        Mca | None,
        described("MCA parameters, each passed as -mca KEY VALUE; those of mpiConfig are added."),
    ] = None
    mpi_home: Annotated[
        AbsolutePath | None,
        described(
            "The root folder of Open MPI, unless mpiConfig.home says it; absent: mpirun from PATH."
        ),
    ] = None
    mpi_config: Annotated[MPIConfig | None, described("How mpirun is called (second shape).")] = (
        None
    )
    replica_specs: Annotated[
        tuple[LaunchedReplica, ...],
        described(
            "Launcher and workers (second shape).",
            max_length=2,
            rules=(UNIQUE_TYPES,),
        ),
    ] = ()
    ssh: Annotated[MPISsh | None, described("How the launcher reaches the workers.")] = None
    run_policy: Annotated[LauncherRunPolicy, described("What is cleaned up at the end.")] = (
        LauncherRunPolicy()
    )

    RULES: ClassVar[tuple[Rule, ...]] = (
        *workers_once("MPIJob", "mpiConfig"),
        something_to_launch(
            "launcher", ("worker.cmd", "mpiConfig.script"), "give worker.cmd or mpiConfig.script"
        ),
        worker_container("worker", "mpi-worker"),
        *keys_unmounted("sshAuthMountPath"),
        *lacking("MPIJob", Mode.ELASTIC),
    )


class MPIJob(Resource):
    """Open MPI across worker replicas that run sshd, driven by one launcher."""

    spec: Annotated[MPIJobSpec, described("What the job runs.")]
    status: Annotated[JobStatus | None, described("What is observed of the job.")] = None

    RULES: ClassVar[tuple[Rule, ...]] = (
        JOB_NAME,
        *LAUNCHER_POD_NAMES,
        *change_rules(MPIJobSpec),
    )
