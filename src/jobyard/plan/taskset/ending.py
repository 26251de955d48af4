"""The end of an attempt: the TaskSet's own end, or what comes before the next attempt.

The status says what was decided before anything is removed. An end is final: the status never
changes after it, and what is left of the pods goes. Before a retry all pods and the control
unit have to be gone; from that moment on its delay is counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jobyard.api.parts.taskset_status import TaskSetPhase, TaskSetState, TaskSetStatus
from jobyard.plan.deciding.cleanup import in_order
from jobyard.plan.deciding.pods import Movement, delete_of, merged, overdue
from jobyard.plan.facts.decision import Child, Delete, Event, EventReason, Plan, earliest
from jobyard.plan.reporting.events import named
from jobyard.plan.taskset.attempt import Attempt, units
from jobyard.plan.taskset.control_unit import delete_unit, unit_name
from jobyard.plan.taskset.retries import delay_seconds, due_at, retries_max
from jobyard.plan.taskset.roles import Group, Verdict, closed
from jobyard.plan.taskset.status import Summary, taskset_status


def may_retry(attempt: Attempt) -> bool:
    return attempt.number < retries_max(attempt.spec.retry_policy)


def completing(
    attempt: Attempt, groups: Sequence[Group], verdict: Verdict
) -> tuple[Plan, TaskSetStatus]:
    """The moment a TaskSet ends."""
    limit = retries_max(attempt.spec.retry_policy)
    message = verdict.message
    if not verdict.succeeded and limit and verdict.may_retry:
        message += f" No retry is left ({attempt.number} of {limit} used)."
    summary = Summary(
        phase=TaskSetPhase.COMPLETED,
        phase_message=message,
        state=verdict.state,
        state_message=message,
        all_go=True,
    )
    status = taskset_status(attempt, closed(groups, verdict), summary)
    plan = _removal(attempt, units(attempt.seen))
    pods = [delete.name for delete in plan.deletes if delete.kind == "Pod"]
    events = (Event(EventReason.CLEANED_UP, f"Deleted {named(pods)}."),) if pods else ()
    return _with_events(plan, events), status


def _with_events(plan: Plan, events: tuple[Event, ...]) -> Plan:
    return Plan(
        deletes=plan.deletes,
        events=events,
        nodes_to_ask=plan.nodes_to_ask,
        look_again_at=plan.look_again_at,
    )


def after_the_end(attempt: Attempt) -> Plan:
    return _removal(attempt, units(attempt.seen))


def _removal(attempt: Attempt, condemned: Sequence[Child]) -> Plan:
    """All pods go, and these control units."""
    seen = attempt.seen
    deletes = tuple(delete_of(pod) for pod in in_order(seen) if not pod.is_terminating)
    late = overdue(seen.pods, seen.lost_nodes, attempt.now)
    movement = merged([Movement(deletes=deletes), late])
    return Plan(
        deletes=(*movement.deletes, *_unit_deletes(condemned)),
        nodes_to_ask=movement.nodes_to_ask,
        look_again_at=movement.look_again_at,
    )


def _unit_deletes(condemned: Sequence[Child]) -> Iterator[Delete]:
    for unit in condemned:
        if not unit.is_terminating:
            yield delete_unit(unit)


def retry_text(attempt: Attempt, verdict: Verdict) -> str:
    policy = attempt.spec.retry_policy
    return (
        f"Attempt {attempt.number} failed: {verdict.message} Retry {attempt.number + 1} of"
        f" {retries_max(policy)} follows {delay_seconds(policy)} s after its pods are gone."
    )


def _old_units(attempt: Attempt) -> tuple[Child, ...]:
    """Those that have to be gone; the next one may be there already, after a crash."""
    following = unit_name(attempt.name, attempt.number + 1)
    return tuple(unit for unit in units(attempt.seen) if unit.name != following)


def is_cleared(attempt: Attempt) -> bool:
    return not attempt.seen.pods and not _old_units(attempt)


def retry_due_at(attempt: Attempt) -> float | None:
    """When the next attempt may begin, once this one is cleared away; None: at once."""
    is_pending = attempt.status.phase is TaskSetPhase.RETRY_PENDING
    since = attempt.status.transition_time if is_pending else None
    return due_at(attempt.spec.retry_policy, since, attempt.now)


def removing(attempt: Attempt, groups: Sequence[Group], message: str) -> tuple[Plan, TaskSetStatus]:
    """Everything of an attempt goes, before the next one."""
    before = attempt.status
    phase = _removal_phase(attempt)
    is_pending = phase is TaskSetPhase.RETRY_PENDING
    delay = delay_seconds(attempt.spec.retry_policy)
    summary = Summary(
        phase=phase,
        phase_message=f"The next attempt begins after {delay} s."
        if is_pending
        else "The pods of the attempt are being removed.",
        state=TaskSetState.WAITING if is_pending else before.state or TaskSetState.WAITING,
        state_message=message,
        all_go=True,
    )
    status = taskset_status(attempt, groups, summary)
    plan = _removal(attempt, _old_units(attempt))
    due = retry_due_at(attempt) if is_cleared(attempt) else None
    again = earliest(plan.look_again_at, due)
    return (
        Plan(deletes=plan.deletes, nodes_to_ask=plan.nodes_to_ask, look_again_at=again),
        status,
    )


def _removal_phase(attempt: Attempt) -> TaskSetPhase:
    if is_cleared(attempt) or attempt.status.phase is TaskSetPhase.RETRY_PENDING:
        return TaskSetPhase.RETRY_PENDING
    pods = all(pod.is_terminating for pod in attempt.seen.pods)
    if pods and all(unit.is_terminating for unit in _old_units(attempt)):
        return TaskSetPhase.DELETION_REQUESTED
    return TaskSetPhase.DELETION_PENDING
