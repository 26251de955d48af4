"""What differs between two values: which fields came, went, and changed.

The heart of tracking: it walks only where the two aren't the same object, so a status written
into a big object costs what the status costs. Where a list has two items with the same keys,
those items count as one field. Decides nothing about who owns what.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from msgspec.json import encode

from jobyard.server.apply.elements import ElementError, field, keyed, valued
from jobyard.server.apply.field_sets import SELF, FieldSet, union
from jobyard.server.apply.shape import Shape, Sort

MISSING: Final = object()


class Difference(NamedTuple):
    """Three sets of fields; each may be empty."""

    added: FieldSet
    changed: FieldSet
    removed: FieldSet


# The same for a node of a tree, which is None where there is nothing.
_Part = tuple[FieldSet | None, FieldSet | None, FieldSet | None]
_CHANGED: Final[_Part] = (None, {}, None)


def compared(old: Any, new: Any, shape: Shape) -> Difference:
    """What differs between two objects of one shape. Raises ElementError."""
    part = _compared(old, new, shape)
    return Difference(*(({} if node is None else node) for node in part or (None, None, None)))


def same(one: Any, other: Any) -> bool:
    """Equality of JSON values; Python alone takes true for 1."""
    if one is other:
        return True
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and len(one) == len(other)
            and all(key in other and same(value, other[key]) for key, value in one.items())
        )
    if isinstance(one, list):
        return (
            isinstance(other, list)
            and len(one) == len(other)
            and all(same(a, b) for a, b in zip(one, other, strict=True))
        )
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def item_step(item: Any, shape: Shape) -> str:
    """The step to an item of a list that merges. Raises ElementError."""
    if not shape.keys:
        if isinstance(item, dict):
            raise ElementError("associative list without keys has an element that's a map type")
        if isinstance(item, list):
            raise ElementError("not supported: associative list with lists as elements")
        if item is None:
            raise ElementError(
                "associative list without keys has an element that's an explicit null"
            )
        return valued(item)
    if not isinstance(item, dict):
        what = "a null element" if item is None else "non-map elements"
        raise ElementError(f"associative list with keys may not have {what}")
    keys = {}
    for name in shape.keys:
        value = item.get(name, MISSING)
        if value is MISSING:
            value = shape.element().default(name)
            if value is None:
                continue
        keys[name] = value
    if not keys:
        named = " ".join(f'"{name}"' for name in shape.keys)
        raise ElementError(
            f"associative list with keys has an element that omits all key fields [{named}]"
            " (and doesn't have default values for any key fields)"
        )
    return keyed(keys)


def by_step(items: list[Any], shape: Shape) -> dict[str, list[Any]]:
    """The items of a list by their steps, in their order. Raises ElementError."""
    out: dict[str, list[Any]] = {}
    for index, item in enumerate(items):
        try:
            step = item_step(item, shape)
        except ElementError as problem:
            raise ElementError(f"element {index}: {problem}") from None
        out.setdefault(step, []).append(item)
    return out


def everything(value: Any, shape: Shape) -> FieldSet:
    """The node of a value that came or went as a whole: it and all below it."""
    match shape.sort(value):
        case Sort.MAP:
            if shape.is_map_atomic or not value or not isinstance(value, dict):
                return {}
            out: FieldSet = {SELF: {}}
            for name, child in value.items():
                out[field(name)] = everything(child, shape.field(name))
            return out
        case Sort.LIST:
            if shape.is_list_atomic or not value or not isinstance(value, list):
                return {}
            element = shape.element()
            out = {SELF: {}}
            for step, items in by_step(value, shape).items():
                out[step] = everything(items[0], element) if len(items) == 1 else {}
            return out
    return {}


def _compared(old: Any, new: Any, shape: Shape) -> _Part | None:
    if old is new:
        return None
    before, after = shape.sort(old), shape.sort(new)
    part = _compared_as(after, old, new, shape)
    if before is after:
        return part
    # The field changed its type: what each type makes of it counts.
    other = _compared_as(before, old, new, shape)
    if part is None or other is None:
        return part or other
    return (_either(part[0], other[0]), _either(part[1], other[1]), _either(part[2], other[2]))


def _either(one: FieldSet | None, other: FieldSet | None) -> FieldSet | None:
    if one is None or other is None:
        return other if one is None else one
    return union({"": one}, {"": other})[""]  # type: ignore[no-any-return]


def _compared_as(sort: Sort, old: Any, new: Any, shape: Shape) -> _Part | None:
    match sort:
        case Sort.MAP:
            before = old if isinstance(old, dict) else {}
            after = new if isinstance(new, dict) else {}
            if not shape.is_map_atomic and (before or after):
                return _compared_maps(before, after, shape)
        case Sort.LIST:
            items_before = old if isinstance(old, list) else []
            items_after = new if isinstance(new, list) else []
            if not shape.is_list_atomic and (items_before or items_after):
                return _compared_lists(items_before, items_after, shape)
    return None if same(old, new) else _CHANGED


def _compared_maps(old: dict[str, Any], new: dict[str, Any], shape: Shape) -> _Part | None:
    added: FieldSet = {}
    changed: FieldSet = {}
    removed: FieldSet = {}
    for name, after in new.items():
        before = old.get(name, MISSING)
        if before is after:
            continue
        if before is MISSING:
            added[field(name)] = everything(after, shape.field(name))
        else:
            part = _compared(before, after, shape.field(name))
            if part is not None:
                _put(field(name), part, added, changed, removed)
    for name, before in old.items():
        if name not in new:
            removed[field(name)] = everything(before, shape.field(name))
    return _parted(added, changed, removed)


def _put(key: str, part: _Part, added: FieldSet, changed: FieldSet, removed: FieldSet) -> None:
    if part[0] is not None:
        added[key] = part[0]
    if part[1] is not None:
        changed[key] = part[1]
    if part[2] is not None:
        removed[key] = part[2]


def _parted(added: FieldSet, changed: FieldSet, removed: FieldSet) -> _Part | None:
    if not (added or changed or removed):
        return None
    return added or None, changed or None, removed or None


def _compared_lists(old: list[Any], new: list[Any], shape: Shape) -> _Part | None:
    added: FieldSet = {}
    changed: FieldSet = {}
    removed: FieldSet = {}
    # Faster than walking two long lists that a client sent back as they were.
    if encode(old) == encode(new):
        return None
    element = shape.element()
    before, after = by_step(old, shape), by_step(new, shape)
    for step in before | after:
        went, came = before.get(step, []), after.get(step, [])
        if len(went) == 1 and len(came) == 1:
            part = _compared(went[0], came[0], element)
            if part is not None:
                _put(step, part, added, changed, removed)
        elif len(went) >= 2 and len(came) >= 2:
            if not same(went, came):
                changed[step] = {}
        else:
            # One or more on one side: items that share a step are one field together.
            if came:
                added[step] = everything(came[0], element) if len(came) == 1 else {}
            if went:
                removed[step] = everything(went[0], element) if len(went) == 1 else {}
    return _parted(added, changed, removed)
