"""The status of a pod: from how its supervisor says it stands, to what the API server is told.

Pure. Decides phase, conditions and the statuses of containers as kubelet does; the times of
conditions change only when the conditions do, and what others wrote (PodScheduled, the
scheduler's conditions) stays. Nothing that was an end becomes anything else again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from jobyard.node.agent.container_status import Waiting, container_statuses
from jobyard.node.agent.quality import quality_of
from jobyard.node.objects.pod_object import PodObject, without_nulls
from jobyard.node.shared.state import (
    TAKEN_AWAY_MESSAGE,
    TAKEN_AWAY_REASON,
    ContainerState,
    End,
    PodState,
    Stage,
)
from jobyard.plan.moments import text_of

Json = dict[str, Any]
LOST_EXIT_CODE = 137


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that can't run here: it has ended before it began."""

    reason: str
    message: str
    container: str = ""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent knows of a pod besides its object."""

    host_address: str
    now: float
    address: str = ""
    state: PodState | None = None
    # Of containers that the supervisor doesn't know of yet.
    waiting: Mapping[str, Waiting] = {}
    refusal: Refusal | None = None


def status_of(pod: PodObject, facts: Facts) -> Json:
    """The whole status as it should be now."""
    phase = _phase(pod, facts)
    status: Json = {
        "phase": phase,
        "hostIP": facts.host_address,
        "hostIPs": [{"ip": facts.host_address}],
        "startTime": pod.status.get("startTime") or text_of(_started_at(facts)),
        "qosClass": pod.status.get("qosClass") or quality_of(pod),
        **_reason(facts),
    }
    address = facts.address or (facts.host_address if facts.state is not None else "")
    if address:
        status |= {"podIP": address, "podIPs": [{"ip": address}]}
    state = facts.state
    init = state.init_containers if state is not None else ()
    main = state.containers if state is not None else ()
    if pod.spec.init_containers:
        status["initContainerStatuses"] = container_statuses(
            pod, pod.spec.init_containers, init, facts.waiting, facts.refusal
        )
    status["containerStatuses"] = container_statuses(
        pod, pod.spec.containers, main, facts.waiting, facts.refusal
    )
    status["conditions"] = _conditions(pod, facts, phase)
    return status


def lost_state(pod: PodObject, now: float) -> PodState:
    """Of a pod that ran, by its status, and of which the runtime knows nothing any more."""
    end = End(
        exit_code=LOST_EXIT_CODE,
        reason="ContainerStatusUnknown",
        message="The container could not be located when the pod was terminated",
        started_at=now,
        finished_at=now,
    )

    def lost(name: str) -> ContainerState:
        return ContainerState(name=name, stage=Stage.ENDED, end=end)

    return PodState(
        uid=pod.metadata.uid,
        started_at=now,
        init_containers=tuple(lost(each.name) for each in pod.spec.init_containers),
        containers=tuple(lost(each.name) for each in pod.spec.containers),
        is_over=True,
    )


def has_run(pod: PodObject) -> bool:
    """Whether the status tells of a container that was started."""
    statuses = (
        *(pod.status.get("containerStatuses") or ()),
        *(pod.status.get("initContainerStatuses") or ()),
    )
    return any(each.get("containerID") for each in statuses)


def patch_of(pod: PodObject, status: Json) -> Json | None:
    """What has to change on the server; None when it says so already.

    With the conditions goes the version they were read at: a list is written as a whole, and
    one that the scheduler changed meanwhile must not be overwritten.
    """
    known = without_nulls(pod.status)
    changed = {key: value for key, value in status.items() if known.get(key) != value}
    for key in ("reason", "message"):
        if key in pod.status and key not in status:
            changed[key] = None
    if not changed:
        return None
    metadata: Json = {"uid": pod.metadata.uid}
    if "conditions" in changed:
        metadata["resourceVersion"] = pod.metadata.resource_version
    return {"metadata": metadata, "status": changed}


def _started_at(facts: Facts) -> float:
    state = facts.state
    return state.started_at if state is not None and state.started_at else facts.now


def _phase(pod: PodObject, facts: Facts) -> str:
    if pod.has_ended:
        return str(pod.status["phase"])
    state = facts.state
    if facts.refusal is not None:
        return "Failed"
    if state is None:
        return "Pending"
    if state.is_over:
        return "Failed" if _has_failed(pod, state) else "Succeeded"
    if any(_has_run(container) for container in state.containers):
        return "Running"
    return "Pending"


def _has_failed(pod: PodObject, state: PodState) -> bool:
    if state.reason:
        return True
    mains = {container.name: container for container in state.containers}
    for container in pod.spec.containers:
        known = mains.get(container.name)
        # One that never ran can't have done what it should.
        if known is None or known.end is None or known.end.exit_code != 0:
            return True
    return False


def _has_run(container: ContainerState) -> bool:
    return (
        container.stage is not Stage.WAITING or container.run > 0 or container.last_end is not None
    )


def _reason(facts: Facts) -> Json:
    refusal = facts.refusal
    if refusal is not None:
        where = f"container {refusal.container}: " if refusal.container else ""
        return {"reason": refusal.reason, "message": f"{where}{refusal.message}"}
    state = facts.state
    if state is None or not state.reason:
        return {}
    return {
        "reason": state.reason,
        **({"message": state.message} if state.message else {}),
    }


def _conditions(pod: PodObject, facts: Facts, phase: str) -> list[Json]:
    known: Sequence[Json] = without_nulls(pod.status.get("conditions") or [])
    wanted = {each["type"]: each for each in _wanted_conditions(pod, facts, phase)}
    out = []
    for condition in known:
        replacement = wanted.pop(condition["type"], None)
        out.append(condition if replacement is None else _kept(condition, replacement))
    now = text_of(facts.now)
    return [_with_time(condition, now) for condition in (*out, *wanted.values())]


def _kept(old: Json, new: Json) -> Json:
    """The new one, with the old one's time if nothing but words changed."""
    own = {key: old[key] for key in ("lastProbeTime", "observedGeneration") if old.get(key)}
    if old.get("status") == new["status"] and old.get("lastTransitionTime"):
        own["lastTransitionTime"] = old["lastTransitionTime"]
    return {**new, **own}


