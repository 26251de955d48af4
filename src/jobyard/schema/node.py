"""A structural schema, read once into values that are quick to walk.

`compiled` takes the OpenAPI dialect of a CRD, ours or a user's. What a structural
schema may say and no kind of ours does (allOf, oneOf, anyOf, not) is refused by name, so
that nothing is passed over silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import re2

from jobyard.schema.core import JSONSchema

_UNSUPPORTED = ("allOf", "anyOf", "oneOf", "not", "multipleOf", "uniqueItems")


class CompiledRule(msgspec.Struct, frozen=True):
    """A CEL rule as it stands in a schema."""

    cel: str
    message: str
    message_cel: str | None
    field: tuple[str, ...]
    is_transition: bool


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of one place in an object."""

    types: tuple[str, ...] = ()
    description: str = ""
    properties: Mapping[str, Node] = {}
    additional: Node | None = None
    items: Node | None = None
    required: tuple[str, ...] = ()
    defaulted: tuple[str, ...] = ()
    default: Any = msgspec.UNSET
    nullable: bool = False
    preserves_unknown: bool = False
    enum: tuple[Any, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: Any = None
    format: str = ""
    min_size: int | None = None
    max_size: int | None = None
    list_keys: tuple[str, ...] = ()
    rules: tuple[CompiledRule, ...] = ()

    @property
    def is_quantity(self) -> bool:
        return self.types == ("integer", "string") and self.pattern is not None


EMPTY = Node()


def compiled(schema: JSONSchema) -> Node:
    for keyword in _UNSUPPORTED:
        if keyword in schema:
            raise ValueError(f"schema keyword {keyword} is not supported")
    properties = {name: compiled(sub) for name, sub in schema.get("properties", {}).items()}
    is_int_or_string = schema.get("x-kubernetes-int-or-string", False)
    types = ("integer", "string") if is_int_or_string else (schema.get("type"),)
    return Node(
        types=tuple(kind for kind in types if kind),
        description=schema.get("description", ""),
        properties=properties,
        additional=_sub(schema, "additionalProperties"),
        items=_sub(schema, "items"),
        required=tuple(schema.get("required", ())),
        defaulted=tuple(
            name for name, sub in properties.items() if sub.default is not msgspec.UNSET
        ),
        default=schema.get("default", msgspec.UNSET),
        nullable=schema.get("nullable", False),
        preserves_unknown=schema.get("x-kubernetes-preserve-unknown-fields", False),
        enum=tuple(schema.get("enum", ())),
        minimum=schema.get("minimum"),
        maximum=schema.get("maximum"),
        min_length=schema.get("minLength"),
        max_length=schema.get("maxLength"),
        pattern=re2.compile(schema["pattern"]) if "pattern" in schema else None,
        format=schema.get("format", ""),
        min_size=schema.get("minItems", schema.get("minProperties")),
        max_size=schema.get("maxItems", schema.get("maxProperties")),
        list_keys=tuple(schema.get("x-kubernetes-list-map-keys", ())),
        rules=tuple(_rule(rule) for rule in schema.get("x-kubernetes-validations", ())),
    )


def _sub(schema: JSONSchema, keyword: str) -> Node | None:
    sub = schema.get(keyword)
    return compiled(sub) if isinstance(sub, dict) else None


def _rule(rule: Mapping[str, str]) -> CompiledRule:
    return CompiledRule(
        cel=rule["rule"],
        message=rule.get("message", f"must satisfy {rule['rule']}"),
        message_cel=rule.get("messageExpression"),
        field=tuple(rule.get("fieldPath", "").split(".")[1:]),
        is_transition="oldSelf" in rule["rule"],
    )
