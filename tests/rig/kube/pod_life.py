"""What a node would say of a pod: the lives that tests script, and the status each makes.

Pure: the fake kubelet keeps one `Record` per pod, replaces it as the pod's life goes on, and
sends what `status_patch` makes of it. A test's script returns a `Life`. Nothing here knows
requests, clocks or tasks. Containers are never restarted (as with restartPolicy Never), and
init containers have always done their work by the time the others run.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

Json = dict[str, Any]

KILLED_BY_TERM = 143
KILLED_BY_KILL = 137


class Exit(msgspec.Struct, frozen=True):
    """How one container ends. Without a reason it is `Completed` or `Error`, by the code."""

    code: int = 0
    reason: str = ""
    message: str = ""


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to a pod once it is on a node."""

    # How long it runs: 0 goes to the end in one write, without being seen as Running; with
    # None it runs until somebody says otherwise.
    run_seconds: float | None = 0.0
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    # Other ends for single containers; None is a sidecar that goes on running.
    containers: Mapping[str, Exit | None] = msgspec.field(default_factory=dict)
    ready: bool = True
    # Not empty: it stays Pending, its containers wait for this reason (`ErrImagePull`, say),
    # and `message` goes with it.
    waiting: str = ""
    # How long it takes to end after it was deleted; None: until released by hand.
    stop_seconds: float | None = 0.0

    def exits(self, names: Iterable[str]) -> dict[str, Exit]:
        """The end of each container that ends by itself."""
        usual = Exit(self.exit_code, self.reason, self.message)
        ends = {name: self.containers.get(name, usual) for name in names}
        return {name: end for name, end in ends.items() if end is not None}


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str
    uid: str
    resource_version: str
    deletion_timestamp: str = ""


class Container(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    image: str = ""
    restart_policy: str = ""


class Spec(msgspec.Struct, frozen=True, rename="camel"):
    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...] = ()
    node_name: str = ""
    scheduler_name: str = ""
    scheduling_gates: tuple[msgspec.Raw, ...] = ()


class Pod(msgspec.Struct, frozen=True):
    """As much of a pod as a node has to know; the rest of the JSON isn't even decoded."""

    metadata: Metadata
    spec: Spec

    @property
    def container_names(self) -> tuple[str, ...]:
        return tuple(container.name for container in self.spec.containers)


class Ended(msgspec.Struct, frozen=True):
    exit: Exit
    finished_at: str


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """All that the node has found out about a pod so far."""

    ip: str
    host_ip: str
    # Empty while its containers wait.
    started_at: str = ""
    waiting: Exit = Exit(reason="ContainerCreating")
    ready: bool = True
    ended: Mapping[str, Ended] = msgspec.field(default_factory=dict)
    # Said of the pod as a whole, such as Evicted; `phase` then replaces the one derived.
    phase: str = ""
    reason: str = ""
    message: str = ""
    disruption: str = ""
    # When the node last wrote about it.
    written_at: str = ""

    def ending(self, exits: Mapping[str, Exit], now: str) -> "Record":
        """The record after these containers have ended; those that had already stay as they are."""
        fresh = {name: Ended(end, now) for name, end in exits.items() if name not in self.ended}
        return msgspec.structs.replace(
            self, started_at=self.started_at or now, ended={**self.ended, **fresh}
        )


def phase_of(pod: Pod, record: Record) -> str:
    """The phase by Kubernetes' rules: over once the last container is, failed if any did."""
    if record.phase:
        return record.phase
    if not record.started_at:
        return "Pending"
    if any(name not in record.ended for name in pod.container_names):
        return "Running"
    return "Failed" if any(end.exit.code for end in record.ended.values()) else "Succeeded"


def is_over(pod: Pod, record: Record) -> bool:
    return phase_of(pod, record) in ("Succeeded", "Failed")


