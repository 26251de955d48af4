"""What is looked at to answer why a job stands as it does: a snapshot, taken by whoever asks.

Nothing here decides. The job's status is read for all kinds alike, a TaskSet's own words included;
pods are read as the controller reads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from jobyard.api.kinds import kind_named
from jobyard.api.parts.run_mode import Mode
from jobyard.jobs.explaining.reading import (
    JSON,
    Holds,
    conditions,
    count,
    is_set,
    part,
    parts,
    text,
)
from jobyard.jobs.view import TASKSET_PHASES
from jobyard.plan.facts.pod_facts import Meta, Pod, PodObject, facts_of, unreadable_pod
from jobyard.plan.lowering.names import is_octopus

SCHEDULER_GROUP = "scheduler.tensorstack.dev"
GROUP_LABEL = f"{SCHEDULER_GROUP}/group-name"
QUEUE_LABEL = f"{SCHEDULER_GROUP}/queue"
# kube-batch's, and Volcano's after it.
GROUP_ANNOTATIONS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")


class SeenPod(msgspec.Struct, frozen=True):
    """A pod, and what its scheduler says of it."""

    facts: Pod
    scheduled: Holds | None = None
    # The gang it is a member of, and the queue that its label names.
    group: str = ""
    queue: str = ""
    claims: tuple[str, ...] = ()
    images: tuple[tuple[str, str], ...] = ()

    @property
    def is_placed(self) -> bool:
        return bool(self.facts.node) or (self.scheduled is not None and self.scheduled.is_true)


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to the job, or to what belongs to it."""

    time: str
    type: str
    reason: str
    # As `pod/train-worker-0`.
    object: str
    message: str
    count: int = 1
    uid: str = msgspec.field(default="")


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """How an attempt of a replica failed."""

    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    time: str = ""
    # The replica that failed first, if this one came after it.
    follows: str = ""
    attempt: int = 0


class Replica(msgspec.Struct, frozen=True, kw_only=True):
    """One replica, as the status has it, and its pod if there is one."""

    name: str
    pod_name: str
    phase: str
    reason: str = ""
    # What a TaskSet's row says.
    said: str = ""
    restarts: int = 0
    again_at: str = ""
    failure: Failure | None = None
    pod: SeenPod | None = None


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """The snapshot. `now` is in seconds since 1970."""

    kind: str
    job: JSON
    now: float
    pods: tuple[SeenPod, ...] = ()
    # The PodGroup of the job, whichever scheduler's it is.
    group: JSON | None = None
    # None: they can't be listed, since there is no such kind here or nobody may.
    queues: tuple[JSON, ...] | None = None
    events: tuple[Event, ...] = ()
    # What a command needs besides the job to mean the same place, such as `-n team`.
    options: str = ""
    # Whether it is an engine on one machine, and no cluster.
    is_embedded: bool = False

    @property
    def name(self) -> str:
        return text(self.job, "metadata", "name")

    @property
    def namespace(self) -> str:
        return text(self.job, "metadata", "namespace")

    @property
    def is_taskset(self) -> bool:
        return is_octopus(self.kind)

    @property
    def can_pause(self) -> bool:
        kind = kind_named(self.kind)
        return kind is not None and Mode.PAUSE in kind.modes

    @property
    def phase(self) -> str:
        field = "state" if self.is_taskset else "phase"
        return text(self.job, "status", field) or ("Waiting" if self.is_taskset else "Pending")

    @property
    def conditions(self) -> dict[str, Holds]:
        return conditions(self.job)

    @property
    def queue_name(self) -> str:
        """The queue it waits in; empty where it has none."""
        named = text(self.group, "spec", "queue") if self.group is not None else ""
        wanted = part(self.job, "spec", "scheduler", "t9kScheduler")
        labelled = next((pod.queue for pod in self.pods if pod.queue), "")
        own = text(wanted, "queue") or ("default" if wanted else "")
        return named or own or labelled or ("default" if self.group is not None else "")

    @property
    def queue(self) -> JSON | None:
        wanted = self.queue_name
        for queue in self.queues or ():
            if text(queue, "metadata", "name") == wanted:
                return queue
        return None


