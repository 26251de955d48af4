"""All that the controller sees of a cluster: jobs and what belongs to them.

Each resource has a shelf. A change on any of them wakes the job that the object belongs to,
which is all that events are used for: a decision looks at what is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from jobyard.client.request import PODS
from jobyard.client.unreadable import Unreadable
from jobyard.controller.notes import Notes
from jobyard.controller.records import (
    ChildRecord,
    JobKey,
    JobRecord,
    child_decoder,
    job_decoder,
    pod_of,
)
from jobyard.controller.shelf import Shelf
from jobyard.plan.facts.decision import Child, ChildKey, Observed
from jobyard.plan.facts.pod_facts import Pod
from jobyard.plan.lowering.table import JOB_KINDS

CHILD_KINDS = ("Service", "ConfigMap", "PodGroup")


Report = Callable[[Unreadable, JobRecord | None], None]


def _unreported(found: Unreadable, job: JobRecord | None) -> None:
    """Where nobody wants to know."""


class World:
    """The shelves, and the view of one job. `report` hears of pods that can't be read."""

    def __init__(self, wake: Callable[[JobKey], None], report: Report = _unreported) -> None:
        self.wake = wake
        self._report = report
        self._keys: dict[str, JobKey] = {}
        self._uids: dict[JobKey, str] = {}
        self.jobs = {kind.name: Shelf[JobRecord](self._job_changed) for kind in JOB_KINDS}
        self.pods = Shelf[Pod](self._pod_changed)
        self.children = {kind: Shelf[ChildRecord](self._owned_changed) for kind in CHILD_KINDS}
        self.decode_job = {kind.name: job_decoder(kind) for kind in JOB_KINDS}
        self.decode_child = {kind: child_decoder(kind) for kind in (*CHILD_KINDS, "Secret")}
        self.decode_pod = pod_of

    @property
    def is_synced(self) -> bool:
        return (
            all(shelf.is_synced for shelf in self.jobs.values())
            and self.pods.is_synced
            and all(shelf.is_synced for shelf in self.children.values())
        )

    def job(self, key: JobKey) -> JobRecord | None:
        return self.jobs[key.kind].get((key.namespace, key.name))

    def all_jobs(self) -> Iterator[JobRecord]:
        for shelf in self.jobs.values():
            yield from shelf

    def observe(self, record: JobRecord, notes: Notes) -> Observed:
        note, lowered = notes.of(record), notes.lowered(record)
        # An object that names a job of another namespace as its owner is not its child.
        pods = tuple(
            pod for pod in self.pods.of_job(record.uid) if pod.namespace == record.namespace
        )
        children = dict(self._children(record, pods)) | _secrets(note.secrets)
        if note.obstacles:
            # What is there and the job's own is no obstacle any more, however it came to be.
            note.clear_obstacles({*children, *(("Pod", pod.name) for pod in pods)})
        return Observed(
            description=lowered.description,
            wanted=lowered.wanted,
            generation=record.metadata.generation,
            is_deleting=record.is_deleting,
            status=record.status,
            pods=pods,
            children=children,
            obstacles=dict(note.obstacles),
            is_probed=note.is_probed,
            lost_nodes=note.lost_nodes,
            pod_warnings=dict(note.pod_warnings),
            job_url=note.job_url,
        )

    def _children(
        self, record: JobRecord, pods: tuple[Pod, ...]
    ) -> Iterator[tuple[ChildKey, Child]]:
        for shelf in self.children.values():
            for each in shelf.of_job(record.uid):
                if each.namespace == record.namespace:
                    yield (each.child.kind, each.name), each.child
        for pod in pods:
            if not pod.role:
                yield ("Pod", pod.name), _as_child(pod)

    def _job_changed(self, record: JobRecord) -> None:
        before = self._uids.get(record.key)
        if before is not None and before != record.uid:
            # Deleted and made again between two passes.
            self._keys.pop(before, None)
        self._keys[record.uid] = record.key
        self._uids[record.key] = record.uid
        self.wake(record.key)

    def _owned_changed(self, obj: Pod | ChildRecord) -> None:
        key = self._keys.get(obj.job_uid)
        if key is not None:
            self.wake(key)

    def _pod_changed(self, pod: Pod) -> None:
        if pod.problem:
            key = self._keys.get(pod.job_uid)
            self._report(_unreadable(pod), self.job(key) if key is not None else None)
        self._owned_changed(pod)

    def forget(self, key: JobKey) -> None:
        """A job that is gone."""
        uid = self._uids.pop(key, None)
        if uid is not None:
            self._keys.pop(uid, None)


def _unreadable(pod: Pod) -> Unreadable:
    return Unreadable(
        resource=PODS,
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        version=pod.version,
        problem=pod.problem,
    )


def _secrets(known: dict[str, Child]) -> dict[ChildKey, Child]:
    return {("Secret", name): child for name, child in known.items()}


def _as_child(pod: Pod) -> Child:
    return Child(
        kind="Pod",
        name=pod.name,
        uid=pod.uid,
        # One that has ended serves nobody, so it is not as wanted.
        digest="" if pod.has_finished else pod.digest,
        is_terminating=pod.is_terminating,
    )