def status_patch(pod: Pod, record: Record) -> Json:
    """A strategic merge patch for pods/status that says all of `record`.

    Strategic, so that conditions which others wrote stay. With the uid, so that it never
    meets a later pod of the same name.
    """
    status: Json = {
        "phase": phase_of(pod, record),
        # Null takes away what an earlier write said.
        "reason": record.reason or None,
        "message": record.message or None,
        "hostIP": record.host_ip,
        "hostIPs": [{"ip": record.host_ip}],
        "startTime": record.started_at or record.written_at,
        "conditions": list(_conditions(pod, record)),
        "containerStatuses": [_container_status(one, pod, record) for one in pod.spec.containers],
    }
    if record.started_at:
        status |= {"podIP": record.ip, "podIPs": [{"ip": record.ip}]}
    if pod.spec.init_containers:
        status["initContainerStatuses"] = [
            _init_status(one, pod, record) for one in pod.spec.init_containers
        ]
    return {"metadata": {"uid": pod.metadata.uid}, "status": status}


def unschedulable_patch(pod: Pod, message: str, now: str) -> Json:
    """What a scheduler writes when no node will do."""
    condition = _condition("PodScheduled", False, now, reason="Unschedulable", message=message)
    return {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}


def _conditions(pod: Pod, record: Record) -> Iterator[Json]:
    phase = phase_of(pod, record)
    begun = bool(record.started_at)
    ready = phase == "Running" and record.ready and not record.ended
    why = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase, "ContainersNotReady")
    # A condition's time is that of its change, so that writing it again doesn't move it.
    if ready or not record.ended:
        turned_at = record.started_at or record.written_at
    else:
        turned_at = min(end.finished_at for end in record.ended.values())
    if record.phase:
        turned_at = record.written_at
    yield _condition(
        "Initialized",
        begun or not pod.spec.init_containers,
        record.started_at or record.written_at,
        reason="" if begun or not pod.spec.init_containers else "ContainersNotInitialized",
    )
    yield _condition("ContainersReady", ready, turned_at, reason="" if ready else why)
    yield _condition("Ready", ready, turned_at, reason="" if ready else why)
    if record.disruption:
        yield _condition(
            "DisruptionTarget",
            True,
            record.written_at,
            reason=record.disruption,
            message=record.message,
        )


def _condition(kind: str, true: bool, since: str, *, reason: str = "", message: str = "") -> Json:
    return {
        "type": kind,
        "status": "True" if true else "False",
        "lastTransitionTime": since,
        "reason": reason or None,
        "message": message or None,
    }


def _container_status(container: Container, pod: Pod, record: Record) -> Json:
    end = record.ended.get(container.name)
    runs = bool(record.started_at) and end is None
    identity = f"containerd://{pod.metadata.uid}/{container.name}"
    state: Json
    if end is not None:
        state = {"terminated": _terminated(end, record.started_at, identity)}
    elif runs:
        state = {"running": {"startedAt": record.started_at}}
    else:
        state = {"waiting": {"reason": record.waiting.reason, "message": record.waiting.message}}
    return {
        "name": container.name,
        "image": container.image,
        "imageID": f"{container.image}@fake" if record.started_at else "",
        "containerID": identity if record.started_at else "",
        "restartCount": 0,
        "ready": runs and record.ready and not record.phase,
        "started": runs,
        "state": state,
    }


def _init_status(container: Container, pod: Pod, record: Record) -> Json:
    """An init container is done when the others start; a sidecar goes on until all are over."""
    status = _container_status(container, pod, record)
    is_sidecar = container.restart_policy == "Always"
    if record.started_at and (not is_sidecar or is_over(pod, record)):
        ended_at = record.written_at if is_sidecar else record.started_at
        end = Ended(Exit(), ended_at)
        state = {"terminated": _terminated(end, record.started_at, status["containerID"])}
        status |= {"state": state, "started": False, "ready": not is_sidecar}
    return status


def _terminated(end: Ended, started_at: str, identity: str) -> Json:
    return {
        "exitCode": end.exit.code,
        "reason": end.exit.reason or ("Error" if end.exit.code else "Completed"),
        "message": end.exit.message,
        "startedAt": started_at,
        "finishedAt": end.finished_at,
        "containerID": identity,
    }