def pod_of(item: JSON) -> SeenPod:
    """A pod as a list has it; one that can't be read is there nevertheless."""
    metadata = part(item, "metadata")
    try:
        facts = facts_of(msgspec.convert(item, PodObject))
    except (msgspec.ValidationError, ValueError, KeyError) as problem:
        meta = Meta(name=text(metadata, "name"), uid=text(metadata, "uid"))
        facts = unreadable_pod(meta, str(problem))
    notes = part(metadata, "annotations")
    labels = part(metadata, "labels")
    groups = (text(labels, GROUP_LABEL), *(text(notes, key) for key in GROUP_ANNOTATIONS))
    spec = part(item, "spec")
    containers = (*parts(spec, "initContainers"), *parts(spec, "containers"))
    return SeenPod(
        facts=facts,
        scheduled=conditions(item).get("PodScheduled"),
        group=next(filter(None, groups), ""),
        queue=text(labels, QUEUE_LABEL),
        claims=tuple(
            filter(
                None,
                (
                    text(volume, "persistentVolumeClaim", "claimName")
                    for volume in parts(spec, "volumes")
                ),
            )
        ),
        images=tuple((text(each, "name"), text(each, "image")) for each in containers),
    )


def replicas_of(seen: Seen) -> list[Replica]:
    """The rows of the status, each with its pod; pods that no row knows yet come after them."""
    by_name = {pod.facts.name: pod for pod in seen.pods}
    rows = list((_task_rows if seen.is_taskset else _rows)(seen, by_name))
    known = {row.pod_name for row in rows}
    for pod in seen.pods:
        facts = pod.facts
        if facts.role and facts.name not in known:
            name = f"{facts.role}-{facts.rank}" if seen.is_taskset else _short(seen, facts.name)
            rows.append(Replica(name=name, pod_name=facts.name, phase=facts.phase.value, pod=pod))
    return rows


def _short(seen: Seen, pod_name: str) -> str:
    return pod_name.removeprefix(f"{seen.name}-")


def _rows(seen: Seen, pods: dict[str, SeenPod]) -> Iterator[Replica]:
    for task in parts(seen.job, "status", "tasks"):
        for row in parts(task, "status"):
            name = text(row, "name")
            yield Replica(
                name=_short(seen, name),
                pod_name=name,
                phase=text(row, "phase"),
                reason=text(row, "reason"),
                restarts=count(row, "restartCount") or 0,
                again_at=text(row, "restartTime"),
                failure=_failure(part(row, "lastFailure")),
                pod=_current(pods.get(name), text(row, "uid")),
            )


def _current(pod: SeenPod | None, uid: str) -> SeenPod | None:
    """The pod that a row speaks of; a row without a uid hasn't seen any."""
    return pod if pod is not None and uid in ("", pod.facts.uid) else None


def _failure(failure: JSON) -> Failure | None:
    if not failure:
        return None
    return Failure(
        exit_code=count(failure, "exitCode"),
        reason=text(failure, "reason"),
        message=text(failure, "message"),
        time=text(failure, "time"),
        follows=text(failure, "follows"),
        attempt=count(failure, "attempt") or 0,
    )


def _task_rows(seen: Seen, pods: dict[str, SeenPod]) -> Iterator[Replica]:
    for role in parts(seen.job, "status", "roleStatus"):
        for row in parts(role, "replicaStatus"):
            info = part(row, "terminatedInfo")
            code = count(info, "exitCode")
            phase = TASKSET_PHASES.get(text(row, "phase"), "")
            was_stopped = is_set(row, "stopped")
            phase = phase or ("Stopped" if was_stopped else "Failed" if code else "Succeeded")
            failure = Failure(
                exit_code=code,
                reason=text(info, "reason"),
                message=text(info, "exitMessage"),
                time=text(row, "finishAt"),
                attempt=count(row, "totalRetriedCount") or 0,
            )
            yield Replica(
                name=f"{text(role, 'name')}-{count(row, 'index') or 0}",
                pod_name=text(row, "podName"),
                phase=phase,
                said=text(row, "phaseMessage"),
                restarts=count(row, "totalRetriedCount") or 0,
                failure=failure if code and not was_stopped else None,
                pod=_current(pods.get(text(row, "podName")), text(row, "podUID")),
            )


def latest(events: Sequence[Event], *reasons: str) -> Event | None:
    """The last event with one of the reasons; events are in order."""
    return next((each for each in reversed(events) if each.reason in reasons), None)
