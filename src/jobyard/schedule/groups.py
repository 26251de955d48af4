"""Which pods belong together: the gangs of a snapshot.

A pod with a group's name belongs to that PodGroup and to the group's queue. A pod without one is a
gang of one, in the queue that it names. Called once per look; knows nothing of room or order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from jobyard.api.parts.status import Truth
from jobyard.api.podgroup import GroupConditionType, PodGroupStatus
from jobyard.schedule.snapshot import SUCCEEDED, Candidate, GroupFacts, GroupKey, Snapshot

# For so long after the last pod was made, more may come.
SETTLING_SECONDS: Final = 10.0


class Gang(msgspec.Struct, kw_only=True):
    """Pods that start together or not at all, in one look; changed while that goes on."""

    title: str
    namespace: str
    queue: str
    priority: int
    created_at: float
    needed: int = 1
    roles: tuple[tuple[str, int], ...] = ()
    # None: one pod without a group, or with one that doesn't exist (`lacks_group`).
    facts: GroupFacts | None = None
    lacks_group: GroupKey | None = None
    waiting: list[Candidate] = []
    # On the machine and not ended; those that are being stopped are apart.
    here: list[Candidate] = []
    leaving: list[Candidate] = []
    succeeded: list[Candidate] = []
    # Those that have ended and are being deleted are neither: they may well come anew.
    failed: int = 0
    # How many pods are in each phase.
    phases: dict[str, int] = {}
    has_started: bool = False
    # How many of those that it needs it starts anew without: nobody waits for them any more.
    excused: int = 0
    # When there is more to say about whether the rest of it comes.
    settles_at: float | None = None

    @property
    def is_nominated(self) -> bool:
        return any(pod.is_nominated for pod in self.waiting)

    @property
    def alive(self) -> int:
        """How many count towards `needed` already."""
        return len(self.here) + len(self.succeeded)

    def alive_of(self, role: str) -> int:
        return sum(pod.role == role for pod in self.here) + sum(
            pod.role == role for pod in self.succeeded
        )

    @property
    def is_whole(self) -> bool:
        """Whether as many are there as it needs, of each role too."""
        return self.alive >= self.needed and all(
            self.alive_of(role) >= least for role, least in self.roles
        )


def was_scheduled(status: PodGroupStatus | None) -> bool:
    """Whether a gang was started once; that never goes back."""
    return status is not None and any(
        each.type is GroupConditionType.SCHEDULED and each.status is Truth.TRUE
        for each in status.conditions
    )


def gathered(snapshot: Snapshot) -> list[Gang]:
    """All gangs, those of PodGroups without pods too."""
    by_key = {facts.key: _gang_of(facts) for facts in snapshot.groups}
    alone: list[Gang] = []
    for pod in snapshot.pods:
        gang = by_key.get(pod.group) if pod.group is not None else None
        if gang is None or _is_of_an_earlier_job(gang, pod):
            gang = _alone(snapshot, pod)
            alone.append(gang)
        _put(gang, pod, snapshot.machine.name)
    for gang in by_key.values():
        _judge_start(gang, snapshot.now)
        if gang.facts is not None and gang.facts.priority is None:
            members = (*gang.waiting, *gang.here)
            gang.priority = max((_own_priority(pod) for pod in members), default=0)
    return [*by_key.values(), *alone]


def _gang_of(facts: GroupFacts) -> Gang:
    return Gang(
        title=str(facts.key),
        namespace=facts.key.namespace,
        queue=facts.queue,
        priority=facts.priority or 0,
        created_at=facts.created_at,
        needed=facts.needed,
        roles=facts.roles,
        facts=facts,
        waiting=[],
        here=[],
        leaving=[],
        succeeded=[],
        phases={},
    )


def _alone(snapshot: Snapshot, pod: Candidate) -> Gang:
    """A gang of one."""
    lacking = pod.group
    settles_at = None
    if lacking is not None and snapshot.machine.is_relaxed:
        # Most files were written for a cluster: who names a group that nobody makes runs as well.
        settles_at = settled_at((pod.created_at,), snapshot.now)
        if snapshot.now >= settles_at:
            lacking = settles_at = None
    return Gang(
        title=f"{pod.namespace}/{pod.name}",
        namespace=pod.namespace,
        queue=pod.queue,
        priority=_own_priority(pod),
        created_at=pod.created_at,
        lacks_group=lacking,
        settles_at=settles_at,
        waiting=[],
        here=[],
        leaving=[],
        succeeded=[],
        phases={},
    )


def _own_priority(pod: Candidate) -> int:
    priority = pod.spec.get("priority")
    return priority if isinstance(priority, int) else 0


def _put(gang: Gang, pod: Candidate, machine: str) -> None:
    gang.phases[pod.phase] = gang.phases.get(pod.phase, 0) + 1
    if pod.has_ended:
        if pod.is_terminating:
            return
        if pod.phase == SUCCEEDED:
            gang.succeeded.append(pod)
        else:
            gang.failed += 1
    elif not pod.node:
        if not pod.is_terminating:
            gang.waiting.append(pod)
    elif pod.node == machine:
        (gang.leaving if pod.is_terminating else gang.here).append(pod)


def _is_of_an_earlier_job(gang: Gang, pod: Candidate) -> bool:
    """Of a job that was made again under its name: what is left of the one before isn't its own."""
    assert gang.facts is not None
    mine, its = gang.facts.owner, pod.owner
    is_namesake = (mine.api_version, mine.kind, mine.name) == (its.api_version, its.kind, its.name)
    return bool(mine.uid) and is_namesake and mine.uid != its.uid


def _judge_start(gang: Gang, now: float) -> None:
    """Whether it has started, so that its members are placed one by one.

    One that was started, and of which nothing is left on the machine (it was paused, or taken away
    whole, or all but some have ended), starts anew: all at once those that wait. It needn't have as
    many as before, for members that have ended may stay away, or be gone for good, objects and all.
    Who has seen nothing new for a while counts on no more.
    """
    assert gang.facts is not None
    if not was_scheduled(gang.facts.status):
        return
    if gang.here:
        gang.has_started = True
        return
    gang.excused = gang.failed
    if (
        not gang.waiting
        or gang.leaving
        or gang.alive + gang.failed + len(gang.waiting) >= gang.needed
    ):
        return
    settles_at = settled_at((pod.created_at for pod in gang.waiting), now)
    if now >= settles_at:
        gang.excused = gang.needed
    else:
        gang.settles_at = settles_at


def settled_at(created: Iterable[float], now: float) -> float:
    """When no more come after those; what is from the future was made before a clock was set."""
    return max((at for at in created if at <= now), default=-SETTLING_SECONDS) + SETTLING_SECONDS


def by_queue(gangs: Iterable[Gang]) -> Mapping[str, list[Gang]]:
    out: dict[str, list[Gang]] = {}
    for gang in gangs:
        out.setdefault(gang.queue, []).append(gang)
    return out
