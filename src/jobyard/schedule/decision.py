"""What was decided in one look: values for the shell to carry out, in this order."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from jobyard.api.podgroup import PodGroupStatus
from jobyard.api.queue import QueueStatus
from jobyard.schedule.reasons import Why
from jobyard.schedule.snapshot import Candidate, GroupKey, Owner


class Placed(msgspec.Struct, frozen=True, gc=False):
    """A pod that runs here; `cuts` tells what it doesn't get of what it asked for."""

    pod: Candidate
    devices: tuple[int, ...] = ()
    cuts: tuple[str, ...] = ()


class Refused(msgspec.Struct, frozen=True, gc=False):
    """A pod that waits, and why; `is_nominated`: others go to make room for it."""

    pod: Candidate
    why: Why
    is_nominated: bool = False


class Aside(msgspec.Struct, frozen=True, gc=False):
    """A pod that is in no line: it is gated, or nobody understands it."""

    pod: Candidate
    word: str
    message: str


class Evicted(msgspec.Struct, frozen=True, gc=False):
    """A pod that goes to make room, and for whom."""

    pod: Candidate
    preemptor: str
    message: str


class Paused(msgspec.Struct, frozen=True):
    """A job that has been in its queue for too long."""

    namespace: str
    job: Owner
    message: str


class Removed(msgspec.Struct, frozen=True):
    """A pod that has been in its queue for too long, and that nobody can pause."""

    pod: Candidate
    message: str


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """All of it. Carried out, the next look at the same moment decides nothing more."""

    placed: tuple[Placed, ...] = ()
    refused: tuple[Refused, ...] = ()
    aside: tuple[Aside, ...] = ()
    evicted: tuple[Evicted, ...] = ()
    paused: tuple[Paused, ...] = ()
    removed: tuple[Removed, ...] = ()
    # Why gangs with a PodGroup wait that haven't started, or have to start again.
    groups: Mapping[GroupKey, Why] = {}
    # Those of which the status changes.
    group_statuses: Mapping[GroupKey, PodGroupStatus] = {}
    queue_statuses: Mapping[str, QueueStatus] = {}
    # When there is something to decide although nothing happens.
    look_again_at: float | None = None
