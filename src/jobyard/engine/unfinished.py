"""Whether an engine still has jobs to run, known by watching all kinds of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec

from jobyard.client.request import resource_of
from jobyard.client.sender import Sender
from jobyard.client.watching import Watched, follow
from jobyard.plan.lowering.table import JOB_KINDS

_OVER: Final = ("Succeeded", "Failed")


class _Metadata(msgspec.Struct, frozen=True):
    uid: str = ""


class _Status(msgspec.Struct, frozen=True):
    phase: str = ""
    # TaskSet's word for it.
    state: str = ""


class _Job(msgspec.Struct, frozen=True):
    metadata: _Metadata
    status: _Status | None = None

    @property
    def is_over(self) -> bool:
        return self.status is not None and (self.status.phase or self.status.state) in _OVER


class _Kind:
    """The jobs of one kind that aren't over; a sink of `follow`."""

    def __init__(self, moved: asyncio.Event) -> None:
        self._moved = moved
        self.is_known = False
        self.seen = 0
        self.unfinished: set[str] = set()

    def replaced(self, items: Sequence[_Job], resource_version: str) -> None:  # noqa: ARG002
        self.seen += len(items)
        self.unfinished = {job.metadata.uid for job in items if not job.is_over}
        self.is_known = True
        self._moved.set()

    def changed(self, obj: _Job) -> None:
        self.seen += 1
        self.unfinished.discard(obj.metadata.uid)
        if not obj.is_over:
            self.unfinished.add(obj.metadata.uid)
        self._moved.set()

    def removed(self, obj: _Job) -> None:
        self.unfinished.discard(obj.metadata.uid)
        self._moved.set()

    def reached(self, resource_version: str) -> None:
        """Nothing to do: a bookmark changes no job."""


async def until_none_is_unfinished(sender: Sender) -> bool:
    """Until every job has ended or was deleted; whether there was one at all."""
    moved = asyncio.Event()
    kinds = {resource_of(kind): _Kind(moved) for kind in JOB_KINDS}
    decode = msgspec.json.Decoder(_Job).decode
    tasks = [
        asyncio.create_task(follow(sender, Watched(resource=resource), decode, sink))
        for resource, sink in kinds.items()
    ]
    try:
        while not all(kind.is_known and not kind.unfinished for kind in kinds.values()):
            await moved.wait()
            moved.clear()
        return any(kind.seen for kind in kinds.values())
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
