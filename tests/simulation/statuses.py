"""What the status of a T9k job may say, given what really happened to its pods.

Called with each status write of a controller, before it counts as stored. Counting is checked
against the lives of the pods: an end that was the replica's own counts once, nothing else does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from jobyard.plan.description import Role
from jobyard.plan.moments import seconds_of
from simulation.facts import Job
from simulation.kubelet import Cause, Life
from simulation.oracle import check_end, wants_restart
from simulation.server import JSON
from simulation.violation import ViolationError

CONDITIONS = ["Initialized", "Running", "ReplicaFailure", "Completed", "Failed", "Paused"]
BEAM_CONDITIONS = ["ClusterRunning", "JobRunning"]
_OVER = ("Succeeded", "Failed")
_FINAL = ("phase", "completionTime", "startTime", "restarts", "backoffCount", "pauseCount")


def check(job: Job, old: JSON, new: JSON, lives: Mapping[str, Life], now: float) -> None:
    _check_conditions(job, old, new)
    _check_rows(job, new)
    if old.get("phase") in _OVER:
        _check_final(job, old, new)
        _record(job, new)
        return
    _check_phases(job, old, new)
    _check_counts(job, old, new, lives)
    _record(job, new)
    if new["phase"] in _OVER:
        check_end(job, new, now)


def _check_conditions(job: Job, old: JSON, new: JSON) -> None:
    wanted = BEAM_CONDITIONS if job.kind.name == "BeamJob" else CONDITIONS
    found = [c["type"] for c in new.get("conditions", ())]
    if found != wanted:
        raise ViolationError("conditions", f"{job} has {found}")
    before = {c["type"]: c for c in old.get("conditions", ())}
    for each in new["conditions"]:
        was = before.get(each["type"])
        if was is None or was["status"] != each["status"]:
            continue
        if was["lastTransitionTime"] != each["lastTransitionTime"]:
            raise ViolationError("transition time", f"{job}: {was} became {each}")


def _check_rows(job: Job, new: JSON) -> None:
    tasks = new.get("tasks", ())
    phases = Counter(row["phase"].lower() for t in tasks for row in t.get("status", ()))
    told = {phase: count for phase, count in new["aggregate"].items() if count}
    if told != dict(phases):
        raise ViolationError("aggregate", f"{job} says {told}, its rows {dict(phases)}")
    rows = {task["type"]: len(task.get("status", ())) for task in tasks}
    wanted = {role.type: role.replicas for role in job.description.roles}
    if rows != wanted:
        raise ViolationError("rank lost", f"{job} has rows {rows}, wants {wanted}")
    if new["phase"] not in _OVER and new.get("replicas") != sum(wanted.values()):
        raise ViolationError("replicas", f"{job} says {new.get('replicas')}, wants {wanted}")
    if int(new["ready"].split("/")[0]) > phases["running"]:
        raise ViolationError("ready", f"{job}: {new['ready']} ready, {dict(phases)}")


def _check_final(job: Job, old: JSON, new: JSON) -> None:
    for field in _FINAL:
        if old.get(field) != new.get(field):
            raise ViolationError(
                "finished is final", f"{job}: {field} {old.get(field)} → {new.get(field)}"
            )
    for was, now in zip(old["conditions"], new["conditions"], strict=True):
        if was["type"] in ("Completed", "Failed") and was != now:
            raise ViolationError("finished is final", f"{job}: {was} became {now}")


def _check_phases(job: Job, old: JSON, new: JSON) -> None:
    was, now = old.get("phase"), new["phase"]
    if now == "Pending" and was not in (None, "Pending"):
        raise ViolationError("phase", f"{job} goes from {was} back to {now}")
    if now == "Paused" and was != "Paused" and not job.is_paused:
        raise ViolationError("phase", f"{job} is said to be paused, and should not be")
    if old.get("startTime") and old["startTime"] != new.get("startTime"):
        raise ViolationError("start time", f"{job}: {old['startTime']} → {new.get('startTime')}")
    paused = new.get("pauseCount", 0) - old.get("pauseCount", 0)
    if paused != (now == "Paused" and was != "Paused"):
        raise ViolationError("pause count", f"{job}: {was} → {now}, count rises by {paused}")


def _rows(status: JSON) -> Iterator[tuple[str, int, JSON]]:
    for task in status.get("tasks", ()):
        for rank, row in enumerate(task.get("status", ())):
            yield task["type"], rank, row


def _check_counts(job: Job, old: JSON, new: JSON, lives: Mapping[str, Life]) -> None:
    roles = {role.type: role for role in job.description.roles}
    before = {(role, rank): row for role, rank, row in _rows(old)}
    risen = 0
    for role, rank, row in _rows(new):
        was = before.get((role, rank))
        earlier = was.get("restartCount", 0) if was is not None else row.get("attempt", 0)
        count = row.get("restartCount", 0)
        if count == earlier:
            continue
        if count != earlier + 1:
            raise ViolationError("count", f"{job} {role}-{rank}: {earlier} → {count}")
        risen += 1
        _check_counted(job, roles[role], rank, row, lives)
    total = new.get("restarts", 0) - old.get("restarts", 0)
    if total != risen:
        raise ViolationError("count", f"{job}: restarts rise by {total}, rows by {risen}")
    limit = job.description.backoff_limit
    if risen and limit is not None and new["restarts"] > limit:
        raise ViolationError("limit", f"{job}: {new['restarts']} restarts, limit {limit}")
    if "backoffCount" in new and new["backoffCount"] != new["restarts"]:
        raise ViolationError("count", f"{job}: backoffCount {new['backoffCount']}")


def _check_counted(job: Job, role: Role, rank: int, row: JSON, lives: Mapping[str, Life]) -> None:
    life = lives.get(row.get("uid", ""))
    what = f"{job} {role.type}-{rank}"
    if life is None or life.job_uid != job.uid or life.replica != (role.type, rank):
        raise ViolationError("counted wrongly", f"{what}: no pod for {row}")
    if life.cause is not Cause.ITSELF:
        raise ViolationError("counted wrongly", f"{what}: {life}")
    if life.uid in job.counted:
        raise ViolationError("counted twice", f"{what}: {life}")
    if life.is_debug or job.is_debugging:
        raise ViolationError("counted wrongly", f"{what}: {life} in debug mode")
    if not wants_restart(role, life):
        raise ViolationError("counted wrongly", f"{what}: {life} must not restart")
    if role.restart.limit is not None and row["restartCount"] > role.restart.limit:
        raise ViolationError("limit", f"{what}: restart {row['restartCount']}")
    job.counted.add(life.uid)


def _record(job: Job, new: JSON) -> None:
    for _, _, row in _rows(new):
        if row["phase"] in _OVER and row.get("uid"):
            job.recorded.add(row["uid"])


def moment_of(status: JSON, field: str) -> float | None:
    text: Any = status.get(field)
    return seconds_of(text) if text else None
