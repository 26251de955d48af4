"""List, then watch, for ever: keeps a sink up to date with the objects of one resource.

Whoever needs a cache runs `follow` in a task group and gives it a sink. Decides when to list
(at the start, and when the server no longer knows our place), where to resume, and how long to
wait after a failure. Objects pass through as raw JSON to the caller's `decode`; of each only
the resourceVersion is read here. An object that can't be decoded, whatever the reason, is left
out and reported. It ends by cancellation, or by what the sink raises: that is an error of the
program.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from contextlib import aclosing
from enum import StrEnum
from typing import Final, Generic, NoReturn, Protocol, TypedDict, TypeVar, Unpack

import msgspec

from jobyard.client.backoff import PATIENCE, Backoff
from jobyard.client.deep_json import decoded_flat
from jobyard.client.errors import ClientError, GarbledError, RefusedError, TooLargeError
from jobyard.client.request import Problem, Resource, listing, problem_of, watching
from jobyard.client.sender import Sender
from jobyard.client.unreadable import Told, Unreadable, unreadable

PAGE_LIMIT: Final = 500
# Objects can be a thousand times as large as most are; then a page has fewer of them.
PAGE_BYTES_MAX: Final = 32 * 1024 * 1024
# The server ends a watch after this and up to as much again, as the dice say.
WATCH_SECONDS: Final = 300
# A watch that ends sooner is as good as failed: without a pause it would be a hot loop.
SHORT_SECONDS: Final = 1.0
# Answers in a row that refuse our place; then it may be the place that is wrong (a server
# that came back from an old backup says so in many ways), and we list.
REFUSALS_MAX: Final = 3
GONE: Final = 410
BUSY: Final = (429, 503)

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
Decode = Callable[[bytes], T]
# Told of each failure and how many there were in a row, for logs and metrics.
Notice = Callable[[ClientError, int], None]
# Whether this version of the object of that namespace and name is known, which is asked before it
# is decoded.
Knows = Callable[[str, str, str], bool]
# Told of each version of an object that is left out, once.
Report = Callable[[Unreadable], None]


class Sink(Protocol[T_contra]):
    """What wants to know; its methods return at once."""

    def replaced(self, items: Sequence[T_contra], resource_version: str) -> None:
        """All there is. What isn't in it is gone, also if nobody said so."""
        ...

    def changed(self, obj: T_contra) -> None:
        """New or changed, or told once more."""
        ...

    def removed(self, obj: T_contra) -> None:
        """Deleted, or no longer selected; `obj` is how it was last."""
        ...

    def reached(self, resource_version: str) -> None:
        """Nothing is outstanding up to this version."""
        ...


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """What to follow; an empty namespace means all of them."""

    resource: Resource
    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""
    page_limit: int = PAGE_LIMIT
    watch_seconds: int = WATCH_SECONDS


class Hearing(TypedDict, total=False):
    """What a follower asks or tells its caller, beside what the sink is told."""

    notice: Notice
    # Without it a line of the log.
    report: Report
    knows: Knows


class EventType(StrEnum):
    """The types of watch events."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    ERROR = "ERROR"


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct, frozen=True):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _ObjectMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str
    namespace: str = ""
    name: str = ""


class _Object(msgspec.Struct, frozen=True):
    metadata: _ObjectMeta


_event_decoder: Final = msgspec.json.Decoder(_Event)
_page_decoder: Final = msgspec.json.Decoder(_Page)
_object_decoder: Final = msgspec.json.Decoder(_Object)
_log = logging.getLogger(__name__)


def _warn(left_out: Unreadable) -> None:
    _log.warning("%s", left_out)


async def follow(
    sender: Sender,
    watched: Watched,
    decode: Decode[T],
    sink: Sink[T],
    *,
    backoff: Backoff = PATIENCE,
    **hearing: Unpack[Hearing],
) -> NoReturn:
    """Keep `sink` up to date until cancelled.

    1. `replaced` comes first, and again whenever the server no longer knows our place.
    2. Then `changed` and `removed`, in the server's order; none is left out, and after a
       broken connection none comes twice.
    3. Items of a list of Kubernetes' own kinds carry neither apiVersion nor kind.
    4. What `decode` raises costs the one object: the sink isn't told of that version. One that is
       gone is told by a new list.
    5. A version that the sink `knows` isn't decoded, and the sink isn't told of it.
    """
    notice = hearing.get("notice")
    reader = _Reader(watched.resource, decode, hearing.get("report", _warn))
    follower = _Follower(sender, watched, reader, sink, backoff, hearing.get("knows"))
    failures = 0
    while True:
        started = asyncio.get_running_loop().time()
        problem: ClientError | None = None
        try:
            await follower.advance()
        except ClientError as error:
            problem = error
        is_short = asyncio.get_running_loop().time() - started < SHORT_SECONDS
        if problem is None and not is_short:
            failures = 0
            continue
        is_lost = isinstance(problem, RefusedError) and follower.has_lost_its_place(problem.problem)
        if is_lost and failures == 0:
            # A server that says so again at once is paused for.
            failures = 1
            continue
        # A list that fails late has cost the server more than one that fails soon.
        failures = failures + 1 if is_short or follower.must_list else 1
        if problem is not None and notice is not None:
            notice(problem, failures)
        asked_seconds = problem.retry_after_seconds if isinstance(problem, RefusedError) else None
        await backoff.after(failures, asked_seconds)


class _Reader(Generic[T]):
    """The caller's `decode`, for objects that may be anything."""

    def __init__(self, resource: Resource, decode: Decode[T], report: Report) -> None:
        self._resource = resource
        self._decode = decode
        self._report = report
        self._told = Told()

    def read(self, text: bytes) -> T | None:
        """The object; None for one that can't be read, which is reported."""
        try:
            return decoded_flat(self._decode, text)
        except MemoryError:
            raise
        except Exception as problem:
            # Whatever it is, it must not keep us from all the others.
            self.leave_out(text, problem)
            return None

    def leave_out(self, text: bytes, problem: Exception) -> None:
        found = unreadable(self._resource, text, problem)
        if self._told.is_new(found):
            self._report(found)


