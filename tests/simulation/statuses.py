"""What the status of a T9k job may say, given what really happened to its pods.

Called with each status write of a controller, before it counts as stored. Counting is checked
against the lives of the pods: an end that was the replica's own counts once, nothing else does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from jobyard.plan.lowering.description import Role
from jobyard.plan.moments import seconds_of
from simulation.facts import Job
from simulation.kubelet import Cause, Life
from simulation.oracle import check_end, check_hope, wants_restart
from simulation.server import JSON
from simulation.violation import ViolationError

CONDITIONS = ["Initialized", "Running", "ReplicaFailure", "Completed", "Failed", "Paused"]
BEAM_CONDITIONS = ["ClusterRunning", "JobRunning"]
_OVER = ("Succeeded", "Failed")
_DELAY_MAX_SECONDS = 301
_SKEW_SECONDS = 5
_FINAL = ("phase", "completionTime", "startTime", "restarts", "backoffCount", "pauseCount")


def check(job: Job, old: JSON, new: JSON, lives: Mapping[str, Life], now: float) -> None:
    _check_conditions(job, old, new)
    _check_rows(job, new)
    if old.get("phase") in _OVER:
        _check_final(job, old, new)
        _record(job, new)
        return
    _check_phases(job, old, new)
    _check_moments(job, new, now)
    _check_counts(job, old, new, lives)
    _check_initialized(job, old, new)
    _record(job, new)
    if new["phase"] in _OVER:
        check_end(job, new, now)
    else:
        check_hope(job, new)


def _check_initialized(job: Job, old: JSON, new: JSON) -> None:
    """True from when each replica has had a pod; where one hasn't, it says what is with that."""
    if job.kind.name == "BeamJob":
        return
    was, now = ({c["type"]: c for c in s.get("conditions", ())} for s in (old, new))
    before, after = was.get("Initialized", {}), now["Initialized"]
    rows = [row for _, _, row in _rows(new)]
    bare = [row["name"] for row in rows if not row.get("uid") and not row.get("podsBefore")]
    made = {life.replica for life in job.lives}
    never = [each for each in job.replicas if each not in made]
    if after["status"] == "True" and before.get("status") != "True" and never:
        raise ViolationError("initialized too early", f"{job}: {never} had no pod, {old}")
    if after["reason"] in ("PodsComing", "QuotaExceeded") and not bare:
        raise ViolationError("initialized too late", f"{job}: {after}, {rows}")


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
    if new["phase"] not in _OVER:
        kept = {type_: max(count, rows.get(type_, 0)) for type_, count in wanted.items()}
        if rows != kept:
            raise ViolationError("rank lost", f"{job} has rows {rows}, wants {wanted}")
        _check_kept(job, new, wanted)
    if new["phase"] not in _OVER and new.get("replicas") != sum(wanted.values()):
        raise ViolationError("replicas", f"{job} says {new.get('replicas')}, wants {wanted}")
    if int(new["ready"].split("/")[0]) > phases["running"]:
        raise ViolationError("ready", f"{job}: {new['ready']} ready, {dict(phases)}")


def _check_kept(job: Job, new: JSON, wanted: Mapping[str, int]) -> None:
    """Rows beyond those wanted are of replicas that go or had ended; they stay as their pods do."""
    for task in new.get("tasks", ()):
        beyond = task.get("status", ())[wanted[task["type"]] :]
        is_wrong = any(row["phase"] not in ("Deleted", *_OVER) for row in beyond)
        if is_wrong or (beyond and not beyond[-1]["uid"]):
            raise ViolationError("surplus", f"{job}: {beyond}")


def _check_moments(job: Job, new: JSON, now: float) -> None:
    for role, rank, row in _rows(new):
        moment = moment_of(row, "restartTime")
        if moment is not None and moment > now + _DELAY_MAX_SECONDS:
            raise ViolationError("restart time", f"{job} {role}-{rank}: {row}")


def _check_final(job: Job, old: JSON, new: JSON) -> None:
    for field in _FINAL:
        if old.get(field) != new.get(field):
            raise ViolationError(
                "finished is final", f"{job}: {field} {old.get(field)} → {new.get(field)}"
            )
    for role, rank, row in _rows(old):
        now_ = next(r for t, n, r in _rows(new) if (t, n) == (role, rank))
        if row["phase"] in (*_OVER, "Deleted") and row != now_:
            raise ViolationError("finished is final", f"{job} {role}-{rank}: {row} → {now_}")
    if [t["type"] for t in old["tasks"]] != [t["type"] for t in new["tasks"]]:
        raise ViolationError("finished is final", f"{job}: other types")
    for was, now in zip(old["conditions"], new["conditions"], strict=True):
        if was["type"] in ("Completed", "Failed") and was != now:
            raise ViolationError("finished is final", f"{job}: {was} became {now}")


def _check_phases(job: Job, old: JSON, new: JSON) -> None:
    was, now = old.get("phase"), new["phase"]
    if now == "Pending" and was not in (None, "Pending", "Unknown"):
        raise ViolationError("phase", f"{job} goes from {was} back to {now}")
    if now == "Paused" and was != "Paused" and not job.is_paused:
        raise ViolationError("phase", f"{job} is said to be paused, and should not be")
    if old.get("startTime") and old["startTime"] != new.get("startTime"):
        raise ViolationError("start time", f"{job}: {old['startTime']} → {new.get('startTime')}")
    paused = new.get("pauseCount", 0) - old.get("pauseCount", 0)
    if paused != (now == "Paused" and was != "Paused"):
        raise ViolationError("pause count", f"{job}: {was} → {now}, count rises by {paused}")


