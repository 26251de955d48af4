"""The six conditions of a job, and the sentence that says why it isn't running.

A condition's time changes only when its status does; the words may change in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from jobyard.api.parts.status import Condition, ConditionType, Phase, Truth
from jobyard.plan.facts.decision import QUOTA_EXCEEDED, Observed
from jobyard.plan.facts.outcome import Outcome
from jobyard.plan.facts.slow_starts import ORDINARY
from jobyard.plan.facts.standing import TERMINATING, Standing, State
from jobyard.plan.moments import text_of

INITIALIZED = "The job has been initialized successfully."
ALL_RUNNING = "All pods are running normally."
# Marks the rows of a status that were written in debug mode: ends there don't count.
DEBUG = "Debug"
# Marks a job that may have its pods, and has not had each of them yet.
PODS_COMING = "PodsComing"
UNSCHEDULED = "Unscheduled"
UNREACHABLE = "NodeUnreachable"
# What is wrong with an image is said by the word; the kubelet's sentence repeats the image.
_IMAGE_REASONS = ("ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull")
_WHYS_MAX = 5
_WHY_LENGTH_MAX = 300


class ConditionValue(msgspec.Struct, frozen=True):
    """What a condition says now."""

    status: Truth
    reason: str = "-"
    message: str = ""


YES, NO = Truth.TRUE, Truth.FALSE


def condition(conditions: Sequence[Condition], type_: ConditionType) -> Condition | None:
    return next((c for c in conditions if c.type is type_), None)


def may_have_pods(initialized: Condition | None, *, has_had_one: bool) -> bool:
    """Whether it was found out, once, that nothing keeps the job from its pods.

    A quota can be full before that and after it; whether a pod was made tells which.
    """
    if initialized is None:
        return False
    if initialized.status is Truth.TRUE or initialized.reason == PODS_COMING:
        return True
    return initialized.reason == QUOTA_EXCEEDED and has_had_one


def conditions_of(
    stored: Sequence[Condition], holdings: Mapping[ConditionType, ConditionValue], now: float
) -> tuple[Condition, ...]:
    out = []
    for type_ in ConditionType:
        holding, before = holdings[type_], condition(stored, type_)
        since = before.last_transition_time if before and before.status is holding.status else None
        out.append(
            Condition(
                type=type_,
                status=holding.status,
                reason=holding.reason,
                message=holding.message,
                last_transition_time=since or text_of(now),
            )
        )
    return tuple(out)


def final_conditions(
    initialized: ConditionValue, end: Outcome, standings: Sequence[Standing], paused: ConditionValue
) -> dict[ConditionType, ConditionValue]:
    word = "Succeeded" if end.phase is Phase.SUCCEEDED else "Failed"
    has_succeeded = end.phase is Phase.SUCCEEDED
    return {
        ConditionType.INITIALIZED: initialized,
        ConditionType.RUNNING: ConditionValue(NO, word, end.message),
        ConditionType.REPLICA_FAILURE: replica_failure(standings, Phase.RUNNING),
        ConditionType.COMPLETED: ConditionValue(YES if has_succeeded else NO, word, end.message),
        ConditionType.FAILED: ConditionValue(NO if has_succeeded else YES, word, end.message),
        ConditionType.PAUSED: msgspec.structs.replace(paused, status=NO),
    }


def replica_failure(standings: Sequence[Standing], phase: Phase) -> ConditionValue:
    failed = [s for s in standings if s.state is State.FAILED and s.end is not None]
    if not failed:
        is_well = phase is Phase.RUNNING
        return ConditionValue(NO, "-", ALL_RUNNING if is_well else "No replica is in error.")
    return ConditionValue(
        YES, "ReplicaFailed", listed([f"{s.short_name}: {end_text(s)}" for s in failed])
    )


def end_text(standing: Standing) -> str:
    """How a replica ended: `OOMKilled (exit code 137)`."""
    end = standing.end
    assert end is not None
    code = "" if end.exit_code is None else f" (exit code {end.exit_code})"
    word = end.reason or "Error"
    if end.exit_code == 0 and not end.succeeded:
        word = "ended by itself"
    return f"{word}{code}"


def running_text(standings: Sequence[Standing], seen: Observed, waits_for: str = "") -> str:
    """How many run, and what is with the others."""
    running = sum(s.state is State.RUNNING for s in standings)
    if running == len(standings):
        return ALL_RUNNING
    whys = [
        f"{s.short_name}: {text}"
        for s in standings
        if s.state is not State.RUNNING and (text := _text(s, seen, waits_for))
    ]
    numbers = f"{running} of {len(standings)} running"
    return f"{numbers}; {listed(whys)}" if whys else numbers


def listed(whys: Sequence[str]) -> str:
    shown = "; ".join(why[:_WHY_LENGTH_MAX] for why in whys[:_WHYS_MAX])
    more = len(whys) - _WHYS_MAX
    return f"{shown}; and {more} more" if more > 0 else shown


class Why(msgspec.Struct, frozen=True):
    """Why a replica doesn't run: a word for its row, and a text."""

    reason: str = ""
    text: str = ""


def _text(standing: Standing, seen: Observed, waits_for: str) -> str:
    found = why(standing, seen).text
    if standing.state is State.MISSING and not found:
        return waits_for
    return found


def why(standing: Standing, seen: Observed) -> Why:
    pod = standing.pod
    obstacle = seen.obstacles.get(("Pod", standing.name))
    # A numbered replica that ended waits for a pod of another name.
    if obstacle is not None and (pod is None or pod.name != standing.name):
        return Why(obstacle.reason, f"{obstacle.reason}: {obstacle.message}")
    match standing.state:
        case State.CREATING:
            assert pod is not None
            if not pod.unschedulable:
                return Why()
            return Why("Unschedulable", f"Unschedulable: {pod.unschedulable}")
        case State.STARTING:
            return _waiting(standing, seen)
        case State.UNKNOWN:
            assert pod is not None
            return Why(UNREACHABLE, pod.problem or "its node can't be reached")
        case State.MISSING if standing.due_at is not None:
            return Why("BackOff", f"starts again at {text_of(standing.due_at)}")
        case State.FAILED | State.SUCCEEDED if standing.waits:
            assert standing.due_at is not None
            again = f"starts again at {text_of(standing.due_at)}"
            return Why("BackOff", f"{end_text(standing)}, {again}")
        case State.FAILED:
            return Why(text=end_text(standing))
        case State.LOST:
            return Why("TakenAway", "taken away by the cluster")
        case State.LEAVING if pod is not None and pod.is_out_of_reach:
            # What it does there isn't known: it may have ended long before.
            return Why(UNREACHABLE, "being deleted; its node can't be reached")
        case State.LEAVING:
            return Why(TERMINATING, "being deleted")
        case _:
            return Why()


def _waiting(standing: Standing, seen: Observed) -> Why:
    """Why a container doesn't start, where that is more than that it takes its time."""
    assert standing.pod is not None
    for container in (*standing.pod.init_containers, *standing.pod.containers):
        if container.reason not in ORDINARY and container.exit_code is None:
            is_image = container.reason in _IMAGE_REASONS
            said = f"{container.reason}: {container.message}"
            return Why(
                container.reason, container.reason if is_image or not container.message else said
            )
    told = seen.pod_warnings.get(standing.pod.uid)
    if told is not None:
        return Why(told.reason, f"{told.reason}: {told.message}")
    return Why()
