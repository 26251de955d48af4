"""XGBoostTrainingJob: a master with the tracker, and workers."""

from __future__ import annotations

from functools import partial

from jobyard.api.xgboosttrainingjob import XGBoostTrainingJobSpec, XGBoostType
from jobyard.numerals import whole_number
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

DEFAULT_PORT = 9991
_PORT_NAME = "xgboost-port"


def lower(spec: XGBoostTrainingJobSpec, identity: Identity) -> Description:
    roles = listed_roles(
        spec.replica_specs,
        "xgboost",
        restarts=training_restarts(spec.replica_specs),
        clean_up=spec.run_policy.clean_up_policy,
    )
    return training_description(
        spec,
        identity,
        roles,
        ending=Ending(
            success=(only(XGBoostType.MASTER, 0),),
            vital_roles=frozenset(role.type for role in roles),
        ),
        start=partial(_start, _shared_env(identity, roles)),
    )


def _shared_env(identity: Identity, roles: tuple[Role, ...]) -> tuple[tuple[str, str], ...]:
    """What is the same for all replicas: where the tracker is, and who the workers are."""
    (master,) = (role for role in roles if role.type == XGBoostType.MASTER)
    workers = [role for role in roles if role.type == XGBoostType.WORKER]
    host = host_name(identity, master, 0)
    port = str(named_port(master, _PORT_NAME) or DEFAULT_PORT)
    world = str(sum(role.replicas for role in roles))
    hosts = [host_name(identity, role, n) for role in workers for n in range(role.replicas)]
    worker_port = str(named_port(workers[0], _PORT_NAME) or DEFAULT_PORT) if workers else port
    return (
        ("MASTER_ADDR", host),
        ("MASTER_PORT", port),
        ("WORLD_SIZE", world),
        ("WORKER_ADDRS", ",".join(hosts)),
        ("WORKER_PORT", worker_port),
        ("DMLC_TRACKER_URI", host),
        ("DMLC_TRACKER_PORT", port),
        ("DMLC_NUM_WORKER", world),
    )


def _start(shared: tuple[tuple[str, str], ...], role: Role, rank: int) -> Start:
    """The master is rank 0, worker i is rank i + 1.

    xgboost's tracker sorts task ids as text ("10" before "2"); with as many digits as the last one
    has, that is the order of ranks.
    """
    number = str(0 if role.type == XGBoostType.MASTER else rank + 1)
    last = (whole_number(dict(shared)["WORLD_SIZE"]) or 1) - 1
    digits = len(str(last))
    return Start(env=(*shared, ("RANK", number), ("DMLC_TASK_ID", number.zfill(digits))))
