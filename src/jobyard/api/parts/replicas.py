"""A type of replicas in the training kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Self

from jobyard.api.parts.value import REPLICAS_MAX, Name, PodTemplate, Value
from jobyard.schema.derive import Spelled, described

ReplicaCount = Annotated[
    int, described("How many replicas of this type run.", ge=1, le=REPLICAS_MAX)
]


class RestartPolicy(Spelled):
    """When a replica that ended is started again."""

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"
    EXIT_CODE = "ExitCode"

    @classmethod
    def other_spellings(cls) -> Mapping[str, Self]:
        return {"": cls.ON_FAILURE}


ReplicaRestartPolicy = Annotated[
    RestartPolicy,
    described(
        "When a replica restarts; ExitCode: only after 130, 137, 138 or 143,"
        " any other failure is final."
    ),
]


class RestartingReplica(Value):
    """How many replicas of one type there are, and when they restart."""

    replicas: ReplicaCount = 1
    restart_policy: ReplicaRestartPolicy = RestartPolicy.ON_FAILURE


class TrainingReplica(RestartingReplica):
    """One type of replicas of a training job."""

    type: Annotated[Name, described("The type's name, part of its pods' names.")]
    template: Annotated[PodTemplate, described("The pod each replica runs in.")]