def check_paused(job: Job, old: JSON, new: JSON) -> None:
    """Once it is said to be paused its spec may change: whatever runs was told to go by then."""
    alive = [x for x in job.lives if x.asked_at is None and not x.is_gone and not x.is_over]
    if new["phase"] == "Paused" and old.get("phase") != "Paused" and alive:
        raise ViolationError("paused too early", f"{job}: {alive}")


def check_losses(job: Job, old: JSON, new: JSON, lives: Mapping[str, Life]) -> None:
    """One of several that work together is gone: the status says so, and explains by it."""
    is_told = old.get("recovery") or new.get("attempt", 0) > old.get("attempt", 0)
    if not job.description.is_collective or is_told or new["phase"] in (*_OVER, "Paused"):
        return
    after = {(role, rank): row for role, rank, row in _rows(new)}
    for role, rank, row in _rows(old):
        life, now = lives.get(row.get("uid", "")), after.get((role, rank))
        if life is None or now is None or life.cause is not Cause.TAKEN or job.excuses(life):
            continue
        is_let_go = now.get("uid") != life.uid or now["phase"] == "Deleted"
        if row["phase"] not in (*_OVER, "Deleted") and is_let_go:
            raise ViolationError("loss untold", f"{job}: {life}")


def check_dropped(job: Job, old: JSON, new: JSON) -> None:
    """A row stays as long as its pod is there: it knows that the pod goes, and how it ended."""
    kept = {(role, rank) for role, rank, _ in _rows(new)}
    there = {life.uid for life in job.lives if not life.is_gone}
    dropped = [row for role, rank, row in _rows(old) if (role, rank) not in kept]
    if new["phase"] not in _OVER and any(row.get("uid") in there for row in dropped):
        raise ViolationError("row dropped", f"{job}: {dropped}")


def _rows(status: JSON) -> Iterator[tuple[str, int, JSON]]:
    for task in status.get("tasks", ()):
        for rank, row in enumerate(task.get("status", ())):
            yield task["type"], rank, row


def _check_counts(job: Job, old: JSON, new: JSON, lives: Mapping[str, Life]) -> None:
    roles = {role.type: role for role in job.description.roles}
    before = {(role, rank): row for role, rank, row in _rows(old)}
    risen: list[tuple[Role, Life]] = []
    for role, rank, row in _rows(new):
        was = before.get((role, rank))
        earlier = was.get("restartCount", 0) if was is not None else row.get("attempt", 0)
        count = row.get("restartCount", 0)
        if count == earlier:
            continue
        if count != earlier + 1:
            raise ViolationError("count", f"{job} {role}-{rank}: {earlier} → {count}")
        life = _check_counted(job, roles[role], rank, row, lives)
        risen.append((roles[role], life))
    total = new.get("restarts", 0) - old.get("restarts", 0)
    if not job.description.is_collective and total != len(risen):
        raise ViolationError("count", f"{job}: restarts rise by {total}, rows by {len(risen)}")
    if job.description.is_collective:
        _check_burst(job, old, new, risen, total)
    limit = job.description.backoff_limit
    if total and limit is not None and new["restarts"] > limit:
        raise ViolationError("limit", f"{job}: {new['restarts']} restarts, limit {limit}")
    if "backoffCount" in new and new["backoffCount"] != new["restarts"]:
        raise ViolationError("count", f"{job}: backoffCount {new['backoffCount']}")


def _check_burst(
    job: Job, old: JSON, new: JSON, risen: list[tuple[Role, Life]], total: int
) -> None:
    """What follows from one another counts as one, and what follows from a loss as nothing."""
    before, after = old.get("recovery"), new.get("recovery")
    attempt = old.get("attempt", 0)
    lost_at = moment_of(before, "time") if before and before.get("lost") else None
    followers = [
        life
        for _, life in risen
        if before
        and life.job_attempt < attempt
        # What ended before the loss has nothing to do with it.
        and (lost_at is None or life.ended_at >= lost_at + _SKEW_SECONDS)
    ]
    leaders = [(role, life) for role, life in risen if life not in followers]
    told = [life for _, life in risen]
    if total not in (0, 1):
        raise ViolationError("burst", f"{job}: restarts rise by {total}: {told}")
    if total and not any(wants_restart(role, life) for role, life in leaders):
        raise ViolationError("burst", f"{job}: a restart is used up by {told}, after {before}")
    if risen and not (total or before or after or job.is_paused):
        raise ViolationError("burst", f"{job}: {told} use up no restart, and nothing was lost")
    if new.get("attempt", 0) < attempt:
        raise ViolationError("burst", f"{job}: attempt {attempt} → {new.get('attempt')}")


def _check_counted(job: Job, role: Role, rank: int, row: JSON, lives: Mapping[str, Life]) -> Life:
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
    if not job.description.is_collective and not wants_restart(role, life):
        raise ViolationError("counted wrongly", f"{what}: {life} must not restart")
    limit = role.restart.limit
    if not job.description.is_collective and limit is not None and row["restartCount"] > limit:
        raise ViolationError("limit", f"{what}: restart {row['restartCount']}")
    job.counted.add(life.uid)
    return life


def _record(job: Job, new: JSON) -> None:
    for _, _, row in _rows(new):
        if row["phase"] in _OVER and row.get("uid"):
            job.recorded.add(row["uid"])


def moment_of(status: JSON, field: str) -> float | None:
    text: Any = status.get(field)
    return seconds_of(text) if text else None
