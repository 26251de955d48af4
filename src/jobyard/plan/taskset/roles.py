"""When a role has ended, and what its end means for the TaskSet.

Completion: success is looked at first; a role whose success has become impossible has failed.
Events: the entry for the exact result decides, else the one for `RoleCompleted`, else the
default; of several entries for one event the first. Sentences name role, counts and policy, since
they become the status' own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from jobyard.api.parts.taskset_status import RoleStatus, TaskSetState
from jobyard.api.taskset import CompletionPolicy, Role, RoleEvent, TaskSetAction
from jobyard.plan.facts.standing import State
from jobyard.plan.taskset.attempt import Attempt
from jobyard.plan.taskset.replicas import OVER, Member

_DEFAULTS = {True: TaskSetAction.NO_ACTION, False: TaskSetAction.FAILED}
_ROLES_NAMED_MAX = 5


class RoleEnd(msgspec.Struct, frozen=True):
    """How a role ended, and why, in a sentence."""

    succeeded: bool
    text: str

    @property
    def word(self) -> str:
        return "succeeded" if self.succeeded else "failed"


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A role with its replicas. With an `end` it is closed: nothing of it starts again."""

    policy: Role
    members: Sequence[Member]
    before: RoleStatus | None = None
    end: RoleEnd | None = None

    @property
    def has_just_ended(self) -> bool:
        return self.end is not None and (self.before is None or self.before.state not in OVER)


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """How the TaskSet ends. A spec that was refused is never tried again."""

    succeeded: bool
    message: str
    may_retry: bool = True

    @property
    def state(self) -> TaskSetState:
        return TaskSetState.SUCCEEDED if self.succeeded else TaskSetState.FAILED


def groups_of(attempt: Attempt, members: Mapping[str, Sequence[Member]]) -> tuple[Group, ...]:
    return tuple(
        _group(role, members[role.name], attempt.role_before(role.name))
        for role in attempt.spec.roles
    )


def _group(role: Role, members: Sequence[Member], before: RoleStatus | None) -> Group:
    if before is not None and before.state in OVER:
        end: RoleEnd | None = RoleEnd(before.state is TaskSetState.SUCCEEDED, before.state_message)
    else:
        good = sum(m.standing.is_final and m.standing.state is State.SUCCEEDED for m in members)
        bad = sum(m.standing.is_final and m.standing.state is State.FAILED for m in members)
        end = role_end(role, good, bad)
    return Group(policy=role, members=members, before=before, end=end)


def role_end(role: Role, succeeded: int, failed: int) -> RoleEnd | None:
    """Whether so many ends of its replicas, for good, end the role."""
    policy = role.completion_policy or CompletionPolicy()
    needed, replicas = policy.min_succeeded or role.replicas, role.replicas
    if succeeded >= needed:
        why = f"{succeeded} of {replicas} replicas succeeded (minSucceeded {needed})"
        return RoleEnd(True, f"Role {role.name} succeeded: {why}, {failed} failed.")
    # Octopus takes 0, and asks only once a replica has ended: the first failure is the last.
    if failed >= max(policy.max_failed, 1):
        why = f"{failed} of {replicas} replicas failed (maxFailed {policy.max_failed})"
        return RoleEnd(False, f"Role {role.name} failed: {why}, {succeeded} succeeded.")
    if replicas - failed < needed:
        why = f"{failed} of {replicas} replicas failed and {succeeded} succeeded"
        text = f"Role {role.name} failed: {why}, so minSucceeded {needed} is out of reach."
        return RoleEnd(False, text)
    return None


def action_of(role: Role, *, succeeded: bool) -> tuple[TaskSetAction, str]:
    """What the role's end means, and the entry that says so."""
    listed = _actions(role)
    exact = RoleEvent.SUCCEEDED if succeeded else RoleEvent.FAILED
    for event in (exact, RoleEvent.COMPLETED):
        if event in listed:
            return listed[event], f"eventPolicy {event} → {listed[event]}"
    action = _DEFAULTS[succeeded]
    return action, f"{exact} → {action}, the default"


def goes_with_its_pods(role: Role) -> bool:
    """Whether all pods go when the role ends, the ended ones too."""
    return _actions(role).get(RoleEvent.COMPLETED) is TaskSetAction.NO_ACTION


def _actions(role: Role) -> Mapping[RoleEvent, TaskSetAction]:
    return {entry.event: entry.action for entry in reversed(role.event_policy)}


def verdict_of(groups: Sequence[Group]) -> Verdict | None:
    """What the ends of roles mean together; of several that decide, the first."""
    for group in groups:
        if group.end is None:
            continue
        action, entry = action_of(group.policy, succeeded=group.end.succeeded)
        if action is TaskSetAction.NO_ACTION:
            continue
        succeeded = {
            TaskSetAction.SUCCEEDED: True,
            TaskSetAction.FAILED: False,
            TaskSetAction.COMPLETED: group.end.succeeded,
        }[action]
        return Verdict(succeeded=succeeded, message=f"{group.end.text} Decided by {entry}.")
    ends = [group.end for group in groups if group.end is not None]
    if len(ends) < len(groups):
        return None
    # Those that failed are what a reader looks for.
    told = sorted(ends, key=lambda end: end.succeeded)[:_ROLES_NAMED_MAX]
    return Verdict(
        succeeded=all(end.succeeded for end in ends),
        message=" ".join(["Every role has ended.", *(end.text for end in told)]),
    )


def closed(groups: Sequence[Group], verdict: Verdict) -> tuple[Group, ...]:
    """All roles, where the TaskSet ends: undecided ones share its result."""
    return tuple(group if group.end is not None else _stopped(group, verdict) for group in groups)


def _stopped(group: Group, verdict: Verdict) -> Group:
    word = "succeeded" if verdict.succeeded else "failed"
    ended = sum(member.standing.is_final for member in group.members)
    text = (
        f"Role {group.policy.name} was stopped when the TaskSet {word};"
        f" {ended} of {group.policy.replicas} replicas had ended."
    )
    return msgspec.structs.replace(group, end=RoleEnd(verdict.succeeded, text))
