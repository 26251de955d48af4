"""Why each replica doesn't run, from its row, its pod and the pod's events. Called by `why`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from jobyard.api.parts.status import ContainerState
from jobyard.jobs.explaining.moments import clock_text, span
from jobyard.jobs.explaining.reading import seconds
from jobyard.jobs.explaining.reasons import Reason, gang_words
from jobyard.jobs.explaining.seen import Event, Failure, Replica, Seen, SeenPod
from jobyard.plan.facts.pod_facts import Container, Pod

# A scheduler or a kubelet that hasn't said a word after so long won't.
SILENT_SECONDS: Final = 10
# A kubelet's words for images that it can't have.
_IMAGE: Final = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "RegistryUnavailable",
        "ImageInspectError",
        "SignatureValidationFailed",
    }
)
_ORDINARY: Final = ("", "ContainerCreating", "PodInitializing")
_VOLUMES: Final = ("FailedMount", "FailedAttachVolume", "FailedMapVolume")
_ROW_REASONS: Final = {
    "NameTaken": Reason.NAME_TAKEN,
    "InvalidTemplate": Reason.INVALID_TEMPLATE,
    "QuotaExceeded": Reason.NAMESPACE_QUOTA,
    "NodeUnreachable": Reason.NODE_UNREACHABLE,
    "TakenAway": Reason.STARTING,
    "Terminating": Reason.STOPPING,
}


class Why(msgspec.Struct, frozen=True):
    """Why a replica doesn't run; None for `reason` where nothing is to be said."""

    reason: Reason | None = None
    message: str = ""


def why_of(seen: Seen, replica: Replica) -> Why:
    """What keeps a replica from running, if anything does."""
    if replica.phase in ("Succeeded", "Stopped"):
        return Why()
    if replica.phase == "Failed" and not replica.again_at:
        return Why(Reason.REPLICA_FAILED, end_text(replica.failure))
    pod = replica.pod
    if pod is None:
        return _without_pod(seen, replica)
    facts = pod.facts
    if facts.is_terminating:
        return _leaving(facts)
    if facts.has_finished:
        return _ended(seen, replica)
    if not pod.is_placed:
        return unplaced(pod, seen.now)
    if facts.is_out_of_reach or facts.phase.value == "Unknown":
        where = f"its node {facts.node} can't be reached" if facts.node else "it can't be read"
        return Why(Reason.NODE_UNREACHABLE, facts.problem or where)
    return _starting(seen, pod)


def end_text(failure: Failure | None) -> str:
    """How it ended: `OOMKilled (exit code 137): …`."""
    if failure is None:
        return ""
    code = "" if failure.exit_code is None else f" (exit code {failure.exit_code})"
    said = f": {failure.message}" if failure.message else ""
    return f"{failure.reason or 'Error'}{code}{said}"


def _without_pod(seen: Seen, replica: Replica) -> Why:
    again = _again(seen, replica)
    if again:
        return Why(Reason.RESTART_DELAY, again)
    if replica.phase == "Waiting":
        return Why(Reason.RESTART_DELAY, replica.said)
    word = replica.reason or replica.said.partition(":")[0]
    known = _ROW_REASONS.get(word)
    if known is not None:
        return Why(known, _said_of(seen, replica, word))
    if replica.phase == "Deleted":
        return Why(Reason.STARTING, "its pod is gone and will be recreated")
    return Why(Reason.PREPARING, replica.said or "its pod isn't made yet")


def _again(seen: Seen, replica: Replica) -> str:
    due = seconds(replica.again_at) if replica.again_at else None
    if due is None:
        return ""
    left = due - seen.now
    when = f"in {span(left)}, at {clock_text(replica.again_at)}" if left > 0 else "now"
    ended = end_text(replica.failure)
    return f"{ended}; starts again {when}" if ended else f"starts again {when}"


