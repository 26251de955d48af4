"""The decision about a job: what should happen now, and what its status is.

Level-triggered: it depends on what is true, never on which event came. The steps below are
the table of contents; each policy has a file of its own. Called by the controller with a
snapshot, by the simulation with a model of one. TaskSets have policies of their own, in
`plan.taskset`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice

import msgspec

from jobyard.api.parts.status import ConditionType, JobStatus, Phase
from jobyard.plan.deciding.finishing import after_the_end, ending
from jobyard.plan.deciding.initialization import Initialization, initialization, obstructed_pods
from jobyard.plan.deciding.lookups import with_lookups
from jobyard.plan.deciding.phases import has_started, phase_of, started_at
from jobyard.plan.deciding.pods import (
    Movement,
    broken_by,
    delete_all,
    merged,
    overdue,
    pods_to_create,
    pods_to_delete,
)
from jobyard.plan.deciding.recovery import Course, course_of, decided_together
from jobyard.plan.deciding.restarts import with_delays, with_restarts
from jobyard.plan.deciding.supporting import Supporting, supporting_of
from jobyard.plan.facts.deadline import Clock, clock_of, deadline_at, deadline_passed
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
from jobyard.plan.facts.outcome import Outcome, outcome
from jobyard.plan.facts.pod_facts import Pod
from jobyard.plan.facts.standing import (
    Memory,
    Standing,
    State,
    memories_of,
    pods_by_replica,
    standings_of,
    surplus_of,
    without_ends,
)
from jobyard.plan.lowering.description import Description
from jobyard.plan.lowering.modes import is_debugging, is_same_spec, wants_pause
from jobyard.plan.lowering.names import pod_names
from jobyard.plan.objects.manifests import Build, Manifests
from jobyard.plan.objects.pods import Replica, replica_pod
from jobyard.plan.reporting.advice import ADVICE_MAX, advice
from jobyard.plan.reporting.conditions import DEBUG, condition
from jobyard.plan.reporting.events import changes, created, ends
from jobyard.plan.reporting.status import Verdict, job_status
from jobyard.plan.reporting.status_form import StatusForm
from jobyard.schema.finding import dotted

_OVER = (Phase.SUCCEEDED, Phase.FAILED)
_ON_THE_WAY_OUT = (State.LEAVING, State.OUTDATED)


def decide(seen: Observed, now: float, form: StatusForm) -> Plan:
    """What to do about a T9k job. `form` is that of its kind's status."""
    if seen.is_deleting:
        # Its children go by their owner references; nothing is made for it any more.
        return Plan()
    stored = form.read(seen.status)
    if stored is not None and stored.phase in _OVER:
        plan, status = after_the_end(seen, stored, now)
    else:
        plan, status = _while_it_lives(seen, stored, now)
    final = form.written(seen, status, now)
    if final == seen.status:
        # Events tell what changed: of nothing new there are none, but of pods made now.
        made = tuple(event for event in plan.events if event.reason is EventReason.CREATED_PODS)
        return msgspec.structs.replace(plan, status=None, events=made)
    return msgspec.structs.replace(plan, status=final)


def _replicas(seen: Observed) -> list[Pod]:
    return [pod for pod in seen.pods if pod.role]


def _memories(stored: JobStatus | None) -> Mapping[str, Sequence[Memory]]:
    memories = memories_of(stored.tasks) if stored is not None else {}
    said = condition(stored.conditions, ConditionType.COMPLETED) if stored is not None else None
    if said is not None and said.reason == DEBUG:
        return {type_: [without_ends(m) for m in rows] for type_, rows in memories.items()}
    return memories


def _with_restarts(
    seen: Observed, stored: JobStatus | None, standings: tuple[Standing, ...], now: float
) -> tuple[tuple[Standing, ...], Course]:
    """Every end decided on, by itself or together with those that it has to do with."""
    description = seen.description
    course = course_of(stored, standings) if description.is_collective else Course()
    if is_debugging(description.run_mode):
        return tuple(with_delays(standings, now)), Course(course.attempt)
    used = (stored.restarts or 0) if stored is not None else 0
    limit = description.backoff_limit
    left = None if limit is None else limit - used
    if not description.is_collective:
        return tuple(with_restarts(standings, left, now)), course
    decided, course = decided_together(standings, course, left, now)
    return tuple(decided), course