def _with_time(condition: Json, now: str) -> Json:
    if condition.get("lastTransitionTime"):
        return condition
    return {**condition, "lastTransitionTime": now}


def _wanted_conditions(pod: PodObject, facts: Facts, phase: str) -> list[Json]:
    state = facts.state
    has_network = state is not None and not state.is_over
    initialized = _initialized(pod, facts, phase)
    unready = _unready(pod, facts)
    ready = _condition("Ready", unready is None, unready, phase)
    contained = _condition("ContainersReady", unready is None, unready, phase)
    scheduled = {"type": "PodScheduled", "status": "True"}
    return [
        _condition("PodReadyToStartContainers", has_network, None, ""),
        initialized,
        ready,
        contained,
        scheduled,
        *([_disrupted(state, facts.now)] if state and state.reason == TAKEN_AWAY_REASON else ()),
    ]


def _disrupted(state: PodState, now: float) -> Json:
    """Of a pod that was stopped with its engine, and may be told of by the next only days later."""
    ends = [each.end.finished_at for each in state.containers if each.end is not None]
    return {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "TerminationByKubelet",
        "message": TAKEN_AWAY_MESSAGE,
        "lastTransitionTime": text_of(max(ends, default=now)),
    }


def _condition(name: str, is_true: bool, lacking: str | None, phase: str) -> Json:
    if is_true:
        return {"type": name, "status": "True"}
    if phase == "Succeeded":
        return {"type": name, "status": "False", "reason": "PodCompleted"}
    if phase == "Failed":
        return {"type": name, "status": "False", "reason": "PodFailed"}
    if lacking is None:
        return {"type": name, "status": "False"}
    return {
        "type": name,
        "status": "False",
        "reason": "ContainersNotReady",
        "message": lacking,
    }


def _initialized(pod: PodObject, facts: Facts, phase: str) -> Json:
    known = _by_name(facts.state.init_containers if facts.state is not None else ())
    lacking = [
        container.name
        for container in pod.spec.init_containers
        if not _is_initialized(known.get(container.name), container.is_sidecar)
    ]
    if not lacking:
        is_done = phase == "Succeeded"
        return {
            "type": "Initialized",
            "status": "True",
            **({"reason": "PodCompleted"} if is_done else {}),
        }
    if phase == "Failed":
        return {"type": "Initialized", "status": "False", "reason": "PodFailed"}
    return {
        "type": "Initialized",
        "status": "False",
        "reason": "ContainersNotInitialized",
        "message": f"containers with incomplete status: [{' '.join(lacking)}]",
    }


def _by_name(states: Iterable[ContainerState]) -> dict[str, ContainerState]:
    return {each.name: each for each in states}


def _is_initialized(state: ContainerState | None, is_sidecar: bool) -> bool:
    if state is None:
        return False
    if is_sidecar:
        return state.has_started or state.end is not None
    return state.end is not None and state.end.exit_code == 0


def _unready(pod: PodObject, facts: Facts) -> str | None:
    """What is missing to be ready, in kubelet's words; None when nothing is."""
    known = _by_name(facts.state.containers if facts.state is not None else ())
    lacking = [
        container.name
        for container in pod.spec.containers
        if (state := known.get(container.name)) is None
        or state.stage is not Stage.RUNNING
        or not state.is_ready
    ]
    return f"containers with unready status: [{' '.join(lacking)}]" if lacking else None
