"""From JSON to what the API server's own types hold of it, and back to JSON, in one pass.

A field the type doesn't have is dropped and told; null is nothing; a value of another type is
refused before any validation (400). What comes out has what Go
writes out: no empty lists, no zeros that mean nothing, quantities and times in their one
spelling. `defaults` are filled in type by type, inner ones first, as each value is complete.
Knows types only; whether the values make sense is asked later.
"""

from __future__ import annotations

import base64
import binascii
import copy
from collections.abc import Callable, Mapping, Set
from typing import Any

from jobyard.server.kinds.types.kubernetes_schemas import (
    EXTENSIONS,
    FIELDS,
    INT_OR_STRING,
    MICRO_TIME,
    QUANTITY,
    TIME,
)
from jobyard.server.kinds.types.misfit import misfit
from jobyard.server.kinds.types.quantities import QuantityError, canonical
from jobyard.server.kinds.types.struct_types import SCHEMA_OR, ZEROS, Field, type_of
from jobyard.server.kinds.types.times import TimeError, micro_time, second_time
from jobyard.server.problem import bad_request
from jobyard.server.resource import JSONSchema

Default = Callable[[dict[str, Any]], None]

_OPAQUE = (FIELDS, EXTENSIONS + "JSON", "io.k8s.apimachinery.pkg.runtime.RawExtension")
_INT_BOUNDS = {"int32": 2**31, "int64": 2**63}
_ITEM_ZEROS = {"string": "", "integer": 0, "number": 0, "boolean": False}
_TEXT: JSONSchema = {"type": "string", "default": ""}


