"""Putting an applied configuration into an object, and taking fields out of one.

Values are never changed; results share what stays. Lists that merge keep the order of the
applied items, with the others near their old neighbours. Who may set or lose a field is
decided by `ownership` and `applying`; this only carries it out.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from jobyard.server.apply.comparing import MISSING, by_step, item_step
from jobyard.server.apply.elements import ElementError, field
from jobyard.server.apply.field_sets import SELF, FieldSet, has, inner, noded
from jobyard.server.apply.shape import Shape, Sort


def merged(live: Any, intent: Any, shape: Shape) -> Any:
    """The live value with the applied one over it; MISSING where nothing is left of both.

    Raises ElementError.
    """
    if intent is MISSING or live is intent:
        return live
    if live is MISSING:
        return intent
    match shape.sort(intent):
        case Sort.MAP:
            ours = live if isinstance(live, dict) else {}
            theirs = intent if isinstance(intent, dict) else {}
            if not shape.is_map_atomic and (ours or theirs):
                return _merged_maps(ours, theirs, shape)
        case Sort.LIST:
            had = live if isinstance(live, list) else []
            wanted = intent if isinstance(intent, list) else []
            if not shape.is_list_atomic and (had or wanted):
                return _merged_lists(had, wanted, shape)
    return intent


def _merged_maps(live: dict[str, Any], intent: dict[str, Any], shape: Shape) -> Any:
    out = live
    for name, wanted in intent.items():
        had = live.get(name, MISSING)
        value = merged(had, wanted, shape.field(name))
        if value is not had:
            if out is live:
                out = dict(live)
            if value is MISSING:
                del out[name]
            else:
                out[name] = value
    return out or MISSING


def _merged_lists(live: list[Any], intent: list[Any], shape: Shape) -> Any:
    element = shape.element()
    wanted = {step: items[0] for step, items in by_step(intent, shape).items()}
    # Items that share a step with another aren't merged with: the applied one takes their place.
    had = {
        step: items[0] if len(items) == 1 else None for step, items in by_step(live, shape).items()
    }
    live_steps = [item_step(item, shape) for item in live]
    todo = deque(wanted)
    shared = deque(step for step in wanted if step in had)
    placed: set[str] = set()
    out: list[Any] = []

    def place(step: str) -> None:
        placed.add(step)
        todo.popleft()
        value = merged(had.get(step, MISSING), wanted[step], element)
        if value is not MISSING:
            out.append(value)
        if shared and shared[0] == step:
            shared.popleft()

    at = 0
    while at < len(live_steps) or todo:
        if at < len(live_steps):
            step = live_steps[at]
            if todo and step == todo[0]:
                place(step)
                at += 1
                continue
            if todo and step in wanted and shared and shared[0] != step:
                # It is applied too, but its turn comes later.
                at += 1
                continue
            if step not in wanted:
                out.append(live[at])
                at += 1
                continue
            if step in placed:
                at += 1
        if todo:
            place(todo[0])
    return out or MISSING


def fields_of(intent: Any, shape: Shape) -> FieldSet:
    """The fields that an applied configuration speaks about."""
    node = _fields_below(intent, shape)
    return {} if node is None else inner(node)


def _fields_below(value: Any, shape: Shape) -> FieldSet | None:
    """The node of a value, without knowing what it is in: a leaf, its parts, or nothing."""
    match shape.sort(value):
        case Sort.MAP:
            if shape.is_map_atomic:
                return {}
            out: FieldSet = {}
            for name, child in (value if isinstance(value, dict) else {}).items():
                node = _fields_below(child, shape.field(name))
                if child is None or child == {} or not shape.declares(name):
                    node = noded(True, inner(node or {}))
                if node is not None:
                    out[field(name)] = node
            return out or None
        case Sort.LIST:
            if shape.is_list_atomic:
                return {}
            element = shape.element()
            out = {}
            for step, items in by_step(value if isinstance(value, list) else [], shape).items():
                below = _fields_below(items[0], element) if len(items) == 1 else None
                out[step] = noded(True, inner(below or {})) or {}
            return out or None
    return {}


def with_declared(fields: FieldSet, shape: Shape | None) -> FieldSet:
    """The set with every declared field above one of its members as a member too."""
    out: FieldSet = {}
    for key, node in fields.items():
        if key == SELF:
            continue
        member = has(node)
        below: Shape | None = None
        if shape is not None and shape.is_map and key[0] == "f":
            name = key[2:]
            below = shape.field(name)
            member = member or shape.declares(name)
        elif shape is not None and shape.is_list and key[0] == "k":
            below = shape.element()
        out[key] = noded(member, with_declared(inner(node), below)) or {}
    return out


def without(value: Any, fields: FieldSet, shape: Shape) -> Any:
    """The value without these fields; null where nothing is left of it."""
    match shape.sort(value):
        case Sort.MAP:
            if not value or not isinstance(value, dict) or shape.is_map_atomic:
                return None
            return _map_without(value, fields, shape)
        case Sort.LIST:
            if not value or not isinstance(value, list) or shape.is_list_atomic:
                return None
            return _list_without(value, fields, shape)
    return value


def _map_without(value: dict[str, Any], fields: FieldSet, shape: Shape) -> Any:
    out = value
    for key, node in fields.items():
        name = key[2:]
        if key[0] != "f" or name not in value:
            continue
        if has(node):
            out = dict(value) if out is value else out
            del out[name]
            continue
        left = without(value[name], node, shape.field(name))
        if left is not value[name]:
            out = dict(value) if out is value else out
            out[name] = left
    return out or None


def _list_without(value: list[Any], fields: FieldSet, shape: Shape) -> Any:
    element = shape.element()
    out = []
    for item in value:
        try:
            node = fields.get(item_step(item, shape))
        except ElementError:
            node = None
        if node is None:
            out.append(item)
        elif not has(node):
            out.append(without(item, node, element))
    if len(out) == len(value) and all(a is b for a, b in zip(out, value, strict=True)):
        return value
    return out or None
