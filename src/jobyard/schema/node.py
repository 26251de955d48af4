"""A structural schema, read once into values that are quick to walk.

`compiled` takes the OpenAPI dialect of a CRD, ours or a user's, with all that a structural
schema may say. Whether it is structural is for callers that take the CRD to find out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final
from weakref import WeakValueDictionary

import msgspec
import re2

from jobyard.schema.core import QUANTITY, JSONSchema

_STEP = re2.compile(r"\.([^.\[]+)|\['([^']*)'\]")


class CompiledRule(msgspec.Struct, frozen=True):
    """A CEL rule as it stands in a schema; the message is empty if the author gave none."""

    cel: str
    message: str
    message_cel: str | None
    field: tuple[str, ...]
    is_transition: bool
    reason: str = ""
    # Whether `oldSelf` is an optional, so that the rule also runs when there is none.
    has_optional_old: bool = False


class Node(msgspec.Struct, frozen=True, kw_only=True, weakref=True):
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
    is_minimum_exclusive: bool = False
    maximum: float | None = None
    is_maximum_exclusive: bool = False
    multiple_of: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: Any = None
    format: str = ""
    min_size: int | None = None
    max_size: int | None = None
    list_keys: tuple[str, ...] = ()
    is_set: bool = False
    is_embedded: bool = False
    all_of: tuple[Node, ...] = ()
    any_of: tuple[Node, ...] = ()
    one_of: tuple[Node, ...] = ()
    negated: Node | None = None
    rules: tuple[CompiledRule, ...] = ()
    # Whether there is a rule here or anywhere below.
    has_rules: bool = False
    # A value of exactly this type needs no look: nothing else is said of it.
    bare_type: type | None = None

    def at(self, name: str) -> Node:
        """What is said of a field of this name; nothing, for one that isn't known."""
        known = self.properties.get(name)
        return known if known is not None else self.additional or EMPTY

    @property
    def is_quantity(self) -> bool:
        return self.pattern is not None and self.pattern.pattern == QUANTITY["pattern"]


EMPTY = Node()
_known: WeakValueDictionary[bytes, Node] = WeakValueDictionary()
_BARE_TYPES: Final = {"string": str, "boolean": bool}
# What says nothing that such a value could break.
_BARE_WORDS: Final = frozenset({"type", "description", "default"})
# Words whose value is taken as it is.
_PLAIN_WORDS: Final = {
    "description": "description",
    "default": "default",
    "nullable": "nullable",
    "x-kubernetes-preserve-unknown-fields": "preserves_unknown",
    "minimum": "minimum",
    "exclusiveMinimum": "is_minimum_exclusive",
    "maximum": "maximum",
    "exclusiveMaximum": "is_maximum_exclusive",
    "multipleOf": "multiple_of",
    "minLength": "min_length",
    "maxLength": "max_length",
    "format": "format",
    "x-kubernetes-embedded-resource": "is_embedded",
}
# Words whose value is a list of plain ones.
_LIST_WORDS: Final = {
    "required": "required",
    "enum": "enum",
    "x-kubernetes-list-map-keys": "list_keys",
}
_JUNCTIONS: Final = {"allOf": "all_of", "anyOf": "any_of", "oneOf": "one_of"}


def compiled(schema: JSONSchema) -> Node:
    return _Compiler().node(schema)


class _Compiler:
    """Reads one schema; parts that are the same object are read once."""

    def __init__(self) -> None:
        self._done: dict[int, Node] = {}

    def node(self, schema: JSONSchema) -> Node:
        known = self._done.get(id(schema))
        if known is None:
            said = self._said(schema)
            known = self._done[id(schema)] = Node(**said)
        return known

    def _said(self, schema: JSONSchema) -> dict[str, Any]:
        """What the schema says, by the fields of a node; most say next to nothing."""
        said = {_PLAIN_WORDS[word]: schema[word] for word in schema if word in _PLAIN_WORDS}
        kind = schema.get("type", "")
        if kind:
            said["types"] = (kind,)
        if kind in _BARE_TYPES and schema.keys() <= _BARE_WORDS:
            return {**said, "bare_type": _BARE_TYPES[kind]}
        said |= {_LIST_WORDS[word]: tuple(schema[word]) for word in schema if word in _LIST_WORDS}
        for word, field in _JUNCTIONS.items():
            if word in schema:
                said[field] = tuple(self.node(sub) for sub in schema[word])
        if isinstance(schema.get("not"), dict):
            said["negated"] = self.node(schema["not"])
        if schema.get("pattern"):
            said["pattern"] = re2.compile(schema["pattern"])
        if schema.get("x-kubernetes-int-or-string"):
            said["types"] = ("integer", "string")
            # What stands beside it only repeats that.
            said["any_of"] = ()
        said["is_set"] = schema.get("x-kubernetes-list-type") == "set"
        for field, bound in (("min_size", "min"), ("max_size", "max")):
            items = schema.get(f"{bound}Items")
            said[field] = schema.get(f"{bound}Properties", items) if kind == "object" else items
        return said | self._below(schema)

    def _below(self, schema: JSONSchema) -> dict[str, Any]:
        """Fields, items, and rules."""
        said: dict[str, Any] = {}
        below: list[Node] = []
        if schema.get("properties"):
            properties = {name: self.node(sub) for name, sub in schema["properties"].items()}
            below += properties.values()
            said["properties"] = properties
            said["defaulted"] = tuple(
                name for name, sub in properties.items() if sub.default is not msgspec.UNSET
            )
        for word, field in (("additionalProperties", "additional"), ("items", "items")):
            sub = schema.get(word)
            if isinstance(sub, dict):
                said[field] = self.node(sub)
                below.append(said[field])
        if schema.get("additionalProperties") is True:
            said["additional"] = EMPTY
        rules = tuple(_rule(rule) for rule in schema.get("x-kubernetes-validations", ()))
        said["rules"] = rules
        said["has_rules"] = bool(rules) or any(node.has_rules for node in below)
        return said


def compiled_once(schema: JSONSchema) -> Node:
    """The same, shared by all who have a copy of the schema at the time."""
    digest = hashlib.sha256(msgspec.json.encode(schema)).digest()
    found = _known.get(digest)
    if found is None:
        found = _known[digest] = compiled(schema)
    return found


def _rule(rule: Mapping[str, Any]) -> CompiledRule:
    return CompiledRule(
        cel=rule["rule"],
        message=rule.get("message", ""),
        message_cel=rule.get("messageExpression"),
        field=_field_path(rule.get("fieldPath", "")),
        is_transition="oldSelf" in rule["rule"],
        reason=rule.get("reason", ""),
        has_optional_old=rule.get("optionalOldSelf", False),
    )


def _field_path(text: str) -> tuple[str, ...]:
    """`.spec.x['a b']` as its steps."""
    steps = _STEP.findall(text)
    return tuple(plain or quoted for plain, quoted in steps)
