"""One controller: the real caches, notes and passes, with streams that lag and calls that wait.

Stands where the controller's own watches, queue and workers stand otherwise. Each resource has
a stream that is anywhere behind the server's log, and each pass stops at every batch of calls
until somebody carries them out. Decides nothing itself: `driver` says what happens next.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any, TypeVar

from jobyard.client.request import Answer, Request, resource_named, resource_of
from jobyard.controller.asking import Answered
from jobyard.controller.notes import Notes
from jobyard.controller.queue import RETRY_MAX_SECONDS, RETRY_SECONDS
from jobyard.controller.reconciling import Next, Passed, Reconciler
from jobyard.controller.records import JobKey, JobRecord
from jobyard.controller.world import CHILD_KINDS, World
from jobyard.plan.lowering.table import JOB_KINDS
from simulation.server import Event, Server
from simulation.violation import ViolationError

_PLURALS = {
    "Service": "services",
    "ConfigMap": "configmaps",
    "PodGroup": resource_named("scheduler.tensorstack.dev/v1beta1", "PodGroup").plural,
}
_KEYS = {"id": "k", "id.pub": "k"}


T = TypeVar("T")


class Batch:
    """Calls that a pass waits for."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self.requests = requests
        self.outcomes: list[Answer | None] = [None] * len(requests)
        self.waiting = list(range(len(requests)))

    def __await__(self) -> Generator[Batch, None, Sequence[Answer | None]]:
        yield self
        return self.outcomes


class Pass:
    """A pass under way."""

    def __init__(
        self, key: JobKey, record: JobRecord | None, steps: Coroutine[Any, None, Passed]
    ) -> None:
        self.key = key
        # The job and its pods as they were known when the pass began.
        self.record = record
        self.saw: dict[str, int] = {}
        self.steps = steps
        self.batch: Batch | None = None


class Stream:
    """A watch of one resource: how far it has come in the log."""

    def __init__(
        self, plural: str, shelf: Any, decode: Callable[[bytes], Any], log: list[Event]
    ) -> None:
        self.plural = plural
        self.shelf = shelf
        self.decode = decode
        self.log = log
        self.place = 0

    @property
    def has_news(self) -> bool:
        return self.place < len(self.log) or not self.shelf.is_synced

    def deliver(self) -> None:
        event = self.log[self.place]
        self.place += 1
        self.tell(event)

    def tell(self, event: Event) -> None:
        value = self.value_of(event)
        if event.type == "DELETED":
            self.shelf.removed(value)
        elif not self.shelf.confirmed(value.namespace, value.name, value.version):
            self.shelf.changed(value)

    def value_of(self, event: Event) -> Any:
        if event.value is None:
            event.value = self.decode(event.raw)
        return event.value

    def relist(self, place: int, version: int) -> None:
        """All that is there at a place of the log, as a list of that version."""
        there: dict[Any, Event] = {}
        for event in self.log[:place]:
            if event.type == "DELETED":
                there.pop(event.key, None)
            else:
                there[event.key] = event
        self.place = place
        self.shelf.replaced([self.value_of(event) for event in there.values()], str(version))


