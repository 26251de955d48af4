"""Fields with a closed set of words, checked against the published schema.

One walk for all kinds. Sets that the schema doesn't publish are checked by the kind itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from jobyard.server.kinds.faults import Faults
from jobyard.server.kinds.types.kubernetes_schemas import definitions
from jobyard.server.resource import JSONSchema, Object

# Where messages list the words in an order that isn't the alphabet's.
_ORDERS: dict[frozenset[str], Sequence[str]] = {
    frozenset(words): words
    for words in (
        ("Always", "OnFailure", "Never"),
        ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
        ("File", "FallbackToLogsOnError"),
        ("PreemptLowerPriority", "Never"),
    )
}


def enumeration_faults(obj: Object, definition: str, faults: Faults) -> None:
    """What stands in the object, except its status and metadata, that its type doesn't list."""
    for field, sub in _listing(definition):
        if field not in ("metadata", "status") and field in obj:
            _walk(obj[field], sub, field, faults)


def _walk(value: Any, schema: JSONSchema, path: str, faults: Faults) -> None:
    ref = schema.get("$ref")
    if ref is not None:
        if isinstance(value, dict):
            for field, sub in _listing(ref):
                if field in value:
                    _walk(value[field], sub, f"{path}.{field}", faults)
    elif isinstance(value, list):
        for n, item in enumerate(value):
            _walk(item, schema["items"], f"{path}[{n}]", faults)
    elif "enum" in schema and value and value not in schema["enum"]:
        words: Sequence[str] = schema["enum"]
        if not faults.has(path) and not faults.has(path.rpartition("[")[0]):
            faults.not_supported(path, value, _ORDERS.get(frozenset(words), words))


@cache
def _listing(name: str) -> tuple[tuple[str, JSONSchema], ...]:
    """The fields of a type with an enumeration in or below them; most have none."""
    properties = definitions()[name].get("properties", {})
    return tuple((field, sub) for field, sub in properties.items() if _has_enum(sub))


def _has_enum(schema: JSONSchema) -> bool:
    if "enum" in schema:
        return True
    if schema.get("$ref", "").endswith("JSONSchemaProps"):
        return False
    if "$ref" in schema:
        return bool(_listing(schema["$ref"]))
    return "items" in schema and _has_enum(schema["items"])
