"""TensorFlowTrainingJob: TensorFlow's own distribution, by TF_CONFIG."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from jobyard.api.changes import change_rules
from jobyard.api.job_spec import RigidTrainingSpec
from jobyard.api.replicas import RestartingReplica
from jobyard.api.rules import (
    JOB_NAME,
    LISTED_TYPES,
    REPLICAS_IN_ALL,
    UNIQUE_TYPES,
    lacking,
    mode_types,
    name_with_suffix,
    named_container,
    pod_name_length,
)
from jobyard.api.run_mode import Mode
from jobyard.api.status import TensorboardTrainingStatus
from jobyard.api.tensorboard import TensorboardSpec
from jobyard.api.value import JSON, TYPES_MAX, Resource, pod_template
from jobyard.schema.derive import described
from jobyard.schema.rule import Rule


class TensorFlowType(StrEnum):
    """The task types of TensorFlow."""

    CHIEF = "chief"
    WORKER = "worker"
    PS = "ps"
    EVALUATOR = "evaluator"


class TensorFlowReplica(RestartingReplica):
    """One type of replicas."""

    type: Annotated[TensorFlowType, described("The task type, as in TF_CONFIG.")]
    template: Annotated[
        dict[str, JSON],
        pod_template(rules=(("spec.containers", named_container("tensorflow")),)),
        described("The pod each replica runs in; must have a container named tensorflow."),
    ]

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="self.type != 'chief' || self.replicas == 1",
            message="there is at most one chief: its replicas must be 1",
            field=".replicas",
        ),
    )


class TensorFlowTrainingJobSpec(RigidTrainingSpec):
    """The replicas of the job."""

    replica_specs: Annotated[
        tuple[TensorFlowReplica, ...],
        described(
            "The replicas, by task type.",
            min_length=1,
            max_length=TYPES_MAX,
            rules=(
                UNIQUE_TYPES,
                REPLICAS_IN_ALL,
                Rule(
                    cel="self.exists(r, r.type in ['chief', 'worker'])",
                    message="one entry must be of type chief or worker: the job ends with it",
                ),
            ),
        ),
    ]
    tensorboard_spec: Annotated[
        TensorboardSpec | None, described("Serves the job's logs with TensorBoard.")
    ] = None

    RULES: ClassVar[tuple[Rule, ...]] = (
        *mode_types(LISTED_TYPES),
        *lacking("TensorFlowTrainingJob", Mode.ELASTIC),
    )


class TensorFlowTrainingJob(Resource):
    """Distributed training with TensorFlow: each replica gets its TF_CONFIG."""

    spec: Annotated[TensorFlowTrainingJobSpec, described("What the job runs.")]
    status: Annotated[
        TensorboardTrainingStatus | None, described("What is observed of the job.")
    ] = None

    RULES: ClassVar[tuple[Rule, ...]] = (
        JOB_NAME,
        pod_name_length("self.spec.replicaSpecs", "r.type", "r.replicas"),
        name_with_suffix("-tensorboard", "has(self.spec.tensorboardSpec)"),
        *change_rules(TensorFlowTrainingJobSpec),
    )
