"""The decision about a TaskSet: what should happen now, and what its status is.

Level-triggered, as for the other kinds: it depends on what is true, never on which event
came. The steps below are the table of contents; each policy has a file of its own. Called by
the controller with a snapshot, by the simulation with a model of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec

from jobyard.api.parts.taskset_status import TaskSetPhase, TaskSetState, TaskSetStatus
from jobyard.api.taskset import TaskSetSpec
from jobyard.plan.deciding.pods import Movement, delete_of, merged, overdue
from jobyard.plan.facts.decision import (
    ChildKey,
    Delete,
    Event,
    EventReason,
    EventType,
    Observed,
    Plan,
    earliest,
)
from jobyard.plan.facts.pod_facts import Pod
from jobyard.plan.facts.standing import State
from jobyard.plan.objects.manifests import Build, Manifests
from jobyard.plan.reporting.advice import ADVICE_MAX, advice
from jobyard.plan.reporting.events import created
from jobyard.plan.taskset.attempt import Attempt, numbered, observed_attempt, units
from jobyard.plan.taskset.control_unit import delete_unit, unit_manifest
from jobyard.plan.taskset.ending import (
    after_the_end,
    completing,
    is_cleared,
    may_retry,
    removing,
    retry_due_at,
    retry_text,
)
from jobyard.plan.taskset.events import (
    REMOVING,
    obstacle_events,
    replica_events,
    taskset_events,
)
from jobyard.plan.taskset.preparing import Readiness, probes, readiness, recipe, refusal
from jobyard.plan.taskset.replicas import Member, members_of
from jobyard.plan.taskset.roles import (
    Group,
    Verdict,
    closed,
    goes_with_its_pods,
    groups_of,
    verdict_of,
)
from jobyard.plan.taskset.status import Summary, taskset_status
from jobyard.schema.finding import dotted


def decide_taskset(seen: Observed, now: float, spec: TaskSetSpec) -> Plan:
    """What to do about a TaskSet. `seen.wanted` is ignored: attempts make their own units."""
    if seen.is_deleting:
        # Its children go by their owner references; nothing is made for it any more.
        return Plan()
    attempt = observed_attempt(seen, spec, now)
    phase = attempt.status.phase
    if phase is TaskSetPhase.COMPLETED:
        return after_the_end(attempt)
    plan, status = _between(attempt) if phase in REMOVING else _while_it_lives(attempt)
    if status == seen.status:
        # Events tell what changed: of nothing new there are none, but of pods made now.
        made = tuple(event for event in plan.events if event.reason is EventReason.CREATED_PODS)
        return msgspec.structs.replace(plan, status=None, events=made)
    stored = seen.status
    assert stored is None or isinstance(stored, TaskSetStatus)
    events = (
        *_advice(seen, stored),
        *taskset_events(stored, status),
        *obstacle_events(seen, stored, status),
        *plan.events,
    )
    return msgspec.structs.replace(plan, status=status, events=events)


def _advice(seen: Observed, stored: TaskSetStatus | None) -> Iterator[Event]:
    if stored is None:
        for finding in islice(advice(seen.description), ADVICE_MAX):
            text = f"{dotted(finding.path)}: {finding.text}"
            yield Event(EventReason.SPEC_ADVICE, text, EventType.WARNING)


def _between(attempt: Attempt) -> tuple[Plan, TaskSetStatus]:
    """An attempt has failed and the next one is to come."""
    said = attempt.status.state_message
    if not may_retry(attempt):
        message = f"{said} But its retryPolicy was changed."
        verdict = Verdict(succeeded=False, message=message)
        return completing(attempt, groups_of(attempt, members_of(attempt)), verdict)
    due = retry_due_at(attempt)
    if is_cleared(attempt) and (due is None or due <= attempt.now):
        return _while_it_lives(numbered(attempt, attempt.number + 1))
    return removing(attempt, groups_of(attempt, members_of(attempt)), said)


def _while_it_lives(attempt: Attempt) -> tuple[Plan, TaskSetStatus]:
    groups = groups_of(attempt, members_of(attempt))
    verdict = verdict_of(groups) or refusal(attempt)
    if verdict is None:
        return _going_on(attempt, groups)
    if verdict.succeeded or not verdict.may_retry or not may_retry(attempt):
        plan, status = completing(attempt, groups, verdict)
    else:
        said = retry_text(attempt, verdict)
        plan, status = removing(attempt, closed(groups, verdict), said)
    events = (*replica_events(groups), *plan.events)
    return msgspec.structs.replace(plan, events=events), status


def _going_on(attempt: Attempt, groups: Sequence[Group]) -> tuple[Plan, TaskSetStatus]:
    ready = readiness(attempt)
    unit = attempt.usable_unit
    wanting = [m for g in groups if g.end is None for m in g.members if m.wants_pod and m.is_free]
    comes = [m for m in wanting if _is_due(m, attempt.now)] if ready.is_ready else []
    summary = _saying(attempt, groups, ready, comes)
    status = taskset_status(attempt, groups, summary)
    movement = merged(
        [_going(attempt, groups), overdue(attempt.seen.pods, attempt.seen.lost_nodes, attempt.now)]
    )
    pods = Manifests(dict(_pod(attempt, member) for member in comes))
    plan = Plan(
        supporting=(unit_manifest(attempt.seen.description, attempt.number),)
        if attempt.unit is None
        else (),
        probes=probes(attempt, unit) if ready.needs_probes and unit is not None else (),
        deletes=(*movement.deletes, *_old_units(attempt)),
        pods=pods,
        events=(
            *replica_events(groups),
            # What was refused the last time is tried again, and told of once it is there.
            *created([key[1] for key in pods.keys if key not in attempt.seen.obstacles]),
        ),
        nodes_to_ask=movement.nodes_to_ask,
        look_again_at=earliest(
            movement.look_again_at,
            *(m.standing.due_at for m in wanting if not _is_due(m, attempt.now)),
        ),
    )
    return plan, status


def _pod(attempt: Attempt, member: Member) -> tuple[ChildKey, Build]:
    unit, standing = attempt.usable_unit, member.standing
    assert unit is not None
    return recipe(attempt, unit, standing.role, standing.rank, standing.restarts)


def _is_due(member: Member, now: float) -> bool:
    due = member.standing.due_at
    return due is None or due <= now


def _saying(
    attempt: Attempt, groups: Sequence[Group], ready: Readiness, comes: Sequence[Member]
) -> Summary:
    """Phase and state of an attempt that goes on: neither ever goes back within it."""
    members = [member for group in groups for member in group.members]
    is_running = attempt.status.phase is TaskSetPhase.RUNNING or any(map(_has_started, members))
    if is_running:
        phase = TaskSetPhase.RUNNING
    elif ready.has_begun or ready.is_ready:
        phase = TaskSetPhase.PREPARING
    else:
        phase = TaskSetPhase.PENDING
    state_message = f"Attempt {attempt.number} " + (
        "is running." if is_running else "waits for its first replica to start."
    )
    return Summary(
        phase=phase,
        phase_message=ready.message,
        state=TaskSetState.RUNNING if is_running else TaskSetState.WAITING,
        state_message=state_message,
        coming=frozenset(member.key for member in comes),
    )


def _has_started(member: Member) -> bool:
    standing = member.standing
    return standing.state is State.RUNNING or standing.has_ended or standing.restarts > 0


def _going(attempt: Attempt, groups: Sequence[Group]) -> Movement:
    """Pods that go: lost ones, those of closed roles, what runs on beside an end, strays."""
    deletes: list[Delete] = []
    moments: list[float] = []
    known: set[str] = set()
    for group in groups:
        for member in group.members:
            for pod in member.pods:
                known.add(pod.uid)
                due = _goes_at(group, member, pod)
                if due is None or pod.is_terminating:
                    continue
                if due <= attempt.now:
                    deletes.append(delete_of(pod))
                else:
                    moments.append(due)
    # Pods of an earlier attempt, or without a replica that they could be of.
    strays = [p for p in attempt.seen.pods if p.uid not in known and not p.is_terminating]
    return Movement(
        deletes=(*deletes, *map(delete_of, strays)), look_again_at=min(moments, default=None)
    )


def _goes_at(group: Group, member: Member, pod: Pod) -> float | None:
    """When a pod is to be deleted; None: not at all."""
    if group.end is not None:
        return 0.0 if pod.still_runs or goes_with_its_pods(group.policy) else None
    standing = member.standing
    if standing.pod is not None and pod.uid == standing.pod.uid:
        if standing.is_live:
            return None
        if standing.state is State.LOST:
            return standing.due_at or 0.0
    # An ended one stays for its log, unless something of it still runs.
    return 0.0 if pod.still_runs else None


def _old_units(attempt: Attempt) -> tuple[Delete, ...]:
    return tuple(
        delete_unit(unit)
        for unit in units(attempt.seen)
        if unit.name != attempt.unit_name and not unit.is_terminating
    )
