"""Whether a job can have its pods at all: variables resolve, names are free, templates pass.

No pod is made before the status says `Initialized`, and none is wanted while it says that it
is not: so a mistake can be put right, and the job goes on with the new values. The API server
is asked by probes (pods that it checks and doesn't store) before the first real pod.
"""

from __future__ import annotations

import msgspec

from jobyard.api.status import Condition, ConditionType, Truth
from jobyard.plan.cleanup import outlives
from jobyard.plan.conditions import INITIALIZED, NO, YES, Holding, condition
from jobyard.plan.decision import (
    BAD_VARIABLE,
    INVALID_TEMPLATE,
    NAME_TAKEN,
    ChildKey,
    Observed,
    Obstacle,
)
from jobyard.plan.equipment import Equipment

_PREPARING = "The job is being prepared."
# An API server quotes what it refuses, however long that is; a status has to fit into an object.
_MESSAGE_LENGTH_MAX = 2000


class Initialization(msgspec.Struct, frozen=True):
    """What the condition says, and what has to be found out."""

    holding: Holding
    needs_probes: bool = False

    @property
    def is_done(self) -> bool:
        return self.holding.status is Truth.TRUE


def initialization(
    seen: Observed, equipment: Equipment, stored: tuple[Condition, ...], *, has_started: bool
) -> Initialization:
    before = condition(stored, ConditionType.INITIALIZED)
    was_done = before is not None and before.status is Truth.TRUE
    if seen.description.faults:
        # Before all else: a spec changed in a pause can have them too.
        return Initialization(Holding(NO, BAD_VARIABLE, _told(seen.description.faults)))
    if was_done and has_started:
        return Initialization(_said(before))
    blocking = _blocking(seen)
    if blocking is not None:
        said = blocking.message[:_MESSAGE_LENGTH_MAX]
        return Initialization(Holding(NO, blocking.reason, said), needs_probes=True)
    if was_done:
        return Initialization(_said(before))
    if not equipment.is_ready:
        return Initialization(_pending(seen, before))
    if not seen.is_probed:
        return Initialization(_pending(seen, before), needs_probes=True)
    return Initialization(Holding(YES, "-", INITIALIZED))


def _said(before: Condition | None) -> Holding:
    assert before is not None
    return Holding(before.status, before.reason, before.message)


def _pending(seen: Observed, before: Condition | None) -> Holding:
    """Not known yet; a `False` stays until something else is known to stand in the way."""
    if before is not None and before.status is Truth.FALSE and not seen.obstacles:
        return _said(before)
    # Nothing that a person has to put right, but what is waited for is worth a word.
    waited_for = next((each.message for each in seen.obstacles.values()), "")
    waited_for = waited_for[:_MESSAGE_LENGTH_MAX]
    return Holding(Truth.UNKNOWN, "-", f"{_PREPARING} {waited_for}".strip())


def _blocking(seen: Observed) -> Obstacle | None:
    """The first obstacle that only a person can take away."""
    for key, obstacle in seen.obstacles.items():
        if obstacle.reason in (NAME_TAKEN, INVALID_TEMPLATE) and not outlives(seen, key):
            return obstacle
    return None


def obstructed_pods(seen: Observed) -> tuple[ChildKey, ...]:
    return tuple(key for key in seen.obstacles if key[0] == "Pod")


def _told(faults: tuple[str, ...]) -> str:
    more = len(faults) - 1
    first = faults[0][:_MESSAGE_LENGTH_MAX]
    return f"{first} (and {more} more)" if more else first
