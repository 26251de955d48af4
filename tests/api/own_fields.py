"""The fields of a kind by its types, for tests that compare with what is made from them.

Taken from msgspec's view of the types and not from the derived schema, so that a field
which got lost on the way to the schema is missed.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import inspect

# Every Kubernetes object has these.
_EVERY_OBJECT = ("apiVersion", "kind", "metadata")


class OwnField(msgspec.Struct, frozen=True):
    """A field of ours; items of lists are written `spec.replicaSpecs[].type`."""

    path: str
    # The sentence in the field's annotation, which its type's own docstring must not hide.
    description: str | None


def own_fields(of: type[msgspec.Struct]) -> Iterator[OwnField]:
    """Every field of a kind down to, but not into, the types of Kubernetes itself."""
    for field in _fields(inspect.type_info(of), ""):
        if field.path.partition(".")[0] not in _EVERY_OBJECT:
            yield field


def _fields(info: inspect.Type, path: str) -> Iterator[OwnField]:
    match info:
        case inspect.Metadata():
            if "core" not in (info.extra or {}):
                yield from _fields(info.type, path)
        case inspect.UnionType():
            for part in info.types:
                yield from _fields(part, path)
        case inspect.VarTupleType():
            yield from _fields(info.item_type, path + "[]")
        case inspect.DictType():
            yield from _fields(info.value_type, path + ".*")
        case inspect.StructType():
            for field in info.fields:
                place = f"{path}.{field.encode_name}" if path else field.encode_name
                yield OwnField(place, _description(field.type))
                yield from _fields(field.type, place)


def _description(info: inspect.Type) -> str | None:
    if not isinstance(info, inspect.Metadata):
        return None
    return (info.extra_json_schema or {}).get("description")
