"""How a value merges: as one thing, by its fields, by the keys of its items.

A `Shape` is one place of a schema, read for merging alone: types, `x-kubernetes-map-type`,
`-list-type`, `-list-map-keys`, and the older patch strategies where those are missing. Places
are compiled when they are first asked for, so schemas that refer to themselves are no trouble.
Refuses to know bounds, formats and rules; whether a value is valid is for others to say.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from jobyard.server.resource import JSONSchema

Resolve = Callable[[JSONSchema], JSONSchema]

_TEXT: Final[JSONSchema] = {"type": "string"}
_NUMBER: Final[JSONSchema] = {"type": "integer"}
_TIME: Final[JSONSchema] = {"type": "string", "format": "date-time"}
_TEXTS: Final[JSONSchema] = {"type": "object", "additionalProperties": _TEXT}
# Every kind has the same metadata, whatever its schema says about it.
OBJECT_META: Final[JSONSchema] = {
    "type": "object",
    "properties": {
        "annotations": _TEXTS,
        "creationTimestamp": _TIME,
        "deletionGracePeriodSeconds": _NUMBER,
        "deletionTimestamp": _TIME,
        "finalizers": {"type": "array", "items": _TEXT, "x-kubernetes-list-type": "set"},
        "generateName": _TEXT,
        "generation": _NUMBER,
        "labels": _TEXTS,
        "managedFields": {"type": "array", "items": {"type": "object"}},
        "name": _TEXT,
        "namespace": _TEXT,
        "ownerReferences": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"],
            "items": {
                "type": "object",
                "x-kubernetes-map-type": "atomic",
                "properties": {
                    "apiVersion": _TEXT,
                    "blockOwnerDeletion": {"type": "boolean"},
                    "controller": {"type": "boolean"},
                    "kind": _TEXT,
                    "name": _TEXT,
                    "uid": _TEXT,
                },
            },
        },
        "resourceVersion": _TEXT,
        "selfLink": _TEXT,
        "uid": _TEXT,
    },
}
_RESOURCE_FIELDS: Final[JSONSchema] = {
    "apiVersion": _TEXT,
    "kind": _TEXT,
    "metadata": OBJECT_META,
}
_RAW_EXTENSION: Final = "io.k8s.apimachinery.pkg.runtime.RawExtension"


class Sort(Enum):
    """As what a value is looked at; which one it is follows from schema and value."""

    MAP = 1
    SCALAR = 2
    LIST = 3


class Scalar(Enum):
    """What a plain value may be; only checking asks."""

    NUMERIC = 1
    STRING = 2
    BOOLEAN = 3
    UNTYPED = 4


class Shape:
    """One place of a schema; compiled fields and items are kept."""

    __slots__ = (
        "_default",
        "_element",
        "_fields",
        "_preserve",
        "_properties",
        "_resolve",
        "_schema",
        "is_closed",
        "is_deduced",
        "is_list",
        "is_list_atomic",
        "is_map",
        "is_map_atomic",
        "keys",
        "scalar",
        "whole_sort",
    )

    def __init__(self, schema: JSONSchema, resolve: Resolve, preserve: bool) -> None:
        self._schema = schema
        self._resolve = resolve
        self._preserve = preserve or schema.get("x-kubernetes-preserve-unknown-fields") is True
        self._fields: dict[str, Shape] = {}
        self._default: Shape | None = None
        self._element: Shape | None = None
        self._properties: JSONSchema = schema.get("properties") or {}
        if schema.get("x-kubernetes-embedded-resource") is True:
            self._properties = {**self._properties, **_RESOURCE_FIELDS}
        kind = schema.get("type", "")
        self.is_map = kind in ("", "object")
        self.is_list = kind in ("", "array")
        self.scalar = _scalar(kind, schema)
        self.is_map_atomic = schema.get("x-kubernetes-map-type") == "atomic"
        self.is_list_atomic, self.keys = _list_type(schema)
        extra = schema.get("additionalProperties")
        free = self._preserve or not self._properties
        self.is_closed = extra is False or (extra is None and not free)
        # Maps that hold only fields nobody declared; a schema can't have changed about them.
        self.is_deduced = self.is_map and not self._properties and not isinstance(extra, dict)
        # Null, and values that don't fit, are taken for the first that the schema allows.
        self.whole_sort = (
            Sort.MAP if self.is_map else Sort.SCALAR if self.scalar is not None else Sort.LIST
        )

    def sort(self, value: Any) -> Sort:
        """As what this value is looked at."""
        if isinstance(value, dict):
            return Sort.MAP if self.is_map else self.whole_sort
        if isinstance(value, list):
            return Sort.LIST if self.is_list else self.whole_sort
        if value is not None and self.scalar is not None:
            return Sort.SCALAR
        return self.whole_sort

    def declares(self, name: str) -> bool:
        return name in self._properties

    def field(self, name: str) -> Shape:
        """The place of a field, declared or not."""
        found = self._fields.get(name)
        if found is not None:
            return found
        member = self._properties.get(name)
        if member is None:
            return self._rest()
        found = self._fields[name] = self._compiled(member)
        return found

    def element(self) -> Shape:
        """The place of an item of a list."""
        if self._element is None:
            items = self._schema.get("items")
            self._element = UNTYPED if items is None else self._compiled(items)
        return self._element

    def default(self, name: str) -> Any:
        """What a field is when it isn't there; items of lists are told apart by it."""
        member = self._properties.get(name)
        return None if member is None else member.get("default")

    def _rest(self) -> Shape:
        """The place of fields that aren't declared."""
        if self._default is None:
            extra = self._schema.get("additionalProperties")
            self._default = self._compiled(extra) if isinstance(extra, dict) else DEDUCED
        return self._default

    def _compiled(self, schema: JSONSchema) -> Shape:
        return compiled(schema, self._resolve, self._preserve)


