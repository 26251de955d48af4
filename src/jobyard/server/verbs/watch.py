"""One watch: which changes it tells, in which words, and what it has still to send.

A `Watch` is given changes once they are on disk and keeps the lines until somebody takes them;
`following` does that on the loop. All watches that tell a change alike share one encoding of it.
A client that doesn't read is dropped: it comes back and resumes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final

from jobyard.server.messages.conversion import is_renamed
from jobyard.server.messages.rendering import (
    META,
    PARTIAL,
    Shape,
    View,
    encode,
    header,
    object_value,
    tail,
)
from jobyard.server.messages.selectors import Selection
from jobyard.server.problem import ProblemError
from jobyard.server.resource import Object, ServedResource
from jobyard.server.store.store import Store
from jobyard.server.store.watch_cache import Change, Shelf, Stored

PENDING_BYTES_MAX: Final = 64 * 1024 * 1024
# How much of it is handed out at a time, and so is nowhere else until it is sent.
PIECE_BYTES_MAX: Final = 128 * 1024
_START_MARK: Final = {"k8s.io/initial-events-end": "true"}


class EventType(StrEnum):
    """What a line of a watch says."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    ERROR = "ERROR"


class Form:
    """How a watch tells an event: the resource as the client named it, and its view."""

    def __init__(self, resource: ServedResource, view: View, now: Callable[[], float]) -> None:
        self.resource = resource
        self.view = view
        self._now = now
        self._told_headers = False
        self._is_plain = view.shape is Shape.WHOLE
        # Lines are shared among watches with the same key.
        self._key = (resource.api_version, view.shape)

    def line(self, type_: EventType, item: Stored, change: Change | None = None) -> bytes:
        if self.view.shape is Shape.TABLE or change is None:
            return self._encoded(type_, item)
        key = (self._key, type_)
        line = change.lines.get(key)
        if line is None:
            line = change.lines[key] = self._encoded(type_, item)
        return line

    def _encoded(self, type_: EventType, item: Stored) -> bytes:
        if self._is_plain and not is_renamed(self.resource):
            return b'{"type":"%b","object":%b%b}\n' % (
                type_.encode(),
                header(self.resource),
                tail(item, self.resource),
            )
        headers = not self._told_headers
        self._told_headers = True
        value = object_value(self.view, self.resource, item, self._now(), headers=headers)
        return event_line(type_, value)

    def bookmark(self, version: int, annotations: dict[str, str]) -> bytes:
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        if annotations:
            metadata["annotations"] = annotations
        return event_line(EventType.BOOKMARK, self._marked(metadata))

    def _marked(self, metadata: dict[str, Any]) -> Object:
        partial = {"kind": PARTIAL, "apiVersion": META, "metadata": metadata}
        match self.view.shape:
            case Shape.METADATA:
                return partial
            case Shape.TABLE:
                return {
                    "kind": "Table",
                    "apiVersion": META,
                    "metadata": {"resourceVersion": metadata["resourceVersion"]},
                    "columnDefinitions": None,
                    "rows": [{"cells": [], "object": partial}],
                }
            case Shape.WHOLE:
                resource = self.resource
                return {
                    "kind": resource.kind,
                    "apiVersion": resource.api_version,
                    "metadata": metadata,
                }


def event_line(type_: EventType, value: Object) -> bytes:
    return encode({"type": type_, "object": value}) + b"\n"


class Watch:
    """Lines to send, and the place where more come from until it ends."""

    def __init__(
        self, form: Form, selection: Selection, prefix: str, *, allows_bookmarks: bool
    ) -> None:
        self._form = form
        self._selection = selection
        self._prefix = prefix
        self.allows_bookmarks = allows_bookmarks
        self.timeout_seconds: float | None = None
        # What the client should know besides, in the head of the answer.
        self.warnings: tuple[str, ...] = ()
        # What was there when it began, in pieces: made into lines as they are taken.
        self._first: deque[Stored | bytes] = deque()
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._shelf: Shelf | None = None
        self._store: Store | None = None
        # The newest version that the client knows of.
        self._told = 0
        self.ended = False
        # Called when there is something to take, or the end has come.
        self.wake: Callable[[], None] | None = None

    @property
    def content_type(self) -> str:
        return self._form.view.content_type

    def attach(self, store: Store, shelf: Shelf) -> None:
        """From here on it is given every change that reaches the disk."""
        self._store, self._shelf = store, shelf
        shelf.watchers[self] = None

    def start(self, items: list[Stored], version: int, *, marks_start: bool) -> None:
        """Everything that is there at a version, as if it had just come."""
        for item in items:
            if self._selects(item):
                self._first.append(item)
                self._told = max(self._told, item.version)
        if marks_start and self.allows_bookmarks:
            self._first.append(self._form.bookmark(version, dict(_START_MARK)))
            self._told = max(self._told, version)
        if self._first and self.wake is not None:
            self.wake()

    def offer(self, change: Change) -> None:
        if self.ended:
            return
        before, after = change.before, change.after
        knew = before is not None and self._selects(before)
        knows = after is not None and self._selects(after)
        if knows:
            assert after is not None
            type_ = EventType.MODIFIED if knew else EventType.ADDED
            self._add(self._form.line(type_, after, change), change.version)
        elif knew:
            line = self._form.line(EventType.DELETED, change.former, change)
            self._add(line, change.version)

    def _selects(self, item: Stored) -> bool:
        if self._prefix and not item.key.startswith(self._prefix):
            return False
        return not self._selection.selects or self._selection.matches(item.value)

    def fail(self, problem: ProblemError) -> None:
        """The last line says why there are no more."""
        self._add(event_line(EventType.ERROR, problem.status), self._told)
        self.end()

    def mark(self) -> None:
        """Tell how far the watch has come, if the client doesn't know already."""
        if self._store is not None and self.allows_bookmarks:
            version = self._store.committed
            if version > self._told:
                self._add(self._form.bookmark(version, {}), version)

    def _add(self, line: bytes, version: int) -> None:
        self._lines.append(line)
        self._size += len(line)
        self._told = max(self._told, version)
        if self._size > PENDING_BYTES_MAX:
            self.drop()
        elif self.wake is not None:
            self.wake()
        if self._store is not None:
            self._store.watches_grew(len(line))

    @property
    def size(self) -> int:
        """How many bytes wait to be taken."""
        return self._size

    def take(self) -> bytes:
        """The next lines, each once: as many as make a piece; empty if there are none."""
        lines: list[bytes] = []
        room = PIECE_BYTES_MAX
        while self._first and room > 0:
            first = self._first.popleft()
            line = first if isinstance(first, bytes) else self._form.line(EventType.ADDED, first)
            lines.append(line)
            room -= len(line)
        while self._lines and room > 0:
            lines.append(self._lines.popleft())
            room -= len(lines[-1])
            self._size -= len(lines[-1])
        return b"".join(lines)

    def drop(self) -> None:
        """It ends, and what waits is told to nobody: the client comes back and resumes."""
        self._first.clear()
        self._lines.clear()
        self._size = 0
        self.end()

    def end(self) -> None:
        """No more lines come; safe to call twice."""
        self.ended = True
        if self._shelf is not None:
            self._shelf.watchers.pop(self, None)
        if self.wake is not None:
            self.wake()
