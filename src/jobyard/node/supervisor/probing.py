"""How results of probes add up: when the next is due, and what the container is taken for.

Pure, with kubelet's rules: a verdict changes once enough results in a row say so, a startup
probe holds back the other two, liveness is believed and readiness is not until proven.
How a check is made is in `checks`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from jobyard.node.shared.order import Probe, Probes


class ProbeKind(StrEnum):
    """What a probe is asked for."""

    STARTUP = "startup"
    LIVENESS = "liveness"
    READINESS = "readiness"


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """One probe of one run of a container."""

    kind: ProbeKind
    next_at: float
    is_running: bool = False
    is_good: bool
    # How many results in a row were as the last one.
    streak: int = 0
    was_good: bool = False
    # Failed for good: the run is to end. Not probed again.
    is_fatal: bool = False


def probe_of(probes: Probes, kind: ProbeKind) -> Probe:
    """The probe that a count was made for."""
    probe = {
        ProbeKind.STARTUP: probes.startup,
        ProbeKind.LIVENESS: probes.liveness,
        ProbeKind.READINESS: probes.readiness,
    }[kind]
    assert probe is not None
    return probe


def counts_of(probes: Probes, now: float) -> tuple[Count, ...]:
    """The counts that a run begins with."""
    every = (
        (ProbeKind.STARTUP, probes.startup),
        (ProbeKind.LIVENESS, probes.liveness),
        (ProbeKind.READINESS, probes.readiness),
    )
    return tuple(
        Count(
            kind=kind,
            next_at=now + probe.initial_delay_seconds,
            is_good=kind is ProbeKind.LIVENESS,
        )
        for kind, probe in every
        if probe is not None
    )


def is_good(counts: Iterable[Count], kind: ProbeKind) -> bool:
    """What the container is taken for; one without such a probe is taken for good."""
    return all(count.is_good for count in counts if count.kind is kind)


def is_active(count: Count, counts: Iterable[Count], *, is_leaving: bool) -> bool:
    """Whether this probe is to be made at all, now."""
    if count.is_running or count.is_fatal:
        return False
    match count.kind:
        case ProbeKind.STARTUP:
            return not count.is_good and not is_leaving
        case ProbeKind.LIVENESS:
            return is_good(counts, ProbeKind.STARTUP) and not is_leaving
        case ProbeKind.READINESS:
            return is_good(counts, ProbeKind.STARTUP)


def asked(count: Count, probes: Probes, now: float) -> Count:
    """The probe is being made; the next is due one period after this one began."""
    period_seconds = probe_of(probes, count.kind).period_seconds
    return replace(count, is_running=True, next_at=now + period_seconds)


def judged(count: Count, probes: Probes, *, is_good: bool) -> Count:
    """A result came in."""
    probe = probe_of(probes, count.kind)
    streak = count.streak + 1 if count.streak and count.was_good is is_good else 1
    after = replace(count, is_running=False, streak=streak, was_good=is_good)
    if streak < (probe.success_threshold if is_good else probe.failure_threshold):
        return after
    is_fatal = not is_good and count.kind is not ProbeKind.READINESS
    return replace(after, is_good=is_good, is_fatal=is_fatal)
