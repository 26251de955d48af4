"""One object watched by its name, until it is gone: what `run`, `wait`, `logs -f` and `delete` do.

The object is the one with its uid: another of the same name came when it was gone. A list that
doesn't have it says so too, and says it alone when the deletion fell into a gap of the watch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

import msgspec

from jobyard.client.request import Resource
from jobyard.client.sender import Sender
from jobyard.client.watching import Notice, Watched, follow
from jobyard.jobs.view import JobView, view_of

# The phase of a job that is there no more; no status says it.
DELETED: Final = "Deleted"
Object = dict[str, Any]


class Reference(msgspec.Struct, frozen=True):
    """Where an object is, and which of those that ever had its name."""

    resource: Resource
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.resource.kind}/{self.name}"


class _Sink:
    """Passes on what a watch tells of one object: how it is, and that it is gone."""

    def __init__(self, uid: str, saw: Callable[[Object], None], lost: Callable[[], None]) -> None:
        self._uid = uid
        self._saw = saw
        self._lost = lost

    def replaced(self, items: Sequence[Object], resource_version: str) -> None:  # noqa: ARG002
        if not any(self._is_it(item) for item in items):
            self._lost()
        for item in items:
            self.changed(item)

    def changed(self, obj: Object) -> None:
        if self._is_it(obj):
            self._saw(obj)

    def removed(self, obj: Object) -> None:
        if self._is_it(obj):
            self._lost()

    def reached(self, resource_version: str) -> None:
        """Nothing to do: a bookmark changes nothing."""

    def _is_it(self, obj: Object) -> bool:
        return bool(obj["metadata"]["uid"] == self._uid)


async def watch_one(
    sender: Sender,
    one: Reference,
    saw: Callable[[Object], None],
    lost: Callable[[], None],
    notice: Notice,
) -> NoReturn:
    """Until cancelled; `lost` may be called more than once."""
    watched = Watched(
        resource=one.resource,
        namespace=one.namespace,
        field_selector=f"metadata.name={one.name}",
    )
    sink = _Sink(one.uid, saw, lost)
    await follow(sender, watched, msgspec.json.decode, sink, notice=notice)


async def until_gone(sender: Sender, one: Reference, notice: Notice) -> None:
    """Returns when the object is there no more."""
    gone = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        watch = group.create_task(watch_one(sender, one, lambda _obj: None, gone.set, notice))
        await gone.wait()
        watch.cancel()


async def until_object(
    sender: Sender, one: Reference, is_wanted: Callable[[Object], bool], notice: Notice
) -> Object | None:
    """The object when it is wanted so, or None when it is gone."""
    done = asyncio.Event()
    last: Object | None = None

    def saw(obj: Object) -> None:
        nonlocal last
        if not done.is_set() and is_wanted(obj):
            last = obj
            done.set()

    async with asyncio.TaskGroup() as group:
        watch = group.create_task(watch_one(sender, one, saw, done.set, notice))
        await done.wait()
        watch.cancel()
    return last


async def until_job(
    sender: Sender, job: Reference, is_wanted: Callable[[JobView], bool], notice: Notice
) -> JobView:
    """The job's view when it is wanted so, or its last one, as `DELETED`, when it is gone."""
    kind = job.resource.kind
    view = JobView(kind=kind, namespace=job.namespace, name=job.name, uid=job.uid)

    def is_so(obj: Object) -> bool:
        nonlocal view
        view = view_of(obj, kind)
        return is_wanted(view)

    last = await until_object(sender, job, is_so, notice)
    return view if last is not None else msgspec.structs.replace(view, phase=DELETED)
