"""The scheduler's shell: watches pods and the node, asks `schedule` who runs, and binds them.

It writes placement alone: bindings, the condition PodScheduled of those that wait, and an event
each time the reason changes. What it remembers can be forgotten at any time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from jobyard.client.backoff import PATIENCE, Backoff
from jobyard.client.errors import ClientError
from jobyard.client.request import EVENTS, JSON_TYPE, NODES, PODS, Answer, Request, create
from jobyard.client.sender import Sender
from jobyard.client.unreadable import Unreadable
from jobyard.client.watching import Watched, follow
from jobyard.engine.scheduling.devices import DEVICES, may_have, notes_of
from jobyard.engine.scheduling.node_watching import NodeView, SeenNode
from jobyard.numerals import INT32_MAX, whole_number
from jobyard.schedule.placing import (
    Candidate,
    Machine,
    Placed,
    Placement,
    Reason,
    Refused,
    place,
)

_PATCH_TYPE: Final = "application/strategic-merge-patch+json"
_ENDED: Final = ("Succeeded", "Failed")
_OVERTAKEN: Final = (404, 409)
_UNREADABLE_MAX: Final = 100
_log = logging.getLogger(__name__)
_encode: Final = msgspec.json.Encoder().encode


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str
    uid: str
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    annotations: Mapping[str, str] = {}


class _Status(msgspec.Struct, frozen=True):
    phase: str = "Pending"


class SeenPod(msgspec.Struct, frozen=True):
    """What a placement depends on."""

    metadata: _Meta
    spec: dict[str, Any]
    status: _Status = _Status()

    @property
    def is_waiting(self) -> bool:
        return not self.spec.get("nodeName") and self.metadata.deletion_timestamp is None

    def is_on(self, node: str) -> bool:
        return self.spec.get("nodeName") == node and self.status.phase not in _ENDED

    @property
    def candidate(self) -> Candidate:
        meta = self.metadata
        devices = meta.annotations.get(DEVICES, "")
        return Candidate(
            uid=meta.uid,
            namespace=meta.namespace,
            name=meta.name,
            spec=self.spec,
            created_at=meta.creation_timestamp,
            devices=tuple(
                number
                for n in devices.split(",")
                if (number := whole_number(n, INT32_MAX)) is not None
            ),
        )


class Scheduler:
    """Places the pods of all scheduler names: there is one machine."""

    def __init__(self, sender: Sender, machine: Machine, *, backoff: Backoff = PATIENCE) -> None:
        """A relaxed machine is taken as it was measured, a strict one as its node object says."""
        self._sender = sender
        self._backoff = backoff
        self._measured = machine
        self._pods: dict[str, SeenPod] = {}
        self._changed = asyncio.Event()
        self._node = NodeView(machine, self._changed.set)
        # What was bound, by uid, until the watch tells of it: it must not be placed twice.
        self._bound: dict[str, Placed] = {}
        # The devices that were given away, by uid.
        self._given: dict[str, tuple[int, ...]] = {}
        # What was told last, by uid.
        self._told: dict[str, str] = {}
        self._unreadable: deque[Unreadable] = deque(maxlen=_UNREADABLE_MAX)

    async def run(self) -> None:
        """Until cancelled."""
        pods, nodes = msgspec.json.Decoder(SeenPod), msgspec.json.Decoder(SeenNode)
        mine = Watched(resource=NODES, field_selector=f"metadata.name={self._measured.name}")
        async with asyncio.TaskGroup() as group:
            if not self._measured.is_relaxed:
                group.create_task(follow(self._sender, mine, nodes.decode, self._node))
            all_pods = Watched(resource=PODS)
            group.create_task(
                follow(self._sender, all_pods, pods.decode, self, report=self._left_out)
            )
            group.create_task(self._place_for_ever())

    # What the watch tells.

    def replaced(self, items: Sequence[SeenPod], resource_version: str) -> None:  # noqa: ARG002
        self._pods = {pod.metadata.uid: self._as_bound(pod) for pod in items}
        for memory in (self._bound, self._told, self._given):
            for uid in memory.keys() - self._pods.keys():
                del memory[uid]
        self._changed.set()

    def changed(self, obj: SeenPod) -> None:
        self._pods[obj.metadata.uid] = self._as_bound(obj)
        self._changed.set()

    def removed(self, obj: SeenPod) -> None:
        self._pods.pop(obj.metadata.uid, None)
        self._told.pop(obj.metadata.uid, None)
        self._bound.pop(obj.metadata.uid, None)
        self._given.pop(obj.metadata.uid, None)
        self._changed.set()

    def reached(self, resource_version: str) -> None:
        """Nothing to do: a bookmark changes no pod."""

    def _left_out(self, found: Unreadable) -> None:
        """A pod that can't be read is not placed; it is told so with the next placement."""
        _log.error("%s", found)
        if found.name and found.namespace:
            self._unreadable.append(found)
            self._changed.set()

    def _as_bound(self, pod: SeenPod) -> SeenPod:
        """The pod with the binding that was answered, also if this was told before it."""
        placed = self._bound.get(pod.metadata.uid)
        if placed is None:
            return pod
        if pod.spec.get("nodeName"):
            del self._bound[pod.metadata.uid]
            return pod
        notes = {**pod.metadata.annotations, **notes_of(placed)}
        return msgspec.structs.replace(
            pod,
            metadata=msgspec.structs.replace(pod.metadata, annotations=notes),
            spec={**pod.spec, "nodeName": self._measured.name},
        )

    # What is done about it.

    async def _place_for_ever(self) -> None:
        failures = 0
        again: asyncio.TimerHandle | None = None
        while True:
            await self._changed.wait()
            self._changed.clear()
            if again is not None:
                again.cancel()
            is_done = False
            try:
                is_done = await self._place()
            except ClientError as error:
                _log.warning("placing pods: %s", error)
            except Exception:
                # The top: nobody else places pods, whatever went wrong with these.
                _log.exception("placing pods")
            failures = 0 if is_done else failures + 1
            if failures:
                # Others need not wait meanwhile: whatever changes is looked at as ever.
                delay_seconds = self._backoff.delay_seconds(failures)
                loop = asyncio.get_running_loop()
                again = loop.call_later(delay_seconds, self._changed.set)

    async def _place(self) -> bool:
        """Whether all that was decided is done."""
        while self._unreadable:
            found = self._unreadable.popleft()
            about = Candidate(uid=found.uid, namespace=found.namespace, name=found.name, spec={})
            await self._tell(about, "FailedScheduling", str(found))
        machine = self._measured if self._measured.is_relaxed else self._node.machine
        if machine is None:
            # The node's own watch wakes us.
            return True
        here = [
            self._with_devices(pod.candidate, machine)
            for pod in self._pods.values()
            if pod.is_on(machine.name)
        ]
        waiting = [pod.candidate for pod in self._pods.values() if pod.is_waiting]
        if not waiting:
            return True
        decided = _decided(machine, here, waiting)
        # All at once: they reach the disk together.
        bound = await asyncio.gather(
            *(self._bind(machine.name, placed) for placed in decided.placed),
            return_exceptions=True,
        )
        for problem in bound:
            if isinstance(problem, BaseException):
                raise problem
        done = [await self._refuse(refused) for refused in decided.refused]
        return all(bound) and all(done)

    def _with_devices(self, pod: Candidate, machine: Machine) -> Candidate:
        """The pod with the devices that are its own: what we gave it, else what it says and may be.

        Anybody can write an annotation.
        """
        devices = self._given.get(pod.uid)
        if devices is None:
            devices = pod.devices if may_have(machine, pod) else ()
        return msgspec.structs.replace(pod, devices=devices)

    async def _bind(self, node: str, placed: Placed) -> bool:
        pod = placed.pod
        metadata: dict[str, Any] = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
        seen = self._pods.get(pod.uid)
        if placed.devices or (seen is not None and DEVICES in seen.metadata.annotations):
            # Also over what somebody else wrote there.
            metadata["annotations"] = notes_of(placed)
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = PODS.item(pod.namespace, pod.name, "binding")
        answer = await self._send("POST", path, binding)
        if not answer.is_ok:
            # It is gone, or somebody bound it: the watch will tell. All else is worth a word.
            level = logging.DEBUG if answer.status in _OVERTAKEN else logging.WARNING
            _log.log(level, "binding %s/%s: %s", pod.namespace, pod.name, answer.problem)
            return False
        self._given[pod.uid] = placed.devices
        seen = self._pods.get(pod.uid)
        if seen is not None and not seen.spec.get("nodeName"):
            self._bound[pod.uid] = placed
            self._pods[pod.uid] = self._as_bound(seen)
        if placed.cuts:
            await self._tell(pod, "CutDown", "; ".join(placed.cuts))
        return True

    async def _refuse(self, refused: Refused) -> bool:
        pod = refused.pod
        if self._told.get(pod.uid) == refused.message:
            return True
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated" if pod.spec.get("schedulingGates") else "Unschedulable",
            "message": refused.message,
        }
        patch = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        path = PODS.item(pod.namespace, pod.name, "status")
        answer = await self._send("PATCH", path, patch)
        if not answer.is_ok:
            _log.debug("telling %s/%s why it waits: %s", pod.namespace, pod.name, answer.problem)
            return False
        self._told[pod.uid] = refused.message
        await self._tell(pod, "FailedScheduling", refused.message)
        return True

    async def _send(self, method: str, path: str, body: Any) -> Answer:
        type_ = _PATCH_TYPE if method == "PATCH" else JSON_TYPE
        return await self._sender.send(
            Request(method=method, path=path, body=_encode(body), content_type=type_)
        )

    async def _tell(self, pod: Candidate, reason: str, message: str) -> None:
        """A scheduler's event about a pod."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{pod.name}.", "namespace": pod.namespace},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": pod.name,
                "namespace": pod.namespace,
                "uid": pod.uid,
            },
            "reason": reason,
            "message": message,
            "type": "Warning" if reason == "FailedScheduling" else "Normal",
            "source": {"component": "jobyard-scheduler"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        await self._sender.send(create(EVENTS, pod.namespace, event))


def _decided(machine: Machine, here: list[Candidate], waiting: list[Candidate]) -> Placement:
    """What `place` says; one pod that it can't judge doesn't keep the others from it."""
    try:
        return place(machine, here, waiting)
    except Exception:
        # Which one it was is seen by asking about each alone.
        known = [pod for pod in here if _puzzle(machine, pod) is None]
        puzzles = [(pod, _puzzle(machine, pod)) for pod in waiting]
        decided = place(machine, known, [pod for pod, puzzle in puzzles if puzzle is None])
        refused = [
            Refused(pod, Reason.NOT_UNDERSTOOD, f"the scheduler can't judge this pod: {puzzle}")
            for pod, puzzle in puzzles
            if puzzle is not None
        ]
        return Placement(decided.placed, (*decided.refused, *refused))


def _puzzle(machine: Machine, pod: Candidate) -> str | None:
    """What goes wrong when this pod alone is counted and judged."""
    try:
        place(machine, [pod], [pod])
    except Exception as problem:
        _log.debug("judging %s/%s", pod.namespace, pod.name, exc_info=True)
        return f"{type(problem).__name__}: {problem}"
    return None
