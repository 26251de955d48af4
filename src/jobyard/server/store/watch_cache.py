"""Objects of one kind as the store has them: in versions, by key, with what changed lately.

Objects are plain dicts that nobody changes. A list of an earlier moment is the present with the
changes since then undone. Nothing here knows the disk.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator
from typing import Any, Final, Protocol

import msgspec

from jobyard.server.resource import Object

_encode: Final = msgspec.json.Encoder().encode
_HEADER: Final = ("apiVersion", "kind")
# The order in which people are used to see it.
_METADATA: Final = (
    *("name", "generateName", "namespace", "uid", "resourceVersion", "generation"),
    *("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "labels"),
    *("annotations", "ownerReferences", "finalizers", "managedFields"),
)


class Stored(msgspec.Struct, frozen=True):
    """One object in one version; `tail` is its JSON after the apiVersion and kind."""

    key: str
    version: int
    value: Object
    tail: bytes

    @property
    def metadata(self) -> dict[str, Any]:
        metadata: dict[str, Any] = self.value["metadata"]
        return metadata


def stored(key: str, version: int, value: Object) -> Stored:
    """The value with that version in its metadata, and encoded."""
    metadata = {**value["metadata"], "resourceVersion": str(version)}
    ordered = {name: metadata[name] for name in _METADATA if name in metadata}
    value = {**value, "metadata": ordered if len(ordered) == len(metadata) else metadata}
    return Stored(key, version, value, tail_of(value))


def tail_of(value: Object) -> bytes:
    return _encode({name: item for name, item in value.items() if name not in _HEADER})[1:]


def header_of(kind: str, api_version: str) -> bytes:
    """What a `tail` lacks to be an object."""
    return b'{"kind":%b,"apiVersion":%b,' % (_encode(kind), _encode(api_version))


class Change:
    """One write: what was there before and what is there now. None stands for nothing."""

    __slots__ = ("_former", "after", "before", "key", "lines", "shelf", "version")

    def __init__(
        self, shelf: str, version: int, key: str, before: Stored | None, after: Stored | None
    ) -> None:
        self.shelf = shelf
        self.version = version
        self.key = key
        self.before = before
        self.after = after
        # What watches tell about it, encoded once for all that tell it alike.
        self.lines: dict[Any, bytes] = {}
        self._former: Stored | None = None

    @property
    def former(self) -> Stored:
        """What was there, with the version of this change: how a watch tells that it is gone."""
        if self._former is None:
            assert self.before is not None, "only what was there can go"
            self._former = stored(self.key, self.version, self.before.value)
        return self._former

    @property
    def size(self) -> int:
        return len(self.after.tail) if self.after is not None else 0


class Watcher(Protocol):
    """Who wants to know what changes on a shelf."""

    @property
    def size(self) -> int:
        """How many bytes it has still to tell."""
        ...

    def drop(self) -> None:
        """Forget them, and end."""
        ...

    def offer(self, change: Change) -> None: ...

    def end(self) -> None: ...


class Shelf:
    """The objects of one kind, in the order of their keys, and what changed lately."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.objects: dict[str, Stored] = {}
        self.keys: list[str] = []
        self.changes: deque[Change] = deque()
        self.changes_bytes = 0
        # The newest version whose successors are no longer all among the changes.
        self.floor = 0
        self.version = 0
        self.watchers: dict[Watcher, None] = {}

    def apply(self, change: Change) -> None:
        self.version = change.version
        self.changes.append(change)
        self.changes_bytes += change.size
        self.place(change.key, change.after)

    def place(self, key: str, after: Stored | None) -> None:
        if after is not None:
            if key not in self.objects:
                insort(self.keys, key)
            self.objects[key] = after
        elif self.objects.pop(key, None) is not None:
            del self.keys[bisect_left(self.keys, key)]

    def at(self, version: int, prefix: str = "") -> list[Stored]:
        """All that was there at a version not below the floor, in the order of the keys."""
        keys = self._keys(prefix)
        if version >= self.version:
            return [self.objects[key] for key in keys]
        past: dict[str, Stored | None] = {}
        for change in reversed(self.changes):
            if change.version <= version:
                break
            if change.key.startswith(prefix):
                past[change.key] = change.before
        now = {key: self.objects[key] for key in keys}
        merged = {**now, **past}
        return [found for key in sorted(merged) if (found := merged[key]) is not None]

    def one_at(self, key: str, version: int) -> Stored | None:
        """One object as it was at a version not below the floor."""
        item = self.objects.get(key)
        for change in reversed(self.changes):
            if change.version <= version:
                break
            if change.key == key:
                item = change.before
        return item

    def _keys(self, prefix: str) -> list[str]:
        if not prefix:
            return self.keys
        begin = bisect_left(self.keys, prefix)
        # The next character after the slash that ends a prefix.
        return self.keys[begin : bisect_left(self.keys, prefix[:-1] + "0")]

    def since(self, version: int, up_to: int) -> Iterator[Change]:
        newer: list[Change] = []
        for change in reversed(self.changes):
            if change.version <= version:
                break
            if change.version <= up_to:
                newer.append(change)
        return reversed(newer)
