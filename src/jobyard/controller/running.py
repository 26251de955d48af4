"""The controller: watches, a queue, and workers that pass over jobs.

Whoever starts it gives it a connection and says what it may touch. `stop` lets the passes
under way come to their end; cancelling gives them up, which is safe at any point.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from typing import Any, Generic

import msgspec

from jobyard.client.errors import ClientError
from jobyard.client.request import (
    CONFIG_MAPS,
    PODS,
    SERVICES,
    Resource,
    resource_named,
    resource_of,
)
from jobyard.client.sender import Sender
from jobyard.client.watching import Watched, follow
from jobyard.controller.asking import Asking
from jobyard.controller.notes import Notes
from jobyard.controller.operations.measuring import Meter
from jobyard.controller.operations.progress import Progress
from jobyard.controller.performing import Performer
from jobyard.controller.queue import ClosedError, WorkQueue
from jobyard.controller.reconciling import Next, Passed, Reconciler
from jobyard.controller.records import JobKey
from jobyard.controller.refusals import brief
from jobyard.controller.reports import Reports
from jobyard.controller.shelf import Shelf, T
from jobyard.controller.ssh_keys import fresh_keys
from jobyard.controller.world import World
from jobyard.plan.lowering.names import MANAGED_BY
from jobyard.plan.lowering.table import JOB_KINDS

_OURS = f"{MANAGED_BY}=jobyard"
_CHILDREN = {
    "Service": SERVICES,
    "ConfigMap": CONFIG_MAPS,
    "PodGroup": resource_named("scheduler.tensorstack.dev/v1beta1", "PodGroup"),
}
# A pass is at most this far from the one before it, plus a bit for each pod.
REST_SECONDS = 0.1
# A namespace that is alone gets a third of what is shared (`fairness`).
PLACES = 3
REST_SECONDS_PER_POD = 0.0002
_log = logging.getLogger(__name__)


def _namespace(key: JobKey) -> str:
    """Whose jobs take turns: those of one namespace with those of another."""
    return key.namespace


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the controller may touch, and how much it does at a time."""

    # Empty: all namespaces.
    namespace: str = ""
    has_gang_scheduler: bool = True
    # Of one namespace while it is alone; twice as many more are there for the jobs of others.
    workers: int = 16


