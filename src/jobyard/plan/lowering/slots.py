"""How many MPI processes a worker takes, for the host file."""

from __future__ import annotations

import re
from itertools import pairwise

from jobyard.numerals import INT32_MAX, whole_number
from jobyard.plan.lowering.description import Role

_PER_NODE = ("-N", "-npernode", "--npernode")
_IN_ALL = ("-np", "--np", "-n", "--n", "-c")
_MAPPING = re.compile(r"^ppr:([0-9]+):node\b")


def per_node(arguments: tuple[str, ...]) -> int | None:
    """How many processes mpirun's arguments want on each node, if they say it."""
    for option, value in pairwise(arguments):
        mapped = _MAPPING.match(value) if option in ("--map-by", "-map-by") else None
        said = mapped[1] if mapped else value if option in _PER_NODE else ""
        number = whole_number(said, INT32_MAX)
        if number is not None:
            return number
    return None


def slots_per_worker(arguments: tuple[str, ...], workers: Role) -> int:
    """What mpirun's arguments say of a node, else an even share, else one per GPU, else one."""
    said = per_node(arguments)
    if said is not None:
        return said
    for option, value in pairwise(arguments):
        in_all = whole_number(value, INT32_MAX) if option in _IN_ALL else None
        if in_all is not None:
            return -(-in_all // workers.replicas)
    return _gpus(workers) or 1


def _gpus(role: Role) -> int:
    """The GPUs that one replica may use, whoever makes them."""
    limits = [c.get("resources", {}).get("limits", {}) for c in role.containers]
    return sum(
        whole_number(str(amount), INT32_MAX) or 0
        for each in limits
        for name, amount in each.items()
        if name.endswith("/gpu")
    )
