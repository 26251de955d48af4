"""The v2 document as protobuf, which kubectl asks for when it validates a `kind: List`.

The numbers are those of gnostic's OpenAPIv2 messages. Only the fields that our own documents use
have a row; what begins with `x-` goes along as an extension, everything else is an error of ours.
Knows how bytes are laid out; refuses to know what a document is about.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

# Clients ask with either; a server answers with the second.
WIRE_TYPES: Final = (
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
)
_VARINT, _FIXED64, _BYTES = 0, 1, 2
_EXTENSION: Final = "x-"
# Any other list is a field that is repeated.
_SINGLE: Final = frozenset({"default", "example", "type"})

Fields = Mapping[str, tuple[int, Callable[[Any], tuple[int, bytes]]]]


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    told = bytearray()
    while value > 0x7F:
        told.append(value & 0x7F | 0x80)
        value >>= 7
    told.append(value)
    return bytes(told)


def _field(number: int, wire: int, content: bytes) -> bytes:
    length = _varint(len(content)) if wire == _BYTES else b""
    return _varint(number << 3 | wire) + length + content


def _text(value: str) -> tuple[int, bytes]:
    return _BYTES, value.encode()


def _number(value: int) -> tuple[int, bytes]:
    return _VARINT, _varint(math.trunc(value))


def _double(value: float) -> tuple[int, bytes]:
    return _FIXED64, struct.pack("<d", value)


def _any(value: Any) -> tuple[int, bytes]:
    """Any value is kept as its text; JSON is YAML."""
    return _BYTES, _field(2, _BYTES, msgspec.json.encode(value))


def _named(name: str, content: bytes) -> bytes:
    return _field(1, _BYTES, name.encode()) + _field(2, _BYTES, content)


def _message(value: Mapping[str, Any], fields: Fields, extensions: int) -> bytes:
    told = bytearray()
    for name, item in value.items():
        if name.startswith(_EXTENSION):
            told += _field(extensions, _BYTES, _named(name, _any(item)[1]))
            continue
        number, encode = fields[name]
        is_repeated = isinstance(item, list) and name not in _SINGLE
        for each in item if is_repeated else (item,):
            told += _field(number, *encode(each))
    return bytes(told)


def _map(number: int, items: Iterable[tuple[str, bytes]]) -> bytes:
    return b"".join(_field(number, _BYTES, _named(name, item)) for name, item in items)


def _schema(value: Mapping[str, Any]) -> tuple[int, bytes]:
    return _BYTES, _message(value, _SCHEMA, 31)


def _schemas(value: Mapping[str, Any]) -> tuple[int, bytes]:
    return _BYTES, _map(1, ((name, _schema(each)[1]) for name, each in value.items()))


def _only_schema(value: Mapping[str, Any]) -> tuple[int, bytes]:
    return _BYTES, _field(1, *_schema(value))


def _additional(value: Mapping[str, Any] | bool) -> tuple[int, bytes]:
    if isinstance(value, bool):
        return _BYTES, _field(2, *_number(value))
    return _only_schema(value)


def _type(value: str | list[str]) -> tuple[int, bytes]:
    names = [value] if isinstance(value, str) else value
    return _BYTES, b"".join(_field(1, *_text(name)) for name in names)


_SCHEMA: Final[Fields] = {
    "$ref": (1, _text),
    "format": (2, _text),
    "title": (3, _text),
    "description": (4, _text),
    "default": (5, _any),
    "multipleOf": (6, _double),
    "maximum": (7, _double),
    "exclusiveMaximum": (8, _number),
    "minimum": (9, _double),
    "exclusiveMinimum": (10, _number),
    "maxLength": (11, _number),
    "minLength": (12, _number),
    "pattern": (13, _text),
    "maxItems": (14, _number),
    "minItems": (15, _number),
    "uniqueItems": (16, _number),
    "maxProperties": (17, _number),
    "minProperties": (18, _number),
    "required": (19, _text),
    "enum": (20, _any),
    "additionalProperties": (21, _additional),
    "type": (22, _type),
    "items": (23, _only_schema),
    "allOf": (24, _schema),
    "properties": (25, _schemas),
    "readOnly": (27, _number),
    "example": (30, _any),
}
_BODY: Final[Fields] = {
    "description": (1, _text),
    "name": (2, _text),
    "in": (3, _text),
    "required": (4, _number),
    "schema": (5, _schema),
}
_IN_QUERY: Final[Fields] = {
    "required": (1, _number),
    "in": (2, _text),
    "description": (3, _text),
    "name": (4, _text),
    "type": (6, _text),
    "format": (7, _text),
    "uniqueItems": (20, _number),
}
_IN_PATH: Final[Fields] = {
    "required": (1, _number),
    "in": (2, _text),
    "description": (3, _text),
    "name": (4, _text),
    "type": (5, _text),
    "format": (6, _text),
    "uniqueItems": (19, _number),
}


def _parameter(value: Mapping[str, Any]) -> tuple[int, bytes]:
    match value["in"]:
        case "body":
            told = _field(1, _BYTES, _message(value, _BODY, 6))
        case "query":
            told = _field(2, _BYTES, _field(3, _BYTES, _message(value, _IN_QUERY, 23)))
        case place:
            assert place == "path", f"a parameter in {place}"
            told = _field(2, _BYTES, _field(4, _BYTES, _message(value, _IN_PATH, 22)))
    return _BYTES, _field(1, _BYTES, told)


_RESPONSE: Final[Fields] = {"description": (1, _text), "schema": (2, _only_schema)}


def _responses(value: Mapping[str, Any]) -> tuple[int, bytes]:
    items = (
        (code, _field(1, _BYTES, _message(each, _RESPONSE, 5))) for code, each in value.items()
    )
    return _BYTES, _map(1, items)


_OPERATION: Final[Fields] = {
    "tags": (1, _text),
    "summary": (2, _text),
    "description": (3, _text),
    "operationId": (5, _text),
    "produces": (6, _text),
    "consumes": (7, _text),
    "parameters": (8, _parameter),
    "responses": (9, _responses),
    "schemes": (10, _text),
    "deprecated": (11, _number),
}


def _operation(value: Mapping[str, Any]) -> tuple[int, bytes]:
    return _BYTES, _message(value, _OPERATION, 13)


_PATH: Final[Fields] = {
    "get": (2, _operation),
    "put": (3, _operation),
    "post": (4, _operation),
    "delete": (5, _operation),
    "options": (6, _operation),
    "head": (7, _operation),
    "patch": (8, _operation),
    "parameters": (9, _parameter),
}


def _paths(value: Mapping[str, Any]) -> tuple[int, bytes]:
    return _BYTES, _map(2, ((path, _message(each, _PATH, 10)) for path, each in value.items()))


_INFO: Final[Fields] = {
    "title": (1, _text),
    "version": (2, _text),
    "description": (3, _text),
}


def _info(value: Mapping[str, Any]) -> tuple[int, bytes]:
    return _BYTES, _message(value, _INFO, 7)


_DOCUMENT: Final[Fields] = {
    "swagger": (1, _text),
    "info": (2, _info),
    "paths": (8, _paths),
    "definitions": (9, _schemas),
}


def on_the_wire(document: Mapping[str, Any]) -> bytes:
    """A whole v2 document."""
    return _message(document, _DOCUMENT, 16)
