"""TensorFlowTrainingJob: TensorFlow's own distribution, by TF_CONFIG."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from jobyard.api.changes import change_rules
from jobyard.api.parts.job_spec import RigidTrainingSpec
from jobyard.api.parts.replicas import RestartingReplica
from jobyard.api.parts.run_mode import Mode
from jobyard.api.parts.status import TensorboardTrainingStatus
from jobyard.api.parts.tensorboard import TensorboardSpec
from jobyard.api.parts.value import JSON, VARIABLE_BYTES_MAX, Resource, pod_template
from jobyard.api.rules import (
    JOB_NAME,
    REPLICAS_IN_ALL,
    UNIQUE_TYPES,
    digits,
    digits_in_all,
    lacking,
    most_replicas,
    name_with_suffix,
    named_container,
    pod_name_length,
    variable_fits,
)
from jobyard.schema.derive import described
from jobyard.schema.rule import Rule

PORT_NAME = "tfjob-port"
DEFAULT_PORT = 2222


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
            max_length=len(TensorFlowType),
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

    RULES: ClassVar[tuple[Rule, ...]] = (*lacking("TensorFlowTrainingJob", Mode.ELASTIC),)


def _has_port_from(least: int) -> str:
    """CEL for whether `r` names a port of so many or more."""
    return (
        "r.template.spec.containers.exists(c, c.name == 'tensorflow' && has(c.ports)"
        f" && c.ports.exists(p, has(p.name) && p.name == '{PORT_NAME}'"
        f" && p.containerPort >= {least}))"
    )


def _of_members(cel: str) -> str:
    """CEL for a list of what is read of each entry `r`; evaluators are no members.

    Not by a filter: of what comes out of one, the API server's estimate knows no bounds.
    """
    return f"self.spec.replicaSpecs.map(r, r.type == 'evaluator' ? 0 : {cel})"


# The bytes of TF_CONFIG, as `plan.kinds.tensorflowtrainingjob` writes it:
# {"cluster": {"worker": ["<job>-worker-0.<job>:2222", …], …}, "task": {"type": …, "index": …}, …}
_PORT_DIGITS = (
    f"({_has_port_from(10000)} ? 5 : !{_has_port_from(0)} || {_has_port_from(1000)} ? 4 :"
    f" {_has_port_from(100)} ? 3 : {_has_port_from(10)} ? 2 : 1)"
)
_EACH = f"(2 * size(self.metadata.name) + size(r.type) + {_PORT_DIGITS} + 8)"
_HEAD = "size(r.type) + 6"
_ROLE = f"r.replicas * {_EACH} + {digits_in_all('r.replicas')} + {_HEAD}"
_TASK = f"self.spec.replicaSpecs.map(r, size(r.type) + {digits('r.replicas')}).max()"
_AROUND = 70
_BYTES = f"({_of_members(_ROLE)}.sum() + {_TASK} + {_AROUND})"
_BYTES_MAX = VARIABLE_BYTES_MAX - len("TF_CONFIG=") - 1


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
        variable_fits(
            "TF_CONFIG",
            _BYTES,
            most_replicas(
                f"{_BYTES_MAX - _AROUND} - {_TASK} - {_of_members(_HEAD)}.sum()",
                f"{_of_members(_EACH)}.max()",
            ),
        ),
        *change_rules(TensorFlowTrainingJobSpec),
    )
