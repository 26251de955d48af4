"""Whether a settled value is what its schema says, with all faults at once.

The verdict is the API server's. It stops at a fault of shape before it looks at rules;
here a place's rules are looked at as soon as nothing below it is at fault, which finds
more at once and never refuses what the API server takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jobyard.schema.cel import holds, text_of
from jobyard.schema.finding import Finding, Path, error
from jobyard.schema.formats import format_fault
from jobyard.schema.node import EMPTY, CompiledRule, Node
from jobyard.schema.wording import (
    mismatch,
    missing,
    not_listed,
    out_of_size,
    shown,
    wrong_type,
)


def faults(value: Any, node: Node, path: Path, old: Any = None) -> list[Finding]:
    """Every fault of a value; `old` is what stood there before an update, if known."""
    found = list(_own_faults(value, node, path))
    if isinstance(value, dict):
        for name, item in value.items():
            sub = node.properties.get(name, node.additional) or EMPTY
            before = old.get(name) if isinstance(old, dict) else None
            found += faults(item, sub, (*path, name), before)
    elif isinstance(value, list):
        # What stood at an index before may be another item: lists aren't followed.
        for n, item in enumerate(value):
            found += faults(item, node.items or EMPTY, (*path, n))
    if not found and node.rules:
        found += rule_faults(value, node.rules, path, old)
    return found


def rule_faults(
    value: Any, rules: tuple[CompiledRule, ...], path: Path, old: Any
) -> Iterator[Finding]:
    variables = {"self": value} if old is None else {"self": value, "oldSelf": old}
    for rule in rules:
        if rule.is_transition and old is None:
            continue
        if not holds(rule.cel, variables):
            told = text_of(rule.message_cel, variables) if rule.message_cel else None
            yield error((*path, *rule.field), told or rule.message)


def type_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "integer" if _is_json_integer(value) else "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


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
        yield error(path, wrong_type(value, found, node))
        return
    if node.enum and value not in node.enum:
        yield error(path, not_listed(value, node.enum))
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


_WIDEST = {"int32": 2**31 - 1, "int64": 2**63 - 1}


def _number_faults(value: float, node: Node, path: Path) -> Iterator[Finding]:
    widest = _WIDEST.get(node.format)
    if node.minimum is not None and value < node.minimum:
        yield error(path, f"is {shown(value)}; must be at least {node.minimum:g}")
    elif node.maximum is not None and value > node.maximum:
        yield error(path, f"is {shown(value)}; must be at most {node.maximum:g}")
    elif widest is not None and not -widest - 1 <= value <= widest:
        yield error(
            path, f"is {shown(value)}; must fit into {node.format.removeprefix('int')} bits"
        )


def _text_faults(value: str, node: Node, path: Path) -> Iterator[Finding]:
    too_short = node.min_length is not None and len(value) < node.min_length
    too_long = node.max_length is not None and len(value) > node.max_length
    if too_short or too_long:
        yield error(path, out_of_size(len(value), node.min_length, node.max_length, "characters"))
    elif node.pattern is not None and not node.pattern.search(value):
        yield error(path, mismatch(value, node))
    elif node.format:
        fault = format_fault(value, node.format)
        if fault:
            yield error(path, fault)


def _list_faults(value: list[Any], node: Node, path: Path) -> Iterator[Finding]:
    if _is_out_of_size(value, node):
        yield error(path, out_of_size(len(value), node.min_size, node.max_size, "items"))
    if node.list_keys:
        yield from _repeated(value, node.list_keys, path)


def _repeated(value: list[Any], keys: tuple[str, ...], path: Path) -> Iterator[Finding]:
    seen: set[tuple[str, ...]] = set()
    for n, item in enumerate(value):
        if not isinstance(item, dict):
            continue
        key = tuple(shown(item.get(name)) for name in keys)
        if key in seen:
            named = ", ".join(f"{name} {text}" for name, text in zip(keys, key, strict=True))
            yield error((*path, n), f"repeats {named}; each may stand once")
        seen.add(key)


def _object_faults(value: dict[str, Any], node: Node, path: Path) -> Iterator[Finding]:
    if _is_out_of_size(value, node):
        yield error(path, out_of_size(len(value), node.min_size, node.max_size, "entries"))
    for name in node.required:
        if name not in value:
            yield error((*path, name), missing(node.properties.get(name)))


def _is_out_of_size(value: list[Any] | dict[str, Any], node: Node) -> bool:
    too_small = node.min_size is not None and len(value) < node.min_size
    return too_small or (node.max_size is not None and len(value) > node.max_size)
