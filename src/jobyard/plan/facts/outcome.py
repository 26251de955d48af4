"""Whether a job has succeeded or failed, from how its replicas stand.

Success is looked at before failure, and both before the deadline: if one observation would
make several hold, the first wins.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import msgspec

from jobyard.api.parts.status import Phase
from jobyard.plan.facts.standing import Standing
from jobyard.plan.lowering.description import Ending, ReplicaSet

SUCCEEDED = "The job has finished successfully."
EXITED_WITH_ERROR = "The job exited with an error code."
HOPELESS = "No rule for success can be met any more:"
UNDECIDED = "Every replica has ended, and no rule of the job says what that means."

_NAMED_MAX = 5


class Outcome(msgspec.Struct, frozen=True):
    """How the job ended. `reason` is for the event; conditions say Succeeded or Failed."""

    phase: Phase
    reason: str
    message: str


def outcome(ending: Ending, standings: Sequence[Standing]) -> Outcome | None:
    if not any(standing.is_final for standing in standings):
        return None
    by_replica = {(standing.role.type, standing.rank): standing for standing in standings}
    for rule in ending.success:
        if all(by_replica[each].has_succeeded for each in _members(rule)):
            return Outcome(Phase.SUCCEEDED, "Succeeded", SUCCEEDED)
    for rule in ending.failure:
        if all(by_replica[each].has_failed_for_good for each in _members(rule)):
            return _failed(ending, rule)
    vital = _vital_failure(ending, standings)
    if vital is not None:
        return _failed(ending, {vital.role.type: (vital.rank,)})
    if all(standing.is_final for standing in standings):
        return Outcome(Phase.FAILED, "NoRuleMet", UNDECIDED)
    return _hopeless(ending, by_replica)


def _hopeless(ending: Ending, by_replica: Mapping[tuple[str, int], Standing]) -> Outcome | None:
    """Each rule for success has a replica that failed for good: nothing is left to wait for."""
    missed: list[str] = []
    for rule in ending.success:
        failed = (by_replica[each] for each in _members(rule))
        first = next((standing for standing in failed if standing.has_failed_for_good), None)
        if first is None:
            return None
        missed.append(first.short_name)
    if not missed:
        return None
    who = ", ".join(dict.fromkeys(missed[:_NAMED_MAX]))
    return Outcome(Phase.FAILED, "NoRuleMet", f"{HOPELESS} {who} failed.")


def _members(rule: ReplicaSet) -> list[tuple[str, int]]:
    return [(str(type_), rank) for type_, ranks in rule.items() for rank in ranks]


def _vital_failure(ending: Ending, standings: Sequence[Standing]) -> Standing | None:
    failed = [s for s in standings if s.has_failed_for_good and s.role.type in ending.vital_roles]
    if not failed:
        return None
    if ending.enough_alive is not None:
        # One that has done its work is no loss.
        alive = sum(not standing.has_failed_for_good for standing in standings)
        if alive >= ending.enough_alive:
            return None
    return failed[0]


def _failed(ending: Ending, rule: ReplicaSet) -> Outcome:
    if not ending.names_rule:
        return Outcome(Phase.FAILED, "Failed", EXITED_WITH_ERROR)
    return Outcome(Phase.FAILED, "Failed", f"The job is failed with rule: {rule_text(rule)}")


def rule_text(rule: ReplicaSet) -> str:
    """As the originals write it: `{ "master": [2], "worker": [0, 1] }`."""
    parts = (f"{json.dumps(str(type_))}: {list(rule[type_])}" for type_ in sorted(rule))
    return "{ " + ", ".join(parts) + " }"
