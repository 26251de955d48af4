"""The scheduler of one machine: watches, asks `schedule` to decide, and has it carried out.

Places the pods of all scheduler names. What it remembers can be forgotten at any time: who room is
made for stands in the pods' `nominatedNodeName`, which gangs have started in their PodGroups.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from jobyard.api.parts.scheduling import DEFAULT_QUEUE
from jobyard.client.backoff import PATIENCE, Backoff
from jobyard.client.errors import ClientError
from jobyard.client.request import NODES, PODS, create
from jobyard.client.resources import NAMESPACES
from jobyard.client.sender import Sender
from jobyard.client.unreadable import Unreadable
from jobyard.client.watching import Watched, follow
from jobyard.engine.scheduling.acting import Actor
from jobyard.engine.scheduling.figures import figures_of
from jobyard.engine.scheduling.node_watching import NodeView, SeenNode
from jobyard.engine.scheduling.seen import (
    SeenBatchGroup,
    SeenGroup,
    SeenNamespace,
    SeenPod,
    SeenQueue,
    batch_group_of,
    group_of,
    queue_of,
)
from jobyard.engine.scheduling.telling import (
    BATCH_GROUPS,
    FAILED,
    POD_GROUPS,
    QUEUES,
    Teller,
)
from jobyard.engine.scheduling.views import Named, PodsView, View
from jobyard.schedule.deciding import decide
from jobyard.schedule.snapshot import GroupFacts, GroupKey, Machine, Snapshot

_UNREADABLE_MAX: Final = 100
# The wall's clock may be set, and stands still for no timer while the machine sleeps.
_LOOK_SECONDS_MAX: Final = 30.0
_CONFLICT: Final = 409
_log = logging.getLogger(__name__)


class Scheduler:
    """Decides again whenever something has changed, or a moment has come."""

    def __init__(
        self,
        sender: Sender,
        machine: Machine,
        *,
        may_preempt: bool = True,
        backoff: Backoff = PATIENCE,
    ) -> None:
        """A relaxed machine is taken as it was measured, a strict one as its node object says."""
        self._sender = sender
        self._backoff = backoff
        self._measured = machine
        self._may_preempt = may_preempt
        self._changed = asyncio.Event()
        wake = self._changed.set
        self._node = NodeView(machine, wake)
        self._teller = Teller(sender, machine.name)
        self.pods = PodsView(machine.name, wake, self._teller.forget)
        self._queues = View(queue_of, wake, self._odd)
        self._groups = View(group_of, wake, self._odd)
        self._batch_groups = View(batch_group_of, wake, self._odd)
        self._namespaces = View(_labelled, wake, self._odd)
        self._actor = Actor(sender, self.pods, self._teller)
        self._unreadable: deque[Unreadable] = deque(maxlen=_UNREADABLE_MAX)
        self._cycle = 0
        self._figures = ""

    def figures(self) -> str:
        """How many wait and why, for Prometheus."""
        return self._figures

    async def run(self) -> None:
        """Until cancelled."""
        mine = Watched(resource=NODES, field_selector=f"metadata.name={self._measured.name}")
        watches: tuple[tuple[Watched, Any, Any], ...] = (
            (Watched(resource=QUEUES), SeenQueue, self._queues),
            (Watched(resource=POD_GROUPS), SeenGroup, self._groups),
            (Watched(resource=BATCH_GROUPS), SeenBatchGroup, self._batch_groups),
            (Watched(resource=NAMESPACES), SeenNamespace, self._namespaces),
        )
        async with asyncio.TaskGroup() as group:
            if not self._measured.is_relaxed:
                nodes = msgspec.json.Decoder(SeenNode)
                group.create_task(follow(self._sender, mine, nodes.decode, self._node))
            for watched, type_, view in watches:
                decode = msgspec.json.Decoder(type_).decode
                group.create_task(follow(self._sender, watched, decode, view))
            pods = msgspec.json.Decoder(SeenPod)
            group.create_task(
                follow(
                    self._sender,
                    Watched(resource=PODS),
                    pods.decode,
                    self.pods,
                    report=self._left_out,
                )
            )
            group.create_task(self._decide_for_ever())

    def _left_out(self, found: Unreadable) -> None:
        """A pod that can't be read is not placed; it is told so with the next decision."""
        _log.error("%s", found)
        if found.name and found.namespace:
            self._unreadable.append(found)
            self._changed.set()

    def _odd(self, obj: Named, problem: Exception) -> None:
        name = f"{type(obj).__name__.removeprefix('Seen')} {obj.metadata.name}"
        _log.warning("%s can't be understood, and is left out: %s", name, problem)

    async def _decide_for_ever(self) -> None:
        failures = 0
        again: asyncio.TimerHandle | None = None
        loop = asyncio.get_running_loop()
        while True:
            await self._changed.wait()
            self._changed.clear()
            if again is not None:
                again.cancel()
                again = None
            is_done, wait_seconds = False, None
            try:
                is_done, wait_seconds = await self.place()
            except ClientError as error:
                _log.warning("placing pods: %s", error)
            except Exception:
                # The top: nobody else places pods, whatever went wrong with these.
                _log.exception("placing pods")
            failures = 0 if is_done else failures + 1
            if failures:
                # Others need not wait meanwhile: whatever changes is looked at as ever.
                wait_seconds = self._backoff.delay_seconds(failures)
            if wait_seconds is not None:
                again = loop.call_later(wait_seconds, self._changed.set)

    @property
    def views(self) -> tuple[Any, ...]:
        """What all watches but that of the node have told."""
        return (self.pods, self._queues, self._groups, self._batch_groups, self._namespaces)

    async def place(self) -> tuple[bool, float | None]:
        """One decision, carried out: whether all of it is done, and when to look again at last."""
        while self._unreadable:
            found = self._unreadable.popleft()
            about = {"apiVersion": "v1", "kind": "Pod", "name": found.name}
            whole = {**about, "namespace": found.namespace, "uid": found.uid}
            await self._teller.event(whole, FAILED, str(found), "Warning")
        machine = self._measured if self._measured.is_relaxed else self._node.machine
        if machine is None or not all(view.is_known for view in self.views):
            # The watches wake us.
            return True, None
        self._cycle += 1
        now = time.time()
        groups = self._all_groups()
        snapshot = Snapshot(
            machine=machine,
            queues=tuple(self._queues.by_uid.values()),
            groups=tuple(groups.values()),
            pods=self.pods.on(machine),
            namespaces=dict(self._namespaces.by_uid.values()),
            now=now,
            cycle=str(self._cycle),
            may_preempt=self._may_preempt,
        )
        decided = decide(snapshot)
        self._figures = figures_of(decided)
        teller = self._teller
        # Who is to get the room stands there before it is made.
        done = [
            await self._actor.bind_all(machine.name, decided.placed),
            await teller.tell_pods(decided.refused, decided.aside, decided.groups.keys()),
            await self._actor.evict_all(decided.evicted),
            await self._actor.end_all(decided.paused, decided.removed),
            await teller.tell_groups(decided.groups, decided.group_statuses, groups),
            await teller.tell_queues(decided.queue_statuses),
        ]
        if not any(queue.name == DEFAULT_QUEUE for queue in snapshot.queues):
            await self._make_default_queue()
        return all(done), self._next_seconds(decided.look_again_at, now)

    def _next_seconds(self, look_again_at: float | None, now: float) -> float | None:
        waits = []
        if look_again_at is not None:
            waits.append(min(max(0.0, look_again_at - now), _LOOK_SECONDS_MAX))
        if self._teller.due_at is not None:
            waits.append(max(0.0, self._teller.due_at - time.monotonic()))
        return min(waits, default=None)

    def _all_groups(self) -> Mapping[GroupKey, GroupFacts]:
        views = (self._groups, self._batch_groups)
        return {group.key: group for view in views for group in view.by_uid.values()}

    async def _make_default_queue(self) -> None:
        """Open to all, from the start."""
        queue = {
            "apiVersion": QUEUES.api_version,
            "kind": QUEUES.kind,
            "metadata": {"name": DEFAULT_QUEUE},
            "spec": {},
        }
        answer = await self._sender.send(create(QUEUES, "", queue))
        if not answer.is_ok and answer.status != _CONFLICT:
            _log.warning("making the queue %s: %s", DEFAULT_QUEUE, answer.problem)


def _labelled(seen: SeenNamespace) -> tuple[str, Mapping[str, str]]:
    return seen.metadata.name, seen.metadata.labels or {}