class Controller:
    """What is lost when the process dies."""

    def __init__(self, server: Server, now: Callable[[], float], name: str) -> None:
        self.name = name
        self._server = server
        self._now = now
        self.due: dict[JobKey, float] = {}
        self.busy: dict[JobKey, Pass] = {}
        self.failures: dict[JobKey, int] = {}
        self.world = World(self._wake)
        self.notes = Notes()
        # What users' programs were asked, by job.
        self.questions: dict[JobKey, Answered] = {}
        self.reconciler = Reconciler(
            self.world, self.notes, self._perform, now, lambda: _KEYS, self._ask
        )
        self.streams = [
            *(
                self._stream(
                    resource_of(kind).plural,
                    self.world.jobs[kind.name],
                    self.world.decode_job[kind.name],
                )
                for kind in JOB_KINDS
            ),
            self._stream("pods", self.world.pods, self.world.decode_pod),
            *(
                self._stream(
                    _PLURALS[kind], self.world.children[kind], self.world.decode_child[kind]
                )
                for kind in CHILD_KINDS
            ),
        ]
        # Jobs of which a status was written without an answer.
        self.unanswered: set[tuple[str, str]] = set()
        # The job whose pass is running at this moment, for those who audit.
        self.current: Pass | None = None

    def __repr__(self) -> str:
        return self.name

    def _stream(self, plural: str, shelf: Any, decode: Callable[[bytes], Any]) -> Stream:
        return Stream(plural, shelf, decode, self._server.logs.setdefault(plural, []))

    def _wake(self, key: JobKey) -> None:
        now = self._now()
        if self.due.get(key, now + 1) > now:
            self.due[key] = now

    async def _perform(
        self, _: JobKey, requests: Sequence[Request], take: Callable[[int, Answer | None], T]
    ) -> Sequence[T]:
        return [take(n, outcome) for n, outcome in enumerate(await Batch(requests))]

    def _ask(self, key: JobKey, _: Request, answered: Answered) -> None:
        self.questions.setdefault(key, answered)

    # The watches.

    def behind(self) -> list[Stream]:
        return [stream for stream in self.streams if stream.has_news]

    def deliver(self, stream: Stream) -> None:
        if not stream.shelf.is_synced:
            self.relist(stream, len(stream.log))
        else:
            stream.deliver()

    def relist(self, stream: Stream, place: int) -> None:
        log = stream.log
        version = self._server.version if place == len(log) else log[place].version - 1
        stream.relist(place, version)

    def catch_up(self) -> None:
        for stream in self.streams:
            if not stream.shelf.is_synced:
                self.relist(stream, len(stream.log))
            while stream.place < len(stream.log):
                stream.deliver()

    # The passes.

    def ready(self) -> list[JobKey]:
        if not self.world.is_synced:
            return []
        now = self._now()
        return [key for key, due in self.due.items() if due <= now and key not in self.busy]

    def begin(self, key: JobKey) -> Pass:
        del self.due[key]
        started = Pass(key, self.world.job(key), self.reconciler.reconcile(key))
        self.busy[key] = started
        if started.record is not None:
            known = self.world.pods.of_job(started.record.uid)
            started.saw = {pod.uid: int(pod.version) for pod in known}
        self.advance(started)
        return started

    def advance(self, each: Pass) -> None:
        """To the next batch of calls, or to the end of the pass."""
        self.current = each
        try:
            each.batch = each.steps.send(None)
        except StopIteration as done:
            self._over(each.key, done.value)
        finally:
            self.current = None

    def _over(self, key: JobKey, passed: Passed) -> None:
        del self.busy[key]
        if passed.problem:
            # The job says so; here nothing is so odd that the program may not understand it.
            raise ViolationError("exception", f"{key}: {passed.problem}")
        if passed.next is Next.RETRY:
            count = self.failures[key] = self.failures.get(key, 0) + 1
            self._plan(
                key, self._now() + min(RETRY_SECONDS * 2 ** min(count, 16), RETRY_MAX_SECONDS)
            )
        else:
            self.failures.pop(key, None)
        if passed.look_again_at is not None and passed.next is not Next.GONE:
            self._plan(key, passed.look_again_at)
        answered = self.questions.pop(key, None)
        if answered is not None:
            answered(None)

    def _plan(self, key: JobKey, moment: float) -> None:
        self.due[key] = min(self.due.get(key, moment), moment)

    def kill(self) -> None:
        for each in self.busy.values():
            each.steps.close()
        self.busy.clear()

    def next_due(self) -> float | None:
        now = self._now()
        return min((due for key, due in self.due.items() if due > now), default=None)


def carried_out(server: Server, batch: Batch, index: int, by: Controller) -> Answer:
    return server.handle(batch.requests[index], by)


def pick(dice: random.Random, items: Sequence[Any]) -> Any:
    return items[int(dice.random() * len(items))]
