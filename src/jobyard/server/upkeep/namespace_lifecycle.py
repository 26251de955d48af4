"""The end of namespaces and CRDs: all that is in them goes first.

Follows every change, and does its work in steps between calls, as the controllers of Kubernetes
do. Objects with finalizers or with grace are waited for. Also forgets events after an hour.
"""

from __future__ import annotations

from typing import Any, Final

from jobyard.server.messages.conversion import EVENTS, shelf_of
from jobyard.server.messages.options import DeleteOptions, Propagation
from jobyard.server.resource import ServedResource
from jobyard.server.site import Site, moment_of
from jobyard.server.store.catalogue import CRDS
from jobyard.server.store.watch_cache import Change, Stored
from jobyard.server.verbs.deleting import CRD_FINALIZER, delete_item, with_metadata
from jobyard.server.verbs.namespaces import NAMESPACES
from jobyard.server.verbs.writing import is_released

EVENT_SECONDS: Final = 3600.0
_BACKGROUND: Final = DeleteOptions(propagation=Propagation.BACKGROUND)


class Sweeper:
    """Which namespaces and CRDs are on their way out, and have to be looked at."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._dying: dict[tuple[str, str], None] = {}
        self._queue: dict[tuple[str, str], None] = {}
        for shelf in (NAMESPACES, CRDS):
            for item in site.store.shelf(shelf).objects.values():
                self._note(shelf, item.key, item)
        site.store.listeners.append(self._changed)

    @property
    def has_work(self) -> bool:
        return bool(self._queue)

    def _changed(self, change: Change) -> None:
        if change.shelf in (NAMESPACES, CRDS):
            self._note(change.shelf, change.key, change.after)
        elif self._dying and change.after is None:
            namespace, slash, _ = change.key.partition("/")
            if slash and (NAMESPACES, namespace) in self._dying:
                self._queue[NAMESPACES, namespace] = None
            if (CRDS, change.shelf) in self._dying:
                self._queue[CRDS, change.shelf] = None

    def _note(self, shelf: str, key: str, after: Stored | None) -> None:
        place = (shelf, key)
        if after is None:
            self._dying.pop(place, None)
            self._queue.pop(place, None)
        elif after.metadata.get("deletionTimestamp") is not None:
            self._dying[place] = None
            self._queue[place] = None

    def step(self) -> None:
        """Look at one namespace or CRD."""
        place = next(iter(self._queue))
        del self._queue[place]
        item = self._site.store.get(*place)
        if item is None:
            return
        if place[0] == NAMESPACES:
            self._empty_namespace(item)
        else:
            self._empty_crd(item)

    def _empty_namespace(self, item: Stored) -> None:
        remaining = 0
        for row in self._namespaced():
            shelf = self._site.store.shelf(shelf_of(row))
            for found in shelf.at(shelf.version, f"{item.key}/"):
                remaining += not self._gone(row, found)
        if remaining:
            return
        spec = {name: value for name, value in item.value["spec"].items() if name != "finalizers"}
        value = {**item.value, "spec": spec}
        if is_released(value, NAMESPACES):
            self._site.store.remove(NAMESPACES, item.key)
        elif value != item.value:
            self._site.store.put(NAMESPACES, item.key, value)

    def _namespaced(self) -> list[ServedResource]:
        """One row for each shelf."""
        rows = {
            shelf_of(row): row
            for row in reversed(self._site.catalogue.resources())
            if row.namespaced and "delete" in row.verbs
        }
        return list(rows.values())

    def _empty_crd(self, item: Stored) -> None:
        row = self._site.catalogue.of_shelf(item.key)
        remaining = 0
        if row is not None:
            shelf = self._site.store.shelf(shelf_of(row))
            for found in shelf.at(shelf.version):
                remaining += not self._gone(row, found)
        finalizers = item.metadata.get("finalizers") or []
        left = [name for name in finalizers if name != CRD_FINALIZER]
        if remaining:
            value = self._in_progress(item)
        else:
            value = with_metadata(item.value, finalizers=left)
            if is_released(value, CRDS):
                self._site.store.remove(CRDS, item.key)
                return
        if value != item.value:
            self._site.store.put(CRDS, item.key, value)

    def _in_progress(self, item: Stored) -> dict[str, Any]:
        status = item.value.get("status") or {}
        news = {
            "reason": "InstanceDeletionInProgress",
            "message": "CustomResource deletion is in progress",
        }
        conditions = [
            {**condition, **news} if condition.get("type") == "Terminating" else condition
            for condition in status.get("conditions") or ()
        ]
        return {**item.value, "status": {**status, "conditions": conditions}}

    def _gone(self, row: ServedResource, item: Stored) -> bool:
        """Delete an object unless that has begun; whether it is gone."""
        if item.metadata.get("deletionTimestamp") is not None:
            return False
        return delete_item(self._site, row, item, _BACKGROUND).is_gone

    def expire_events(self) -> None:
        """Events tell what is going on; after an hour that is of no use to anybody."""
        oldest = self._site.now() - EVENT_SECONDS
        shelf = self._site.store.shelf(EVENTS)
        for item in tuple(shelf.objects.values()):
            if moment_of(item.metadata["creationTimestamp"]) < oldest and (
                _last_seen(item.value) < oldest
            ):
                self._site.store.remove(EVENTS, item.key)


def _last_seen(event: dict[str, Any]) -> float:
    text = event.get("lastTimestamp") or event.get("eventTime")
    return moment_of(text) if isinstance(text, str) else 0.0
