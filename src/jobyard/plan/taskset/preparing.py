"""Whether an attempt can have its pods: its control unit is there, and they would be taken.

The API server is asked by probes before the first pod of the first attempt, as for the other
kinds, so that a TaskSet is never half made. A name that is taken is waited for. A template
that is refused ends the TaskSet, since roles can't be changed: there is nothing to wait for.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import msgspec

from jobyard.api.parts.taskset_status import TaskSetPhase
from jobyard.plan.facts.decision import INVALID_TEMPLATE, NAME_TAKEN, Child, ChildKey, Obstacle
from jobyard.plan.lowering.description import JSON, Description, Role
from jobyard.plan.objects.manifests import Build, Manifests
from jobyard.plan.objects.taskset_pods import TaskReplica, taskset_pod
from jobyard.plan.taskset.attempt import Attempt
from jobyard.plan.taskset.control_unit import KIND, owned_by
from jobyard.plan.taskset.roles import Verdict

_BEGUN = (TaskSetPhase.PREPARING, TaskSetPhase.RUNNING)


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """Whether pods may be made, and why not."""

    has_begun: bool
    is_ready: bool = False
    needs_probes: bool = False
    message: str = ""


def readiness(attempt: Attempt) -> Readiness:
    has_begun = attempt.status.phase in _BEGUN or bool(attempt.pods)
    if attempt.usable_unit is None:
        said = f"Waiting for the control unit, ConfigMap {attempt.unit_name}."
        obstacle = attempt.seen.obstacles.get((KIND, attempt.unit_name))
        return Readiness(has_begun=has_begun, message=said if obstacle is None else told(obstacle))
    if has_begun:
        return Readiness(has_begun=True, is_ready=True)
    obstacle = next(_in_the_way(attempt), None)
    if obstacle is not None and obstacle.reason == NAME_TAKEN:
        return Readiness(has_begun=False, needs_probes=True, message=told(obstacle))
    if attempt.number == 0 and not attempt.seen.is_probed:
        said = "The API server is being asked whether it would take the pods."
        return Readiness(
            has_begun=False,
            needs_probes=True,
            message=said if obstacle is None else told(obstacle),
        )
    return Readiness(has_begun=False, is_ready=True)


def told(obstacle: Obstacle) -> str:
    return f"{obstacle.reason}: {obstacle.message}"


def _in_the_way(attempt: Attempt) -> Iterator[Obstacle]:
    for _, _, name in _first_pods(attempt):
        obstacle = attempt.obstacle(name)
        if obstacle is not None:
            yield obstacle


def _first_pods(attempt: Attempt) -> Iterator[tuple[Role, int, str]]:
    for role in attempt.seen.description.roles:
        for index in range(role.replicas):
            yield role, index, attempt.pod_name(role, index, 0)


def refusal(attempt: Attempt) -> Verdict | None:
    """The end of a TaskSet whose template the API server doesn't take, in its own words.

    Its roles can't be changed, so there is nothing to wait for, unless it is only forbidden now.
    """
    for (kind, name), obstacle in attempt.seen.obstacles.items():
        if obstacle.reason == INVALID_TEMPLATE and not obstacle.may_pass:
            said = f"{told(obstacle)} ({kind} {name})"
            return Verdict(succeeded=False, message=said, may_retry=False)
    return None


def probes(attempt: Attempt, unit: Child) -> Manifests:
    """The first pod of each role, and those that could not be made."""
    return Manifests(
        dict(
            recipe(attempt, unit, role, index, 0)
            for role, index, name in _first_pods(attempt)
            if index == 0 or attempt.obstacle(name) is not None
        )
    )


def recipe(
    attempt: Attempt, unit: Child, role: Role, index: int, retries: int
) -> tuple[ChildKey, Build]:
    """The name of a replica's pod, and how it is built."""
    replica = TaskReplica(
        role=role,
        index=index,
        attempts=(attempt.number, retries),
        control_unit_uid=unit.uid,
    )
    key = ("Pod", attempt.pod_name(role, index, retries))
    return key, partial(_built, attempt.seen.description, unit, replica)


def _built(description: Description, unit: Child, replica: TaskReplica) -> JSON:
    return owned_by(unit, taskset_pod(description, replica))
