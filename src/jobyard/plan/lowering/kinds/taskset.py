"""TaskSet: its roles are the roles; names and placement are left to the template.

What Octopus' controller takes and makes nothing of is taken here too, and told.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from jobyard.api.taskset import RETRIES_MAX, Retry, TaskSet, TaskSetSpec
from jobyard.plan.lowering.description import (
    Description,
    Ending,
    Identity,
    Naming,
    Role,
    Start,
    main_container,
)
from jobyard.schema.finding import Finding, Path, warning


def lower(spec: TaskSetSpec, identity: Identity) -> Description:
    roles = tuple(
        Role(
            type=role.name,
            replicas=role.replicas,
            template=role.template,
            place=("spec", "roles", n, "template"),
            main_container=main_container(role.template),
            is_numbered=True,
        )
        for n, role in enumerate(spec.roles)
    )
    return Description(
        identity=identity,
        roles=roles,
        naming=Naming.NONE,
        is_collective=False,
        control_unit=f"c-{identity.name}-0",
        # A TaskSet's roles have policies of their own for that.
        ending=Ending(success=()),
        start=partial(_start, identity),
        warnings=tuple(_warnings(spec)),
    )


def beside_spec(taskset: TaskSet) -> Iterator[Finding]:
    """What the platform notes beside the spec, in the same file."""
    if taskset.username:
        yield warning(("username",), "has no effect: labels and annotations are for that")
    if taskset.min_member:
        yield warning(
            ("minMember",),
            "has no effect: make a PodGroup of the scheduler that the templates name",
        )


def _warnings(spec: TaskSetSpec) -> Iterator[Finding]:
    if spec.queue:
        yield warning(
            ("spec", "queue"),
            "has no effect: name a scheduler in the templates, and what it wants to know there",
        )
    if spec.priority:
        yield warning(("spec", "priority"), "has no effect: use priorityClassName in the templates")
    yield from _retry_warnings(spec.retry_policy, ("spec", "retryPolicy"))
    for n, role in enumerate(spec.roles):
        path: Path = ("spec", "roles", n)
        yield from _retry_warnings(role.retry_policy, (*path, "retryPolicy"))
        listed = [entry.event for entry in role.event_policy]
        for m, event in enumerate(listed):
            first = listed.index(event)
            if first < m:
                yield warning(
                    (*path, "eventPolicy", m),
                    f"has no effect: {event} stands at eventPolicy[{first}] already",
                )


def _retry_warnings(policy: Retry | None, path: Path) -> Iterator[Finding]:
    if policy is not None and policy.retry and policy.max_retry_count > RETRIES_MAX:
        yield warning(
            (*path, "maxRetryCount"),
            f"is {policy.max_retry_count}: no more than {RETRIES_MAX} retries are made",
        )


def _start(identity: Identity, role: Role, rank: int) -> Start:
    return Start(
        env=(
            ("TASKSET_NAME", identity.name),
            ("TASKSET_NAMESPACE", identity.namespace or "default"),
            ("TASKROLE_NAME", role.type),
            ("TASKROLE_REPLICA_INDEX", str(rank)),
        )
    )
