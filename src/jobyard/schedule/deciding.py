"""The scheduler's decision, as a table of contents.

1. One look: gangs are gathered, those whose time is over are let go, the line is walked.
2. What was placed, or sent away, changes shares and with them the order. So it looks again, at what
   there would be, until nothing more comes of it: the next look at the same moment decides nothing.
3. The statuses of groups and queues, as that leaves them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from jobyard.api.podgroup import PodGroupStatus
from jobyard.api.queue import QueueStatus
from jobyard.schedule.decision import Decision, Evicted, Paused, Placed, Removed
from jobyard.schedule.groups import by_queue
from jobyard.schedule.looking import Look
from jobyard.schedule.reasons import Why
from jobyard.schedule.snapshot import Candidate, GroupKey, Snapshot
from jobyard.schedule.statuses import group_status, queue_status

# Each look but the last places or sends away somebody, so this is only reached by an error.
_LOOKS_MAX: Final = 10_000


def decide(snapshot: Snapshot) -> Decision:
    """Who is placed, who goes, and what all others wait for."""
    placed: list[Placed] = []
    evicted: list[Evicted] = []
    paused: list[Paused] = []
    removed: list[Removed] = []
    seen = snapshot
    for _ in range(_LOOKS_MAX):
        look = Look(seen)
        look.walk()
        placed += look.placed
        evicted += look.evicted
        paused += look.overdue.paused
        removed += look.overdue.removed
        following = _after(seen, look)
        if following is seen:
            break
        seen = following
    return Decision(
        placed=tuple(placed),
        refused=tuple(look.refused),
        aside=tuple(look.aside),
        evicted=tuple(evicted),
        paused=tuple(paused),
        removed=tuple(removed),
        groups=_groups(look),
        group_statuses=_group_statuses(look),
        queue_statuses=_queue_statuses(look),
        look_again_at=_next_moment(look),
    )


def _after(snapshot: Snapshot, look: Look) -> Snapshot:
    """What there is once this is done; the very same if nothing is."""
    here = {each.pod.uid: each for each in look.placed}
    going = {each.pod.uid for each in look.evicted} | look.overdue.uids
    nominated = {each.pod.uid for each in look.refused if each.is_nominated}
    was_nominated = {pod.uid for pod in snapshot.pods if pod.is_nominated and not pod.node}
    if not (here or going or nominated != was_nominated - here.keys()):
        return snapshot
    touched = here.keys() | going | nominated | was_nominated
    pods = tuple(
        _changed(look, pod, here, going, nominated) if pod.uid in touched else pod
        for pod in snapshot.pods
    )
    return msgspec.structs.replace(snapshot, pods=pods)


def _changed(
    look: Look,
    pod: Candidate,
    here: Mapping[str, Placed],
    going: set[str],
    nominated: set[str],
) -> Candidate:
    placed = here.get(pod.uid)
    return msgspec.structs.replace(
        pod,
        node=look.machine.name if placed else pod.node,
        devices=placed.devices if placed else pod.devices,
        is_terminating=pod.is_terminating or pod.uid in going,
        is_nominated=pod.uid in nominated,
    )


def _groups(look: Look) -> dict[GroupKey, Why]:
    return {
        gang.facts.key: why
        for gang in look.gangs
        if gang.facts is not None and (why := look.whys.get(id(gang))) is not None
    }


def _group_statuses(look: Look) -> dict[GroupKey, PodGroupStatus]:
    out = {}
    for gang in look.gangs:
        if gang.facts is None:
            continue
        held = look.held((gang,))
        status = group_status(look.snapshot, gang, held, look.whys.get(id(gang)))
        if status != gang.facts.status:
            out[gang.facts.key] = status
    return out


def _queue_statuses(look: Look) -> dict[str, QueueStatus]:
    gangs = by_queue(look.gangs)
    out = {}
    for queue in look.snapshot.queues:
        status = queue_status(look.snapshot, look.accounts[queue.name], gangs.get(queue.name, ()))
        if status != queue.status:
            out[queue.name] = status
    return out


def _next_moment(look: Look) -> float | None:
    moments = [gang.settles_at for gang in look.gangs if gang.settles_at is not None]
    if look.overdue.next_at is not None:
        moments.append(look.overdue.next_at)
    return min(moments, default=None)
