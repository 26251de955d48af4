"""Whether a replica that ended starts again, and when.

Counting is here and nowhere else. An end counts while the replica's number of restarts
is still the number of the attempt that ended; raising it is what counting means, so no end
is counted twice. The delay doubles with each short attempt and starts over after a long one.
It runs from the moment of the decision: clocks of nodes may be wrong. Which ends of replicas
that work together are decided on together is said in `recovery`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from jobyard.api.parts.replicas import RestartPolicy
from jobyard.plan.facts.ends import End, delay_seconds
from jobyard.plan.facts.standing import Standing, State
from jobyard.plan.lowering.description import Restart
from jobyard.plan.moments import seconds_of, text_of

# Exit codes that ExitCode takes for the environment's fault: SIGINT, SIGKILL, SIGUSR1, SIGTERM.
RETRYABLE_EXIT_CODES = frozenset({130, 137, 138, 143})
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


def may_restart(standing: Standing, left: int | None) -> bool:
    """Whether policy and limits let a replica that ended start again."""
    assert standing.end is not None
    restart = standing.role.restart
    wants = wants_restart(restart.policy, standing.end)
    return wants and is_within(restart, standing.restarts, left)


def with_restarts(standings: Iterable[Standing], left: int | None, now: float) -> list[Standing]:
    """Decides about every end by itself; `left` restarts are handed out in order."""
    out: list[Standing] = []
    for standing in standings:
        if not is_open(standing):
            out.append(delayed(standing, now))
        elif not may_restart(standing, left):
            out.append(msgspec.structs.replace(standing, is_final=True))
        else:
            out.append(started_again(standing, now))
            left = None if left is None else left - 1
    return out


def with_delays(standings: Iterable[Standing], now: float) -> Iterator[Standing]:
    """Without restarts: only what was taken away comes back, after its delay."""
    for standing in standings:
        is_going = standing.state in (State.LOST, State.LEAVING) and standing.end is not None
        yield delayed(standing, now) if is_going else standing


def is_open(standing: Standing) -> bool:
    """It ended, and no restart was counted for that end."""
    return (
        standing.has_ended
        and standing.end is not None
        and standing.end.attempt >= standing.restarts
    )


def started_again(
    standing: Standing, now: float, *, uses_limit: bool = True, follows: str = ""
) -> Standing:
    """The replica with its restart counted."""
    assert standing.end is not None
    counted = msgspec.structs.replace(
        standing,
        restarts=standing.restarts + 1,
        is_newly_counted=True,
        uses_limit=uses_limit,
        follows=follows,
    )
    return _due(counted, _in_a_row(standing, standing.end), now)


def delayed(standing: Standing, now: float) -> Standing:
    """A replica about which nothing is to be decided, with the moment of its next start."""
    end = standing.end
    if standing.state is State.LOST:
        # Uncounted; the delay keeps a node that refuses pods from being a hot loop.
        assert end is not None
        return _due(standing, _in_a_row(standing, end), now)
    if standing.state is State.LEAVING and end is None:
        return standing
    if standing.state is State.MISSING or standing.state is State.LEAVING or standing.has_ended:
        return msgspec.structs.replace(standing, due_at=_decided_moment(standing, now))
    return standing


def _decided_moment(standing: Standing, now: float) -> float | None:
    """When the next attempt starts, as it was decided; no later than any delay from now."""
    memory = standing.memory
    latest = now + delay_seconds(memory.failures_in_a_row)
    if memory.restart_at is not None:
        return min(memory.restart_at, latest)
    # It is over, or the status is from an earlier release, or too full for it.
    failure = memory.failure
    failed_at = seconds_of(failure.time) if failure is not None and failure.time else None
    if failed_at is None or failed_at > now or not memory.failures_in_a_row:
        # By a clock that is ahead it would never be over.
        return None
    return failed_at + delay_seconds(memory.failures_in_a_row)


def _in_a_row(standing: Standing, end: End) -> int:
    return 1 if end.seconds_run >= LONG_RUN_SECONDS else standing.memory.failures_in_a_row + 1


def _due(standing: Standing, failures_in_a_row: int, now: float) -> Standing:
    # In whole seconds, as the status keeps it.
    due = seconds_of(text_of(now + delay_seconds(failures_in_a_row)))
    return msgspec.structs.replace(standing, failures_in_a_row=failures_in_a_row, due_at=due)