class _Follower(Generic[T]):
    """The place we have reached, and the two ways to get further."""

    def __init__(
        self,
        sender: Sender,
        watched: Watched,
        reader: _Reader[T],
        sink: Sink[T],
        backoff: Backoff,
        knows: Knows | None,
    ) -> None:
        self._sender = sender
        self._watched = watched
        self._reader = reader
        self._knows = knows
        self._sink = sink
        self._dice = backoff.dice
        # None: we have to list.
        self._version: str | None = None
        self._refusals = 0
        self._page_limit = watched.page_limit

    @property
    def must_list(self) -> bool:
        return self._version is None

    async def advance(self) -> None:
        """List if there is no place to go on from, then watch until the watch ends."""
        if self._version is None:
            self._version = await self._list()
        await self._watch(self._version)

    def has_lost_its_place(self, problem: Problem) -> bool:
        """Whether the refusal means that our place is gone; forgets it then."""
        # To list is more work for a server that is busy already.
        self._refusals += problem.code not in BUSY
        is_gone = problem.code == GONE
        if is_gone and self._version is None:
            # The list took so long that its later pages are gone: take it in one piece.
            self._page_limit = 0
        if is_gone or self._refusals >= REFUSALS_MAX:
            self._version, self._refusals = None, 0
        return is_gone

    async def _list(self) -> str:
        items: list[T] = []
        token = ""
        while True:
            request = listing(
                self._watched.resource,
                self._watched.namespace,
                label_selector=self._watched.label_selector,
                field_selector=self._watched.field_selector,
                limit=self._page_limit,
                continue_token=token,
            )
            try:
                answer = await self._sender.send(
                    msgspec.structs.replace(request, answer_bytes_max=PAGE_BYTES_MAX)
                )
            except TooLargeError:
                if self._page_limit == 1:
                    raise
                self._page_limit = max(1, (self._page_limit or PAGE_LIMIT) // 4)
                continue
            if not answer.is_ok:
                raise RefusedError(str(request), answer.problem, answer.retry_after_seconds)
            try:
                page = decoded_flat(_page_decoder.decode, answer.body)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise GarbledError(str(request)) from error
            found = (self._reader.read(bytes(raw)) for raw in page.items or ())
            items.extend(item for item in found if item is not None)
            token = page.metadata.continue_
            if not token:
                break
        version = page.metadata.resource_version
        self._page_limit = self._watched.page_limit
        self._refusals = 0
        self._sink.replaced(items, version)
        return version

    async def _watch(self, version: str) -> None:
        seconds = self._watched.watch_seconds
        request = watching(
            self._watched.resource,
            self._watched.namespace,
            label_selector=self._watched.label_selector,
            field_selector=self._watched.field_selector,
            resource_version=version,
            timeout_seconds=seconds + math.trunc(seconds * self._dice()),
        )
        async with aclosing(self._sender.lines(request)) as lines:
            async for line in lines:
                try:
                    event = decoded_flat(_event_decoder.decode, line)
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    raise GarbledError(str(request)) from error
                if event.type == EventType.ERROR:
                    raise RefusedError(str(request), problem_of(500, bytes(event.object)))
                try:
                    seen = decoded_flat(_object_decoder.decode, bytes(event.object))
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    # Our place is still the one before it; the next object moves it on.
                    self._reader.leave_out(bytes(event.object), error)
                    continue
                if not self._tell(event, seen.metadata):
                    self._version = None
                    return
                # Only now: what the sink hasn't taken would be lost by resuming after it.
                self._version, self._refusals = seen.metadata.resource_version, 0

    def _tell(self, event: _Event, meta: _ObjectMeta) -> bool:
        """Whether the sink knows now what there is, but for what can't be read."""
        version = meta.resource_version
        match event.type:
            case EventType.ADDED | EventType.MODIFIED:
                if self._knows is not None and self._knows(meta.namespace, meta.name, version):
                    return True
                changed = self._reader.read(bytes(event.object))
                if changed is not None:
                    self._sink.changed(changed)
            case EventType.DELETED:
                removed = self._reader.read(bytes(event.object))
                if removed is None:
                    # It may be known from when it could be read: a list says what is left.
                    return False
                self._sink.removed(removed)
            case EventType.BOOKMARK:
                self._sink.reached(version)
            case _:
                # A type of a later Kubernetes: its object has a version like all the others.
                pass
        return True
