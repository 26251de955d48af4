"""Which waiting pods get a place on the one machine, and what to tell the others.

Numbered steps over a snapshot: (1) what the machine has less what is taken, (2) the waiting
pods by priority, then age, (3) each is placed, cut down to size where that is allowed, or
refused with an enumerated reason and its numbers. Gangs and queues are not known here:
each pod is judged by itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from jobyard.schedule.amounts import GPU, Amounts, told, total
from jobyard.schedule.requests import requested
from jobyard.schedule.selecting import wants_node
from jobyard.schedule.tolerating import CORDON, Taint, untolerated


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A pod as far as placing it goes."""

    uid: str
    namespace: str
    name: str
    spec: Mapping[str, Any]
    created_at: str = ""
    # The devices it holds already.
    devices: tuple[int, ...] = ()


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What there is, and whether requests beyond it are cut down."""

    name: str
    capacity: Amounts
    labels: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    is_cordoned: bool = False
    is_relaxed: bool = False


class Reason(StrEnum):
    """Why a pod isn't placed."""

    GATED = "SchedulingGated"
    CORDONED = "NodeUnschedulable"
    TAINTED = "UntoleratedTaint"
    NOT_WANTED = "NodeMismatch"
    TOO_LARGE = "TooLarge"
    NO_ROOM = "NoRoom"
    NOT_UNDERSTOOD = "NotUnderstood"


class Placed(msgspec.Struct, frozen=True):
    """A pod that runs here; `cuts` tells what it doesn't get of what it asked for."""

    pod: Candidate
    devices: tuple[int, ...] = ()
    cuts: tuple[str, ...] = ()


class Refused(msgspec.Struct, frozen=True):
    """A pod that waits, and why, in Kubernetes' words with numbers added."""

    pod: Candidate
    reason: Reason
    message: str


class Placement(msgspec.Struct, frozen=True):
    """What was decided about all waiting pods."""

    placed: tuple[Placed, ...] = ()
    refused: tuple[Refused, ...] = ()


def place(machine: Machine, here: Sequence[Candidate], waiting: Sequence[Candidate]) -> Placement:
    """Places what fits. `here`: pods on the machine that haven't ended."""
    room = machine.capacity - total(_share(machine, pod) for pod in here)
    taken = {device for pod in here for device in pod.devices}
    free = [n for n in range(math.trunc(machine.capacity[GPU])) if n not in taken]
    placed: list[Placed] = []
    refused: list[Refused] = []
    for pod in sorted(waiting, key=_rank):
        verdict = _judged(machine, pod, room, free)
        if isinstance(verdict, Refused):
            refused.append(verdict)
            continue
        placed.append(verdict)
        room = room - _share(machine, pod)
        free = [device for device in free if device not in verdict.devices]
    return Placement(tuple(placed), tuple(refused))


def _rank(pod: Candidate) -> tuple[int, str, str]:
    priority: int = pod.spec.get("priority") or 0
    return (-priority, pod.created_at, pod.uid)


def _share(machine: Machine, pod: Candidate) -> Amounts:
    asked = requested(pod.spec)
    return asked.cut_to(machine.capacity) if machine.is_relaxed else asked


def _judged(
    machine: Machine, pod: Candidate, room: Amounts, free: Sequence[int]
) -> Placed | Refused:
    if pod.spec.get("schedulingGates"):
        return Refused(pod, Reason.GATED, "Scheduling is blocked due to non-empty scheduling gates")
    asked = requested(pod.spec)
    if machine.is_relaxed:
        devices = tuple(free[: math.trunc(asked[GPU])])
        return Placed(pod, devices, tuple(_cuts(machine, asked, len(devices))))
    if machine.is_cordoned and untolerated(pod.spec, (CORDON,)):
        text = "1 node(s) were unschedulable"
        return Refused(pod, Reason.CORDONED, _none_available(text))
    taint = untolerated(pod.spec, machine.taints)
    if taint is not None:
        text = f"1 node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
        return Refused(pod, Reason.TAINTED, _none_available(text))
    if not wants_node(pod.spec, machine.name, machine.labels):
        text = "1 node(s) didn't match Pod's node affinity/selector"
        return Refused(pod, Reason.NOT_WANTED, _none_available(text))
    lacking = asked.beyond(machine.capacity) or asked.beyond(room)
    if lacking:
        is_hopeless = bool(asked.beyond(machine.capacity))
        parts = [_insufficient(machine, name, asked, room) for name in lacking]
        reason = Reason.TOO_LARGE if is_hopeless else Reason.NO_ROOM
        return Refused(pod, reason, _none_available(", ".join(parts)))
    return Placed(pod, tuple(free[: math.trunc(asked[GPU])]))


def _none_available(why: str) -> str:
    return f"0/1 nodes are available: {why}."


def _insufficient(machine: Machine, name: str, asked: Amounts, room: Amounts) -> str:
    has = machine.capacity[name]
    left = f"{told(name, room[name])} of {told(name, has)} free" if has else "the machine has none"
    return f"1 Insufficient {name} (asks for {told(name, asked[name])}, {left})"


def _cuts(machine: Machine, asked: Amounts, devices: int) -> list[str]:
    return [
        f"{name}: asks for {told(name, asked[name])}, gets "
        f"{devices if name == GPU else told(name, machine.capacity[name])}"
        for name in sorted(asked.by_name)
        if asked[name] > (devices if name == GPU else machine.capacity[name])
    ]