def _while_it_lives(seen: Observed, stored: JobStatus | None, now: float) -> tuple[Plan, JobStatus]:
    description = seen.description
    memories, pods_of = _memories(stored), pods_by_replica(_replicas(seen))
    standings = tuple(standings_of(description, pod_names(description), pods_of, memories))
    standings, course = _with_restarts(seen, stored, standings, now)
    began = started_at(stored, standings, now)
    clock = clock_of(stored, began)
    end, due = _end(description, standings, clock, now)
    if end is not None:
        return ending(seen, stored, standings, end, now)
    supporting = supporting_of(seen)
    init = initialization(
        seen,
        supporting,
        stored.conditions if stored else (),
        standings,
        has_started=has_started(stored, standings),
    )
    is_paused = wants_pause(description.run_mode)
    movement, standings = _movement(seen, stored, standings, init, supporting, now)
    pause_count = (stored.pause_count or 0) if stored is not None else 0
    phase = phase_of(description, stored, standings, _replicas(seen), is_paused=is_paused)
    if phase is Phase.PAUSED and (stored is None or stored.phase is not Phase.PAUSED):
        pause_count += 1
    verdict = Verdict(
        phase=phase,
        initialized=init.holding,
        condemned=movement.condemned,
        are_coming=not is_paused,
        clock=clock,
        started_at=began,
        pause_count=pause_count,
        attempt=course.attempt or None,
        recovery=course.recovery if not is_paused else None,
        surplus=tuple(surplus_of(description, pods_of, memories)),
        waits_for=movement.waits_for,
    )
    status = job_status(seen, stored, standings, verdict, now)
    pods = Manifests(
        dict(_pod(seen, standing, course, pause_count) for standing in movement.creates)
    )
    plan = Plan(
        supporting=supporting.creates,
        probes=Manifests(dict(_probes(seen, init))),
        deletes=(*_replaced(seen, supporting), *movement.deletes),
        pods=pods,
        events=tuple(_events(seen, stored, status, standings, pods)),
        nodes_to_ask=movement.nodes_to_ask,
        look_again_at=earliest(movement.look_again_at, due),
    )
    return with_lookups(plan, seen, standings, now), status


def _end(
    description: Description, standings: tuple[Standing, ...], clock: Clock, now: float
) -> tuple[Outcome | None, float | None]:
    """The end of the job, if this is it, and when its time is over."""
    if is_debugging(description.run_mode):
        # Whoever debugs takes the time it takes.
        return None, None
    end = outcome(description.ending, standings)
    due = deadline_at(description.active_deadline_seconds, clock)
    if end is None and due is not None and due <= now:
        assert description.active_deadline_seconds is not None
        end = deadline_passed(description.active_deadline_seconds)
    return end, due


def _replaced(seen: Observed, supporting: Supporting) -> tuple[Delete, ...]:
    """Supporting objects of another spec go after the pods that use them."""
    has_users = any(not is_same_spec(p.revision, seen.description) for p in _replicas(seen))
    return () if has_users else supporting.deletes


