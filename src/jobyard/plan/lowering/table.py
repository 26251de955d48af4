"""The table from kinds to their lowerings."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from jobyard.api.changes import held_fields
from jobyard.api.kinds import KINDS, Kind
from jobyard.api.parts.value import ObjectMeta
from jobyard.api.taskset import TaskSet
from jobyard.plan.lowering.description import Description, Identity
from jobyard.plan.lowering.kinds import (
    beamjob,
    colossalaijob,
    deepspeedjob,
    genericjob,
    mpijob,
    pytorchtrainingjob,
    taskset,
    tensorflowtrainingjob,
    xgboosttrainingjob,
)
from jobyard.plan.lowering.modes import mode_advice

_DIGEST_LENGTH = 12

# Queue and PodGroup have no replicas, so nothing is lowered from them.
_LOWERINGS: Mapping[str, Callable[[Any, Identity], Description]] = {
    "BeamJob": beamjob.lower,
    "ColossalAIJob": colossalaijob.lower,
    "DeepSpeedJob": deepspeedjob.lower,
    "GenericJob": genericjob.lower,
    "MPIJob": mpijob.lower,
    "PyTorchTrainingJob": pytorchtrainingjob.lower,
    "TaskSet": taskset.lower,
    "TensorFlowTrainingJob": tensorflowtrainingjob.lower,
    "XGBoostTrainingJob": xgboosttrainingjob.lower,
}

# The kinds that run something.
JOB_KINDS: tuple[Kind, ...] = tuple(kind for kind in KINDS if kind.name in _LOWERINGS)


def described(kind: Kind, admitted: Mapping[str, Any]) -> Description | None:
    """The description of an object that the API server has taken; None if it has no replicas."""
    if kind.name not in _LOWERINGS:
        return None
    return lowered(kind, msgspec.convert(admitted, kind.type))


def lowered(kind: Kind, job: Any) -> Description:
    """The description of a job in its kind's own type."""
    metadata: ObjectMeta = job.metadata
    identity = Identity(kind.name, metadata.name, metadata.namespace, metadata.uid or "<uid>")
    description = _LOWERINGS[kind.name](job.spec, identity)
    told = [*mode_advice(job.spec, description.roles, kind.name, kind.modes)]
    if isinstance(job, TaskSet):
        told += taskset.beside_spec(job)
    return msgspec.structs.replace(
        description,
        revision=_digest(job.spec),
        warnings=(*description.warnings, *told),
    )


def _digest(spec: msgspec.Struct) -> str:
    """Of what pods are made from, without what is as by default: a later field changes nothing."""
    encoded = msgspec.json.encode(held_fields(spec), order="deterministic")
    return hashlib.sha256(encoded).hexdigest()[:_DIGEST_LENGTH]
