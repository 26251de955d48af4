"""A second opinion about the ends of jobs, from what really happened, written on its own.

Small on purpose: it says when a job must not have ended as it says it did. That every job ends
at all is for `settling` to check.
"""

from __future__ import annotations

from jobyard.plan.lowering.description import Role
from jobyard.plan.moments import seconds_of
from simulation.facts import Job
from simulation.kubelet import Cause, Life
from simulation.server import JSON
from simulation.violation import ViolationError


def has_failed(role: Role, life: Life) -> bool:
    return life.exit_code != 0 or role.serves


def wants_restart(role: Role, life: Life) -> bool:
    """What the role's policy says of an end, limits aside."""
    match role.restart.policy.value:
        case "Never":
            return False
        case "Always":
            return True
        case "OnFailure":
            return has_failed(role, life)
        case _:
            return has_failed(role, life) and life.exit_code in (130, 137, 138, 143)


def check_end(job: Job, new: JSON, now: float) -> None:
    if new["phase"] == "Succeeded":
        if not any(_all_succeeded(job, rule) for rule in job.description.ending.success):
            raise ViolationError("wrong end", f"{job} succeeded: {job.lives}")
        return
    if _is_late(job, new, now):
        return
    if not any(_failed_for_good(job, role, rank, new) for role, rank in _replicas(job)):
        raise ViolationError("wrong end", f"{job} failed: {job.lives}")


def check_hope(job: Job, new: JSON) -> None:
    """A GenericJob goes on only as long as some rule for success can still be met."""
    completed = next((c for c in new["conditions"] if c["type"] == "Completed"), None)
    if job.kind.name != "GenericJob" or completed is None or completed["reason"] == "Debug":
        return
    roles = {role.type: role for role in job.description.roles}
    rows = {
        (task["type"], rank): row
        for task in new.get("tasks", ())
        for rank, row in enumerate(task.get("status", ()))
    }

    def is_lost(type_: str, rank: int) -> bool:
        life, row = job.latest(type_, rank), rows.get((type_, rank), {})
        # Only what this very status says of its last pod.
        is_told = life is not None and row.get("uid") == life.uid and row["phase"] == "Failed"
        return is_told and _failed_for_good(job, roles[type_], rank, new)

    rules = job.description.ending.success
    lost = [[x for x in _members(rule) if is_lost(*x)] for rule in rules]
    if all(lost):
        raise ViolationError("no hope", f"{job} is {new['phase']}, and {lost} failed for good")


def _members(rule: object) -> list[tuple[str, int]]:
    assert isinstance(rule, dict)
    return [(str(type_), rank) for type_, ranks in rule.items() for rank in ranks]


def _replicas(job: Job) -> list[tuple[Role, int]]:
    return [(role, rank) for role in job.description.roles for rank in range(role.replicas)]


def _all_succeeded(job: Job, rule: object) -> bool:
    for type_, rank in _members(rule):
        life = job.latest(type_, rank)
        if life is None or life.exit_code != 0 or life.is_debug:
            return False
        if life.cause is Cause.TAKEN or (life.cause is Cause.ASKED and not life.is_ambiguous):
            return False
    return True


def _is_late(job: Job, new: JSON, now: float) -> bool:
    limit = job.description.active_deadline_seconds
    started = new.get("startTime")
    # Whole seconds: what the status says may be one off.
    return limit is not None and bool(started) and now - seconds_of(started) >= limit - 1


def _failed_for_good(job: Job, role: Role, rank: int, new: JSON) -> bool:
    life = job.latest(role.type, rank)
    if life is None or life.cause is not Cause.ITSELF or life.is_debug:
        return False
    if not has_failed(role, life):
        # No rule says what it means that all have ended.
        return all(
            (other := job.latest(r.type, n)) is not None and other.cause is Cause.ITSELF
            for r, n in _replicas(job)
        )
    if not wants_restart(role, life):
        return True
    used = life.attempt
    if role.restart.limit is not None and used >= role.restart.limit:
        return True
    limit = job.description.backoff_limit
    waiting = _waiting(job)
    if job.description.is_collective:
        waiting = min(waiting, 1)
    return limit is not None and new["restarts"] + waiting > limit


def _waiting(job: Job) -> int:
    """Replicas that ended, want to start again, and are not counted yet."""
    ended = [(role, job.latest(role.type, rank)) for role, rank in _replicas(job)]
    return sum(
        life is not None
        and life.cause is Cause.ITSELF
        and life.uid not in job.counted
        and wants_restart(role, life)
        for role, life in ended
    )
