"""The statuses of a pod's containers; a part of `pod_status`.

Names of runs (`jobyard://uid/name/run`) stand in for the ids that a container engine gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from jobyard.node.objects.pod_object import Container, PodObject
from jobyard.node.shared.state import ContainerState, End, Stage
from jobyard.plan.moments import text_of

Json = dict[str, Any]
CANNOT_RUN_EXIT_CODE = 128


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """Why a container has not started."""

    reason: str = "ContainerCreating"
    message: str = ""


class Refused(Protocol):
    """Why the pod as a whole never will; `container` names the one at fault, if it is one."""

    @property
    def message(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def container(self) -> str: ...


def container_statuses(
    pod: PodObject,
    containers: Sequence[Container],
    states: Sequence[ContainerState],
    waiting: Mapping[str, Waiting],
    refused: Refused | None,
) -> list[Json]:
    """One for each container, in the order of the spec."""
    known = {state.name: state for state in states}
    is_init = containers is pod.spec.init_containers
    return [
        _status(
            pod,
            container,
            known.get(container.name),
            _why(pod, container, waiting, refused, is_init=is_init),
        )
        for container in containers
    ]


def _why(
    pod: PodObject,
    container: Container,
    waiting: Mapping[str, Waiting],
    refused: Refused | None,
    *,
    is_init: bool,
) -> Waiting | Refused:
    if refused is not None and refused.container == container.name:
        return refused
    # Without a name: what the whole pod waits for, each of its containers does.
    told = waiting.get(container.name) or waiting.get("")
    if told is not None:
        return told
    if pod.spec.init_containers and not is_init:
        return Waiting(reason="PodInitializing")
    return Waiting(reason="PodInitializing" if is_init else "ContainerCreating")


def _status(
    pod: PodObject, container: Container, state: ContainerState | None, why: Waiting | Refused
) -> Json:
    out: Json = {
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "ready": False,
        "started": False,
        "restartCount": 0,
        "lastState": {},
    }
    if state is None:
        if isinstance(why, Waiting):
            return {**out, "state": {"waiting": _waiting(why.reason, why.message)}}
        ended = {
            "exitCode": CANNOT_RUN_EXIT_CODE,
            "reason": why.reason,
            "message": why.message,
        }
        return {**out, "state": {"terminated": ended}}
    uid = pod.metadata.uid
    current = f"jobyard://{uid}/{container.name}/{state.run}"
    # While it waits to run again, the run that ended last is the newest there is.
    last_run = state.run if state.stage is Stage.WAITING else max(0, state.run - 1)
    before = f"jobyard://{uid}/{container.name}/{last_run}"
    out["restartCount"] = state.run
    out["imageID"] = container.image
    out["lastState"] = (
        {"terminated": _terminated(state.last_end, before)} if state.last_end is not None else {}
    )
    is_running = state.stage is Stage.RUNNING
    if is_running:
        out["state"] = {"running": {"startedAt": text_of(state.started_at)}}
        out |= {"containerID": current, "ready": state.is_ready, "started": state.has_started}
    elif state.stage is Stage.ENDED and state.end is not None:
        out["state"] = {"terminated": _terminated(state.end, current)}
        out["containerID"] = current
        # An init container that did its work counts as ready.
        is_init = any(each.name == container.name for each in pod.spec.init_containers)
        out["ready"] = is_init and state.end.exit_code == 0
    else:
        out["state"] = {"waiting": _waiting(state.reason, state.message)}
        if state.last_end is not None:
            out["containerID"] = before
    return out


def _waiting(reason: str, message: str) -> Json:
    return {"reason": reason, **({"message": message} if message else {})}


def _terminated(end: End, container_id: str) -> Json:
    return {
        "exitCode": end.exit_code,
        **({"signal": end.signal} if end.signal else {}),
        "reason": end.reason,
        **({"message": end.message} if end.message else {}),
        "startedAt": text_of(end.started_at),
        "finishedAt": text_of(end.finished_at),
        "containerID": container_id,
    }
