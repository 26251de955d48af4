"""Who has been in a queue for longer than it allows: `maxDuration`.

The age counts from the pod's creation. The pods of a T9k job would only be recreated, so the job is
paused; all others are deleted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from jobyard.api.kinds import kind_of
from jobyard.api.parts.run_mode import Mode
from jobyard.numerals import whole_number
from jobyard.schedule.decision import Paused, Removed
from jobyard.schedule.groups import Gang
from jobyard.schedule.snapshot import Candidate, QueueFacts

_UNITS: Final[Mapping[str, float]] = {
    "y": 365 * 86400.0,
    "w": 7 * 86400.0,
    "d": 86400.0,
    "h": 3600.0,
    "m": 60.0,
    "s": 1.0,
    "ms": 0.001,
}
_PART: Final = re.compile(r"([0-9]+)(ms|[ywdhms])")


class Overdue(msgspec.Struct, frozen=True):
    """Those whose time is over, and when the next one's is."""

    paused: tuple[Paused, ...] = ()
    removed: tuple[Removed, ...] = ()
    next_at: float | None = None
    uids: frozenset[str] = frozenset()


def seconds_of_duration(text: str | None) -> float | None:
    """How long `2h45m` is; None for no limit: absent, empty, 0, or beyond all bounds."""
    seconds = 0.0
    for digits, unit in _PART.findall(text or ""):
        number = whole_number(digits)
        if number is None:
            return None
        seconds += number * _UNITS[unit]
    return seconds or None


def overdue(gangs: Iterable[Gang], queues: Mapping[str, QueueFacts], now: float) -> Overdue:
    jobs: dict[str, Paused] = {}
    removed: list[Removed] = []
    uids: set[str] = set()
    next_at: float | None = None
    for gang in gangs:
        queue = queues.get(gang.queue)
        if queue is None or queue.max_seconds is None:
            continue
        for pod in (*gang.here, *gang.waiting):
            due_at = pod.created_at + queue.max_seconds
            if now < due_at:
                next_at = due_at if next_at is None else min(next_at, due_at)
                continue
            uids.add(pod.uid)
            said = (
                f"{pod.name} is older than the {queue.max_seconds:g} s that queue {queue.name}"
                f" allows"
            )
            if _can_be_paused(pod):
                jobs.setdefault(pod.owner.uid, Paused(pod.namespace, pod.owner, said))
            else:
                removed.append(Removed(pod, said))
    return Overdue(tuple(jobs.values()), tuple(removed), next_at, frozenset(uids))


def _can_be_paused(pod: Candidate) -> bool:
    """A replica of a T9k job, whether it names a queue or not."""
    owner = pod.owner
    kind = kind_of(owner.api_version, owner.kind)
    return kind is not None and Mode.PAUSE in kind.modes and pod.is_replica