def _scalar(kind: str, schema: JSONSchema) -> Scalar | None:
    match kind:
        case "integer" | "number":
            return Scalar.NUMERIC
        case "boolean":
            return Scalar.BOOLEAN
        case "string":
            plain = schema.get("format", "") in ("", "byte")
            return Scalar.STRING if plain else Scalar.UNTYPED
        case "object" | "array":
            return None
    return Scalar.UNTYPED


def _list_type(schema: JSONSchema) -> tuple[bool, tuple[str, ...]]:
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return False, ()
        case "map":
            return False, tuple(schema.get("x-kubernetes-list-map-keys") or ())
        case None if "merge" in str(schema.get("x-kubernetes-patch-strategy", "")).split(","):
            key = schema.get("x-kubernetes-patch-merge-key")
            return False, () if key is None else (key,)
    return True, ()


def referred(schema: JSONSchema) -> JSONSchema | None:
    """The schema with the `$ref` where one stands for all of it, alone or as the only `allOf`."""
    if "$ref" in schema:
        return schema
    parts = schema.get("allOf")
    if isinstance(parts, list) and len(parts) == 1 and "$ref" in parts[0]:
        only: JSONSchema = parts[0]
        return only
    return None


def compiled(schema: JSONSchema, resolve: Resolve, preserve: bool = False) -> Shape:
    """The place that a schema describes, behind its reference if it is one."""
    reference = referred(schema)
    if reference is None:
        return Shape(schema, resolve, preserve)
    if str(reference["$ref"]).endswith(_RAW_EXTENSION):
        return UNTYPED
    # Named types are read on their own: they don't inherit from where they are used.
    shape = Shape(resolve(reference), resolve, preserve=False)
    relation = schema.get("x-kubernetes-map-type")
    if relation is not None:
        shape.is_map_atomic = relation == "atomic"
    return shape


def _nothing_to_resolve(schema: JSONSchema) -> JSONSchema:
    return schema


# Fields of which a schema says nothing merge one by one; their lists are single values.
DEDUCED: Final = Shape({}, _nothing_to_resolve, preserve=True)
# Items of lists of which a schema says nothing are single values, whatever they hold.
UNTYPED: Final = Shape({"x-kubernetes-map-type": "atomic"}, _nothing_to_resolve, preserve=True)


def root_shape(schema: JSONSchema, resolve: Resolve) -> Shape:
    """The place of a whole object."""
    schema = resolve(schema)
    properties = {**(schema.get("properties") or {}), **_RESOURCE_FIELDS}
    return Shape({**schema, "properties": properties}, resolve, preserve=False)
