"""Which pods of a job go and which come.

A pod that goes is condemned first: its row says `Deleted` with its uid, so that the decision
outlives a crash. The next attempt's pod comes only once the old one is gone. Pods that
can't be taken back in one by one (a rigid gang) go and come together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from jobyard.plan.deciding.recovery import is_lost
from jobyard.plan.facts.decision import Delete, earliest
from jobyard.plan.facts.pod_facts import Pod
from jobyard.plan.facts.standing import Standing, State

# How long a pod may stay beyond its grace before its node is asked about.
OVERDUE_SECONDS = 30
ASK_AGAIN_SECONDS = 60


class Movement(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to a job's pods now."""

    # Names of pods whose rows say from now on that they are to go.
    condemned: frozenset[str] = frozenset()
    deletes: tuple[Delete, ...] = ()
    creates: tuple[Standing, ...] = ()
    nodes_to_ask: tuple[str, ...] = ()
    # What replicas without a pod wait for, where that isn't their own delay.
    waits_for: str = ""
    look_again_at: float | None = None


def broken_by(standings: Sequence[Standing]) -> Standing | None:
    """The replica whose loss breaks a rigid gang, if there is one."""
    return next((standing for standing in standings if is_lost(standing)), None)


def delete_all(pods: Sequence[Pod]) -> Movement:
    """All replicas go, as in a pause; those on their way already are left alone."""
    return Movement(
        condemned=frozenset(pod.name for pod in pods),
        deletes=tuple(delete_of(pod) for pod in pods if not pod.is_terminating),
    )


def delete_of(pod: Pod, grace_seconds: int | None = None) -> Delete:
    return Delete(kind="Pod", name=pod.name, uid=pod.uid, grace_seconds=grace_seconds)


def pods_to_delete(standings: Sequence[Standing], now: float, *, all_go: bool) -> Movement:
    """Pods that go one by one, or all of them when a rigid gang is broken."""
    condemned: list[str] = []
    deletes: list[Delete] = []
    moments: list[float] = []
    for standing in standings:
        pod = standing.pod
        if pod is None:
            continue
        if all_go or standing.state in (State.LOST, State.OUTDATED):
            condemned.append(pod.name)
        if pod.is_terminating:
            continue
        due = _goes_at(standing, all_go=all_go)
        if due is None:
            continue
        if due <= now:
            deletes.append(delete_of(pod))
        else:
            moments.append(due)
    return Movement(
        condemned=frozenset(condemned),
        deletes=tuple(deletes),
        look_again_at=min(moments, default=None),
    )


def _goes_at(standing: Standing, *, all_go: bool) -> float | None:
    """When a replica's pod is to be deleted; None: not at all."""
    pod = standing.pod
    assert pod is not None
    match standing.state:
        case State.OUTDATED:
            return 0.0
        case State.LOST | State.LEAVING:
            return standing.due_at if standing.due_at is not None else 0.0
        case State.SUCCEEDED | State.FAILED if not standing.is_final and not all_go:
            if not standing.role.is_numbered:
                return standing.due_at
            # Its pod stays for the log, unless something of it still runs.
            return 0.0 if pod.still_runs else None
        case State.SUCCEEDED | State.FAILED if not all_go:
            # Ended for good: sidecars that still run go with the pod.
            return 0.0 if pod.still_runs else None
    return 0.0 if all_go else None


def pods_to_create(
    standings: Sequence[Standing], now: float, may_come: Callable[[Standing], bool]
) -> Movement:
    """Replicas whose pods are to be made now."""
    creates: list[Standing] = []
    moments: list[float | None] = []
    for standing in standings:
        if not _is_wanted(standing) or not may_come(standing):
            continue
        if standing.due_at is None or standing.due_at <= now:
            creates.append(standing)
        else:
            moments.append(standing.due_at)
    return Movement(creates=tuple(creates), look_again_at=earliest(*moments))


def _is_wanted(standing: Standing) -> bool:
    if standing.state is State.MISSING:
        return True
    pod = standing.pod
    # A numbered attempt has a name of its own, so the one before it may stay.
    return (
        standing.role.is_numbered
        and standing.has_ended
        and not standing.is_final
        and (pod is None or pod.has_finished)
    )


def overdue(pods: Sequence[Pod], lost_nodes: frozenset[str], now: float) -> Movement:
    """Pods that should be gone by now: removed by force where their node is lost."""
    deletes: list[Delete] = []
    asked: list[str] = []
    moments: list[float] = []
    for pod in pods:
        if pod.deletion_due_at is None:
            continue
        late_at = pod.deletion_due_at + OVERDUE_SECONDS
        if late_at > now:
            moments.append(late_at)
        elif pod.node in lost_nodes or not pod.node:
            deletes.append(delete_of(pod, 0))
        else:
            asked.append(pod.node)
            moments.append(now + ASK_AGAIN_SECONDS)
    return Movement(
        deletes=tuple(deletes),
        nodes_to_ask=tuple(dict.fromkeys(asked)),
        look_again_at=min(moments, default=None),
    )


def merged(movements: Sequence[Movement]) -> Movement:
    return Movement(
        condemned=frozenset().union(*(each.condemned for each in movements)),
        deletes=tuple(_once(delete for each in movements for delete in each.deletes)),
        creates=tuple(standing for each in movements for standing in each.creates),
        nodes_to_ask=tuple(node for each in movements for node in each.nodes_to_ask),
        waits_for=next((each.waits_for for each in movements if each.waits_for), ""),
        look_again_at=earliest(*(each.look_again_at for each in movements)),
    )


def _once(deletes: Iterator[Delete]) -> Iterator[Delete]:
    """Each object once; a forced deletion comes last and wins."""
    return iter({delete.uid: delete for delete in deletes}.values())
