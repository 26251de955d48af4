"""Tells of objects that can't be read: in the log, and by an event about their job or themselves.

A queue of bounded length takes them; when it is full the log has to do. Which job an object
belongs to is for the caller to know.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from jobyard.client.request import EVENTS, create
from jobyard.client.unreadable import Told, Unreadable
from jobyard.controller.objects import event_about, event_object
from jobyard.controller.performing import Perform, as_it_is
from jobyard.controller.records import JobKey, JobRecord
from jobyard.plan.facts.decision import NOT_UNDERSTOOD, Event, EventType

QUEUE_MAX: Final = 100
_log = logging.getLogger(__name__)


class Reports:
    """`run` belongs in a task group."""

    def __init__(
        self,
        perform: Perform,
        now: Callable[[], float],
    ) -> None:
        self._perform = perform
        self._now = now
        self._told = Told()
        self._queue: asyncio.Queue[tuple[Unreadable, JobRecord | None]] = asyncio.Queue(QUEUE_MAX)

    def tell(self, found: Unreadable, job: JobRecord | None = None) -> None:
        """Once for each version of an object."""
        if not self._told.is_new(found):
            return
        _log.error("%s", found)
        if found.name and found.namespace and not self._queue.full():
            self._queue.put_nowait((found, job))

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            found, job = await self._queue.get()
            event = Event(NOT_UNDERSTOOD, str(found), EventType.WARNING)
            now = self._now()
            if job is not None:
                manifest = event_object(job, event, now)
            else:
                manifest = event_about(_reference(found), event, now)
            key = JobKey(found.resource.kind, found.namespace, found.name)
            await self._perform(key, [create(EVENTS, found.namespace, manifest)], as_it_is)


def _reference(found: Unreadable) -> dict[str, str]:
    return {
        "apiVersion": found.resource.api_version,
        "kind": found.resource.kind,
        "namespace": found.namespace,
        "name": found.name,
        "uid": found.uid,
        "resourceVersion": found.version,
    }
