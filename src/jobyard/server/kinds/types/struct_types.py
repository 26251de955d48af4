"""The types of Kubernetes' own kinds, read once from their published schemas.

For the decoder: which fields a type has, which of them tell a zero from nothing, and what Go
writes of those that aren't set. Facts about types; no values are looked at here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import msgspec

from jobyard.server.kinds.types.kubernetes_schemas import (
    EXTENSIONS,
    MICRO_TIME,
    QUANTITY,
    TIME,
    definitions,
)
from jobyard.server.kinds.types.presence import TIMES_SHOWN_AS_NULL, tells_zero_apart
from jobyard.server.resource import JSONSchema

SCHEMA_OR: Final = tuple(
    f"{EXTENSIONS}JSONSchemaPropsOr{other}" for other in ("Array", "Bool", "StringArray")
)
ZEROS: Final[tuple[Any, ...]] = ("", 0, False)
_ABSENT: Final[Any] = object()
_PLAIN_TYPES: Final[Mapping[str, type]] = {"string": str, "boolean": bool}


class Field(msgspec.Struct, frozen=True):
    """One field of a type. A value of exactly `plain_type` needs no look."""

    schema: JSONSchema
    plain_type: type | None
    # Whether a zero in it is more than nothing.
    keeps_zero: bool


class Fill(msgspec.Struct, frozen=True):
    """What Go writes of a field that was not set: a value, or an empty struct of a schema."""

    name: str
    value: Any = None
    schema: JSONSchema | None = None


class StructType(msgspec.Struct, frozen=True):
    """A definition, read once."""

    name: str
    fields: Mapping[str, Field]
    fills: tuple[Fill, ...]


@cache
def type_of(definition: str) -> StructType:
    schema = definitions()[definition]
    name = definition.rpartition(".")[2]
    required = schema.get("required", ())
    fields: dict[str, Field] = {}
    fills: list[Fill] = []
    for field, sub in schema.get("properties", {}).items():
        keeps_zero = "$ref" in sub or tells_zero_apart(definition, field)
        is_bytes = sub.get("format") == "byte"
        plain_type = None if is_bytes else _PLAIN_TYPES.get(sub.get("type", ""))
        fields[field] = Field(sub, plain_type, keeps_zero)
        fill = _fill(name, field, sub, is_required=field in required)
        if fill is not None:
            fills.append(fill)
    return StructType(name, fields, tuple(fills))


def _fill(owner: str, field: str, sub: JSONSchema, *, is_required: bool) -> Fill | None:
    ref = sub.get("$ref")
    if ref in SCHEMA_OR:
        return None
    if ref in (TIME, MICRO_TIME):
        return Fill(field) if field in TIMES_SHOWN_AS_NULL else None
    if ref == QUANTITY:
        return Fill(field, "0") if field == "divisor" else None
    if field == "apiGroup" and owner.startswith("Typed"):
        return Fill(field)
    default = sub.get("default", _ABSENT)
    if default == {}:
        return Fill(field, schema=sub)
    if default in ZEROS and (is_required or field != "name"):
        return Fill(field, default)
    return None
