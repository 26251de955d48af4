"""XGBoostTrainingJob: a master with the tracker, and workers."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from jobyard.api.changes import change_rules
from jobyard.api.parts.job_spec import RigidTrainingSpec
from jobyard.api.parts.replicas import RestartingReplica
from jobyard.api.parts.run_mode import Mode
from jobyard.api.parts.status import TrainingStatus
from jobyard.api.parts.value import JSON, VARIABLE_BYTES_MAX, Resource, pod_template
from jobyard.api.rules import (
    JOB_NAME,
    REPLICAS_IN_ALL,
    UNIQUE_TYPES,
    digits_in_all,
    lacking,
    most_replicas,
    named_container,
    pod_name_length,
    variable_fits,
)
from jobyard.schema.derive import described
from jobyard.schema.rule import Rule


class XGBoostType(StrEnum):
    """The replica types of XGBoost."""

    MASTER = "master"
    WORKER = "worker"


class XGBoostReplica(RestartingReplica):
    """The master, or the workers."""

    type: Annotated[XGBoostType, described("Whether this is the master or the workers.")]
    template: Annotated[
        dict[str, JSON],
        pod_template(rules=(("spec.containers", named_container("xgboost")),)),
        described("The pod each replica runs in; must have a container named xgboost."),
    ]

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="self.type != 'master' || self.replicas == 1",
            message="there is one master: its replicas must be 1",
            field=".replicas",
        ),
    )


class XGBoostTrainingJobSpec(RigidTrainingSpec):
    """The replicas of the job."""

    replica_specs: Annotated[
        tuple[XGBoostReplica, ...],
        described(
            "The master, which is required, and the workers.",
            min_length=1,
            max_length=2,
            rules=(
                UNIQUE_TYPES,
                REPLICAS_IN_ALL,
                Rule(
                    cel="self.exists(r, r.type == 'master')",
                    message="one entry must be of type master: it holds the tracker",
                ),
            ),
        ),
    ]

    RULES: ClassVar[tuple[Rule, ...]] = (*lacking("XGBoostTrainingJob", Mode.ELASTIC),)


# `<job>-worker-<rank>.<job>` for each, and a comma after all but the last.
_EACH = "(2 * size(self.metadata.name) + 10)"
_WORKERS = "self.spec.replicaSpecs.filter(r, r.type == 'worker').map(r, r.replicas).sum()"
_BYTES = f"({_WORKERS} * {_EACH} + {digits_in_all(_WORKERS)} - 1)"
_BYTES_MAX = VARIABLE_BYTES_MAX - len("WORKER_ADDRS=") - 1


class XGBoostTrainingJob(Resource):
    """Distributed training with XGBoost: one master with the tracker, and workers."""

    spec: Annotated[XGBoostTrainingJobSpec, described("What the job runs.")]
    status: Annotated[TrainingStatus | None, described("What is observed of the job.")] = None

    RULES: ClassVar[tuple[Rule, ...]] = (
        JOB_NAME,
        pod_name_length("self.spec.replicaSpecs", "r.type", "r.replicas"),
        variable_fits("WORKER_ADDRS", _BYTES, most_replicas(str(_BYTES_MAX + 1), _EACH)),
        *change_rules(XGBoostTrainingJobSpec),
    )
