"""Carries the requests of passes out over the network, many at a time.

A request is built only once there is a slot for it, and its answer is looked at before the next
one is sent: bodies and answers are large, and what is held of them at any time is no more than
there are slots. Groups of jobs share the slots (`fairness`), so a namespace in which thousands
of pods are made, or in which each request takes a minute, delays nobody else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Sequence
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
_CONFLICT = 409
_log = logging.getLogger(__name__)


class UnsendableError(Exception):
    """A request can't be built. Whoever builds requests knows why."""


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
        group = self._group_of(key)
        if len(requests) == 1:
            return [await self._performed(group, requests, 0, take)]
        found: dict[int, T] = {}
        places = iter(range(len(requests)))

        async def work() -> None:
            for n in places:
                found[n] = await self._performed(group, requests, n, take)

        async with asyncio.TaskGroup() as workers:
            for _ in range(min(PARALLEL_MAX, len(requests))):
                workers.create_task(work())
        return [found[n] for n in range(len(requests))]

    async def _performed(
        self,
        group: Hashable,
        requests: Sequence[Request],
        n: int,
        take: Callable[[int, Outcome], T],
    ) -> T:
        async with self._slots.of(group) as slot:
            try:
                request = requests[n]
            except UnsendableError:
                return take(n, None)
            return take(n, await self._outcome(request, slot))

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
