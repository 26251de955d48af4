"""A Table (meta.k8s.io/v1) of objects of one resource: what `kubectl get` shows.

The core calls `table_of` for lists, single objects and watch events; it has negotiated that a
Table is wanted. `now` is an argument, because ages are cells.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

from jobyard.server.printing.cells import Layout
from jobyard.server.printing.custom import custom_layout
from jobyard.server.printing.kinds import LAYOUTS, PLAIN
from jobyard.server.problem import bad_request
from jobyard.server.resource import Column, Object, ServedResource

API_VERSION: Final = "meta.k8s.io/v1"


def table_of(
    resource: ServedResource,
    objects: Iterable[Object],
    *,
    now: float,
    include_object: str,
    list_meta: dict[str, Any],
    headers: bool = True,
) -> dict[str, Any]:
    """The whole answer. All but the first event of a watch come without `headers`."""
    layout = layout_of(resource)
    return {
        "kind": "Table",
        "apiVersion": API_VERSION,
        "metadata": list_meta,
        "columnDefinitions": [_definition(c) for c in layout.columns] if headers else None,
        "rows": [_row(layout, obj, now, include_object) for obj in objects],
    }


def layout_of(resource: ServedResource) -> Layout:
    if resource.columns is None:
        return LAYOUTS.get((resource.group, resource.plural), PLAIN)
    return _custom(resource.columns)


@lru_cache(maxsize=256)
def _custom(columns: tuple[Column, ...]) -> Layout:
    return custom_layout(columns)


def _definition(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def _row(layout: Layout, obj: Object, now: float, include_object: str) -> dict[str, Any]:
    row = layout.row(obj, now)
    conditions = {"conditions": list(row.conditions)} if row.conditions else {}
    return {"cells": list(row.cells), **conditions, "object": _included(obj, include_object)}


def _included(obj: Object, include_object: str) -> Object | None:
    match include_object:
        case "Object":
            return obj
        case "Metadata" | "":
            metadata = obj["metadata"]
            return {
                "kind": "PartialObjectMetadata",
                "apiVersion": API_VERSION,
                "metadata": metadata,
            }
        case "None":
            return None
    raise bad_request(f'unrecognized includeObject value: "{include_object}"')
