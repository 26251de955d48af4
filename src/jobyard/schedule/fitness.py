"""What keeps a pod by itself from this machine or its queue, whatever room there is.

Gates and pods that nobody understands are set aside: they are in no line. All else is one of the
reasons for which pods wait. On a relaxed machine nothing of a pod's own keeps it away but gates.
"""

from __future__ import annotations

from typing import Final

from jobyard.schedule.reasons import Why, not_this_node, request_missing
from jobyard.schedule.selecting import wants_node
from jobyard.schedule.snapshot import Candidate, Machine, QueueFacts
from jobyard.schedule.tolerating import CORDON, untolerated

GATED: Final = "SchedulingGated"
NOT_UNDERSTOOD: Final = "NotUnderstood"


def gate_text(pod: Candidate) -> str:
    """Why a pod is in no line at all; empty for those that are."""
    if pod.spec.get("schedulingGates"):
        return "Scheduling is blocked due to non-empty scheduling gates"
    return ""


def bar(machine: Machine, queue: QueueFacts | None, pod: Candidate) -> Why | None:
    """What keeps the pod away, if something does."""
    if not machine.is_relaxed:
        if machine.is_cordoned and untolerated(pod.spec, (CORDON,)):
            return not_this_node("1 node(s) were unschedulable")
        taint = untolerated(pod.spec, machine.taints)
        if taint is not None:
            return not_this_node(f"1 node(s) had untolerated taint {{{taint.key}: {taint.value}}}")
        if not wants_node(pod.spec, machine.name, machine.labels):
            return not_this_node("1 node(s) didn't match Pod's node affinity/selector")
    if queue is None or queue.quota is None:
        return None
    for resource, container in pod.unasked:
        if resource in queue.quota.by_name:
            return request_missing(queue.name, container, resource)
    return None
