"""One attempt of a TaskSet as it is observed: its number, its control unit, its pods.

The number is the status' count of retries. Should the status be older than the pods, or lost,
the objects that are there tell it. All that the files of this package decide starts from here.
"""

from __future__ import annotations

import msgspec

from jobyard.api.parts.taskset_status import RoleStatus, TaskSetPhase, TaskSetStatus
from jobyard.api.taskset import TaskSetSpec
from jobyard.plan.facts.decision import Child, Observed, Obstacle
from jobyard.plan.facts.pod_facts import Pod
from jobyard.plan.lowering.description import Role
from jobyard.plan.lowering.names import pod_name
from jobyard.plan.taskset.control_unit import KIND, attempt_of, unit_name


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """What a decision about an attempt depends on. `status` is as stored, or a new one."""

    seen: Observed
    spec: TaskSetSpec
    now: float
    number: int
    status: TaskSetStatus

    @property
    def name(self) -> str:
        return self.seen.description.identity.name

    @property
    def unit_name(self) -> str:
        return unit_name(self.name, self.number)

    @property
    def unit(self) -> Child | None:
        return self.seen.children.get((KIND, self.unit_name))

    @property
    def usable_unit(self) -> Child | None:
        """The control unit, if pods can be made for it."""
        unit = self.unit
        return None if unit is None or unit.is_terminating else unit

    @property
    def pods(self) -> tuple[Pod, ...]:
        return tuple(pod for pod in self.seen.pods if pod.owner.name == self.unit_name)

    def pod_name(self, role: Role, index: int, retries: int) -> str:
        return pod_name(self.name, role, index, (self.number, retries))

    def obstacle(self, name: str) -> Obstacle | None:
        """What stood in the way of a pod."""
        return self.seen.obstacles.get(("Pod", name))

    def role_before(self, name: str) -> RoleStatus | None:
        return next((role for role in self.status.role_status if role.name == name), None)


def observed_attempt(seen: Observed, spec: TaskSetSpec, now: float) -> Attempt:
    stored = seen.status
    assert stored is None or isinstance(stored, TaskSetStatus)
    status = stored or TaskSetStatus()
    names = [pod.owner.name for pod in seen.pods]
    if status.total_retried_count is None:
        # The next attempt's unit may be there before the status tells of it, its pods not.
        names += [unit.name for unit in units(seen)]
    known = [attempt_of(seen.description.identity.name, name) or 0 for name in names]
    number = status.total_retried_count or 0
    attempt = Attempt(seen=seen, spec=spec, now=now, number=number, status=status)
    if status.phase is TaskSetPhase.COMPLETED or max(known, default=0) <= number:
        return attempt
    # The status is older than the pods. If that is only what was read, writing one refuses.
    return numbered(attempt, max(known))


def numbered(attempt: Attempt, number: int) -> Attempt:
    """A later attempt: nothing is kept but what is counted over all of them."""
    before = attempt.status
    fresh = TaskSetStatus(
        created_at=before.created_at,
        start_at=before.start_at,
        total_retried_count=number,
        preempt_count=before.preempt_count,
    )
    return msgspec.structs.replace(attempt, number=number, status=fresh)


def units(seen: Observed) -> tuple[Child, ...]:
    """The control units of all attempts."""
    taskset = seen.description.identity.name
    return tuple(
        child
        for child in seen.children.values()
        if child.kind == KIND and attempt_of(taskset, child.name) is not None
    )
