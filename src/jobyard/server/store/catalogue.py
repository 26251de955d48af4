"""The rows of what is served now: Kubernetes' own kinds, and those of the CRDs that are stored.

Follows the store: a CRD that is written has its rows at once. What a CRD's rows are is decided
in `crds`; here is only who is there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from jobyard.server.resource import JSONSchema, Object, ServedResource
from jobyard.server.store.store import Store
from jobyard.server.store.watch_cache import Change

CRDS: Final = "customresourcedefinitions.apiextensions.k8s.io"

RowsOf = Callable[[Object], tuple[ServedResource, ...]]


class ServedCatalogue:
    """Implements `Catalogue` on a fixed table and the CRDs of a store."""

    def __init__(
        self,
        builtin: Sequence[ServedResource],
        custom: RowsOf,
        resolved: Callable[[JSONSchema], JSONSchema],
    ) -> None:
        self._builtin = tuple(builtin)
        self._custom_of = custom
        self._resolved = resolved
        self._custom: dict[str, tuple[ServedResource, ...]] = {}
        self._rows: tuple[ServedResource, ...] = ()
        self._by_path: dict[tuple[str, str, str], ServedResource] = {}
        self._by_kind: dict[tuple[str, str], ServedResource] = {}
        self._by_shelf: dict[str, ServedResource] = {}
        self._builtin_groups = frozenset(row.group for row in self._builtin)
        self._arrange()

    def follow(self, store: Store) -> None:
        """Take the CRDs that are there, and every one that comes, changes or goes."""
        for found in store.shelf(CRDS).objects.values():
            self._custom[found.key] = self._rows_of(found.value)
        self._arrange()
        self._store = store
        store.listeners.append(self._changed)

    def _changed(self, change: Change) -> None:
        if change.shelf != CRDS:
            return
        if change.after is None:
            self._custom.pop(change.key, None)
        else:
            before = change.before
            if before is not None and _content(before.value) == _content(change.after.value):
                return
            self._custom[change.key] = self._rows_of(change.after.value)
            if before is None:
                # Nothing is known about the time before there was such a kind.
                shelf = self._store.shelf(change.key)
                shelf.floor = max(shelf.floor, change.version)
        self._arrange()

    def _rows_of(self, crd: Object) -> tuple[ServedResource, ...]:
        versions = {version["name"]: version for version in crd["spec"]["versions"]}
        list_kind = crd["spec"]["names"].get("listKind") or ""
        return tuple(
            msgspec.structs.replace(
                row, selectable_fields=_selectable(versions[row.version]), list_kind=list_kind
            )
            for row in self._custom_of(crd)
        )

    def _arrange(self) -> None:
        custom = [row for rows in self._custom.values() for row in rows]
        self._rows = (*self._builtin, *custom)
        self._by_path = {(row.group, row.version, row.plural): row for row in self._rows}
        self._by_kind = {}
        self._by_shelf = {}
        for row in self._rows:
            self._by_kind.setdefault((row.group, row.kind), row)
            self._by_shelf.setdefault(row.storage_key, row)

    def resources(self) -> Sequence[ServedResource]:
        return self._rows

    def find(self, group: str, version: str, plural: str) -> ServedResource | None:
        return self._by_path.get((group, version, plural))

    def of_kind(self, group: str, kind: str) -> ServedResource | None:
        """Any version of a kind, by the group and kind that an owner reference names."""
        return self._by_kind.get((group, kind))

    def of_shelf(self, shelf: str) -> ServedResource | None:
        return self._by_shelf.get(shelf)

    def is_builtin(self, group: str) -> bool:
        """Whether a group is Kubernetes' own."""
        return group in self._builtin_groups

    def resolved(self, schema: JSONSchema) -> JSONSchema:
        return self._resolved(schema)


def _selectable(version: Object) -> tuple[str, ...]:
    return tuple(field["jsonPath"] for field in version.get("selectableFields") or ())


def _content(crd: Object) -> tuple[object, object]:
    return crd.get("spec"), crd.get("status")
