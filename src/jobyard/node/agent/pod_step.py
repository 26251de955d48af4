"""What to do about a pod next. Pure, and level-triggered: only what is true now counts.

A pod that has ended, by its status, is never started again, whatever else is known of it: its
end is written before anything is forgotten, and forgotten only when the object is gone.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from jobyard.node.agent.pod_status import has_run
from jobyard.node.objects.pod_object import PodObject
from jobyard.node.shared.state import PodState

# What the processes of a pod get whose object is gone; kubelet's figure.
ORPHAN_GRACE_SECONDS = 2.0
GRACE_SECONDS_DEFAULT = 30


class Step(StrEnum):
    """What is done in a pass."""

    NOTHING = "nothing"
    START = "start"
    REPORT = "report"
    # It ran, by its status, and the runtime knows nothing of it.
    LOSE = "lose"
    STOP = "stop"
    # The object may go for good.
    REMOVE = "remove"
    # The object is gone: remove what is on disk.
    FORGET = "forget"


def step_of(pod: PodObject | None, state: PodState | None, *, was_started: bool) -> Step:
    """The next step; `was_started`: this engine told the runtime to, which is yet to answer."""
    if pod is None:
        if state is None:
            # Started a moment ago, and its object went before its state came.
            return Step.STOP if was_started else Step.NOTHING
        return Step.FORGET if state.is_over else Step.STOP
    if state is not None and not state.is_over:
        return Step.STOP if pod.is_terminating or pod.has_ended else Step.REPORT
    if pod.is_terminating:
        # Started a moment ago: its state is about to come.
        return Step.REPORT if state is None and was_started else Step.REMOVE
    if state is not None or pod.has_ended or was_started:
        return Step.REPORT
    return Step.LOSE if has_run(pod) else Step.START


def grace_seconds(pod: PodObject | None, now: float) -> float:
    """How long the pod's processes have to end by themselves."""
    if pod is None:
        return ORPHAN_GRACE_SECONDS
    metadata = pod.metadata
    if metadata.deletion_timestamp is None:
        grace = pod.spec.termination_grace_period_seconds
        return float(GRACE_SECONDS_DEFAULT if grace is None else grace)
    whole = float(metadata.deletion_grace_period_seconds or 0)
    # The timestamp is when it should be gone, in whole seconds: some of that may have passed
    # while no engine ran.
    until = datetime.fromisoformat(metadata.deletion_timestamp).timestamp() + 1
    return min(whole, max(0.0, until - now))
