"""Whether a job can have its pods at all: variables resolve, names are free, templates pass.

No pod is made before the status says that they come, and none is wanted while `Initialized` is
False: so a mistake can be put right, and the job goes on with the new values. The API server
is asked by probes (pods that it checks and doesn't store) before the first real pod.
`Initialized` is True once each replica has had a pod. A full quota makes it False as well, but
that takes nothing away: what was made stays, and the rest comes once there is room.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from jobyard.api.parts.status import Condition, ConditionType, Truth
from jobyard.plan.deciding.cleanup import outlives
from jobyard.plan.deciding.supporting import Supporting
from jobyard.plan.facts.decision import (
    BAD_VARIABLE,
    INVALID_TEMPLATE,
    NAME_TAKEN,
    QUOTA_EXCEEDED,
    ChildKey,
    Observed,
    Obstacle,
)
from jobyard.plan.facts.standing import Standing
from jobyard.plan.reporting.conditions import (
    INITIALIZED,
    NO,
    PODS_COMING,
    YES,
    ConditionValue,
    condition,
    may_have_pods,
)
from jobyard.schema.finding import Finding

_PREPARING = "The job is being prepared."
# An API server quotes what it refuses, however long that is; a status has to fit into an object.
_MESSAGE_LENGTH_MAX = 2000


class Initialization(msgspec.Struct, frozen=True):
    """What the condition says, whether pods may be made, and what has to be found out."""

    holding: ConditionValue
    may_have_pods: bool = False
    needs_probes: bool = False


def initialization(
    seen: Observed,
    equipment: Supporting,
    stored: tuple[Condition, ...],
    standings: Sequence[Standing],
    *,
    has_started: bool,
) -> Initialization:
    before = condition(stored, ConditionType.INITIALIZED)
    made = sum(standing.has_had_pod for standing in standings)
    was_free = may_have_pods(before, has_had_one=made > 0)
    if seen.description.faults:
        # Before all else: a spec changed in a pause can have them too.
        return Initialization(ConditionValue(NO, BAD_VARIABLE, _told(seen.description.faults)))
    if was_free and has_started:
        return Initialization(_coming(seen, before, made, len(standings)), may_have_pods=True)
    blocking = _blocking(seen)
    if blocking is not None:
        said = blocking.message[:_MESSAGE_LENGTH_MAX]
        return Initialization(ConditionValue(NO, blocking.reason, said), needs_probes=True)
    if was_free or (equipment.is_ready and seen.is_probed):
        return Initialization(_coming(seen, before, made, len(standings)), may_have_pods=True)
    pending = _pending(seen, before, is_bare=made < len(standings))
    return Initialization(pending, needs_probes=equipment.is_ready)


def _coming(seen: Observed, before: Condition | None, made: int, wanted: int) -> ConditionValue:
    """Its pods may be made: True once each replica has had one, and from then on."""
    if before is not None and before.status is Truth.TRUE:
        return _said(before)
    if made == wanted:
        return ConditionValue(YES, "-", INITIALIZED)
    full = _full(seen)
    if full is not None:
        return full
    if before is not None and before.reason == QUOTA_EXCEEDED:
        # Until the rest is there: it may not have been tried again yet.
        return _said(before)
    return ConditionValue(Truth.UNKNOWN, PODS_COMING, f"{made} of {wanted} pods have been made.")


def _full(seen: Observed) -> ConditionValue | None:
    obstacles = seen.obstacles.values()
    found = next((each for each in obstacles if each.reason == QUOTA_EXCEEDED), None)
    return ConditionValue(NO, found.reason, found.message[:_MESSAGE_LENGTH_MAX]) if found else None


def _said(before: Condition | None) -> ConditionValue:
    assert before is not None
    return ConditionValue(before.status, before.reason, before.message)


def _pending(seen: Observed, before: Condition | None, *, is_bare: bool) -> ConditionValue:
    """Not known yet; a `False` stays until something else is known to stand in the way.

    A quota counts only while a replica never had a pod (`is_bare`).
    """
    full = _full(seen)
    if full is not None and is_bare:
        return full
    was_false = before is not None and before.status is Truth.FALSE
    is_settled = before is not None and before.reason == QUOTA_EXCEEDED and not is_bare
    if was_false and not is_settled and not seen.obstacles:
        return _said(before)
    # Nothing that a person has to put right, but what is waited for is worth a word.
    waited_for = next((each.message for each in seen.obstacles.values()), "")
    waited_for = waited_for[:_MESSAGE_LENGTH_MAX]
    return ConditionValue(Truth.UNKNOWN, "-", f"{_PREPARING} {waited_for}".strip())


def _blocking(seen: Observed) -> Obstacle | None:
    """The first obstacle that only a person can take away."""
    for key, obstacle in seen.obstacles.items():
        if obstacle.reason in (NAME_TAKEN, INVALID_TEMPLATE) and not outlives(seen, key):
            return obstacle
    return None


def obstructed_pods(seen: Observed) -> tuple[ChildKey, ...]:
    return tuple(key for key in seen.obstacles if key[0] == "Pod")


def _told(faults: tuple[Finding, ...]) -> str:
    more = len(faults) - 1
    first = faults[0].text[:_MESSAGE_LENGTH_MAX]
    return f"{first} (and {more} more)" if more else first