class Controller:
    """One controller over one connection."""

    def __init__(
        self, sender: Sender, options: Options, metrics: Meter, progress: Progress | None = None
    ) -> None:
        self._sender = sender
        self._options = options
        self._metrics = metrics
        loop = asyncio.get_running_loop()
        self.progress = progress or Progress(loop.time)
        self._queue = WorkQueue[JobKey](
            loop.time, metrics.waited, group_of=_namespace, places=PLACES * options.workers
        )
        perform = Performer(sender, _namespace, self.progress.moved)
        self._reports = Reports(perform, time.time)
        self._world = World(self._queue.wake, self._reports.tell)
        self._notes = Notes(has_gang_scheduler=options.has_gang_scheduler)
        self._asking = Asking(sender, _namespace)
        self._reconciler = Reconciler(
            self._world, self._notes, perform, time.time, fresh_keys, self._asking.ask
        )
        self._listed = asyncio.Event()

    @property
    def is_synced(self) -> bool:
        return self._world.is_synced

    @property
    def world(self) -> World:
        return self._world

    async def run(self) -> None:
        """Until `stop`, or until cancelled."""
        async with asyncio.TaskGroup() as group:
            beside = [group.create_task(watch) for watch in self._watches()]
            beside.append(group.create_task(self._asking.run()))
            beside.append(group.create_task(self._reports.run()))
            await self._when_synced()
            _log.info("caches are synced: %d jobs", sum(1 for _ in self._world.all_jobs()))
            await self._work_together()
            self.progress.ended()
            for task in beside:
                task.cancel()

    @property
    def standstill(self) -> str:
        """What holds up the work, in words; empty if nothing does."""
        return self.progress.standstill(self._queue.due_since if self.is_synced else None)

    def stop(self) -> None:
        """Begin no new pass; `run` ends when those under way have."""
        self._queue.close()

    async def _when_synced(self) -> None:
        while not self._world.is_synced:
            self._listed.clear()
            await self._listed.wait()

    def _watches(self) -> Iterator[Coroutine[Any, Any, None]]:
        world, namespace = self._world, self._options.namespace
        for kind in JOB_KINDS:
            watched = Watched(resource=resource_of(kind), namespace=namespace)
            yield self._follow(watched, world.decode_job[kind.name], world.jobs[kind.name])
        yield self._follow(self._ours(PODS), world.decode_pod, world.pods)
        for name, resource in _CHILDREN.items():
            shelf, decode = world.children[name], world.decode_child[name]
            if name == "PodGroup" and not self._options.has_gang_scheduler:
                shelf.is_synced = True
                continue
            yield self._follow(self._ours(resource), decode, shelf)

    def _ours(self, resource: Resource) -> Watched:
        namespace = self._options.namespace
        return Watched(resource=resource, namespace=namespace, label_selector=_OURS)

    async def _follow(
        self, watched: Watched, decode: Callable[[bytes], T], shelf: Shelf[T]
    ) -> None:
        def tell(error: ClientError, failures: int) -> None:
            heard()
            plural, why = watched.resource.plural, brief(error)
            _log.warning("watching %s (failure %d): %s", plural, failures, why)

        heard = partial(self.progress.heard, f"the watch of {watched.resource.plural}")
        heard()
        sink = _Announced(shelf, self._listed.set, heard)
        await follow(
            self._sender,
            watched,
            decode,
            sink,
            notice=tell,
            report=self._reports.tell,
            knows=sink.confirmed,
        )

    async def _work_together(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(PLACES * self._options.workers):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            try:
                key = await self._queue.next()
            except ClosedError:
                return
            self._metrics.queued(self._queue.depth)
            started = time.monotonic()
            try:
                passed = await self._reconciler.reconcile(key)
            except Exception:
                # A fault of the program: this job waits, the others go on.
                _log.exception("%s: the pass failed", key)
                self._metrics.failed(key.kind)
                self._queue.done(key, has_failed=True)
                continue
            finally:
                self.progress.moved()
            self._metrics.reconciled(key.kind, time.monotonic() - started)
            self._settle(key, passed)

    def _settle(self, key: JobKey, passed: Passed) -> None:
        has_failed = passed.next is Next.RETRY
        if has_failed or passed.problem:
            self._metrics.failed(key.kind)
        self._metrics.created_pods(key.kind, passed.pods_created)
        self._metrics.restarted(key.kind, passed.restarts)
        if passed.started_after is not None:
            self._metrics.started(key.kind, passed.started_after)
        if passed.next is Next.GONE:
            self._queue.done(key)
            self._queue.forget(key)
            return
        record = self._world.job(key)
        pods = len(self._world.pods.of_job(record.uid)) if record is not None else 0
        rest = REST_SECONDS + REST_SECONDS_PER_POD * pods
        self._queue.done(key, rest_seconds=rest, has_failed=has_failed)
        if passed.look_again_at is not None:
            self._queue.wake_in(key, passed.look_again_at - time.time())


class _Announced(Generic[T]):
    """A shelf that also says when it has been filled, and when anything was heard."""

    def __init__(
        self, shelf: Shelf[T], announce: Callable[[], None], heard: Callable[[], None]
    ) -> None:
        self._shelf = shelf
        self._announce = announce
        self._heard = heard

    def replaced(self, items: Sequence[T], resource_version: str) -> None:
        self._heard()
        self._shelf.replaced(items, resource_version)
        self._announce()

    def changed(self, obj: T) -> None:
        self._heard()
        self._shelf.changed(obj)

    def confirmed(self, namespace: str, name: str, version: str) -> bool:
        self._heard()
        return self._shelf.confirmed(namespace, name, version)

    def removed(self, obj: T) -> None:
        self._heard()
        self._shelf.removed(obj)

    def reached(self, resource_version: str) -> None:
        self._heard()
        self._shelf.reached(resource_version)
