"""Whether a replica that ended starts again, and when.

Counting is here and nowhere else. An end counts while the replica's number of restarts
is still the number of the attempt that ended; raising it is what counting means, so no end
is counted twice. The delay doubles with each short attempt and starts over after a long one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from jobyard.api.replicas import RestartPolicy
from jobyard.plan.description import Restart
from jobyard.plan.moments import seconds_of
from jobyard.plan.standing import End, Standing, State

# Exit codes that ExitCode takes for the environment's fault: SIGINT, SIGKILL, SIGUSR1, SIGTERM.
RETRYABLE_EXIT_CODES = frozenset({130, 137, 138, 143})
DELAY_MAX_SECONDS = 300
LONG_RUN_SECONDS = 600


def wants_restart(policy: RestartPolicy, end: End) -> bool:
    """What the policy says, limits aside."""
    match policy:
        case RestartPolicy.NEVER:
            return False
        case RestartPolicy.ON_FAILURE:
            return not end.succeeded
        case RestartPolicy.ALWAYS:
            return True
        case RestartPolicy.EXIT_CODE:
            return not end.succeeded and end.exit_code in RETRYABLE_EXIT_CODES


def is_within(restart: Restart, restarts: int, left: int | None) -> bool:
    """Whether the replica's own limit and what is left of the job's allow one more."""
    return (restart.limit is None or restarts < restart.limit) and (left is None or left > 0)


def delay_seconds(failures_in_a_row: int) -> int:
    """1 s, doubling up to 5 min."""
    return int(min(2 ** min(max(failures_in_a_row - 1, 0), 16), DELAY_MAX_SECONDS))


def with_restarts(standings: Iterable[Standing], left: int | None) -> Iterator[Standing]:
    """Decides about every end; `left` restarts are handed out in order of the replicas."""
    for standing in standings:
        decided = _decided(standing, left)
        if decided.is_newly_counted and left is not None:
            left -= 1
        yield decided


def with_delays(standings: Iterable[Standing]) -> Iterator[Standing]:
    """Without restarts: only what was taken away comes back, after its delay."""
    for standing in standings:
        is_going = standing.state in (State.LOST, State.LEAVING) and standing.end is not None
        yield _decided(standing, None) if is_going else standing


def _decided(standing: Standing, left: int | None) -> Standing:
    end = standing.end
    if end is None:
        return _still_delayed(standing)
    if standing.state in (State.LOST, State.LEAVING):
        return _going(standing, end)
    if not standing.has_ended:
        return standing
    if end.attempt < standing.restarts:
        return _due(standing, end, standing.memory.failures_in_a_row)
    restart = standing.role.restart
    if not wants_restart(restart.policy, end) or not is_within(restart, standing.restarts, left):
        return msgspec.structs.replace(standing, is_final=True)
    counted = msgspec.structs.replace(
        standing, restarts=standing.restarts + 1, is_newly_counted=True
    )
    return _due(counted, end, _in_a_row(standing, end))


def _still_delayed(standing: Standing) -> Standing:
    """Somebody may have deleted a failed pod before its delay was over: the delay stays."""
    failure = standing.memory.failure
    if standing.state is not State.MISSING or failure is None or failure.time is None:
        return standing
    delay = delay_seconds(standing.memory.failures_in_a_row)
    return msgspec.structs.replace(standing, due_at=seconds_of(failure.time) + delay)


def _going(standing: Standing, end: End) -> Standing:
    """Taken away, uncounted; the delay keeps a node that refuses pods from being a hot loop."""
    if standing.state is State.LEAVING:
        return _due(standing, end, standing.memory.failures_in_a_row)
    return _due(standing, end, _in_a_row(standing, end))


def _in_a_row(standing: Standing, end: End) -> int:
    return 1 if end.seconds_run >= LONG_RUN_SECONDS else standing.memory.failures_in_a_row + 1


def _due(standing: Standing, end: End, failures_in_a_row: int) -> Standing:
    return msgspec.structs.replace(
        standing,
        failures_in_a_row=failures_in_a_row,
        due_at=end.finished_at + delay_seconds(failures_in_a_row),
    )
