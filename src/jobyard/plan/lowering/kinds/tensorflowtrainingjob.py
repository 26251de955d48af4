"""TensorFlowTrainingJob: its task types are the roles, and each replica gets TF_CONFIG.

It names all replicas, and must fit into one variable: `api.rules` counts its bytes.
"""

from __future__ import annotations

import json
from functools import partial

from msgspec.structs import replace

from jobyard.api.tensorflowtrainingjob import (
    DEFAULT_PORT,
    PORT_NAME,
    TensorFlowTrainingJobSpec,
    TensorFlowType,
)
from jobyard.plan.lowering.description import (
    Description,
    Ending,
    Identity,
    Role,
    Start,
    only,
)
from jobyard.plan.lowering.listing import (
    listed_roles,
    named_port,
    training_description,
    training_restarts,
)
from jobyard.plan.lowering.names import host_name


def lower(spec: TensorFlowTrainingJobSpec, identity: Identity) -> Description:
    roles = listed_roles(
        spec.replica_specs,
        "tensorflow",
        restarts=training_restarts(spec.replica_specs),
        clean_up=spec.run_policy.clean_up_policy,
    )
    # The same for all replicas, so it is put together once, as text.
    cluster = json.dumps(
        {
            role.type: [_address(identity, role, rank) for rank in range(role.replicas)]
            for role in roles
            if role.type != TensorFlowType.EVALUATOR
        }
    )
    description = training_description(
        spec,
        identity,
        roles,
        ending=_ending({role.type for role in roles}),
        start=partial(_start, cluster),
    )
    return replace(description, tensorboard=spec.tensorboard_spec)


def _ending(types: set[str]) -> Ending:
    """The chief decides, else the first worker.

    Parameter servers never end, and let the others go on without one worker; without them
    the workers are a collective.
    """
    main = TensorFlowType.CHIEF if TensorFlowType.CHIEF in types else TensorFlowType.WORKER
    collective = frozenset() if TensorFlowType.PS in types else frozenset({"worker"})
    return Ending(success=(only(main, 0),), failure=(only(main, 0),), vital_roles=collective)


def _address(identity: Identity, role: Role, rank: int) -> str:
    return f"{host_name(identity, role, rank)}:{named_port(role, PORT_NAME) or DEFAULT_PORT}"


def _start(cluster: str, role: Role, rank: int) -> Start:
    """An evaluator is a task, but no member of the cluster."""
    task = json.dumps({"type": role.type, "index": rank})
    config = f'{{"cluster": {cluster}, "task": {task}, "environment": "cloud"}}'
    return Start(env=(("TF_CONFIG", config),))
