"""What is told of a decision: conditions of pods, statuses of groups and queues, events.

One writer of each. A reason is told at once, and an event comes of it once; numbers alone change
with each pod that comes or goes, and are told anew only now and then, the less often the more wait.
What is remembered here can be forgotten at any time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import msgspec

from jobyard.api.podgroup import PodGroupStatus
from jobyard.api.queue import QueueStatus
from jobyard.client.request import EVENTS, PODS, Request, Resource, create, merge_patch
from jobyard.client.sender import Sender
from jobyard.schedule.decision import Aside, Refused
from jobyard.schedule.fitness import GATED
from jobyard.schedule.reasons import Why
from jobyard.schedule.snapshot import Candidate, Family, GroupFacts, GroupKey

POD_GROUPS: Final = Resource(Family.T9K.value, "v1beta1", "podgroups", "PodGroup")
BATCH_GROUPS: Final = Resource(Family.KUBE_BATCH.value, "v1alpha1", "podgroups", "PodGroup")
QUEUES: Final = Resource(Family.T9K.value, "v1beta1", "queues", "Queue", namespaced=False)
FAILED: Final = "FailedScheduling"
STRATEGIC: Final = "application/strategic-merge-patch+json"
_REFRESH_SECONDS: Final = 2.0
# Numbers are told anew so many times a second at the most.
_REFRESHES_PER_SECOND: Final = 50
_AT_ONCE: Final = 64
_log = logging.getLogger(__name__)
_encode: Final = msgspec.json.Encoder().encode


class Told(msgspec.Struct, frozen=True):
    """What was told last, and when."""

    reason: str
    message: str
    at: float
    is_nominated: bool = False


class Teller:
    """Writes what others read of scheduling."""

    def __init__(self, sender: Sender, node: str) -> None:
        self._sender = sender
        self._node = node
        self._pods: dict[str, Told] = {}
        self._groups: dict[str, Told] = {}
        # When numbers that were not told are due.
        self.due_at: float | None = None

    def forget(self, uid: str) -> None:
        self._pods.pop(uid, None)

    async def tell_pods(
        self, refused: Iterable[Refused], aside: Iterable[Aside], told: Collection[GroupKey] = ()
    ) -> bool:
        """Whether all know now why they wait; of the groups in `told` an event says it for all."""
        waiting = tuple(refused)
        patience = max(_REFRESH_SECONDS, len(waiting) / _REFRESHES_PER_SECOND)
        now = time.monotonic()
        self.due_at = None
        due: list[tuple[Candidate, str, Told]] = []
        for each in waiting:
            new = Told(each.why.reason, str(each.why), now, each.is_nominated)
            if self._is_due(self._last(each.pod), new, patience):
                due.append((each.pod, "Unschedulable", new))
        for one in aside:
            new = Told(one.word, one.message, now)
            if self._is_due(self._last(one.pod), new, patience):
                word = one.word if one.word == GATED else "Unschedulable"
                due.append((one.pod, word, new))
        done = True
        for start in range(0, len(due), _AT_ONCE):
            # Together they reach the disk in one go.
            some = due[start : start + _AT_ONCE]
            calls = (
                self._refuse(pod, word, new, is_alone=pod.group is None or pod.group not in told)
                for pod, word, new in some
            )
            done = all(await asyncio.gather(*calls)) and done
        return done

    def _last(self, pod: Candidate) -> Told | None:
        """What it was told last, also by an earlier scheduler."""
        last = self._pods.get(pod.uid)
        if last is None and pod.told:
            return Told(_word_of(pod.told), pod.told, 0.0, pod.is_nominated)
        return last

    def _is_due(self, last: Told | None, new: Told, patience: float) -> bool:
        if last is None or (last.reason, last.is_nominated) != (new.reason, new.is_nominated):
            return True
        if last.message == new.message:
            return False
        due_at = last.at + patience
        if new.at >= due_at:
            return True
        self.due_at = due_at if self.due_at is None else min(due_at, self.due_at)
        return False

    async def _refuse(self, pod: Candidate, word: str, new: Told, *, is_alone: bool) -> bool:
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": word,
            "message": new.message,
        }
        status: dict[str, Any] = {"conditions": [condition]}
        if new.is_nominated or pod.is_nominated:
            status["nominatedNodeName"] = self._node if new.is_nominated else ""
        patch = {"metadata": {"uid": pod.uid}, "status": status}
        answer = await self._sender.send(
            Request(
                method="PATCH",
                path=PODS.item(pod.namespace, pod.name, "status"),
                body=_encode(patch),
                content_type=STRATEGIC,
            )
        )
        if not answer.is_ok:
            _log.debug("telling %s why it waits: %s", pod, answer.problem)
            return False
        last = self._last(pod)
        self._pods[pod.uid] = new
        # Of a gang that waits to start it is told once, of the whole of it.
        if is_alone and (last is None or _word_of(last.message) != _word_of(new.message)):
            await self.event(about_pod(pod), FAILED, new.message, "Warning")
        return True

    async def tell_groups(
        self,
        whys: Mapping[GroupKey, Why],
        statuses: Mapping[GroupKey, PodGroupStatus],
        facts: Mapping[GroupKey, GroupFacts],
    ) -> bool:
        done = True
        now = time.monotonic()
        patience = max(_REFRESH_SECONDS, len(statuses) / _REFRESHES_PER_SECOND)
        for key, status in statuses.items():
            group = facts[key]
            new = Told(_shape(status), _words(status), now)
            if not self._is_due(self._groups.get(group.uid) or _stored(group), new, patience):
                continue
            if not await self._write_group(group, status):
                done = False
                continue
            last = self._groups.get(group.uid)
            self._groups[group.uid] = new
            why = whys.get(key)
            if why is not None and (last is None or _reason(last) != why.reason.value):
                await self._tell_of(group, why)
        for uid in self._groups.keys() - {each.uid for each in facts.values()}:
            del self._groups[uid]
        return done

    async def _write_group(self, group: GroupFacts, status: PodGroupStatus) -> bool:
        key, is_batch = group.key, group.key.family is Family.KUBE_BATCH
        value: dict[str, Any] = msgspec.to_builtins(status)
        before = msgspec.to_builtins(group.status) if group.status is not None else {}
        for name in ("pending", "running", "succeeded", "failed", "unknown"):
            value.setdefault(name, 0)
        for name in (before.get("allocated") or {}).keys() - value.get("allocated", {}).keys():
            value.setdefault("allocated", {})[name] = None
        if is_batch:
            value["phase"] = "Running" if status.running else "Pending"
        answer = await self._sender.send(
            merge_patch(
                BATCH_GROUPS if is_batch else POD_GROUPS,
                key.namespace,
                key.name,
                {"metadata": {"uid": group.uid}, "status": value},
                # kube-batch's kind has no part of its own for it.
                subresource="" if is_batch else "status",
            )
        )
        if not answer.is_ok:
            _log.debug("telling PodGroup %s: %s", key, answer.problem)
        return answer.is_ok

    async def _tell_of(self, group: GroupFacts, why: Why) -> None:
        """Once on the group, and once on the job that it belongs to, where people look."""
        key, owner = group.key, group.owner
        resource = BATCH_GROUPS if key.family is Family.KUBE_BATCH else POD_GROUPS
        about = {"namespace": key.namespace, "name": key.name, "uid": group.uid}
        typed = {"apiVersion": resource.api_version, "kind": resource.kind}
        await self.event({**typed, **about}, FAILED, str(why), "Warning")
        if owner.uid:
            job = {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name}
            whole = {**job, "namespace": key.namespace, "uid": owner.uid}
            await self.event(whole, FAILED, str(why), "Warning")

    async def tell_queues(self, statuses: Mapping[str, QueueStatus]) -> bool:
        done = True
        for name, status in statuses.items():
            value = msgspec.to_builtins(status)
            answer = await self._sender.send(
                Request(
                    method="PATCH",
                    path=QUEUES.item("", name, "status"),
                    body=_encode([{"op": "add", "path": "/status", "value": value}]),
                    content_type="application/json-patch+json",
                )
            )
            done = answer.is_ok and done
            if not answer.is_ok:
                _log.debug("telling Queue %s: %s", name, answer.problem)
        return done

    async def event(self, about: Mapping[str, str], reason: str, message: str, type_: str) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{about['name']}.", "namespace": about["namespace"]},
            "involvedObject": dict(about),
            "reason": reason,
            "message": message,
            "type": type_,
            "source": {"component": "jobyard-scheduler"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        await self._sender.send(create(EVENTS, about["namespace"], event))


def about_pod(pod: Candidate) -> dict[str, str]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod.name,
        "namespace": pod.namespace,
        "uid": pod.uid,
    }


def _word_of(message: str) -> str:
    """The reason that a message begins with; of what isn't in a line, all of it."""
    return message.partition(": ")[0]


def _shape(status: PodGroupStatus) -> str:
    """All of a status but the numbers in its sentences."""
    conditions = ",".join(f"{each.status}:{each.reason}" for each in status.conditions)
    counts = (status.pending, status.running, status.succeeded, status.failed, status.unknown)
    return f"{conditions} {counts} {sorted((status.allocated or {}).items())}"


def _words(status: PodGroupStatus) -> str:
    return ";".join(each.message for each in status.conditions)


def _reason(told: Told) -> str:
    """The reason of GroupScheduled, in a shape."""
    return told.reason.partition(" ")[0].rpartition(":")[2]


def _stored(group: GroupFacts) -> Told | None:
    """What an earlier scheduler told."""
    if group.status is None or not group.status.conditions:
        return None
    return Told(_shape(group.status), _words(group.status), 0.0)
