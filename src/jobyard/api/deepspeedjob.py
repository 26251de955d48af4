"""DeepSpeedJob: workers that run sshd, and `deepspeed` on the first of them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from jobyard.api.changes import change_rules
from jobyard.api.parts.job_spec import TrainingSpec
from jobyard.api.parts.launching import given, something_to_launch
from jobyard.api.parts.replicas import RestartingReplica
from jobyard.api.parts.run_mode import Elastic, elastic_rules, on
from jobyard.api.parts.status import TrainingStatus
from jobyard.api.parts.value import (
    ARGUMENT_LENGTH_MAX,
    JSON,
    Arguments,
    Resource,
    Value,
    pod_template,
)
from jobyard.api.rules import JOB_NAME, pod_name_length, quoted
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

    UNSAID = ""
    NONE = "none"
    RUN = "run"
    TUNE = "tune"


class DeepSpeedRun(Value):
    """What deepspeed runs: a script, a module or a program. An empty list is as good as none."""

    python: Annotated[Arguments, described("A Python script and its arguments.")] = ()
    module: Annotated[Arguments, described("A Python module and its arguments.")] = ()
    exec: Annotated[Arguments, described("A program that isn't Python, and its arguments.")] = ()


Slots = Annotated[int, described(ge=0, le=SLOTS_MAX)]
_CUSTOM = given("self.customCommand")
_PROGRAMS = tuple(f"run.{way}" for way in ("python", "module", "exec"))


class DeepSpeedConfig(Value):
    """How deepspeed is called."""

    run: Annotated[
        DeepSpeedRun | None, described("What deepspeed runs; nothing beside customCommand.")
    ] = None
    slots_per_worker: Annotated[
        Slots | None, described("Processes per replica; 0 and absent: 1.")
    ] = None
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
        Annotated[str, described(max_length=ARGUMENT_LENGTH_MAX)] | None,
        described(
            "A whole shell command instead of deepspeed's; only slotsPerWorker still counts."
        ),
    ] = None

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel=f"{_CUSTOM} || [{', '.join(given(f'self.{path}') for path in _PROGRAMS)}]"
            ".filter(x, x).size() <= 1",
            message="only one of python, module and exec may be given",
            field=".run",
        ),
        Rule(
            cel=f"{_CUSTOM} || !has(self.otherArgs)"
            f" || self.otherArgs.all(a, !(a in {quoted(_CLASHING)})"
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
    config: Annotated[
        DeepSpeedConfig,
        described("How deepspeed is called; in debug mode it may say nothing, or be absent."),
    ] = DeepSpeedConfig()
    disable_custom_env: Annotated[
        bool,
        described("Keeps the job's environment out of .deepspeed_env when true."),
    ] = False
    elastic: Annotated[
        Elastic | None, described("Lets the number of workers change while the job runs.")
    ] = None

    RULES: ClassVar[tuple[Rule, ...]] = (
        something_to_launch(
            "worker",
            tuple(f"config.{path}" for path in (*_PROGRAMS, "customCommand")),
            "give config.run.python, module or exec, or config.customCommand",
        ),
        *elastic_rules(f"(has(self.elastic) && {on('self.elastic')})"),
    )

    @property
    def scaling(self) -> Elastic | None:
        """The bounds of a job whose number of workers may change."""
        return self.elastic if self.elastic is not None and self.elastic.is_on else None


class DeepSpeedJob(Resource):
    """Distributed training with DeepSpeed's own launcher over ssh, elastic too."""

    spec: Annotated[DeepSpeedJobSpec, described("What the job runs.")]
    status: Annotated[TrainingStatus | None, described("What is observed of the job.")] = None

    RULES: ClassVar[tuple[Rule, ...]] = (
        JOB_NAME,
        pod_name_length(
            "[self.spec]",
            "'worker'",
            f"(has(r.elastic) && {on('r.elastic')} && has(r.elastic.maxReplicas)"
            " ? r.elastic.maxReplicas : r.worker.replicas)",
        ),
        *change_rules(DeepSpeedJobSpec),
    )
