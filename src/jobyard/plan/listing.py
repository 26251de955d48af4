"""Roles from the kinds whose spec lists them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from jobyard.plan.description import Command, Role, main_container


class Listed(Protocol):
    """An entry of `replicaSpecs`."""

    @property
    def type(self) -> str: ...
    @property
    def replicas(self) -> int: ...
    @property
    def template(self) -> dict[str, Any]: ...


def listed_roles(
    specs: Sequence[Listed],
    *containers: str,
    counts: Sequence[int] | None = None,
    command: Command = Command.KEPT,
) -> tuple[Role, ...]:
    """One role per entry of `replicaSpecs`, in order.

    `containers` are the names that the main container may have, the likeliest first;
    `counts` take the place of the entries' own.
    """
    wanted = counts if counts is not None else [spec.replicas for spec in specs]
    return tuple(
        Role(
            type=str(spec.type),
            replicas=count,
            template=spec.template,
            place=("spec", "replicaSpecs", n, "template"),
            main_container=main_container(spec.template, *containers),
            command=command,
        )
        for n, (spec, count) in enumerate(zip(specs, wanted, strict=True))
    )


def first_rank(roles: tuple[Role, ...], role: Role) -> int:
    """The rank over the whole job of a role's first replica: ranks go on through the roles."""
    before = roles[: [other.type for other in roles].index(role.type)]
    return sum(other.replicas for other in before)


def named_port(role: Role, *names: str) -> int | None:
    """The number of the main container's port of one of these names."""
    for container in role.containers:
        if container.get("name") == role.main_container:
            for port in container.get("ports", ()):
                if port.get("name") in names:
                    return int(port["containerPort"])
    return None
