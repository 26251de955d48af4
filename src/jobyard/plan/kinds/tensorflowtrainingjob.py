"""TensorFlowTrainingJob: its task types are the roles, and each replica gets TF_CONFIG."""

from __future__ import annotations

import json
from functools import partial

from jobyard.api.tensorflowtrainingjob import TensorFlowTrainingJobSpec, TensorFlowType
from jobyard.plan.description import Description, Identity, Naming, Role, Start
from jobyard.plan.gangs import gang_of
from jobyard.plan.listing import listed_roles, named_port
from jobyard.plan.naming import host_name

DEFAULT_PORT = 2222
_PORT_NAME = "tfjob-port"


def lower(spec: TensorFlowTrainingJobSpec, identity: Identity) -> Description:
    roles = listed_roles(spec.replica_specs, "tensorflow")
    # The same for all replicas, so it is put together once.
    cluster = {
        role.type: [_address(identity, role, rank) for rank in range(role.replicas)]
        for role in roles
        if role.type != TensorFlowType.EVALUATOR
    }
    return Description(
        identity=identity,
        roles=roles,
        naming=Naming.JOB,
        start=partial(_start, cluster),
        gang=gang_of(spec.scheduler, roles),
        run_mode=spec.run_mode,
        tensorboard=spec.tensorboard_spec,
    )


def _address(identity: Identity, role: Role, rank: int) -> str:
    return f"{host_name(identity, role, rank)}:{named_port(role, _PORT_NAME) or DEFAULT_PORT}"


def _start(cluster: dict[str, list[str]], role: Role, rank: int) -> Start:
    """An evaluator is a task, but no member of the cluster."""
    config = {
        "cluster": cluster,
        "task": {"type": role.type, "index": rank},
        "environment": "cloud",
    }
    return Start(env=(("TF_CONFIG", json.dumps(config)),))
