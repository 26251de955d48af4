"""What an API server makes of an object before it looks whether it is valid.

Fields the schema doesn't know are dropped, null means absent, defaults are filled in.
The order is Kubernetes' own: prune, then drop nulls, then default.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import msgspec

from jobyard.schema.finding import Path
from jobyard.schema.node import EMPTY, Node
from jobyard.schema.objectmeta import object_meta

# What every object has, embedded ones too.
_HEADER = ("apiVersion", "kind", "metadata")


def settled(value: Any, node: Node, path: Path, unknown: list[Path]) -> Any:
    """A new value; `unknown` collects the paths of the fields that were dropped."""
    if not isinstance(value, dict | list):
        return _settled_scalar(value, node)
    dropped: list[Path] = []
    out = _settled(value, node, dropped)
    unknown += [(*path, *below) for below in dropped]
    return out


def _settled(value: Any, node: Node, unknown: list[Path]) -> Any:
    """The same, with paths from here: nearly always there are none, so none are kept ready."""
    if isinstance(value, dict):
        return _settled_object(value, node, unknown)
    if isinstance(value, list):
        if node.items is None and node.preserves_unknown:
            return copy.deepcopy(value)
        return _settled_list(value, node.items or EMPTY, unknown)
    return _settled_scalar(value, node)


def _settled_scalar(value: Any, node: Node) -> Any:
    if isinstance(value, float) and node.types == ("integer",) and value.is_integer():
        return math.trunc(value)
    return value


def _settled_list(value: list[Any], items: Node, unknown: list[Path]) -> list[Any]:
    out = []
    for n, item in enumerate(value):
        known = len(unknown)
        out.append(_settled(item, items, unknown))
        if len(unknown) > known:
            _prefix(n, unknown, known)
    return out


def _prefix(step: str | int, unknown: list[Path], known: int) -> None:
    """Puts a step before the paths that were found below it."""
    for n in range(known, len(unknown)):
        unknown[n] = (step, *unknown[n])


def _settled_object(value: dict[str, Any], node: Node, unknown: list[Path]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    properties, additional = node.properties, node.additional
    for name, item in value.items():
        sub = properties.get(name, additional)
        if sub is None:
            if node.preserves_unknown or (node.is_embedded and name in _HEADER):
                out[name] = copy.deepcopy(item)
            else:
                unknown.append((name,))
        elif isinstance(item, str | bool):
            out[name] = item
        elif item is not None or sub.nullable:
            known = len(unknown)
            out[name] = _settled(item, sub, unknown)
            if len(unknown) > known:
                _prefix(name, unknown, known)
    if node.is_embedded and isinstance(value.get("metadata"), dict):
        # Its schema says nothing of it, but every object has the same metadata.
        out["metadata"] = settled(value["metadata"], object_meta(), ("metadata",), unknown)
    for name in node.defaulted:
        if name not in out:
            sub = properties[name]
            assert sub.default is not msgspec.UNSET
            out[name] = settled(copy.deepcopy(sub.default), sub, (name,), unknown)
    return out
