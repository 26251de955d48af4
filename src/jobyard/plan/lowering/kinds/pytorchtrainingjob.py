"""PyTorchTrainingJob: ranks go on through the replica specs, the first is the master."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from jobyard.api.pytorchtrainingjob import (
    PyTorchTrainingJobSpec,
    RendezvousBackend,
    TorchrunConfig,
)
from jobyard.plan.lowering.description import (
    Command,
    Description,
    Ending,
    Identity,
    Role,
    Start,
    only,
)
from jobyard.plan.lowering.listing import (
    first_rank,
    listed_roles,
    named_port,
    training_description,
    training_restarts,
)
from jobyard.plan.lowering.names import host_name
from jobyard.plan.lowering.sharing import shares

DEFAULT_PORT = 23456
_RDZV_CONF = "PET_RDZV_CONF"
_PORT_NAMES = ("pytorchjob-port", "master")
# Agents of recent versions of torchrun that stay in a group don't tell its store's address to one
# that comes later: it waits for a minute and fails, and the others with it. So no replica could be
# added, and none started again beside the others. This makes them tell it for each new group.
_TELLS_NEWCOMERS = (("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1"),)


def lower(spec: PyTorchTrainingJobSpec, identity: Identity) -> Description:
    elastic = spec.scaling
    counts = tuple(replica.replicas for replica in spec.replica_specs)
    if elastic is not None:
        assert elastic.expected_replicas is not None
        weights = tuple(replica.scaling_weight or 1 for replica in spec.replica_specs)
        counts = shares(elastic.expected_replicas, weights)
    roles = listed_roles(
        spec.replica_specs,
        "pytorch",
        "python",
        counts=counts,
        command=Command.REPLACED_BY_TORCHRUN if spec.torchrun else Command.KEPT,
        restarts=training_restarts(spec.replica_specs),
        clean_up=spec.run_policy.clean_up_policy,
    )
    fewest = elastic.min_replicas if elastic is not None else None
    master = only(roles[0].type, 0)
    description = training_description(
        spec,
        identity,
        roles,
        # A collective can't go on without one of its ranks, unless it is elastic.
        ending=Ending(
            success=(master,),
            failure=(master,),
            vital_roles=frozenset(role.type for role in roles),
            enough_alive=fewest,
        ),
        start=partial(_start, spec, identity, roles),
        elastic=elastic,
    )
    return replace(description, tensorboard=spec.tensorboard_spec)


def _start(
    spec: PyTorchTrainingJobSpec,
    identity: Identity,
    roles: tuple[Role, ...],
    role: Role,
    rank: int,
) -> Start:
    master = roles[0]
    host = host_name(identity, master, 0)
    port = named_port(master, *_PORT_NAMES) or DEFAULT_PORT
    address = (("MASTER_ADDR", host), ("MASTER_PORT", str(port)))
    number = first_rank(roles, role) + rank
    ranks = (("WORLD_SIZE", str(sum(r.replicas for r in roles))), ("RANK", str(number)))
    if spec.torchrun is None:
        return Start(env=address + ranks)
    return Start(
        # torchrun sets the ranks of its processes itself; in an elastic job they change.
        env=(address if spec.scaling is not None else address + ranks) + _TELLS_NEWCOMERS,
        command=_torchrun(
            spec,
            spec.torchrun,
            identity,
            _meeting(spec.torchrun, role, f"{host}:{port}", is_host=number == 0),
        ),
    )


def _torchrun(
    spec: PyTorchTrainingJobSpec,
    config: TorchrunConfig,
    identity: Identity,
    meeting: tuple[str, ...],
) -> tuple[str, ...]:
    return (
        "torchrun",
        "--nnodes",
        _nodes(spec, config),
        "--nproc_per_node",
        _processes(config),
        "--rdzv_backend",
        str(config.rdzv_backend),
        *meeting,
        "--rdzv_id",
        f"{identity.name}-{identity.uid}",
        "--max_restarts",
        str(config.max_restarts),
        *config.extra_options,
    )


def _processes(config: TorchrunConfig) -> str:
    """As given; an empty text or zero is how some programs write what nobody has set."""
    given = str(config.proc_per_node)
    return given if given.strip("0") else "1"


def _meeting(
    config: TorchrunConfig, role: Role, endpoint: str, *, is_host: bool
) -> tuple[str, ...]:
    """Where the replicas meet, and whether this one is the host there.

    torchrun would find that out by the host's name. Old versions (1.13) don't know it in the
    form it has here, and new ones ask for its address, which may not be known yet when the
    first replica starts: then nobody is the host, and all wait in vain.
    """
    if _names_endpoint(config):
        return ()
    where = ("--rdzv_endpoint", endpoint)
    if config.rdzv_backend is not RendezvousBackend.C10D:
        return where
    containers = role.template["spec"]["containers"]
    container = next(c for c in containers if c.get("name") == role.main_container)
    has_own = any(variable["name"] == _RDZV_CONF for variable in container.get("env") or ())
    # An option takes the place of torchrun's own variable, so what that says goes along.
    settings = (f"is_host={1 if is_host else 0}", *([f"$({_RDZV_CONF})"] if has_own else []))
    return (*where, "--rdzv_conf", ",".join(settings))


def _names_endpoint(config: TorchrunConfig) -> bool:
    options = ("--rdzv_endpoint", "--rdzv-endpoint")
    return any(option.split("=")[0] in options for option in config.extra_options)


def _nodes(spec: PyTorchTrainingJobSpec, config: TorchrunConfig) -> str:
    if spec.scaling is not None:
        return f"{spec.scaling.min_replicas}:{spec.scaling.max_replicas}"
    count = sum(replica.replicas for replica in spec.replica_specs)
    return f"{config.min_nodes}:{count}" if config.min_nodes else str(count)
