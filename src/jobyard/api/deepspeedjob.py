"""DeepSpeedJob: workers that run sshd, and `deepspeed` on the first of them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from jobyard.api.changes import change_rules
from jobyard.api.job_spec import TrainingSpec
from jobyard.api.replicas import RestartingReplica
from jobyard.api.rules import JOB_NAME, mode_types, pod_name_length, quoted
from jobyard.api.run_mode import Elastic
from jobyard.api.status import TrainingStatus
from jobyard.api.value import (
    ARGUMENT_LENGTH_MAX,
    ARGUMENTS_MAX,
    JSON,
    Argument,
    Arguments,
    Resource,
    Value,
    pod_template,
)
from jobyard.schema.derive import described
from jobyard.schema.rule import Rule

SLOTS_MAX = 1024
RESERVED_PATHS = ("/root/.ssh", "/t9k/hostfile", "/root/.deepspeed_env")
_CLASHING = ("--no_local_rank", "--autotuning", "--module", "--no_python")

_UNRESERVED = Rule(
    cel=" && ".join(
        f"self.mountPath != '{path}' && !self.mountPath.startsWith('{path}/')"
        for path in RESERVED_PATHS
    ),
    message=f"{', '.join(RESERVED_PATHS)} and what is below them are the job's own:"
    " mount the volume elsewhere",
    field=".mountPath",
)


class Autotune(StrEnum):
    """Whether DeepSpeed tunes its configuration."""

    NONE = "none"
    RUN = "run"
    TUNE = "tune"


Program = Annotated[tuple[Argument, ...], described(min_length=1, max_length=ARGUMENTS_MAX)]


class DeepSpeedRun(Value):
    """What deepspeed runs: a script, a module or a program."""

    python: Annotated[Program, described("A Python script and its arguments.")] = ()
    module: Annotated[Program, described("A Python module and its arguments.")] = ()
    exec: Annotated[Program, described("A program that isn't Python, and its arguments.")] = ()

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="[has(self.python), has(self.module), has(self.exec)].filter(x, x).size() == 1",
            message="exactly one of python, module and exec must be given",
        ),
    )


Slots = Annotated[int, described(ge=1, le=SLOTS_MAX)]


class DeepSpeedConfig(Value):
    """How deepspeed is called."""

    run: Annotated[DeepSpeedRun | None, described("What deepspeed runs.")] = None
    slots_per_worker: Annotated[Slots | None, described("Processes per replica; absent: 1.")] = None
    slot_per_worker: Annotated[Slots | None, described("Another spelling of slotsPerWorker.")] = (
        None
    )
    local_rank: Annotated[
        bool, described("Whether processes get --local_rank; false passes --no_local_rank.")
    ] = True
    autotune: Annotated[Autotune, described("Whether DeepSpeed tunes its configuration first.")] = (
        Autotune.NONE
    )
    other_args: Annotated[Arguments, described("Arguments passed to deepspeed as they are.")] = ()
    custom_command: Annotated[
        Annotated[str, described(min_length=1, max_length=ARGUMENT_LENGTH_MAX)] | None,
        described(
            "A whole shell command instead of deepspeed's; only slotsPerWorker still counts."
        ),
    ] = None

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="has(self.run) != has(self.customCommand)",
            message="exactly one of run and customCommand must be given",
        ),
        Rule(
            cel="!(has(self.slotsPerWorker) && has(self.slotPerWorker))",
            message="slotPerWorker is another spelling of slotsPerWorker: give one of them",
            field=".slotPerWorker",
        ),
        Rule(
            cel=f"!has(self.otherArgs) || self.otherArgs.all(a, !(a in {quoted(_CLASHING)})"
            " && !a.startsWith('--autotuning='))",
            message=f"{', '.join(_CLASHING)} can't be given here: use localRank, autotune,"
            " run.module and run.exec",
            field=".otherArgs",
        ),
    )


class DeepSpeedWorker(RestartingReplica):
    """The workers; deepspeed itself runs on the first."""

    template: Annotated[
        dict[str, JSON],
        pod_template(rules=(("spec.containers.*.volumeMounts.*", _UNRESERVED),)),
        described("The pod each worker runs in; the training container is worker or the first."),
    ]


class DeepSpeedJobSpec(TrainingSpec):
    """The workers, and what deepspeed runs on them."""

    worker: Annotated[DeepSpeedWorker, described("The workers.")]
    config: Annotated[DeepSpeedConfig, described("How deepspeed is called.")]
    disable_custom_env: Annotated[
        bool,
        described("Keeps the job's environment out of .deepspeed_env when true."),
    ] = False
    elastic: Annotated[
        Elastic | None, described("Lets the number of workers change while the job runs.")
    ] = None

    RULES: ClassVar[tuple[Rule, ...]] = mode_types("['worker']")


class DeepSpeedJob(Resource):
    """Distributed training with DeepSpeed's own launcher over ssh, elastic too."""

    spec: Annotated[DeepSpeedJobSpec, described("What the job runs.")]
    status: Annotated[TrainingStatus | None, described("What is observed of the job.")] = None

    RULES: ClassVar[tuple[Rule, ...]] = (
        JOB_NAME,
        pod_name_length(
            "[self.spec]",
            "'worker'",
            "(has(r.elastic) && r.elastic.enabled && has(r.elastic.maxReplicas)"
            " ? r.elastic.maxReplicas : r.worker.replicas)",
        ),
        *change_rules(DeepSpeedJobSpec),
    )