class Decoder:
    """Decodes objects of one kind."""

    def __init__(
        self, definition: str, kind: str, version: str, defaults: Mapping[str, Default]
    ) -> None:
        self._definition = definition
        self._kind = kind
        self._version = version
        self._defaults = defaults

    def decoded(
        self, obj: Mapping[str, Any], unknown: list[str], as_is: Set[str] = frozenset()
    ) -> dict[str, Any]:
        """A new object; `unknown` collects the paths of fields that were dropped.

        `as_is` names fields of the object that were decoded before, and are taken over.
        """
        root = ""
        if not as_is:
            return self._struct(obj, self._definition, root, unknown)
        fresh = {name: item for name, item in obj.items() if name not in as_is}
        out = self._struct(fresh, self._definition, root, unknown)
        # In the order in which they came.
        names = dict.fromkeys((*(name for name in obj if name in as_is or name in out), *out))
        return {name: obj[name] if name in as_is else out[name] for name in names}

    def _struct(
        self, value: Any, definition: str, place: str, unknown: list[str]
    ) -> dict[str, Any]:
        of = type_of(definition)
        if not isinstance(value, dict):
            raise self._mismatch(value, place, "object")
        if not of.fields:
            return copy.deepcopy(value)
        out: dict[str, Any] = {}
        for name, item in value.items():
            field = of.fields.get(name)
            if field is None:
                unknown.append(_below(place, name))
            elif type(item) is field.plain_type:
                if item or field.keeps_zero:
                    out[name] = item
            elif item is not None:
                inner = _below(place, name)
                decoded = self._value(item, field.schema, inner, unknown)
                if not _is_nothing(decoded, field):
                    out[name] = decoded
        for fill in of.fills:
            if fill.name not in out:
                if fill.schema is None:
                    out[fill.name] = fill.value
                else:
                    inner = _below(place, fill.name)
                    out[fill.name] = self._value({}, fill.schema, inner, [])
        default = self._defaults.get(definition)
        if default is not None:
            default(out)
        return out

    def _value(self, value: Any, schema: JSONSchema, place: str, unknown: list[str]) -> Any:
        ref = schema.get("$ref")
        if ref is not None:
            return self._referred(value, ref, place, unknown)
        match schema.get("type"):
            case "object":
                return self._map(value, schema, place, unknown)
            case "array":
                return self._list(value, schema, place, unknown)
            case "string":
                return self._text(value, schema.get("format", ""), place)
            case "boolean":
                return value if isinstance(value, bool) else self._refuse(value, place, "boolean")
            case "integer":
                return self._integer(value, schema.get("format", "int32"), place)
            case "number":
                is_number = isinstance(value, int | float) and not isinstance(value, bool)
                return value if is_number else self._refuse(value, place, "number")
            case _:
                return copy.deepcopy(value)

    def _referred(self, value: Any, ref: str, place: str, unknown: list[str]) -> Any:
        try:
            if ref == QUANTITY:
                return canonical(value)
            if ref == TIME:
                return (
                    second_time(value) if isinstance(value, str) else self._text(value, "", place)
                )
            if ref == MICRO_TIME:
                return micro_time(self._text(value, "", place))
        except (QuantityError, TimeError) as wrong:
            raise self._refused(str(wrong)) from wrong
        if ref == INT_OR_STRING:
            if isinstance(value, str):
                return value
            return self._integer(value, "int32", place)
        if ref in _OPAQUE:
            # Nobody looks into it, so nobody changes it.
            return value
        if ref in SCHEMA_OR:
            return self._schema_or(value, place, unknown)
        return self._struct(value, ref, place, unknown)

    def _schema_or(self, value: Any, place: str, unknown: list[str]) -> Any:
        """JSONSchemaProps, or a list of them or of texts, or a truth value."""
        if isinstance(value, dict):
            return self._struct(value, EXTENSIONS + "JSONSchemaProps", place, unknown)
        if isinstance(value, list):
            return [self._schema_or(item, f"{place}[{n}]", unknown) for n, item in enumerate(value)]
        return value

    def _map(self, value: Any, schema: JSONSchema, place: str, unknown: list[str]) -> Any:
        items = schema.get("additionalProperties")
        if not isinstance(value, dict):
            raise self._mismatch(value, place, "object")
        if items is None:
            return copy.deepcopy(value)
        if items == _TEXT and all(type(item) is str for item in value.values()):
            return dict(value)
        return {
            key: self._item(item, items, _below(place, key), unknown) for key, item in value.items()
        }

    def _list(self, value: Any, schema: JSONSchema, place: str, unknown: list[str]) -> Any:
        if not isinstance(value, list):
            raise self._mismatch(value, place, "array")
        items = schema["items"]
        if items == _TEXT and all(type(item) is str for item in value):
            return list(value)
        return [self._item(item, items, f"{place}[{n}]", unknown) for n, item in enumerate(value)]

    def _item(self, value: Any, schema: JSONSchema, place: str, unknown: list[str]) -> Any:
        """What stands in a list or map: null is the zero of its type there."""
        if value is not None:
            return self._value(value, schema, place, unknown)
        if schema.get("$ref") == QUANTITY:
            return "0"
        if schema.get("type", "object") == "object" and "additionalProperties" not in schema:
            return self._value({}, schema, place, unknown)
        return _ITEM_ZEROS.get(schema.get("type", ""))

    def _text(self, value: Any, format_: str, place: str) -> str:
        if not isinstance(value, str):
            raise self._mismatch(value, place, "string")
        if format_ == "byte":
            return self._bytes(value)
        return value

    def _bytes(self, value: str) -> str:
        """Base64, spelled anew: line ends are let through, nothing else is."""
        text = value.replace("\n", "").replace("\r", "")
        try:
            return base64.b64encode(base64.b64decode(text, validate=True)).decode()
        except (binascii.Error, ValueError) as wrong:
            where = _first_illegal(text)
            raise self._refused(f"illegal base64 data at input byte {where}") from wrong

    def _integer(self, value: Any, format_: str, place: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._mismatch(value, place, "integer")
        bound = _INT_BOUNDS.get(format_, 2**63)
        if isinstance(value, float) or not -bound <= value < bound:
            why = f"a whole number of {format_.removeprefix('int')} bits"
            raise self._mismatch(value, place, "integer", why)
        return value

    def _refuse(self, value: Any, place: str, wanted: str) -> Any:
        raise self._mismatch(value, place, wanted)

    def _mismatch(self, value: Any, place: str, wanted: str, why: str = "") -> Exception:
        return self._refused(misfit(place, value, wanted, why))

    def _refused(self, why: str) -> Exception:
        kind, version = self._kind, self._version
        return bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {why}')


def _below(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _is_nothing(value: Any, field: Field) -> bool:
    """Whether Go leaves the field out when it writes the value."""
    if isinstance(value, list):
        return not value
    if isinstance(value, dict):
        return not value and "$ref" not in field.schema
    return not field.keeps_zero and value in ZEROS


def _first_illegal(text: str) -> int:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    body = text.rstrip("=")
    whole = len(body) - len(body) % 4
    return next((n for n, char in enumerate(body) if char not in alphabet), whole)
