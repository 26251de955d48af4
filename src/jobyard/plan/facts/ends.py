"""How an attempt of a replica ended, and whether that says something about its program.

The main container's end is the replica's. One that came because the pod was told to go, or because
the cluster threw it out, says nothing.
"""

from __future__ import annotations

import msgspec

from jobyard.api.parts.status import ContainerState
from jobyard.plan.facts.last_words import last_words
from jobyard.plan.facts.pod_facts import Container, Pod, PodPhase
from jobyard.plan.lowering.description import Role

# A pod's end is timed by its node, the wish to delete it by the API server.
SKEW_SECONDS = 5

DELAY_MAX_SECONDS = 300


class End(msgspec.Struct, frozen=True, kw_only=True):
    """How an attempt of a replica ended."""

    attempt: int
    succeeded: bool
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    started_at: float | None = None
    finished_at: float = 0.0

    @property
    def seconds_run(self) -> float:
        return self.finished_at - self.started_at if self.started_at is not None else 0.0


def end_of(pod: Pod, role: Role) -> End | None:
    """The main container's end is the replica's; a pod can also fail before it began."""
    main = pod.container(role.main_container)
    if main is not None and main.state is ContainerState.TERMINATED:
        return _ended(pod, role, main)
    if not pod.has_finished:
        return None
    if pod.phase is PodPhase.SUCCEEDED and not role.serves:
        return End(attempt=pod.attempt, succeeded=True, finished_at=_last_finish(pod))
    broken = next((c for c in pod.init_containers if c.exit_code), None)
    words = last_words(broken.message, broken.exit_code, broken.reason) if broken else ""
    said = f"init container {broken.name}: {words}" if broken else ""
    return End(
        attempt=pod.attempt,
        succeeded=False,
        exit_code=broken.exit_code if broken else None,
        reason=pod.reason or (broken.reason if broken else "") or "Error",
        message=pod.message or said,
        finished_at=_last_finish(pod),
    )


def _ended(pod: Pod, role: Role, main: Container) -> End:
    succeeded = main.exit_code == 0 and not role.serves
    taken = pod.reason if pod.was_taken_away else ""
    reason, said = taken or main.reason, main.message or (pod.message if taken else "")
    return End(
        attempt=pod.attempt,
        succeeded=succeeded,
        exit_code=main.exit_code,
        reason=reason,
        message=said if succeeded else last_words(said, main.exit_code, reason),
        started_at=main.started_at + pod.clock_behind if main.started_at is not None else None,
        finished_at=main.finished_at + pod.clock_behind
        if main.finished_at is not None
        else _last_finish(pod),
    )


def _last_finish(pod: Pod) -> float:
    moments = [c.finished_at for c in (*pod.containers, *pod.init_containers)]
    # A pod that was told to go before anything of it had started has no moments of its own.
    asked = pod.deletion_asked_at
    unknown = asked if asked is not None else pod.created_at
    known = [moment + pod.clock_behind for moment in moments if moment is not None]
    return max(known, default=unknown)


def was_told_to_go(pod: Pod, end: End) -> bool:
    """Whether somebody deleted it before it ended. A drain says so before it deletes."""
    if pod.deletion_asked_at is None:
        return False
    asked = pod.deletion_asked_at
    # A kubelet that throws a pod out gives a reason, and what it times is the pod's end.
    disrupted_at = pod.taken_away_at if not pod.reason else None
    told = min(asked, disrupted_at) if disrupted_at is not None else asked
    return end.finished_at + SKEW_SECONDS >= told


def was_taken_away(pod: Pod, end: End) -> bool:
    """Whether it ended because the cluster threw it out, whatever its program made of that.

    A program that saves its work when told to go may well end with 0; then its node still
    calls the pod failed.
    """
    if not pod.was_taken_away or (end.succeeded and pod.phase is PodPhase.SUCCEEDED):
        return False
    if end.exit_code is None or pod.taken_away_at is None:
        # Nothing of it ended by itself, or nobody knows when.
        return not end.succeeded
    return end.finished_at + SKEW_SECONDS >= pod.taken_away_at


def delay_seconds(failures_in_a_row: int) -> int:
    """How long after so many failures the next attempt begins: 1 s, doubling up to 5 min."""
    return int(min(2 ** min(max(failures_in_a_row - 1, 0), 16), DELAY_MAX_SECONDS))