def _movement(
    seen: Observed,
    stored: JobStatus | None,
    standings: tuple[Standing, ...],
    init: Initialization,
    supporting: Supporting,
    now: float,
) -> tuple[Movement, tuple[Standing, ...]]:
    """Pods to delete and to create; a pause also clears the ends of replicas."""
    replicas = _replicas(seen)
    late = overdue(replicas, seen.lost_nodes, now)
    if wants_pause(seen.description.run_mode):
        forgotten = tuple(_forgotten(standing) for standing in standings)
        return merged([delete_all(replicas), late]), forgotten
    if not init.may_have_pods:
        return merged([delete_all(replicas), late]), standings
    known = {standing.name for standing in standings} | {
        standing.pod.name for standing in standings if standing.pod is not None
    }
    numbered = {role.type for role in seen.description.roles if role.is_numbered}
    extra = [p for p in replicas if p.name not in known and p.role not in numbered]
    is_rigid = seen.description.is_rigid and not is_debugging(seen.description.run_mode)
    is_broken = is_rigid and broken_by(standings) is not None
    goes = pods_to_delete(standings, now, all_go=is_broken)
    is_waiting = is_rigid and (
        (is_broken and bool(replicas)) or any(s.state in _ON_THE_WAY_OUT for s in standings)
    )
    was_paused = stored is not None and stored.phase is Phase.PAUSED
    has_old = was_paused and any(pod.is_terminating for pod in replicas)
    # Pods of two specs never run side by side.
    has_old = has_old or any(not is_same_spec(p.revision, seen.description) for p in replicas)
    if is_waiting or has_old:
        comes = Movement(waits_for="waits until all pods from before are gone")
    elif not supporting.is_ready:
        comes = Movement(waits_for="waits for services, keys or files of the job")
    else:
        others_ready = _others_are_ready(standings)
        comes = pods_to_create(
            standings, now, lambda s: others_ready or not s.role.waits_for_others
        )
    coming_now = {standing.name for standing in comes.creates}
    standings = tuple(
        msgspec.structs.replace(s, due_at=None) if s.name in coming_now else s for s in standings
    )
    return merged([goes, comes, delete_all(extra), late]), standings


def _forgotten(standing: Standing) -> Standing:
    """A replica that ended before a pause starts again with the others after it.

    At once: whoever paused the job may have mended it.
    """
    fresh = msgspec.structs.replace(standing, failures_in_a_row=0, due_at=None)
    if standing.pod is None and standing.has_ended:
        return msgspec.structs.replace(fresh, state=State.MISSING, end=None, is_final=False)
    return fresh


def _others_are_ready(standings: Sequence[Standing]) -> bool:
    return all(
        s.pod is not None and s.pod.is_ready and s.is_live
        for s in standings
        if not s.role.waits_for_others
    )


def _pod(
    seen: Observed, standing: Standing, course: Course, pause_count: int
) -> tuple[ChildKey, Build]:
    replica = Replica(
        role=standing.role,
        rank=standing.rank,
        attempt=standing.restarts,
        job_attempt=course.attempt,
        pods_before=standing.pods_before_next,
        is_resumed=pause_count > 0,
    )
    return ("Pod", replica.name_in(seen.description)), partial(
        replica_pod, seen.description, replica
    )


def _probes(seen: Observed, init: Initialization) -> Iterator[tuple[ChildKey, Build]]:
    """The first pod of each role, and those that could not be made."""
    if not init.needs_probes:
        return
    obstructed = {name for _, name in obstructed_pods(seen)}
    for role, rank, name in pod_names(seen.description):
        if rank == 0 or name in obstructed:
            replica = Replica(role=role, rank=rank)
            yield ("Pod", name), partial(replica_pod, seen.description, replica)


def _events(
    seen: Observed,
    stored: JobStatus | None,
    status: JobStatus,
    standings: Sequence[Standing],
    pods: Manifests,
) -> Iterator[Event]:
    if stored is None:
        for finding in islice(advice(seen.description), ADVICE_MAX):
            text = f"{dotted(finding.path)}: {finding.text}"
            yield Event(EventReason.SPEC_ADVICE, text, EventType.WARNING)
    yield from changes(stored, status, None)
    mode = seen.description.run_mode
    if not is_debugging(mode):
        is_rigid = seen.description.is_rigid and not wants_pause(mode)
        broken = broken_by(standings) if is_rigid else None
        # Failures caused by the loss are covered by its event.
        told = [s for s in standings if broken is None or s.state is State.LOST]
        used = (stored.restarts or 0) if stored is not None else 0
        yield from ends(seen.description, told, used)
        if broken is not None:
            yield Event(
                EventReason.GANG_RECREATED,
                f"{broken.short_name} was taken away: all pods are recreated together, without"
                " using up restarts.",
                EventType.WARNING,
            )
    # What was refused the last time is tried again, and told of once it is there.
    yield from created([key[1] for key in pods.keys if key not in seen.obstacles])
