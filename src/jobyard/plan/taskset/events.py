"""The events of a decision about a TaskSet: what a person would want to know, told once.

They follow from what changes between the stored status and the new one; a decision that
changes nothing tells nothing. Of many replicas the first few are named.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jobyard.api.parts.taskset_status import TaskSetPhase, TaskSetState, TaskSetStatus
from jobyard.plan.facts.decision import Event, EventReason, EventType, Observed
from jobyard.plan.facts.last_words import shortened
from jobyard.plan.facts.standing import State
from jobyard.plan.reporting.conditions import end_text
from jobyard.plan.reporting.events import named
from jobyard.plan.taskset.replicas import Member
from jobyard.plan.taskset.retries import delay_seconds, retries_max
from jobyard.plan.taskset.roles import Group

# Between two attempts.
REMOVING = (
    TaskSetPhase.DELETION_PENDING,
    TaskSetPhase.DELETION_REQUESTED,
    TaskSetPhase.RETRY_PENDING,
)
_NAMED_MAX = 5
_WORDS_LENGTH_MAX = 500
# So much of a sentence is enough to know it by.
_OBSTACLE_LENGTH = 100


def replica_events(groups: Sequence[Group]) -> Iterator[Event]:
    """Replicas that failed or were lost, and roles that ended, since the status was written."""
    members = [member for group in groups for member in group.members]
    failed = [m for m in members if m.standing.state is State.FAILED and _is_news(m)]
    closed = {group.policy.name for group in groups if group.end is not None}
    for member in failed[:_NAMED_MAX]:
        is_again = member.standing.is_newly_counted and member.policy.name not in closed
        yield Event(
            EventReason.REPLICA_FAILED, _failure(member, is_again=is_again), EventType.WARNING
        )
    if len(failed) > _NAMED_MAX:
        names = [m.standing.short_name for m in failed[_NAMED_MAX:]]
        yield Event(
            EventReason.REPLICA_FAILED, f"More replicas failed: {named(names)}.", EventType.WARNING
        )
    lost = [m.standing.short_name for m in members if m.is_lost]
    if lost:
        text = f"Lost, and recreated without using up retries: {named(lost)}."
        yield Event(EventReason.REPLICA_LOST, text, EventType.WARNING)
    for group in groups:
        if group.has_just_ended and group.end is not None:
            good = group.end.succeeded
            type_ = EventType.NORMAL if good else EventType.WARNING
            reason = EventReason.ROLE_SUCCEEDED if good else EventReason.ROLE_FAILED
            yield Event(reason, group.end.text, type_)


def _is_news(member: Member) -> bool:
    was_stopped = member.row is not None and member.row.stopped
    return not member.is_recorded and not was_stopped


def _failure(member: Member, *, is_again: bool) -> str:
    standing, policy = member.standing, member.policy.retry_policy
    said = standing.end.message.strip() if standing.end is not None else ""
    words = f": {shortened(said, _WORDS_LENGTH_MAX)}" if said else ""
    then = "not started again"
    if is_again:
        then = f"retry {standing.restarts} of {retries_max(policy)} in {delay_seconds(policy)} s"
    return f"{standing.short_name}: {end_text(standing)}; {then}{words}"


def taskset_events(old: TaskSetStatus | None, new: TaskSetStatus) -> Iterator[Event]:
    """What the TaskSet as a whole went through."""
    before = old or TaskSetStatus()
    if new.start_at and not before.start_at:
        yield Event(EventReason.STARTED, "The TaskSet has started.")
    is_removing = new.phase in REMOVING and before.phase not in REMOVING
    if is_removing and new.total_retried_count == (before.total_retried_count or 0):
        yield Event(EventReason.RETRYING, new.state_message, EventType.WARNING)
    if (new.total_retried_count or 0) > (before.total_retried_count or 0):
        yield Event(
            EventReason.RETRIED, f"Attempt {new.total_retried_count} of the TaskSet begins."
        )
    if new.phase is TaskSetPhase.COMPLETED and before.phase is not TaskSetPhase.COMPLETED:
        good = new.state is TaskSetState.SUCCEEDED
        type_ = EventType.NORMAL if good else EventType.WARNING
        reason = EventReason.SUCCEEDED if good else EventReason.FAILED
        yield Event(reason, new.state_message, type_)


def obstacle_events(
    seen: Observed, old: TaskSetStatus | None, new: TaskSetStatus
) -> Iterator[Event]:
    """What keeps the TaskSet from its pods, once for each new sentence."""
    before = old.phase_message if old is not None else ""
    for obstacle in seen.obstacles.values():
        text = f"{obstacle.reason}: {obstacle.message}"[:_OBSTACLE_LENGTH]
        if text in new.phase_message and text not in before:
            yield Event(obstacle.reason, obstacle.message, EventType.WARNING)
            return
