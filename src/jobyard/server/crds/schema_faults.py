"""What is wrong with the schema of a CRD: it must be structural, with defaults that fit.

The rules of structure are Kubernetes': every field has a type, junctions only judge, lists and
maps say what they are. CEL rules must compile with the functions that are there; one that is
not is named.
"""

from __future__ import annotations

from collections.abc import Iterator

import re2

from jobyard.schema.node import compiled
from jobyard.schema.settling import settled
from jobyard.schema.validation import faults as value_faults
from jobyard.server.crds.rule_faults import rules_faults
from jobyard.server.crds.wording import causes_of
from jobyard.server.kinds.faults import Faults
from jobyard.server.resource import JSONSchema

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_JUNCTIONS = ("allOf", "anyOf", "oneOf")
# What a schema inside a junction may not say.
_SHAPING = ("additionalProperties", "default", "description", "nullable", "title", "type")
_UNSUPPORTED = ("$ref", "definitions", "dependencies", "id", "patternProperties")
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_STRUCTURAL = "must be empty to be structural"


def schema_faults(schema: JSONSchema, faults: Faults, path: str) -> None:
    """`path` is where messages say that the schema is."""
    before = len(faults)
    kind = schema.get("type")
    if not kind:
        faults.required(f"{path}.type", "must not be empty at the root")
    elif kind != "object":
        faults.invalid(f"{path}.type", kind, "must be object at the root")
    _header_faults(schema, faults, path)
    _walk(schema, faults, path, "at the root")
    if len(faults) == before:
        _defaults_faults(schema, faults, path)
    if len(faults) == before:
        rules_faults(schema, faults, path)


def _header_faults(schema: JSONSchema, faults: Faults, path: str) -> None:
    properties = schema.get("properties", {})
    for name in ("apiVersion", "kind"):
        kind = properties.get(name, {}).get("type", "string")
        if kind != "string":
            faults.invalid(f"{path}.properties[{name}].type", kind, "must be string")
    metadata = properties.get("metadata", {})
    extra = set(metadata) - {"type", "properties", "description"}
    if extra or set(metadata.get("properties", {})) - {"name", "generateName"}:
        text = (
            "must not specify anything other than name and generateName, but metadata is"
            " implicitly specified"
        )
        faults.forbidden(f"{path}.properties[metadata]", text)


def _walk(schema: JSONSchema, faults: Faults, path: str, role: str) -> None:
    _keyword_faults(schema, faults, path)
    _type_faults(schema, faults, path, role)
    _collection_faults(schema, faults, path)
    if schema.get("x-kubernetes-embedded-resource"):
        _embedded_faults(schema, faults, path)
    for where, part in _junctions(schema, path):
        is_pair = schema.get("x-kubernetes-int-or-string") and part in _INT_OR_STRING
        if not is_pair:
            _judging_faults(part, faults, where)
    for name, sub in schema.get("properties", {}).items():
        is_metadata = role == "at the root" and name == "metadata"
        if not is_metadata:
            _walk(sub, faults, f"{path}.properties[{name}]", "for specified object fields")
    if isinstance(schema.get("items"), dict):
        _walk(schema["items"], faults, f"{path}.items", "for specified array items")
    if isinstance(schema.get("additionalProperties"), dict):
        where = f"{path}.additionalProperties"
        _walk(schema["additionalProperties"], faults, where, "for specified object fields")


def _keyword_faults(schema: JSONSchema, faults: Faults, path: str) -> None:
    for keyword in _UNSUPPORTED:
        if schema.get(keyword):
            faults.forbidden(f"{path}.{keyword}", f"{keyword} is not supported")
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        faults.forbidden(f"{path}.uniqueItems", text)
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        where = f"{path}.x-kubernetes-preserve-unknown-fields"
        faults.invalid(where, False, "must be true or undefined")
    pattern = schema.get("pattern")
    if pattern:
        options = re2.Options()
        options.log_errors = False
        try:
            re2.compile(pattern, options)
        except re2.error as wrong:
            why = wrong.args[0]
            told = why.decode() if isinstance(why, bytes) else why
            text = f"must be a valid regular expression, but isn't: error parsing regexp: {told}"
            faults.invalid(f"{path}.pattern", pattern, text)


def _type_faults(schema: JSONSchema, faults: Faults, path: str, role: str) -> None:
    kind = schema.get("type", "")
    is_free = schema.get("x-kubernetes-int-or-string") or schema.get(
        "x-kubernetes-preserve-unknown-fields"
    )
    is_told = any(schema.get(keyword) for keyword in ("$ref", "x-kubernetes-embedded-resource"))
    if not kind and not is_free and not is_told and role != "at the root":
        faults.required(f"{path}.type", f"must not be empty {role}")
    elif kind and kind not in _TYPES:
        faults.not_supported(f"{path}.type", kind, _TYPES)
    if kind == "array":
        if "items" not in schema:
            faults.required(f"{path}.items", "must be specified")
        elif isinstance(schema["items"], list):
            faults.forbidden(f"{path}.items", "items must be a schema object and not an array")
    if schema.get("properties") and schema.get("additionalProperties"):
        text = "additionalProperties and properties are mutual exclusive"
        faults.forbidden(f"{path}.additionalProperties", text)


