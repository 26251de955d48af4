"""Objects that a client sends as protobuf, as the JSON values that they stand for.

kubectl and other Go programs write Kubernetes' own kinds so, and don't try anything else. The
numbers of the fields are in `protobuf.json` (made by `tools/protobuf_table.py`). Answers are
always JSON, which every client takes. Nothing is encoded here.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.resources import files
from typing import Any, Final

from jobyard.server.kinds.types.times import spelled
from jobyard.server.messages import json_text
from jobyard.server.resource import Object

PROTOBUF_TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LONG_BITS: Final = 64
# From here on Go writes floats with an exponent.
_PLAIN_MAX: Final = 1e21
# Go leaves these out of JSON when they are zero, unless they are behind a pointer.
_SCALARS: Final = frozenset("sibydt")


_DECODER: Final = json_text.decoder()
# What bytes that mean something else lead to: wrong wires, times beyond all calendars, depth.
_UNREADABLE: Final = (
    *(IndexError, KeyError, ValueError, TypeError, AttributeError, OverflowError, struct.error),
    *(RecursionError, json_text.NoValueError),
)


class ProtobufError(Exception):
    """The bytes are no object, or one of a kind that isn't known here."""


@cache
def _table() -> dict[str, dict[int, tuple[str, str]]]:
    text = files("jobyard.server.messages").joinpath("protobuf.json").read_text()
    messages: dict[str, list[tuple[int, str, str]]] = json.loads(text)
    return {
        message: {number: (name, type_) for number, name, type_ in fields}
        for message, fields in messages.items()
    }


def decoded_protobuf(body: bytes) -> Object:
    """The object in a client's envelope, with its apiVersion and kind."""
    if not body.startswith(_MAGIC):
        raise ProtobufError("provided data does not appear to be a protobuf message")
    try:
        envelope = dict(_parts(body[len(_MAGIC) :]))
        header = dict(_parts(envelope.get(1, b"")))
        api_version, kind = header.get(1, b"").decode(), header.get(2, b"").decode()
        message = message_of(api_version, kind)
        value = _object(envelope.get(2, b""), message)
        json_text.check_depth(value)
    except _UNREADABLE as problem:
        raise ProtobufError(f"proto: {problem}") from None
    return {"kind": kind, "apiVersion": api_version, **value}


def message_of(api_version: str, kind: str) -> str:
    """The name of a kind's message: groups are told by their first word."""
    group, _, version = api_version.rpartition("/")
    package = f"{group.partition('.')[0] or 'core'}/{version}"
    for name in (f"{package}.{kind}", f"meta/v1.{kind}"):
        if name in _table():
            return name
    raise ProtobufError(f'no kind "{kind}" is registered for version "{api_version}"')


def _parts(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message by number, in their order."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        part: Any
        if wire == _VARINT:
            part, at = _varint(data, at)
        elif wire == _BYTES:
            length, at = _varint(data, at)
            if at + length > len(data):
                raise ValueError("unexpected EOF")
            part, at = data[at : at + length], at + length
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
            (part,) = struct.unpack("<d" if size == 8 else "<f", data[at : at + size])
            at += size
        else:
            raise ValueError(f"illegal wireType {wire}")
        yield number, part


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > _LONG_BITS:
            raise ValueError("integer overflow")


def _object(data: bytes, message: str) -> Object:
    fields = _table()[message]
    value: Object = {}
    for number, part in _parts(data):
        if number not in fields:
            continue
        name, type_ = fields[number]
        match type_[0]:
            case "^":
                value.update(_object(part, type_[1:]))
            case "[":
                value.setdefault(name, []).append(_value(part, type_[1:]))
            case "{":
                key, item = _entry(part, type_[1:])
                value.setdefault(name, {})[key] = item
            case "*":
                value[name] = _value(part, type_[1:])
            case _:
                item = _value(part, type_)
                if type_ not in _SCALARS or item:
                    value[name] = item
    return value


def _entry(data: bytes, type_: str) -> tuple[str, Any]:
    parts = dict(_parts(data))
    key = parts.get(1, b"").decode()
    if type_.startswith("["):
        # A list in a map is a message of its own.
        items = [_value(part, type_[1:]) for _, part in _parts(parts.get(2, b""))]
        return key, items
    empty: Any = 0 if type_ in "ib" else b""
    return key, _value(parts.get(2, empty), type_)


def _value(part: Any, type_: str) -> Any:
    match type_:
        case "s":
            return part.decode()
        case "i":
            return part - (1 << _LONG_BITS) if part >> (_LONG_BITS - 1) else part
        case "b":
            return bool(part)
        case "d":
            return _number(part)
        case "y":
            return base64.b64encode(part).decode()
        case "t" | "m":
            return _time(part, has_fraction=type_ == "m")
        case "q":
            return dict(_parts(part)).get(1, b"0").decode()
        case "o":
            parts = dict(_parts(part))
            is_text = parts.get(1, 0) == 1
            return parts.get(3, b"").decode() if is_text else _value(parts.get(2, 0), "i")
        case "r":
            raw = dict(_parts(part)).get(1) or b"null"
            return json_text.decoded(json_text.cleaned(raw), _DECODER)
    value = _object(part, type_)
    return _UNIONS[type_](value) if type_ in _UNIONS else value


def _number(part: float) -> int | float:
    """As Go writes a float in JSON: without a point where it needs none, and nothing endless."""
    if not math.isfinite(part):
        raise ValueError(f"json: unsupported value: {part}")
    return math.trunc(part) if part.is_integer() and abs(part) < _PLAIN_MAX else part


# In JSON these are one of the things they can be.
_UNIONS: Final[dict[str, Callable[[Object], Any]]] = {
    "apiextensions/v1.JSONSchemaPropsOrArray": lambda value: (
        value.get("jSONSchemas") or value.get("schema")
    ),
    "apiextensions/v1.JSONSchemaPropsOrBool": lambda value: (
        value["schema"] if "schema" in value else value.get("allows", False)
    ),
    "apiextensions/v1.JSONSchemaPropsOrStringArray": lambda value: (
        value.get("property") or value.get("schema")
    ),
}


def _time(data: bytes, *, has_fraction: bool) -> str | None:
    """A moment; nothing in it means none."""
    parts = dict(_parts(data))
    if not parts:
        return None
    seconds = _value(parts.get(1, 0), "i")
    moment = _EPOCH + timedelta(seconds=seconds, microseconds=parts.get(2, 0) // 1000)
    return spelled(moment, "microseconds" if has_fraction else "seconds")
