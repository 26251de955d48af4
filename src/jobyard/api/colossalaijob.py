"""ColossalAIJob: `colossalai run` from a launcher over workers that run sshd.

Two shapes are in use and both are accepted, also mixed: `launcher` with `worker`, and the
later `torchConfig` with `replicaSpecs`.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

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
    EnvVar,
    Resource,
    Resources,
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

PROCESSES_MAX = 1024
ProcessCount = Annotated[
    int, described("How many training processes each worker starts.", ge=1, le=PROCESSES_MAX)
]


class ColossalAISsh(Value):
    """How the launcher reaches the workers."""

    auth_mount_path: Annotated[
        AbsolutePath, described("Where the job's keys appear in the containers.")
    ] = DEFAULT_AUTH_MOUNT_PATH
    ssh_auth_mount_path: Annotated[
        AbsolutePath | None, described("An older spelling of authMountPath.")
    ] = None
    sshd_path: Annotated[
        AbsolutePath, described("The absolute path of sshd in the workers' image.")
    ] = DEFAULT_SSHD_PATH


class ColossalAILauncher(Value):
    """The launcher's container; its pod takes volumes and placement from the workers."""

    image: Annotated[
        str, described("The launcher's image; absent: the workers' image and working folder.")
    ] = ""
    working_dir: Annotated[str, described("The folder colossalai runs in.")] = ""
    env: Annotated[
        tuple[EnvVar, ...],
        described("Environment of the launcher, as in a container.", max_length=1024),
    ] = ()
    resources: Annotated[Resources | None, described("Resources of the launcher.")] = None


class ColossalAIWorker(Value):
    """The workers and what runs on them."""

    replicas: ReplicaCount = 1
    proc_per_worker: ProcessCount = 1
    proc_per_node: Annotated[
        Annotated[int, described(ge=0, le=PROCESSES_MAX)] | None,
        described("An older spelling of procPerWorker."),
    ] = None
    command: Annotated[Arguments, described("The training script and its arguments.")] = ()
    torch_args: Annotated[
        Arguments, described("Arguments passed to colossalai run as they are.")
    ] = ()
    template: Annotated[
        dict[str, JSON],
        pod_template(rules=(("spec.containers", named_container("worker")),)),
        described(
            "The workers' pod; must have a container named worker, whose command is ignored."
        ),
    ]


class TorchConfig(Value):
    """What the launcher starts on the workers (second shape)."""

    proc_per_worker: ProcessCount = 1
    script: Annotated[Arguments, described("The training script and its arguments.")] = ()
    torch_args: Annotated[
        Arguments, described("Arguments passed to colossalai run as they are.")
    ] = ()
    extra_args: Annotated[
        Arguments, described("A later spelling of torchArgs; passed after those.")
    ] = ()


class ColossalAIJobSpec(RigidJobSpec):
    """The launcher, the workers and what runs on them."""

    ssh: Annotated[ColossalAISsh | None, described("How the launcher reaches the workers.")] = None
    launcher: Annotated[
        ColossalAILauncher | None,
        described("The launcher's container, unless replicaSpecs has it; absent: as a worker's."),
    ] = None
    worker: Annotated[
        ColossalAIWorker | None,
        described("The workers and what runs on them (first shape)."),
    ] = None
    torch_config: Annotated[
        TorchConfig | None, described("What the launcher starts (second shape).")
    ] = None
    replica_specs: Annotated[
        tuple[LaunchedReplica, ...],
        described(
            "Launcher and workers (second shape).",
            max_length=2,
            rules=(UNIQUE_TYPES,),
        ),
    ] = ()
    run_policy: Annotated[LauncherRunPolicy, described("What is cleaned up at the end.")] = (
        LauncherRunPolicy()
    )

    RULES: ClassVar[tuple[Rule, ...]] = (
        *workers_once("ColossalAIJob", "torchConfig"),
        something_to_launch(
            "launcher",
            ("worker.command", "torchConfig.script"),
            "give worker.command or torchConfig.script",
        ),
        worker_container("worker"),
        *keys_unmounted("authMountPath", "sshAuthMountPath"),
        *lacking("ColossalAIJob", Mode.ELASTIC),
    )


class ColossalAIJob(Resource):
    """Distributed training with ColossalAI: a launcher starts it over ssh on all workers."""

    spec: Annotated[ColossalAIJobSpec, described("What the job runs.")]
    status: Annotated[JobStatus | None, described("What is observed of the job.")] = None

    RULES: ClassVar[tuple[Rule, ...]] = (
        JOB_NAME,
        *LAUNCHER_POD_NAMES,
        *change_rules(ColossalAIJobSpec),
    )
