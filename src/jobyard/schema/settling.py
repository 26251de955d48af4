"""What an API server makes of an object before it looks whether it is valid.

Fields the schema doesn't know are dropped, null means absent, defaults are filled in.
The order is Kubernetes' own: prune, then drop nulls, then default.
"""

from __future__ import annotations

import copy
from typing import Any

import msgspec

from jobyard.schema.finding import Path
from jobyard.schema.node import EMPTY, Node


def settled(value: Any, node: Node, path: Path, unknown: list[Path]) -> Any:
    """A new value; `unknown` collects the paths of the fields that were dropped."""
    if isinstance(value, dict):
        return _settled_object(value, node, path, unknown)
    if isinstance(value, list):
        items = node.items or EMPTY
        return [settled(item, items, (*path, n), unknown) for n, item in enumerate(value)]
    if isinstance(value, float) and node.types == ("integer",) and value.is_integer():
        return int(value)
    return value


def _settled_object(
    value: dict[str, Any], node: Node, path: Path, unknown: list[Path]
) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, item in value.items():
        sub = node.properties.get(name, node.additional)
        if sub is None:
            if node.preserves_unknown:
                out[name] = copy.deepcopy(item)
            else:
                unknown.append((*path, name))
        elif item is not None or sub.nullable:
            out[name] = settled(item, sub, (*path, name), unknown)
    for name in node.defaulted:
        if name not in out:
            sub = node.properties[name]
            assert sub.default is not msgspec.UNSET
            out[name] = settled(copy.deepcopy(sub.default), sub, (*path, name), unknown)
    return out
