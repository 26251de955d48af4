"""PyTorchTrainingJob: torch.distributed, by environment or by torchrun, elastic too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Self

from jobyard.api.changes import change_rules
from jobyard.api.parts.job_spec import TrainingSpec
from jobyard.api.parts.replicas import TrainingReplica
from jobyard.api.parts.run_mode import Elastic, Switch, elastic_rules, on
from jobyard.api.parts.status import TensorboardTrainingStatus
from jobyard.api.parts.tensorboard import TensorboardSpec
from jobyard.api.parts.value import REPLICAS_MAX, TYPES_MAX, Arguments, Count, Resource
from jobyard.api.rules import (
    JOB_NAME,
    REPLICAS_IN_ALL,
    UNIQUE_TYPES,
    name_with_suffix,
    pod_name_length,
)
from jobyard.schema.derive import Spelled, described
from jobyard.schema.rule import Rule, formatted

WEIGHT_MAX = 1000
PROCESSES_MAX = 9999


class PyTorchReplica(TrainingReplica):
    """One type of replicas; the first replica of the first type is rank 0."""

    scaling_weight: Annotated[
        int,
        described(
            "This type's share when an elastic job is scaled; 0 means 1.", ge=0, le=WEIGHT_MAX
        ),
    ] = 1


class RendezvousBackend(Spelled):
    """How torchrun's agents find one another."""

    C10D = "c10d"
    ETCD = "etcd"
    ETCD_V2 = "etcd-v2"

    @classmethod
    def other_spellings(cls) -> Mapping[str, Self]:
        return {"": cls.C10D}


class TorchrunConfig(Switch):
    """How torchrun is called."""

    enabled: Annotated[
        bool | None,
        described(
            "Whether torchrun starts the program, with the container's args as its script;"
            " absent: it doesn't."
        ),
    ] = None
    max_restarts: Annotated[
        Count, described("How often torchrun restarts its processes by itself.")
    ] = 0
    proc_per_node: Annotated[
        Annotated[int, described(ge=0, le=PROCESSES_MAX)]
        | Annotated[str, described(pattern="^([0-9]{0,4}|gpu|cpu|auto)$", max_length=4)],
        described("Processes per replica: a number, gpu, cpu or auto; empty or 0 means 1."),
    ] = "1"
    rdzv_backend: Annotated[RendezvousBackend, described("How the agents find one another.")] = (
        RendezvousBackend.C10D
    )
    min_nodes: Annotated[
        Annotated[int, described(ge=0, le=REPLICAS_MAX)] | None,
        described("The fewest replicas torchrun starts with; absent or 0: all."),
    ] = None
    extra_options: Annotated[Arguments, described("Options passed to torchrun as they are.")] = ()

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel=f"!{on('self')} || self.rdzvBackend in ['c10d', ''] || (has(self.extraOptions)"
            " && self.extraOptions.exists(o, o == '--rdzv_endpoint' || o == '--rdzv-endpoint'"
            " || o.startsWith('--rdzv_endpoint=') || o.startsWith('--rdzv-endpoint=')))",
            message="the etcd backends need --rdzv_endpoint in extraOptions,"
            " such as --rdzv_endpoint=etcd:2379",
            field=".extraOptions",
        ),
    )


def _is_elastic(spec: str) -> str:
    """CEL for whether `elastic` has an effect: torchrun alone can do with other numbers."""
    torchrun, elastic = f"{spec}.torchrunConfig", f"{spec}.elastic"
    return f"(has({elastic}) && {on(elastic)} && has({torchrun}) && {on(torchrun)})"


class PyTorchTrainingJobSpec(TrainingSpec):
    """The replicas of the job and how they are started."""

    replica_specs: Annotated[
        tuple[PyTorchReplica, ...],
        described(
            "The replicas, by type; ranks go on through them in order.",
            min_length=1,
            max_length=TYPES_MAX,
            rules=(UNIQUE_TYPES, REPLICAS_IN_ALL),
        ),
    ]
    torchrun_config: Annotated[
        TorchrunConfig | None,
        described("Starts the program with torchrun; no effect unless enabled is true."),
    ] = None
    elastic: Annotated[
        Elastic | None,
        described(
            "Lets the number of replicas change while the job runs; without torchrun no effect."
        ),
    ] = None
    tensorboard_spec: Annotated[
        TensorboardSpec | None, described("Serves the job's logs with TensorBoard.")
    ] = None

    RULES: ClassVar[tuple[Rule, ...]] = (
        *elastic_rules(_is_elastic("self")),
        Rule(
            cel="!has(self.torchrunConfig) || !has(self.torchrunConfig.minNodes)"
            f" || !{on('self.torchrunConfig')} || {_is_elastic('self')}"
            " || self.torchrunConfig.minNodes <= self.replicaSpecs.map(r, r.replicas).sum()",
            message="minNodes must not be above the number of replicas",
            message_cel=formatted(
                "is %s; must be at most %s, the number of replicas",
                "self.torchrunConfig.minNodes",
                "self.replicaSpecs.map(r, r.replicas).sum()",
            ),
            field=".torchrunConfig.minNodes",
        ),
    )

    @property
    def torchrun(self) -> TorchrunConfig | None:
        """How torchrun is called, where it is."""
        config = self.torchrun_config
        return config if config is not None and config.is_on else None

    @property
    def scaling(self) -> Elastic | None:
        """The bounds of a job whose number of replicas may change: only torchrun can do that."""
        is_on = self.elastic is not None and self.elastic.is_on
        return self.elastic if is_on and self.torchrun is not None else None


class PyTorchTrainingJob(Resource):
    """Distributed training with PyTorch, by environment or with torchrun, elastic too."""

    spec: Annotated[PyTorchTrainingJobSpec, described("What the job runs.")]
    status: Annotated[
        TensorboardTrainingStatus | None, described("What is observed of the job.")
    ] = None

    RULES: ClassVar[tuple[Rule, ...]] = (
        JOB_NAME,
        pod_name_length(
            "self.spec.replicaSpecs",
            "r.type",
            f"({_is_elastic('self.spec')} && has(self.spec.elastic.maxReplicas)"
            " ? self.spec.elastic.maxReplicas : r.replicas)",
        ),
        name_with_suffix("-tensorboard", "has(self.spec.tensorboardSpec)"),
        *change_rules(PyTorchTrainingJobSpec),
    )
