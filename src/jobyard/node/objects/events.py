"""Events about pods, few and in kubelet's words: each is told once, and never waited for.

A queue of bounded length takes them; when it is full, events are lost and pods are not held up.
"""

from __future__ import annotations

import asyncio
import logging
import time
from enum import StrEnum
from typing import Any, Final

import msgspec

from jobyard.client.errors import ClientError
from jobyard.client.request import EVENTS, create
from jobyard.client.sender import Sender
from jobyard.node.objects.pod_object import Metadata
from jobyard.plan.moments import text_of

QUEUE_MAX: Final = 1000
EVENTS_PER_OBJECT_MAX: Final = 25
MESSAGE_LENGTH_MAX: Final = 1024
_log = logging.getLogger(__name__)


class Reason(StrEnum):
    """Kubelet's words; the last three are ours."""

    STARTED = "Started"
    KILLING = "Killing"
    BACK_OFF = "BackOff"
    FAILED = "Failed"
    FAILED_MOUNT = "FailedMount"
    UNHEALTHY = "Unhealthy"
    PORT_NOT_FORWARDED = "PortNotForwarded"
    MADE_INSIDE = "MadeInside"
    PUT_ASIDE = "PutAside"
    LEFT_OUT = "LeftOut"


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something to tell about an object."""

    kind: str
    about: Metadata
    # Mostly one of `Reason`; a supervisor has words of its own.
    reason: str
    message: str
    is_warning: bool = False
    field_path: str = ""


class Reporter:
    """Sends events. `run` belongs in a task group."""

    def __init__(self, sender: Sender, node: str) -> None:
        self._sender = sender
        self._node = node
        self._queue: asyncio.Queue[Event] = asyncio.Queue(QUEUE_MAX)
        self._told: dict[str, set[tuple[str, str]]] = {}
        self._count = 0

    def tell(self, event: Event) -> None:
        """Unless it was told before, or too much was told about the object already."""
        told = self._told.setdefault(event.about.uid, set())
        key = (str(event.reason), event.message)
        if key in told or len(told) >= EVENTS_PER_OBJECT_MAX:
            return
        told.add(key)
        if not self._queue.full():
            self._queue.put_nowait(event)

    def forget(self, uid: str) -> None:
        """The object is gone."""
        self._told.pop(uid, None)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            event = await self._queue.get()
            self._count += 1
            request = create(EVENTS, event.about.namespace, self._object(event))
            try:
                answer = await self._sender.send(request)
            except ClientError as error:
                _log.warning("event %s of %s: %s", event.reason, event.about.name, error)
                continue
            # A namespace on its way out takes no events: nobody would read them.
            if not answer.is_ok and answer.status not in (403, 404):
                _log.warning("event %s of %s: %s", event.reason, event.about.name, answer.problem)

    def _object(self, event: Event) -> dict[str, Any]:
        now = time.time()
        about = event.about
        involved = {
            "apiVersion": "v1",
            "kind": event.kind,
            "name": about.name,
            "namespace": about.namespace,
            "uid": about.uid,
            **({"fieldPath": event.field_path} if event.field_path else {}),
        }
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{about.name[:220].rstrip('-.')}.{time.time_ns():x}.{self._count:x}",
                "namespace": about.namespace,
            },
            "involvedObject": involved,
            "reason": str(event.reason),
            "message": event.message[:MESSAGE_LENGTH_MAX],
            "type": "Warning" if event.is_warning else "Normal",
            "source": {"component": "kubelet", "host": self._node},
            "reportingComponent": "kubelet",
            "reportingInstance": self._node,
            "firstTimestamp": text_of(now),
            "lastTimestamp": text_of(now),
            "count": 1,
        }
