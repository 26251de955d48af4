"""The events of a decision: what a person would want to know, told once.

Events follow from what changes between the stored status and the new one, so a decision
that changes nothing tells nothing. Of many replicas the first few are named.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jobyard.api.parts.status import ConditionType, JobStatus, Phase, ReplicaPhase, Truth
from jobyard.plan.facts.decision import HINDRANCES, QUOTA_EXCEEDED, Event, EventReason, EventType
from jobyard.plan.facts.ends import delay_seconds
from jobyard.plan.facts.last_words import shortened
from jobyard.plan.facts.outcome import Outcome
from jobyard.plan.facts.standing import Standing, State
from jobyard.plan.lowering.description import Description
from jobyard.plan.reporting.conditions import UNSCHEDULED, condition, end_text

_NAMED_MAX = 5
_MESSAGE_LENGTH_MAX = 1000


def named(names: Sequence[str]) -> str:
    more = len(names) - _NAMED_MAX
    return ", ".join(names[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def created(names: Sequence[str]) -> Iterator[Event]:
    if names:
        pods = "1 pod" if len(names) == 1 else f"{len(names)} pods"
        yield Event(EventReason.CREATED_PODS, f"Created {pods}: {named(names)}.")


def ends(description: Description, standings: Sequence[Standing], used: int) -> Iterator[Event]:
    """Replicas that failed, were taken away or start again, since the status was written.

    `used` is how many restarts the job had before.
    """
    numbers = {}
    for standing in standings:
        used += standing.uses_limit
        numbers[standing.name] = used
    # Who began it is told of first.
    fresh = sorted((s for s in standings if _is_news(s)), key=lambda s: bool(s.follows))
    for reason, is_lost in ((EventReason.REPLICA_LOST, True), (EventReason.REPLICA_FAILED, False)):
        of_them = [s for s in fresh if (s.state is State.LOST) is is_lost]
        for standing in of_them[:_NAMED_MAX]:
            message = _end_message(description, standing, numbers[standing.name])
            yield Event(reason, message, EventType.WARNING)
        if len(of_them) > _NAMED_MAX:
            names = [s.short_name for s in of_them[_NAMED_MAX:]]
            what = "taken away" if is_lost else "failed"
            yield Event(reason, f"Also {what}: {named(names)}.", EventType.WARNING)
    again = [s.short_name for s in standings if s.is_newly_counted and s.state is State.SUCCEEDED]
    if again:
        yield Event(EventReason.RESTARTING, f"Exited 0, restarting: {named(again)}.")


def _is_news(standing: Standing) -> bool:
    pod, memory = standing.pod, standing.memory
    if standing.state not in (State.FAILED, State.LOST) or pod is None:
        return False
    if standing.is_undecided:
        return False
    # By uid: a pod recreated uncounted is the same attempt as the one before it.
    is_told = memory.phase is ReplicaPhase.FAILED and memory.uid == pod.uid
    was_undecided = is_told and standing.is_final and memory.restart_at is not None
    return not is_told or standing.is_newly_counted or was_undecided


def _end_message(description: Description, standing: Standing, used: int) -> str:
    said = standing.end.message.strip() if standing.end is not None else ""
    words = f": {shortened(said, _MESSAGE_LENGTH_MAX // 2)}" if said else ""
    head = f"{standing.short_name}: {end_text(standing)}"
    if standing.state is State.LOST:
        return f"{head}; taken away by the cluster, recreated without using up restarts{words}"
    after = f" after {standing.follows}" if standing.follows else ""
    if not standing.is_newly_counted:
        return f"{head}{after}; not started again{words}"
    wait = delay_seconds(standing.failures_in_a_row)
    if not standing.uses_limit:
        return f"{head}{after}; starts again in {wait} s without using up restarts{words}"
    number, limit = standing.restarts, standing.role.restart.limit
    if limit is None and description.backoff_limit is not None:
        # The limit of all replicas together, so it is their restarts that are numbered.
        number, limit = used, description.backoff_limit
    of = f" of {limit}" if limit is not None else ""
    return f"{head}; restart {number}{of} in {wait} s{words}"


def changes(old: JobStatus | None, new: JobStatus, end: Outcome | None) -> Iterator[Event]:
    """What the job as a whole went through."""
    before = old.phase if old is not None else None
    yield from _initialized(old, new)
    if new.start_time and not (old and old.start_time):
        yield Event(EventReason.STARTED, "The job has started.")
    if new.phase is Phase.PAUSED and before is not Phase.PAUSED:
        yield Event(EventReason.PAUSED, f"The job is paused (pause {new.pause_count}).")
    if new.phase is Phase.RESUMING and before is not Phase.RESUMING:
        yield Event(EventReason.RESUMING, f"Resuming after pause {new.pause_count}.")
    if old is not None and old.replicas and old.replicas != new.replicas and end is None:
        yield Event(EventReason.SCALED, f"From {old.replicas} to {new.replicas} replicas.")
    yield from _hindered(old, new)
    if end is not None:
        is_good = end.phase is Phase.SUCCEEDED
        type_ = EventType.NORMAL if is_good else EventType.WARNING
        yield Event(end.reason, end.message, type_)


def _initialized(old: JobStatus | None, new: JobStatus) -> Iterator[Event]:
    now = condition(new.conditions, ConditionType.INITIALIZED)
    before = condition(old.conditions, ConditionType.INITIALIZED) if old is not None else None
    assert now is not None
    # A full quota is told with the numbers, by the condition Running.
    is_told = now.reason == QUOTA_EXCEEDED or (before is not None and before.message == now.message)
    if now.status is Truth.FALSE and not is_told:
        yield Event(now.reason, now.message, EventType.WARNING)


def _hindered(old: JobStatus | None, new: JobStatus) -> Iterator[Event]:
    now = condition(new.conditions, ConditionType.RUNNING)
    before = condition(old.conditions, ConditionType.RUNNING) if old is not None else None
    assert now is not None
    is_new = before is None or before.reason != now.reason
    if is_new and now.reason in (UNSCHEDULED, *HINDRANCES):
        yield Event(now.reason, now.message, EventType.WARNING)
