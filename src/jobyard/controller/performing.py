"""Carries the requests of passes out over the network, many at a time.

A request is built only once there is a slot for it, and its answer is looked at before the next
one is sent: bodies and answers are large, and what is held of them at any time is no more than
there are slots. Groups of jobs share the slots (`fairness`), so a namespace in which thousands
of pods are made, or in which each request takes a minute, delays nobody else. A large request
takes several slots: it keeps an API server busy for as long as many small ones, and whoever else
asks the server shares its processors with all that we have sent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from jobyard.client.backoff import PATIENCE, Backoff
from jobyard.client.errors import ClientError
from jobyard.client.request import Answer, Request
from jobyard.client.retrying import send_patiently
from jobyard.client.sender import Sender
from jobyard.controller.fairness import Slot, Slots
from jobyard.controller.records import JobKey
from jobyard.controller.refusals import brief

T = TypeVar("T")

# What became of a request; None was not sent, or had no answer.
Outcome = Answer | None

# Of one batch, and of one group while it is alone.
PARALLEL_MAX = 16
SLOTS = 3 * PARALLEL_MAX
# Requests of up to so many bytes take one slot.
SLOT_BYTES = 32 * 1024
_CONFLICT = 409
_log = logging.getLogger(__name__)


class UnsendableError(Exception):
    """A request can't be built. Whoever builds requests knows why."""


def slots_of(request: Request) -> int:
    size = len(request.body) if request.body is not None else 0
    return 1 if size < SLOT_BYTES else min(1 + size // SLOT_BYTES, PARALLEL_MAX)


@dataclass
class _Batch:
    group: Hashable
    requests: Sequence[Request]
    # Of the largest one so far: those of one batch are mostly alike.
    slots: int = 1


class Perform(Protocol):
    """Carries out a batch of requests of one job, all of them or as far as they go.

    `requests` may be built as they are asked for. `take` is given each outcome with its place
    in the batch as soon as it is there, and keeps what is needed of it.
    """

    async def __call__(
        self, key: JobKey, requests: Sequence[Request], take: Callable[[int, Outcome], T], /
    ) -> Sequence[T]: ...


def as_it_is(_: int, outcome: Outcome) -> Outcome:
    """Takes the outcome itself, where it is small or the only one."""
    return outcome


class Performer:
    """`perform` for the reconciler."""

    def __init__(
        self,
        sender: Sender,
        group_of: Callable[[JobKey], Hashable],
        moved: Callable[[], None] = lambda: None,
    ) -> None:
        """`moved` is called when a request is sent, and when it has come to something."""
        self._sender = sender
        self._group_of = group_of
        self._moved = moved
        self._slots = Slots[Hashable](SLOTS)

    async def __call__(
        self, key: JobKey, requests: Sequence[Request], take: Callable[[int, Outcome], T], /
    ) -> Sequence[T]:
        batch = _Batch(self._group_of(key), requests)
        if len(requests) == 1:
            return [await self._performed(batch, 0, take)]
        found: dict[int, T] = {}
        places = iter(range(len(requests)))

        async def work() -> None:
            for n in places:
                found[n] = await self._performed(batch, n, take)

        async with asyncio.TaskGroup() as workers:
            for _ in range(min(PARALLEL_MAX, len(requests))):
                workers.create_task(work())
        return [found[n] for n in range(len(requests))]

    async def _performed(self, batch: _Batch, n: int, take: Callable[[int, Outcome], T]) -> T:
        while True:
            wanted = batch.slots
            async with self._slots.of(batch.group, wanted) as slot:
                try:
                    request = batch.requests[n]
                except UnsendableError:
                    return take(n, None)
                needed = slots_of(request)
                if needed <= wanted:
                    return take(n, await self._outcome(request, slot))
                batch.slots = max(batch.slots, needed)
            # It is larger than those before it: built again once there is room for it.
            del request

    async def _outcome(self, request: Request, slot: Slot[Hashable]) -> Outcome:
        async def wait(seconds: float) -> None:
            self._moved()
            await slot.without(PATIENCE.wait(seconds))
            self._moved()

        self._moved()
        try:
            answer = await send_patiently(self._sender, request, backoff=Backoff(wait=wait))
        except ClientError as error:
            _log.warning("%s: %s", request, brief(error))
            return None
        finally:
            self._moved()
        if not answer.is_ok and answer.status not in (404, _CONFLICT):
            _log.warning("%s: %s", request, brief(answer.problem))
        return answer
