"""How many MPI processes a worker takes, for the host file."""

from __future__ import annotations

import re
from itertools import pairwise

from jobyard.plan.description import Role

_PER_NODE = ("-N", "-npernode", "--npernode")
_IN_ALL = ("-np", "--np", "-n", "--n", "-c")
_MAPPING = re.compile(r"^ppr:([0-9]+):node\b")


def slots_per_worker(arguments: tuple[str, ...], workers: Role) -> int:
    """What mpirun's arguments say of a node, else an even share, else one per GPU, else one."""
    for option, value in pairwise(arguments):
        if option in _PER_NODE and value.isdecimal():
            return int(value)
        mapped = _MAPPING.match(value) if option in ("--map-by", "-map-by") else None
        if mapped:
            return int(mapped[1])
    for option, value in pairwise(arguments):
        if option in _IN_ALL and value.isdecimal():
            return -(-int(value) // workers.replicas)
    return _gpus(workers) or 1


def _gpus(role: Role) -> int:
    """The GPUs that one replica may use, whoever makes them."""
    limits = [c.get("resources", {}).get("limits", {}) for c in role.containers]
    return sum(
        int(amount)
        for each in limits
        for name, amount in each.items()
        if name.endswith("/gpu") and str(amount).isdecimal()
    )
