"""Owner garbage collection: what becomes of objects whose owners go.

Works as the garbage collector of Kubernetes does, on the store itself: an object all of whose
owners are absent is deleted; one whose owner waits for it is deleted too; an owner that is to
orphan its dependents is taken out of their metadata first. Follows every change, and does its
work in steps between calls. An owner that can't be looked up (an unknown kind, or a namespaced
owner of something that has no namespace) is left alone, and so is what it owns.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any, Final

from jobyard.server.messages.conversion import EVENTS, shelf_of
from jobyard.server.messages.options import DeleteOptions, Propagation
from jobyard.server.messages.routing import key_of
from jobyard.server.resource import Object
from jobyard.server.site import Site
from jobyard.server.store.watch_cache import Change, Stored
from jobyard.server.verbs.deleting import FOREGROUND, ORPHAN, delete_item, with_metadata
from jobyard.server.verbs.writing import is_released

Place = tuple[str, str]
# Objects that nobody owns for long.
_IGNORED: Final = frozenset({EVENTS})


class Standing(Enum):
    """How an owner stands, as far as those that it owns are concerned."""

    SOLID = 1
    ABSENT = 2
    WAITING = 3


class Collector:
    """Knows who is owned by whom, and which objects have to be looked at."""

    def __init__(self, site: Site) -> None:
        self._site = site
        # By the uid of an owner, those that name it; a dict keeps the order of coming.
        self._dependents: dict[str, dict[Place, None]] = {}
        self._queue: dict[Place, None] = {}
        for shelf in site.store.shelves.values():
            for item in shelf.objects.values():
                self._note(shelf.name, None, item)
        site.store.listeners.append(self._changed)

    @property
    def has_work(self) -> bool:
        return bool(self._queue)

    def _changed(self, change: Change) -> None:
        if change.shelf not in _IGNORED:
            self._note(change.shelf, change.before, change.after)

    def _note(self, shelf: str, before: Stored | None, after: Stored | None) -> None:
        if shelf in _IGNORED:
            return
        was = _owners(before)
        now = _owners(after)
        item = after or before
        assert item is not None, "a change is of something"
        place = (shelf, item.key)
        if was is not now and was != now:
            self._index(place, was, now)
            if now:
                self._queue[place] = None
        if after is None or _is_dying(after):
            # Those that wait for it, and those that it leaves behind.
            self._enqueue_owners(item, was)
            if after is None or _collects(after):
                self._queue[place] = None
                self._enqueue(self._dependents.get(item.metadata["uid"], ()))

    def _index(self, place: Place, was: list[Any], now: list[Any]) -> None:
        for reference in was:
            named = self._dependents.get(reference.get("uid", ""))
            if named is not None:
                named.pop(place, None)
                if not named:
                    del self._dependents[reference["uid"]]
        for reference in now:
            self._dependents.setdefault(reference.get("uid", ""), {})[place] = None
        for reference in was:
            self._enqueue_owner(place, reference)

    def _enqueue(self, places: Iterable[Place]) -> None:
        for place in places:
            self._queue[place] = None

    def _enqueue_owners(self, item: Stored, references: list[Any]) -> None:
        for reference in references:
            self._enqueue_owner(("", item.key), reference)

    def _enqueue_owner(self, place: Place, reference: dict[str, Any]) -> None:
        owner = self._owner_place(reference, _namespace(place[1]))
        if owner is not None:
            item = self._site.store.get(*owner)
            if item is not None and _is_dying(item):
                self._queue[owner] = None

    def step(self) -> None:
        """Look at one object."""
        place = next(iter(self._queue))
        del self._queue[place]
        item = self._site.store.get(*place)
        if item is None:
            return
        finalizers = item.metadata.get("finalizers") or ()
        if _is_dying(item):
            if FOREGROUND in finalizers:
                self._finish_foreground(place, item)
            elif ORPHAN in finalizers:
                self._orphan(place, item)
            return
        if _owners(item):
            self._judge(place, item)

    def _judge(self, place: Place, item: Stored) -> None:
        """Delete an object that no owner keeps, or take out owners that are no more."""
        namespace = item.metadata.get("namespace", "")
        standings = [(ref, self._standing(ref, namespace)) for ref in _owners(item)]
        solid = [ref for ref, standing in standings if standing is Standing.SOLID]
        if solid:
            if len(solid) != len(standings):
                value = with_metadata(item.value, ownerReferences=solid)
                self._site.store.put(*place, value)
            return
        dependents = self._dependents.get(item.metadata["uid"])
        if dependents and any(standing is Standing.WAITING for _, standing in standings):
            self._unblock(item, dependents)
            policy = Propagation.FOREGROUND
        else:
            finalizers = item.metadata.get("finalizers") or ()
            policy = Propagation.BACKGROUND
            if ORPHAN in finalizers:
                policy = Propagation.ORPHAN
            elif FOREGROUND in finalizers:
                policy = Propagation.FOREGROUND
        self._delete(place, item, policy)

    def _standing(self, reference: dict[str, Any], namespace: str) -> Standing:
        place = self._owner_place(reference, namespace)
        if place is None:
            return Standing.SOLID
        owner = self._site.store.get(*place)
        if owner is None or owner.metadata["uid"] != reference.get("uid"):
            return Standing.ABSENT
        if _is_dying(owner) and FOREGROUND in (owner.metadata.get("finalizers") or ()):
            return Standing.WAITING
        return Standing.SOLID

    def _owner_place(self, reference: dict[str, Any], namespace: str) -> Place | None:
        """Where an owner would be; None if that can't be said."""
        group = str(reference.get("apiVersion", "")).rpartition("/")[0]
        row = self._site.catalogue.of_kind(group, str(reference.get("kind", "")))
        if row is None or (row.namespaced and not namespace):
            return None
        home = namespace if row.namespaced else ""
        return shelf_of(row), key_of(home, str(reference.get("name", "")))

    def _unblock(self, item: Stored, dependents: dict[Place, None]) -> None:
        """A circle of owners that wait for one another: somebody has to stop waiting."""
        uid = item.metadata["uid"]
        for place in tuple(dependents):
            dependent = self._site.store.get(*place)
            if dependent is None or not _collects(dependent):
                continue
            references = [
                {**ref, "blockOwnerDeletion": False} if ref.get("uid") == uid else ref
                for ref in _owners(dependent)
            ]
            value = with_metadata(dependent.value, ownerReferences=references)
            if value != dependent.value:
                self._site.store.put(*place, value)

    def _finish_foreground(self, place: Place, item: Stored) -> None:
        """Let an owner go once none is left that it has to wait for."""
        uid = item.metadata["uid"]
        for dependent in tuple(self._dependents.get(uid, ())):
            found = self._site.store.get(*dependent)
            if found is not None and any(
                ref.get("uid") == uid and ref.get("blockOwnerDeletion") for ref in _owners(found)
            ):
                return
        self._release(place, item, FOREGROUND)

    def _orphan(self, place: Place, item: Stored) -> None:
        uid = item.metadata["uid"]
        for dependent in tuple(self._dependents.get(uid, ())):
            found = self._site.store.get(*dependent)
            if found is not None:
                left = [ref for ref in _owners(found) if ref.get("uid") != uid]
                value = with_metadata(found.value, ownerReferences=left)
                self._site.store.put(*dependent, value)
        self._release(place, item, ORPHAN)

    def _release(self, place: Place, item: Stored, finalizer: str) -> None:
        left = [name for name in item.metadata.get("finalizers") or () if name != finalizer]
        value: Object = with_metadata(item.value, finalizers=left)
        if is_released(value, place[0]):
            self._site.store.remove(*place)
        else:
            self._site.store.put(*place, value)

    def _delete(self, place: Place, item: Stored, policy: Propagation) -> None:
        row = self._site.catalogue.of_shelf(place[0])
        if row is not None:
            delete_item(self._site, row, item, DeleteOptions(propagation=policy))


_NO_OWNERS: Final[list[Any]] = []


def _owners(item: Stored | None) -> list[Any]:
    if item is None:
        return _NO_OWNERS
    return item.metadata.get("ownerReferences") or _NO_OWNERS


def _is_dying(item: Stored) -> bool:
    return item.metadata.get("deletionTimestamp") is not None


def _collects(item: Stored) -> bool:
    """Whether it is deleted in the foreground, or orphans what it owns."""
    finalizers = item.metadata.get("finalizers") or ()
    return _is_dying(item) and (FOREGROUND in finalizers or ORPHAN in finalizers)


def _namespace(key: str) -> str:
    return key.partition("/")[0] if "/" in key else ""
