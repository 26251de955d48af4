"""Whether an applied configuration can be merged at all: known fields, types, items told apart.

This is less than validation, which the strategy of a kind does on the merged object. Texts are
those of a real server, which answers with them as plain errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jobyard.server.apply.comparing import item_step
from jobyard.server.apply.elements import ElementError, field, shown
from jobyard.server.apply.go_text import literal, printed, type_name
from jobyard.server.apply.shape import Scalar, Shape, Sort


def faults(value: Any, shape: Shape, may_repeat: bool = False) -> str:
    """What is wrong with a value, as one text; empty when nothing is."""
    found = list(_faults(value, shape, (), may_repeat))
    if len(found) <= 1:
        return "".join(found)
    return "\n".join(["errors:", *(f"  {fault}" for fault in found)])


# The way to a value; it becomes text only when there is something to tell.
_Steps = tuple[str, ...]


def _told(at: _Steps, what: str) -> str:
    path = "".join(map(shown, at))
    return f"{path}: {what}" if path else what


def _faults(value: Any, shape: Shape, at: _Steps, may_repeat: bool) -> Iterator[str]:
    match shape.sort(value):
        case Sort.MAP:
            if value is not None and not isinstance(value, dict):
                yield _told(at, f"expected map, got &{{{printed(value)}}}")
                return
            fields = value or {}
            for name in sorted(fields):
                if shape.is_closed and not shape.declares(name):
                    yield _told((*at, field(name)), "field not declared in schema")
                    # A real server stops here too.
                    return
                below = (*at, field(name))
                yield from _faults(fields[name], shape.field(name), below, may_repeat)
        case Sort.LIST:
            if value is not None and not isinstance(value, list):
                yield _told(at, f"expected list, got &{{{printed(value)}}}")
                return
            yield from _item_faults(value or [], shape, at, may_repeat)
        case Sort.SCALAR:
            fault = _scalar_fault(value, shape.scalar)
            if fault:
                yield _told(at, fault)


def _item_faults(items: list[Any], shape: Shape, at: _Steps, may_repeat: bool) -> Iterator[str]:
    seen: set[str] = set()
    for index, item in enumerate(items):
        step = f"i:{index}"
        if not shape.is_list_atomic:
            try:
                step = item_step(item, shape)
            except ElementError as problem:
                yield _told(at, f"element {index}: {problem}")
                return
            if step in seen and not may_repeat:
                yield _told(at, f"duplicate entries for key {shown(step)}")
            seen.add(step)
        yield from _faults(item, shape.element(), (*at, step), may_repeat)


def _scalar_fault(value: Any, scalar: Scalar | None) -> str:
    if value is None:
        return ""
    plain = not isinstance(value, dict | list)
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    match scalar:
        case Scalar.NUMERIC if not numeric:
            return f"expected numeric (int or float), got {type_name(value)}"
        case Scalar.STRING if not isinstance(value, str):
            return f"expected string, got &value.valueUnstructured{{Value:{literal(value)}}}"
        case Scalar.BOOLEAN if not isinstance(value, bool):
            return f"expected boolean, got &{{{printed(value)}}}"
        case Scalar.UNTYPED if not plain:
            return f"expected any scalar, got &{{{printed(value)}}}"
    return ""
