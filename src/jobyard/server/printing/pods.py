"""The row of a pod. Its STATUS is the word that users know best, so it follows Kubernetes exactly.

The word comes from the containers rather than from the phase: the first init container that
hasn't done its work, else the containers, else the phase. Facts as in Kubernetes 1.36.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from jobyard.server.printing.cells import (
    AGE,
    NAME,
    NONE,
    Layout,
    Row,
    column,
    condition_of,
    is_condition_true,
)
from jobyard.server.printing.durations import age, human_duration, moment
from jobyard.server.resource import Object

# The reason of pods whose node no longer answers.
_NODE_LOST: Final = "NodeLost"

_COMPLETED: Final = {
    "Succeeded": "The pod has completed successfully.",
    "Failed": "The pod failed.",
}


class Restarts(msgspec.Struct, frozen=True):
    """How often containers were started again, and when one last ended before it was."""

    count: int = 0
    last: float | None = None

    def and_of(self, status: Object) -> Restarts:
        ended = (status.get("lastState") or {}).get("terminated") or {}
        moments = [m for m in (self.last, moment(ended.get("finishedAt"))) if m is not None]
        return Restarts(self.count + status.get("restartCount", 0), max(moments, default=None))

    def told(self, now: float) -> str:
        if not self.count or self.last is None:
            return str(self.count)
        return f"{self.count} ({human_duration(now - self.last)} ago)"


class Standing(msgspec.Struct, frozen=True):
    """What a group of containers says about the pod; no word where it has nothing to say."""

    word: str = ""
    ready: int = 0
    restarts: Restarts = Restarts()


def pod_row(pod: Object, now: float) -> Row:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    phase = status.get("phase", "")
    init, sidecars = _init_standing(spec, status)
    if init.word and not is_condition_true(status, "Initialized"):
        word, ready, restarts = init.word, sidecars.ready, init.restarts
    else:
        # Init containers that have done their work don't count; those that stay do.
        main = _main_standing(status, sidecars.restarts, init.word or _own_word(status))
        word, ready, restarts = main.word, sidecars.ready + main.ready, main.restarts
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == _NODE_LOST:
            word = "Unknown"
        elif phase not in _COMPLETED:
            word = "Terminating"
    expected = len(spec.get("containers") or ()) + len(_sidecar_names(spec))
    cells = (
        *(pod["metadata"].get("name", ""), f"{ready}/{expected}", word),
        *(restarts.told(now), age(pod, now), *_placement(spec, status)),
    )
    return Row(cells, _conditions(phase))


def _conditions(phase: str) -> tuple[dict[str, str], ...]:
    if phase not in _COMPLETED:
        return ()
    message = _COMPLETED[phase]
    return ({"type": "Completed", "status": "True", "reason": phase, "message": message},)


def _own_word(status: Object) -> str:
    """What the pod says of itself, before any container is looked at."""
    scheduled = condition_of(status, "PodScheduled")
    if scheduled is not None and scheduled.get("reason") == "SchedulingGated":
        return "SchedulingGated"
    return str(status.get("reason") or status.get("phase", ""))


def _sidecar_names(spec: Object) -> set[str]:
    """Init containers that stay beside the others."""
    return {
        container["name"]
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    }


def _init_standing(spec: Object, status: Object) -> tuple[Standing, Standing]:
    """Of all init containers up to the first that holds the pod up, and of the sidecars alone."""
    names = _sidecar_names(spec)
    restarts, kept = Restarts(), Restarts()
    ready = 0
    total = len(spec.get("initContainers") or ())
    for index, container in enumerate(status.get("initContainerStatuses") or ()):
        is_sidecar = container["name"] in names
        restarts = restarts.and_of(container)
        kept = kept.and_of(container) if is_sidecar else kept
        state = container.get("state") or {}
        ended = state.get("terminated")
        if ended is not None and ended.get("exitCode", 0) == 0:
            continue
        if is_sidecar and container.get("started"):
            ready += bool(container.get("ready"))
            continue
        word = f"Init:{_init_reason(state) or f'{index}/{total}'}"
        return Standing(word, restarts=restarts), Standing(ready=ready, restarts=kept)
    return Standing(restarts=restarts), Standing(ready=ready, restarts=kept)


def _init_reason(state: dict[str, Any]) -> str:
    if state.get("terminated") is not None:
        return _end_reason(state["terminated"])
    reason: str = (state.get("waiting") or {}).get("reason", "")
    return "" if reason == "PodInitializing" else reason


def _end_reason(ended: dict[str, Any]) -> str:
    if reason := ended.get("reason"):
        return str(reason)
    if signal := ended.get("signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{ended.get('exitCode', 0)}"


def _main_standing(status: Object, restarts: Restarts, word: str) -> Standing:
    """From the last container to the first, so that the first has the last word."""
    ready = 0
    failure = ""
    for container in reversed(status.get("containerStatuses") or ()):
        restarts = restarts.and_of(container)
        state = container.get("state") or {}
        ended = state.get("terminated")
        if reason := (state.get("waiting") or {}).get("reason"):
            word = reason
        elif ended is not None:
            word = _end_reason(ended)
            failure = word if ended.get("exitCode", 0) != 0 else failure
        elif container.get("ready") and state.get("running") is not None:
            ready += 1
    if word == "Completed":
        if ready and is_condition_true(status, "Ready"):
            word = "Running"
        elif failure:
            word = failure
        elif ready:
            word = "NotReady"
    return Standing(word, ready, restarts)


def _placement(spec: Object, status: Object) -> tuple[str, str, str, str]:
    """The wide columns: addresses, nodes and gates."""
    gates = [gate.get("conditionType", "") for gate in spec.get("readinessGates") or ()]
    opened = sum(is_condition_true(status, gate) for gate in gates)
    addresses: list[dict[str, str]] = status.get("podIPs") or [{}]
    return (
        addresses[0].get("ip") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        f"{opened}/{len(gates)}" if gates else NONE,
    )


PODS: Final = Layout(
    (
        NAME,
        column("Ready", "Containers that are ready, of all that should be."),
        column("Status", "In one word, how the containers stand."),
        column("Restarts", "How often containers were started again, and how long ago the last."),
        AGE,
        column("IP", "The pod's first address.", wide=True),
        column("Node", "Where the pod runs.", wide=True),
        column("Nominated Node", "Where room is being made for the pod.", wide=True),
        column("Readiness Gates", "Gates that are open, of all the pod has.", wide=True),
    ),
    pod_row,
)
