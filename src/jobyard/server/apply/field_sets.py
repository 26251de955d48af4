"""Sets of fields, in the very form in which `fieldsV1` has them.

A set is a tree of dicts whose keys are steps of paths. A leaf `{}` is a member, and so is an
inner node with the key `.`. Nothing here changes a set: results share what didn't change, and
where nothing changed the result is the set that was given. Knows no schema and no values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from jobyard.server.apply.elements import canonical

FieldSet = dict[str, Any]
Order = Callable[[Iterable[str]], list[str]]

SELF = "."


def of_paths(*paths: tuple[str, ...]) -> FieldSet:
    """The set of these fields, each by the names that lead to it."""
    out: FieldSet = {}
    for path in paths:
        node: FieldSet = {}
        for name in reversed(path):
            node = {f"f:{name}": node}
        out = union(out, node)
    return out


def has(node: FieldSet | None) -> bool:
    """Whether the node of a tree is a member itself."""
    return node is not None and (not node or SELF in node)


def inner(node: FieldSet) -> FieldSet:
    """What is below a node, as a set of its own."""
    if SELF not in node:
        return node
    return {key: child for key, child in node.items() if key != SELF}


def noded(member: bool, below: FieldSet) -> FieldSet | None:
    """A node from its two halves; None when there is nothing to keep."""
    if not below:
        return {} if member else None
    return {SELF: {}, **below} if member else below


def union(one: FieldSet, other: FieldSet) -> FieldSet:
    """What is in either."""
    if not other or one is other:
        return one
    if not one:
        return other
    out = one
    for key, theirs in other.items():
        if key == SELF:
            continue
        ours = out.get(key)
        joined = theirs if ours is None else _joined(ours, theirs)
        if joined is not ours:
            if out is one:
                out = dict(one)
            out[key] = joined
    return out


def _joined(one: FieldSet, other: FieldSet) -> FieldSet:
    if one is other:
        return one
    mine = inner(one)
    below = union(mine, inner(other))
    member = has(one) or has(other)
    if below is mine and member == has(one):
        return one
    return noded(member, below) or {}


def difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """What is in the one and not in the other; a field that goes doesn't take those below it."""
    if not other:
        return one
    out = one
    few, many = (other, one) if len(other) < len(one) else (one, other)
    for key in few:
        if key == SELF or key not in many:
            continue
        ours = one[key]
        left = _lessened(ours, other[key])
        if left is not ours:
            out = _put(dict(one) if out is one else out, key, left)
    return out


def _put(out: FieldSet, key: str, left: FieldSet | None) -> FieldSet:
    if left is None:
        del out[key]
    else:
        out[key] = left
    return out


def _lessened(one: FieldSet, other: FieldSet) -> FieldSet | None:
    member = has(one)
    stays = member and not has(other)
    mine = inner(one)
    below = difference(mine, inner(other))
    if stays == member and below is mine:
        return one
    return noded(stays, below)


def without_branches(one: FieldSet, other: FieldSet) -> FieldSet:
    """What is in the one and neither in the other nor below a member of the other."""
    out = one
    for key, theirs in other.items():
        if key not in one or key == SELF:
            continue
        if has(theirs):
            left = None
        else:
            mine = inner(one[key])
            below = without_branches(mine, theirs)
            left = one[key] if below is mine else noded(has(one[key]), below)
        if left is not one[key]:
            out = _put(dict(one) if out is one else out, key, left)
    return out


def intersection(one: FieldSet, other: FieldSet) -> FieldSet:
    """What is in both."""
    out: FieldSet = {}
    for key, ours in one.items():
        theirs = other.get(key)
        if theirs is None or key == SELF:
            continue
        shared = noded(has(ours) and has(theirs), intersection(inner(ours), inner(theirs)))
        if shared is not None:
            out[key] = shared
    return out


def sorted_set(one: FieldSet, order: Order) -> FieldSet:
    """The same set with its keys in order; the mark of a node itself comes first."""
    if not one:
        return one
    keys = order(key for key in one if key != SELF)
    if SELF in one:
        keys.insert(0, SELF)
    children = [sorted_set(one[key], order) if one[key] else one[key] for key in keys]
    if list(one) == keys and all(
        child is one[key] for key, child in zip(keys, children, strict=True)
    ):
        return one
    return dict(zip(keys, children, strict=True))


def paths(one: FieldSet, order: Order, at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of all members: at each level the members first, then what is below them."""
    keys = order(key for key in one if key != SELF)
    for key in keys:
        if has(one[key]):
            yield (*at, key)
    for key in keys:
        yield from paths(one[key], order, (*at, key))


def contains(one: FieldSet, path: tuple[str, ...]) -> bool:
    node: FieldSet | None = one
    for key in path:
        if not node:
            return False
        node = node.get(key)
    return has(node)


def read(raw: Any) -> FieldSet:
    """A set as a client wrote it, in canonical form. Raises ElementError.

    What a newer server may know and we don't is left out, as a real server does.
    """
    out: FieldSet = {}
    if not isinstance(raw, dict):
        return out
    for key, child in raw.items():
        if key == SELF:
            out[SELF] = {}
            continue
        text = canonical(key)
        if text is None:
            continue
        node = read(child)
        if set(node) == {SELF}:
            node = {}
        out[text] = _joined(out[text], node) if text in out else node
    return out