def _said_of(seen: Seen, replica: Replica, word: str) -> str:
    """What the job's condition says of this replica: a row has no room for a sentence."""
    if replica.said:
        return replica.said.partition(": ")[2] or replica.said
    for type_ in ("Running", "ClusterRunning", "JobRunning", "Initialized"):
        holds = seen.conditions.get(type_)
        mark = f"{replica.name}: {word}: "
        if holds is not None and mark in holds.message:
            return holds.message.partition(mark)[2].partition("; ")[0]
    return ""


def _leaving(facts: Pod) -> Why:
    if facts.is_out_of_reach:
        return Why(Reason.NODE_UNREACHABLE, "being deleted; its node can't be reached")
    return Why(Reason.STOPPING, "its pod is being deleted")


def _ended(seen: Seen, replica: Replica) -> Why:
    again = _again(seen, replica)
    if again:
        return Why(Reason.RESTART_DELAY, again)
    if replica.pod is not None and replica.pod.facts.phase.value == "Succeeded":
        return Why()
    return Why(Reason.REPLICA_FAILED, end_text(replica.failure) or "its pod has failed")


def unplaced(pod: SeenPod, now: float) -> Why:
    """Why a pod has no node, in its scheduler's words."""
    told = pod.scheduled
    if told is None or (told.status != "False"):
        age = now - pod.facts.created_at
        who = pod.facts.scheduler or "default-scheduler"
        if age < SILENT_SECONDS:
            return Why(Reason.STARTING, "waits for its scheduler's first look")
        return Why(
            Reason.NO_SCHEDULER, f"no scheduler named {who} has looked at it for {span(age)}"
        )
    known, message = gang_words(told.reason, told.message)
    if known is not None:
        return Why(known, message)
    if told.reason == "SchedulingGated":
        return Why(Reason.SCHEDULING_GATED, told.message)
    if "persistentvolumeclaim" in told.message.lower():
        return Why(Reason.VOLUME_MISSING, told.message)
    if "node affinity/selector" in told.message and "Insufficient" not in told.message:
        return Why(Reason.NODE_SELECTOR_MISMATCH, told.message)
    return Why(Reason.UNSCHEDULABLE, told.message or told.reason)


def _starting(seen: Seen, pod: SeenPod) -> Why:
    facts = pod.facts
    images = dict(pod.images)
    for each in (*facts.init_containers, *facts.containers):
        if each.state is ContainerState.WAITING and each.reason not in _ORDINARY:
            return _stuck(each, images)
    running = any(each.state is ContainerState.RUNNING for each in facts.containers)
    if running:
        return Why()
    told = _last_warning(seen, facts.uid)
    if told is not None:
        kind = Reason.VOLUME_MISSING if told.reason in _VOLUMES else Reason.CONTAINER_CONFIG
        return Why(kind, f"{told.reason}: {told.message}")
    for each in facts.init_containers:
        if each.state is ContainerState.RUNNING:
            since = f" for {span(seen.now - each.started_at)}" if each.started_at else ""
            return Why(Reason.INITIALIZING, f"its init container {each.name} runs{since}")
    if facts.containers and all(each.exit_code is not None for each in facts.containers):
        return Why(Reason.STOPPING, "its containers have ended")
    return Why(Reason.STARTING, "its containers are being started")


def _stuck(container: Container, images: Mapping[str, str]) -> Why:
    said = f"{container.reason}: {container.message}" if container.message else container.reason
    if container.reason in _IMAGE:
        image = images.get(container.name, "")
        return Why(Reason.IMAGE_UNAVAILABLE, f"image {image} of container {container.name}: {said}")
    return Why(Reason.CONTAINER_CONFIG, f"container {container.name}: {said}")


def _last_warning(seen: Seen, uid: str) -> Event | None:
    about = (each for each in reversed(seen.events) if each.uid == uid and each.type == "Warning")
    # That no place was found is over once there is one.
    return next((each for each in about if each.reason != "FailedScheduling"), None)
