"""Whether a settled value is what its schema says, with all faults at once.

The verdict is the API server's. It stops at a fault of shape before it looks at rules;
here a place's rules are looked at as soon as nothing below it is at fault, which finds
more at once and never refuses what the API server takes. Who must do exactly as the API
server does takes `shape_faults` and the rules apart.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import msgspec

from jobyard.schema.finding import Fault, FaultKind, Finding, Path, dotted, error
from jobyard.schema.formats import format_fault
from jobyard.schema.junctions import junction_faults
from jobyard.schema.node import EMPTY, Node
from jobyard.schema.rule_checks import correlated, rule_faults
from jobyard.schema.wording import (
    mismatch,
    missing,
    not_listed,
    out_of_size,
    shown,
    wrong_type,
)

__all__ = ["faults", "rule_faults", "shape_faults", "type_of"]


def faults(value: Any, node: Node, path: Path, old: Any = None) -> list[Finding]:
    """Every fault of a value; `old` is what stood there before an update, if known."""
    found = list(_own_faults(value, node, path))
    for step, item, sub in _children(value, node):
        found += faults(item, sub, (*path, step), correlated(value, node, step, old))
    if not found and node.rules:
        found += rule_faults(value, node.rules, path, old)
    return found


def shape_faults(value: Any, node: Node, path: Path, old: Any = msgspec.UNSET) -> list[Finding]:
    """All faults but those of rules. Values unchanged from `old` are not checked."""
    found: list[Finding] = []
    _gather_shape_faults(value, node, path, old, found)
    return found


def _gather_shape_faults(
    value: Any, node: Node, path: Path, old: Any, found: list[Finding]
) -> None:
    if old is not msgspec.UNSET and value == old:
        return
    found.extend(_own_faults(value, node, path))
    for step, item, sub in _children(value, node):
        if type(item) is sub.bare_type:
            continue
        before = correlated(value, node, step, old, msgspec.UNSET)
        _gather_shape_faults(item, sub, (*path, step), before, found)


def _children(value: Any, node: Node) -> Iterator[tuple[str | int, Any, Node]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield name, item, node.at(name)
    elif isinstance(value, list):
        for n, item in enumerate(value):
            yield n, item, node.items or EMPTY


_TYPES = {type(None): "null", bool: "boolean", str: "string", list: "array", dict: "object"}


def type_of(value: Any) -> str:
    known = _TYPES.get(type(value))
    if known is not None:
        return known
    if not isinstance(value, int | float):
        return "object"
    return "integer" if _is_json_integer(value) else "number"


def _is_json_integer(value: float) -> bool:
    """Whether Kubernetes takes a number for a whole one.

    What doesn't fit into 64 bits becomes a float there, and past 2^53 a float can't tell
    neighbours apart.
    """
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return value.is_integer() and abs(value) < 2**53


def _own_faults(value: Any, node: Node, path: Path) -> Iterator[Finding]:
    found = type_of(value)
    if value is None and node.nullable:
        return
    if (
        node.types
        and found not in node.types
        and not (found == "integer" and "number" in node.types)
    ):
        fault = Fault(FaultKind.TYPE, found, ",".join(node.types))
        if found == "number" and node.types == ("integer",) and node.format in _WIDEST:
            fault = Fault(FaultKind.TYPE, "float64", node.format)
        yield error(path, wrong_type(value, found, node), fault)
        return
    if node.enum and value not in node.enum:
        words = ", ".join(json.dumps(str(word)) for word in node.enum)
        yield error(path, not_listed(value, node.enum), _fault(FaultKind.ENUM, value, words))
    match value:
        case bool():
            pass
        case int() | float():
            yield from _number_faults(value, node, path)
        case str():
            yield from _text_faults(value, node, path)
        case list():
            yield from _list_faults(value, node, path)
        case dict():
            yield from _object_faults(value, node, path)
    if node.any_of or node.one_of or node.all_of or node.negated is not None:
        yield from junction_faults(value, node, path, faults)


def _fault(kind: FaultKind, value: Any, wanted: object = "") -> Fault:
    if isinstance(value, float) and value.is_integer():
        value = math.trunc(value)
    return Fault(kind, json.dumps(value, ensure_ascii=False, separators=(",", ":")), str(wanted))


_WIDEST = {"int32": 2**31 - 1, "int64": 2**63 - 1}


def _width_fault(value: float, node: Node, path: Path) -> Finding:
    text = f"is {shown(value)}; must fit into {node.format.removeprefix('int')} bits"
    return error(path, text, Fault(FaultKind.WIDTH, dotted(path), node.format))


def _number_faults(value: float, node: Node, path: Path) -> Iterator[Finding]:
    widest = _WIDEST.get(node.format)
    least, most = node.minimum, node.maximum
    is_too_wide = widest is not None and not -widest - 1 <= value <= widest
    if least is not None and (value < least or (value == least and node.is_minimum_exclusive)):
        bound = "more than" if node.is_minimum_exclusive else "at least"
        kind = FaultKind.NOT_ABOVE if node.is_minimum_exclusive else FaultKind.LOW
        text = f"is {shown(value)}; must be {bound} {least:g}"
        yield error(path, text, _fault(kind, value, f"{least:g}"))
    elif most is not None and (value > most or (value == most and node.is_maximum_exclusive)):
        bound = "less than" if node.is_maximum_exclusive else "at most"
        kind = FaultKind.NOT_BELOW if node.is_maximum_exclusive else FaultKind.HIGH
        text = f"is {shown(value)}; must be {bound} {most:g}"
        yield error(path, text, _fault(kind, value, f"{most:g}"))
    elif is_too_wide:
        yield _width_fault(value, node, path)
    if node.multiple_of:
        quotient = value / node.multiple_of
        if not math.isclose(quotient, round(quotient), rel_tol=0, abs_tol=1e-9):
            text = f"is {shown(value)}; must be a multiple of {node.multiple_of:g}"
            yield error(path, text, _fault(FaultKind.MULTIPLE, value, f"{node.multiple_of:g}"))


def _text_faults(value: str, node: Node, path: Path) -> Iterator[Finding]:
    too_short = node.min_length is not None and len(value) < node.min_length
    too_long = node.max_length is not None and len(value) > node.max_length
    if too_short or too_long:
        text = out_of_size(len(value), node.min_length, node.max_length, "characters")
        fault = _fault(FaultKind.SHORT, value, node.min_length)
        if too_long:
            fault = _fault(FaultKind.LONG, value, node.max_length)
        yield error(path, text, fault)
    elif node.pattern is not None and not node.pattern.search(value):
        fault = _fault(FaultKind.PATTERN, value, node.pattern.pattern)
        yield error(path, mismatch(value, node), fault)
    elif node.format:
        wrong = format_fault(value, node.format)
        if wrong:
            yield error(path, wrong, _fault(FaultKind.FORMAT, value, node.format))


def _list_faults(value: list[Any], node: Node, path: Path) -> Iterator[Finding]:
    yield from _size_faults(value, node, path)
    if node.list_keys:
        yield from _repeated_keys(value, node.list_keys, path)
    elif node.is_set:
        yield from _repeated_items(value, path)


def _repeated_keys(value: list[Any], keys: tuple[str, ...], path: Path) -> Iterator[Finding]:
    seen: set[tuple[str, ...]] = set()
    for n, item in enumerate(value):
        if not isinstance(item, dict):
            continue
        key = tuple(shown(item.get(name)) for name in keys)
        if key in seen:
            named = ", ".join(f"{name} {text}" for name, text in zip(keys, key, strict=True))
            told = {name: item[name] for name in sorted(keys) if name in item}
            fault = _fault(FaultKind.DUPLICATE, told)
            yield error((*path, n), f"repeats {named}; each must be unique", fault)
        seen.add(key)


def _repeated_items(value: list[Any], path: Path) -> Iterator[Finding]:
    for n, item in enumerate(value):
        if item in value[:n]:
            fault = _fault(FaultKind.DUPLICATE, item)
            yield error((*path, n), f"repeats {shown(item)}; each must be unique", fault)


def _object_faults(value: dict[str, Any], node: Node, path: Path) -> Iterator[Finding]:
    yield from _size_faults(value, node, path)
    for name in (*node.required, *(("apiVersion", "kind") if node.is_embedded else ())):
        if name not in value:
            text = missing(node.properties.get(name))
            yield error((*path, name), text, Fault(FaultKind.REQUIRED))


_SIZE_KINDS = {
    "items": (FaultKind.FEW_ITEMS, FaultKind.MANY_ITEMS),
    "entries": (FaultKind.FEW_ENTRIES, FaultKind.MANY_ENTRIES),
}


def _size_faults(value: list[Any] | dict[str, Any], node: Node, path: Path) -> Iterator[Finding]:
    if node.min_size is None and node.max_size is None:
        return
    size, unit = len(value), "items" if isinstance(value, list) else "entries"
    few, many = _SIZE_KINDS[unit]
    text = out_of_size(size, node.min_size, node.max_size, unit)
    if node.min_size is not None and size < node.min_size:
        yield error(path, text, _fault(few, size, node.min_size))
    elif node.max_size is not None and size > node.max_size:
        yield error(path, text, _fault(many, size, node.max_size))
