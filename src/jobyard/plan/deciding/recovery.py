"""Failures that follow from one another, in jobs whose replicas work together.

One rank goes and the others fail for want of it. So the first decides: whether the job goes on
is asked of its end alone, it uses up one restart (none if the cluster took it away), and those
that fail after it are started again with it. That lasts until all replicas run again. A pod
carries the attempt of the job that it was made in, which tells a follower, still of the attempt
that was broken, from a replica that was started again and failed anew.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from jobyard.api.parts.replicas import RestartPolicy
from jobyard.api.parts.status import JobStatus, Recovery, ReplicaPhase
from jobyard.plan.deciding.restarts import (
    delayed,
    is_open,
    may_restart,
    started_again,
    wants_restart,
)
from jobyard.plan.facts.ends import SKEW_SECONDS
from jobyard.plan.facts.standing import ENDS, Standing, State
from jobyard.plan.moments import seconds_of, text_of

# How long an exit code that would end the job waits for news of others that failed before it: a
# kubelet tells of an end within a second or two, each in its own time.
SETTLE_SECONDS = 3
OOM_KILLED = "OOMKilled"
# Of ends at about the same time: what rarely is the consequence of another end comes first
# (SIGILL, SIGBUS, SIGFPE, SIGKILL, SIGSEGV), what mostly is one comes last (SIGABRT, with which a
# broken collective ends its process, and SIGTERM, with which launchers end the rest).
_LIKELY_CAUSES = frozenset({132, 135, 136, 137, 139})
_LIKELY_CONSEQUENCES = frozenset({134, 143})


class Course(msgspec.Struct, frozen=True):
    """How often a job was broken, and what it recovers from."""

    attempt: int = 0
    recovery: Recovery | None = None


def course_of(stored: JobStatus | None, standings: Sequence[Standing]) -> Course:
    """What the status says; should it have been lost, what the pods still know."""
    if stored is not None and stored.attempt is not None:
        return Course(stored.attempt, stored.recovery)
    attempts = (standing.pod.job_attempt for standing in standings if standing.pod is not None)
    return Course(max(attempts, default=0))


def decided_together(
    standings: Sequence[Standing], course: Course, left: int | None, now: float
) -> tuple[list[Standing], Course]:
    """Decides about all ends; `left` is how many restarts the job has left."""
    before, course = course, _after_losses(standings, course, now)
    fresh = [s for s in standings if is_open(s) and not _is_settled(s, left)]
    followers = {s.name for s in fresh if _is_follower(s, before) or _is_follower(s, course)}
    ends = [s for s in fresh if s.name not in followers]
    first = _first(ends, now) if ends else None
    waits_until = _settles_at(first, standings, now) if first is not None else None
    goes_on = first is not None and waits_until is None and may_restart(first, left)
    cause = course.recovery.replica if course.recovery is not None else ""
    if goes_on:
        assert first is not None
        assert first.end is not None
        broken = Recovery(replica=first.short_name, time=text_of(first.end.finished_at))
        course = Course(course.attempt + 1, broken)
    out: list[Standing] = []
    undecided = {s.name for s in fresh}
    for standing in standings:
        if standing.name not in undecided:
            out.append(_as_it_was(standing, now))
        elif standing.name in followers:
            out.append(started_again(standing, now, uses_limit=False, follows=cause))
        elif waits_until is not None:
            out.append(msgspec.structs.replace(standing, due_at=waits_until, is_undecided=True))
        else:
            out.append(_with_the_first(standing, first, now, goes_on=goes_on))
    if course.recovery is not None and all(s.state is State.RUNNING or s.is_final for s in out):
        course = Course(course.attempt)
    return out, course


def _as_it_was(standing: Standing, now: float) -> Standing:
    if is_open(standing):
        return msgspec.structs.replace(standing, is_final=True)
    return delayed(standing, now)


def _with_the_first(
    standing: Standing, first: Standing | None, now: float, *, goes_on: bool
) -> Standing:
    assert first is not None
    is_first = standing.name == first.name
    follows = "" if is_first else first.short_name
    if goes_on:
        return started_again(standing, now, uses_limit=is_first, follows=follows)
    return msgspec.structs.replace(standing, is_final=True, follows=follows)


def _is_settled(standing: Standing, left: int | None) -> bool:
    """It was decided before that this end is final, and no limit was raised since then."""
    assert standing.end is not None
    if standing.end.succeeded and not wants_restart(standing.role.restart.policy, standing.end):
        return True
    if not standing.is_recorded or standing.memory.restart_at is not None:
        return False
    failure = standing.memory.failure
    is_follower = failure is not None and bool(failure.follows)
    return is_follower or not may_restart(standing, left)


def _is_follower(standing: Standing, course: Course) -> bool:
    broken, pod = course.recovery, standing.pod
    if broken is None or pod is None or pod.job_attempt >= course.attempt:
        return False
    assert standing.end is not None
    came_after = standing.end.finished_at + SKEW_SECONDS >= seconds_of(broken.time)
    return came_after or not broken.lost


def _settles_at(first: Standing, standings: Sequence[Standing], now: float) -> float | None:
    """Until when an exit code that would end the job waits for others; None: no longer."""
    end, policy = first.end, first.role.restart.policy
    assert end is not None
    is_decisive = policy is RestartPolicy.EXIT_CODE and not end.succeeded
    if not is_decisive or wants_restart(policy, end) or not any(s.is_live for s in standings):
        return None
    said = first.memory.restart_at if first.is_recorded else None
    moment = said if said is not None else seconds_of(text_of(now + SETTLE_SECONDS))
    return moment if now < moment <= now + SETTLE_SECONDS else None


def _first(ends: Sequence[Standing], now: float) -> Standing:
    """Who failed first. Clocks of nodes differ, so among ends close together the kind decides."""
    moments = {s.name: min(s.end.finished_at, now) if s.end is not None else now for s in ends}
    earliest = min(moments.values())
    close = [s for s in ends if moments[s.name] - earliest < SKEW_SECONDS]
    return min(close, key=lambda s: (_likeness(s), moments[s.name]))


def _likeness(standing: Standing) -> int:
    """Small for what is likely to be a cause, large for what is likely to be a consequence."""
    end = standing.end
    assert end is not None
    if end.reason == OOM_KILLED:
        return 0
    if end.exit_code in _LIKELY_CAUSES:
        return 1
    return 3 if end.exit_code in _LIKELY_CONSEQUENCES else 2


# What the cluster takes away.


def _after_losses(standings: Sequence[Standing], course: Course, now: float) -> Course:
    lost = [s for s in standings if is_lost(s) and _breaks(s, course)]
    if not lost:
        return course
    first = min(lost, key=lost_at)
    # Of one that is gone already nobody knows when: it explains all that is found with it.
    ends = [s.end.finished_at for s in standings if is_open(s) and s.end is not None]
    moment = min(lost_at(first), now) or min([now, *ends])
    broken = Recovery(replica=first.short_name, lost=True, time=text_of(moment))
    return Course(course.attempt + 1, broken)


def _breaks(standing: Standing, course: Course) -> bool:
    """Whether a loss is a new one: a pod on its way out is seen by many passes."""
    pod = standing.pod
    return course.recovery is None or pod is None or pod.job_attempt >= course.attempt


def is_lost(standing: Standing) -> bool:
    """Whether the cluster, or somebody, took a replica away that had a pod."""
    if standing.is_stale_view:
        # Its going was decided before; the next pod is announced already.
        return False
    was_there = standing.memory.phase not in (None, ReplicaPhase.DELETED)
    if standing.state is State.LOST:
        return True
    if standing.state is State.LEAVING:
        return was_there
    # One that had ended goes because its restart was decided on.
    is_gone = standing.state is State.MISSING and standing.memory.phase not in ENDS
    return is_gone and was_there and bool(standing.memory.uid)


def lost_at(standing: Standing) -> float:
    """When a replica was taken away; of one that is gone already nobody knows."""
    taken = standing.pod.taken_away_at if standing.pod is not None else None
    if standing.end is not None:
        return min(standing.end.finished_at, taken if taken is not None else math.inf)
    asked = standing.pod.deletion_asked_at if standing.pod is not None else None
    return asked if asked is not None else 0.0
