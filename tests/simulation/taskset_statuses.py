"""What the status of a TaskSet may say, given what really happened to its pods.

The same for Octopus' own status: states never go back, retries are counted once at both levels
and within their limits, and an end is final.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from simulation.facts import Job
from simulation.kubelet import Cause, Life
from simulation.server import JSON
from simulation.violation import ViolationError

_FINAL = ("phase", "state", "finishAt", "startAt", "totalRetriedCount", "stateMessage")


def check(job: Job, old: JSON, new: JSON, lives: Mapping[str, Life]) -> None:
    if old.get("phase") == "TaskSetCompleted":
        raise ViolationError("finished is final", f"{job}: {old} became {new}")
    attempts = old.get("totalRetriedCount", 0), new.get("totalRetriedCount", 0)
    is_next = attempts[1] > attempts[0]
    _check_attempts(job, new, attempts)
    is_removing = "Deletion" in new["phase"] or "Retry" in new["phase"]
    goes_back = old.get("state") == "Running" and new["state"] == "Waiting"
    if goes_back and not is_next and not is_removing:
        raise ViolationError("state", f"{job} goes from Running back to Waiting")
    if old.get("startAt") and old["startAt"] != new.get("startAt"):
        raise ViolationError("start time", f"{job}: {old['startAt']} → {new.get('startAt')}")
    if new.get("preemptCount", 0) < old.get("preemptCount", 0):
        raise ViolationError("count", f"{job}: preemptCount falls")
    _check_rows(job, old, new, lives, is_next=is_next)
    if new["phase"] == "TaskSetCompleted":
        _check_end(job, new)


def _check_attempts(job: Job, new: JSON, attempts: tuple[int, int]) -> None:
    before, after = attempts
    policy = job.spec.retry_policy
    limit = policy.max_retry_count if policy is not None and policy.retry else 0
    if after not in (before, before + 1):
        raise ViolationError("count", f"{job}: attempt {before} → {after}")
    if after > before and after > limit:
        raise ViolationError("limit", f"{job}: attempt {after}, at most {limit}")
    if after > before and any(life for life in job.lives if not life.is_gone):
        raise ViolationError("overlap", f"{job}: attempt {after} begins beside {job.lives}")


def rows_of(status: JSON) -> Iterator[tuple[str, int, JSON]]:
    for role in status.get("roleStatus", ()):
        for row in role.get("replicaStatus", ()):
            yield role["name"], row["index"], row


def _check_rows(
    job: Job, old: JSON, new: JSON, lives: Mapping[str, Life], *, is_next: bool
) -> None:
    before = {} if is_next else {(role, index): row for role, index, row in rows_of(old)}
    limits = {
        role.name: role.retry_policy.max_retry_count
        if role.retry_policy is not None and role.retry_policy.retry
        else 0
        for role in job.spec.roles
    }
    found = 0
    for role, index, row in rows_of(new):
        found += 1
        count = row.get("totalRetriedCount", 0)
        earlier = before.get((role, index), {}).get("totalRetriedCount", 0)
        uid, info = row.get("podUID"), row.get("terminatedInfo")
        if uid and info is not None:
            _check_told(job, row, lives[uid])
            job.recorded.add(uid)
        if count == earlier:
            continue
        if count != earlier + 1 or count > limits[role]:
            raise ViolationError("count", f"{job} {role}-{index}: {earlier} → {count}")
        _check_counted(job, (role, index), earlier)
    wanted = sum(role.replicas for role in job.spec.roles)
    if found != wanted:
        raise ViolationError("rank lost", f"{job} has {found} rows, wants {wanted}")


def _check_told(job: Job, row: JSON, life: Life) -> None:
    code = row["terminatedInfo"].get("exitCode", 0)
    if life.exit_code is not None and code != life.exit_code:
        raise ViolationError("exit code", f"{job}: {row} tells another code than {life}")


def _check_counted(job: Job, replica: tuple[str, int], attempt: int) -> None:
    for life in reversed(job.lives):
        is_it = life.replica == replica and life.attempt == attempt
        has_failed = life.cause is Cause.ITSELF and life.exit_code != 0
        if is_it and has_failed and life.uid not in job.counted:
            job.counted.add(life.uid)
            return
    raise ViolationError("counted wrongly", f"{job} {replica}: {job.lives}")


def check_preempted(job: Job, new: JSON) -> None:
    lost = sum(
        life.asked_at is not None or life.cause is Cause.TAKEN or life.is_gone for life in job.lives
    )
    if new.get("preemptCount", 0) > lost:
        raise ViolationError("count", f"{job}: preemptCount {new['preemptCount']}: {job.lives}")


def _check_end(job: Job, new: JSON) -> None:
    for role, index, row in rows_of(new):
        if row["phase"] != "TaskRoleReplicaCompleted":
            raise ViolationError("wrong end", f"{job} is over, {role}-{index} {row['phase']}")
    for role in new["roleStatus"]:
        if role["phase"] != "TaskRoleCompleted":
            raise ViolationError("wrong end", f"{job} is over, role {role['name']} {role['phase']}")
    # Whatever its policies make of it, something has to have ended.
    has_reason = any(life.cause is Cause.ITSELF for life in job.lives)
    if not has_reason and not _is_refused(job):
        raise ViolationError("wrong end", f"{job} is over without a reason: {job.lives}")


def _is_refused(job: Job) -> bool:
    """Whether the server never takes its pods."""
    pods = [role["template"]["spec"] for role in job.obj["spec"]["roles"]]
    return any(not each.get("image") for pod in pods for each in pod["containers"])