def _collection_faults(schema: JSONSchema, faults: Faults, path: str) -> None:
    kind, list_type = schema.get("type", ""), schema.get("x-kubernetes-list-type")
    if schema.get("x-kubernetes-map-type") is not None and kind != "object":
        text = "must be object if x-kubernetes-map-type is specified"
        faults.invalid(f"{path}.type", kind, text)
    if list_type is None:
        return
    where = f"{path}.x-kubernetes-list-type"
    if kind != "array":
        text = "must be array if x-kubernetes-list-type is specified"
        faults.invalid(f"{path}.type", kind, text)
    elif list_type not in ("atomic", "set", "map"):
        faults.not_supported(where, list_type, ("atomic", "set", "map"))
    elif list_type == "map":
        _list_map_faults(schema, faults, path)
    elif list_type == "set" and isinstance(schema.get("items"), dict):
        items = schema["items"]
        if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
            text = "must be atomic as item of a list with x-kubernetes-list-type=set"
            shown = items.get("x-kubernetes-map-type")
            faults.invalid(f"{path}.items.x-kubernetes-map-type", shown, text)


def _list_map_faults(schema: JSONSchema, faults: Faults, path: str) -> None:
    keys = schema.get("x-kubernetes-list-map-keys", [])
    if not keys:
        text = "must not be empty if x-kubernetes-list-type is map"
        faults.required(f"{path}.x-kubernetes-list-map-keys", text)
    items = schema.get("items")
    if not isinstance(items, dict):
        return
    for key in keys:
        sub = items.get("properties", {}).get(key)
        if sub is None:
            text = "entries must all be names of item properties"
            faults.invalid(f"{path}.x-kubernetes-list-map-keys", keys, text)
        elif key not in items.get("required", ()) and "default" not in sub:
            text = (
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be"
                " a required property"
            )
            faults.required(f"{path}.items.properties[{key}].default", text)


def _embedded_faults(schema: JSONSchema, faults: Faults, path: str) -> None:
    preserves = schema.get("x-kubernetes-preserve-unknown-fields")
    if not schema.get("properties") and not preserves:
        text = (
            "must not be empty if x-kubernetes-embedded-resource is true without"
            " x-kubernetes-preserve-unknown-fields"
        )
        faults.required(f"{path}.properties", text)
    if schema.get("type") != "object":
        text = "must be object if x-kubernetes-embedded-resource is true"
        if schema.get("type"):
            faults.invalid(f"{path}.type", schema["type"], text)
        else:
            faults.required(f"{path}.type", text)


def _junctions(schema: JSONSchema, path: str) -> Iterator[tuple[str, JSONSchema]]:
    for keyword in _JUNCTIONS:
        for n, part in enumerate(schema.get(keyword, ())):
            yield f"{path}.{keyword}[{n}]", part
    if "not" in schema:
        yield f"{path}.not", schema["not"]


def _judging_faults(schema: JSONSchema, faults: Faults, path: str) -> None:
    """A schema inside a junction only judges."""
    for keyword in _SHAPING:
        if schema.get(keyword):
            faults.forbidden(f"{path}.{keyword}", _STRUCTURAL)
    for keyword, value in schema.items():
        is_extension = keyword.startswith("x-kubernetes-") and keyword != "x-kubernetes-validations"
        if is_extension and value:
            faults.forbidden(f"{path}.{keyword}", "must be undefined to be structural")
    for name, sub in schema.get("properties", {}).items():
        _judging_faults(sub, faults, f"{path}.properties[{name}]")
    if isinstance(schema.get("items"), dict):
        _judging_faults(schema["items"], faults, f"{path}.items")
    for where, part in _junctions(schema, path):
        _judging_faults(part, faults, where)


def _defaults_faults(schema: JSONSchema, faults: Faults, path: str) -> None:
    """Every default must itself be a valid, already settled value."""
    if "default" in schema and schema["default"] is not None:
        node, value = compiled(schema), schema["default"]
        dropped: list[tuple[str | int, ...]] = []
        after = settled(value, node, (), dropped)
        if dropped:
            faults.invalid(f"{path}.default", value, "must not have unknown fields")
        else:
            found = [
                finding for finding in value_faults(after, node, ()) if finding.fault is not None
            ]
            faults.extend(causes_of(found, f"{path}.default"))
    for name, sub in schema.get("properties", {}).items():
        _defaults_faults(sub, faults, f"{path}.properties[{name}]")
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            _defaults_faults(schema[keyword], faults, f"{path}.{keyword}")
