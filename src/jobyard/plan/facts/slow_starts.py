"""Pods that take long to start and don't say why: their events are asked for.

A volume that can't be mounted, for want of a secret, a claim or a folder, stands in no status of a
pod, only in the events that its kubelet sends. The status of a job tells what they say for as long
as the pod doesn't start.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from jobyard.plan.facts.decision import earliest
from jobyard.plan.facts.standing import Standing, State

SLOW_SECONDS = 10
ASK_AGAIN_SECONDS = 60
# Of many pods that wait the first few tell as much.
ASKED_MAX = 5
# Reasons that a container waits for without anything being wrong.
ORDINARY = ("", "ContainerCreating", "PodInitializing")


class Slow(msgspec.Struct, frozen=True):
    """The uids of such pods, and when to look again."""

    uids: tuple[str, ...] = ()
    look_again_at: float | None = None


def slow_to_start(standings: Sequence[Standing], now: float) -> Slow:
    waiting = [s.pod for s in standings if s.state is State.STARTING and s.pod is not None]
    silent = [
        pod
        for pod in waiting
        if all(c.reason in ORDINARY for c in (*pod.init_containers, *pod.containers))
    ]
    slow = [pod for pod in silent if pod.created_at + SLOW_SECONDS <= now][:ASKED_MAX]
    next_slow = min(
        (pod.created_at + SLOW_SECONDS for pod in silent if pod.created_at + SLOW_SECONDS > now),
        default=None,
    )
    again = now + ASK_AGAIN_SECONDS if slow else None
    return Slow(tuple(pod.uid for pod in slow), earliest(again, next_slow))
