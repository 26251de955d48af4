"""All objects in memory, with the recent past of each kind, on top of a `Journal`.

A write puts a new object in place of the old. What was written is told to watches once it is on
disk, and not before. Knows versions and keys; knows no kinds and no rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from jobyard.server.resource import Object
from jobyard.server.store.journal import Batch, Journal, JournalError, Revision
from jobyard.server.store.watch_cache import Change, Shelf, Stored, header_of, stored, tail_of

# How much of the past a watch can resume from, for each kind.
CHANGES_MAX: Final = 4096
CHANGES_BYTES_MAX: Final = 32 * 1024 * 1024
# How much may wait for all watches together.
WATCHED_BYTES_MAX: Final = 256 * 1024 * 1024

_decode: Final = msgspec.json.Decoder().decode


class StoreFailedError(Exception):
    """A write didn't reach the disk; memory is ahead of it, so nothing is answered any more."""


class Store:
    """Every shelf, one counter of versions, and what still has to reach the disk."""

    def __init__(
        self,
        journal: Journal,
        *,
        changes_max: int = CHANGES_MAX,
        changes_bytes_max: int = CHANGES_BYTES_MAX,
    ) -> None:
        self.journal = journal
        self._changes_max = changes_max
        self._changes_bytes_max = changes_bytes_max
        self.shelves: dict[str, Shelf] = {}
        self.version = 1
        self._pending: list[Change] = []
        self._obsolete: list[int] = []
        self._floors: dict[str, int] = {}
        # Since they were last counted.
        self._watches_grown = 0
        self.failure: BaseException | None = None
        # Why nothing gets to the disk at the moment; reads then show what is on it.
        self.trouble = ""
        # Called with every change as it is made, before it is on disk.
        self.listeners: list[Callable[[Change], None]] = []
        # Called when there is something to commit; without it a write commits itself.
        self.on_pending: Callable[[], None] | None = None
        self._load()
        self.committed = self.version

    def _load(self) -> None:
        """What is there now. The past is not: decoded, it shares nothing and takes many times the
        room that it took before, so watches of before are told to list again, as by a real server.
        """
        for name, floor in self.journal.floors().items():
            shelf = self.shelf(name)
            shelf.floor = shelf.version = floor
        newest: dict[tuple[str, str], int] = {}
        for version, name, key in self.journal.versions():
            former = newest.get((name, key))
            if former is not None:
                self._obsolete.append(former)
            newest[name, key] = version
            self.shelf(name).version = version
        for revision in self.journal.revisions(newest.values()):
            if revision.data is None:
                # Its version stays as the floor of its shelf.
                self._obsolete.append(revision.version)
            else:
                self._place(revision, revision.data)
        for shelf in self.shelves.values():
            shelf.version = max(shelf.version, shelf.floor)
            self.version = max(self.version, shelf.version)
            if shelf.floor < shelf.version:
                shelf.floor = self._floors[shelf.name] = shelf.version

    def _place(self, revision: Revision, data: bytes) -> None:
        try:
            value = _decode(data)
            # What every reader of it relies on.
            _ = value["metadata"]["name"], value["kind"], value["apiVersion"]
            after = Stored(revision.key, revision.version, value, tail_of(value))
        except (msgspec.DecodeError, LookupError, TypeError, AttributeError) as problem:
            why = f"{revision.shelf} {revision.key} can't be read ({problem})"
            raise self.journal.damaged(why) from problem
        self.shelf(revision.shelf).place(revision.key, after)

    def shelf(self, name: str) -> Shelf:
        found = self.shelves.get(name)
        if found is None:
            found = self.shelves[name] = Shelf(name)
        return found

    def get(self, shelf: str, key: str) -> Stored | None:
        return self.shelf(shelf).objects.get(key)

    def put(self, shelf: str, key: str, value: Object) -> Stored:
        """Write an object; the answer has its new version."""
        after = stored(key, self.version + 1, value)
        self._change(self.shelf(shelf), key, after)
        return after

    def remove(self, shelf: str, key: str) -> Stored:
        """Delete an object; the answer is what it was, with the version of its deletion."""
        return self._change(self.shelf(shelf), key, None).former

    def _change(self, shelf: Shelf, key: str, after: Stored | None) -> Change:
        self.check()
        self.version += 1
        before = shelf.objects.get(key)
        assert after is not None or before is not None, f"{shelf.name} {key} isn't there"
        change = Change(shelf.name, self.version, key, before, after)
        shelf.apply(change)
        self._pending.append(change)
        for listener in self.listeners:
            listener(change)
        if self.on_pending is not None:
            self.on_pending()
        else:
            self.flush()
        return change

    def check(self) -> None:
        """Raises once a write has failed: what memory says may not be true then."""
        if self.failure is not None:
            raise StoreFailedError(f"the store can't be written: {self.failure}")

    @property
    def has_pending(self) -> bool:
        return bool(self._pending)

    @property
    def pending(self) -> Sequence[Change]:
        return self._pending

    def taken(self) -> tuple[Batch, list[Change]]:
        """Everything that is to be written, once."""
        changes, self._pending = self._pending, []
        obsolete, self._obsolete = self._obsolete, []
        floors, self._floors = self._floors, {}
        batch = Batch(tuple(map(_revision, changes)), tuple(obsolete), tuple(floors.items()))
        return batch, changes

    def settle(self, changes: list[Change]) -> None:
        """These are on disk now: whoever watches may know."""
        if not changes:
            return
        self.committed = changes[-1].version
        for change in changes:
            shelf = self.shelves[change.shelf]
            for watcher in tuple(shelf.watchers):
                watcher.offer(change)
        for name in {change.shelf for change in changes}:
            self._trim(self.shelves[name])

    def fail(self, failure: BaseException) -> None:
        """Nothing is answered from here on, and every watch ends."""
        self.failure = failure
        self.end_watches()

    def watches_grew(self, size: int) -> None:
        """So many bytes more wait to be told; who has most of too many is dropped."""
        self._watches_grown += size
        if self._watches_grown < WATCHED_BYTES_MAX // 32:
            return
        self._watches_grown = 0
        watchers = [each for shelf in self.shelves.values() for each in shelf.watchers]
        total = sum(each.size for each in watchers)
        for largest in sorted(watchers, key=lambda each: each.size, reverse=True):
            if total <= WATCHED_BYTES_MAX:
                return
            total -= largest.size
            largest.drop()

    def end_watches(self) -> None:
        for shelf in self.shelves.values():
            for watcher in tuple(shelf.watchers):
                watcher.end()

    def flush(self) -> None:
        """Write what is pending, in this thread."""
        batch, changes = self.taken()
        try:
            self.journal.write(batch)
        except JournalError as problem:
            self.fail(problem)
            self.check()
        self.settle(changes)

    def _trim(self, shelf: Shelf) -> None:
        """Forget the oldest changes, in bulk: at twice the limit down to the limit."""
        if (
            len(shelf.changes) <= 2 * self._changes_max
            and shelf.changes_bytes <= 2 * self._changes_bytes_max
        ):
            return
        changes = shelf.changes
        while len(changes) > 1 and changes[0].version < self.committed:
            if len(changes) <= self._changes_max and shelf.changes_bytes <= self._changes_bytes_max:
                break
            oldest = changes.popleft()
            shelf.changes_bytes -= oldest.size
            shelf.floor = oldest.version
            if oldest.before is not None:
                self._obsolete.append(oldest.before.version)
            if oldest.after is None:
                self._obsolete.append(oldest.version)
        self._floors[shelf.name] = shelf.floor


def _revision(change: Change) -> Revision:
    after = change.after
    if after is None:
        return Revision(change.version, change.shelf, change.key, None)
    value = after.value
    data = header_of(value["kind"], value["apiVersion"]) + after.tail
    return Revision(change.version, change.shelf, change.key, data)
