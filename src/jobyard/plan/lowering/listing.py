"""Roles from the kinds whose spec lists them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from jobyard.api.parts.job_spec import TrainingSpec
from jobyard.api.parts.replicas import RestartPolicy
from jobyard.api.parts.run_mode import Elastic
from jobyard.api.parts.run_policy import CleanUpPolicy, RunPolicy
from jobyard.plan.lowering.description import (
    Command,
    Description,
    Ending,
    Identity,
    Naming,
    Restart,
    Role,
    Start,
    main_container,
)
from jobyard.plan.lowering.gangs import gang_of
from jobyard.schema.finding import Finding, warning


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
    restarts: Sequence[Restart],
    clean_up: CleanUpPolicy,
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
            restart=restart,
            clean_up=clean_up,
        )
        for n, (spec, count, restart) in enumerate(zip(specs, wanted, restarts, strict=True))
    )


class Restarting(Protocol):
    """A type of replicas of a training job."""

    @property
    def restart_policy(self) -> RestartPolicy: ...


def training_restarts(specs: Sequence[Restarting]) -> list[Restart]:
    """Training jobs have one limit for all their replicas together."""
    return [Restart(spec.restart_policy) for spec in specs]


def training_description(
    spec: TrainingSpec,
    identity: Identity,
    roles: tuple[Role, ...],
    *,
    ending: Ending,
    start: Callable[[Role, int], Start],
    elastic: Elastic | None = None,
) -> Description:
    """What the training kinds have in common: names by job, one limit, one gang, a run policy."""
    policy = spec.run_policy
    return Description(
        identity=identity,
        roles=roles,
        naming=Naming.JOB,
        ending=ending,
        start=start,
        gang=gang_of(spec.scheduler, roles, elastic),
        run_mode=spec.run_mode,
        backoff_limit=policy.backoff_limit,
        active_deadline_seconds=policy.active_deadline_seconds,
        warnings=deadline_advice(policy),
        ttl_seconds_after_finished=policy.ttl_seconds_after_finished,
        min_replicas=elastic.min_replicas if elastic is not None else None,
    )


def deadline_advice(policy: RunPolicy) -> tuple[Finding, ...]:
    """A deadline that ends a job whose pods are kept ends nothing that costs anything."""
    if policy.active_deadline_seconds is None or policy.clean_up_policy is not CleanUpPolicy.NONE:
        return ()
    text = (
        "ends the job while its pods run on: set runPolicy.cleanUpPolicy to Unfinished or All to"
        " stop them"
    )
    return (warning(("spec", "runPolicy", "activeDeadlineSeconds"), text),)


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
                    number: int = port["containerPort"]
                    return number
    return None
