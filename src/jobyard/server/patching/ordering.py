"""Items of lists in strategic merge patches: which are the same, and in which order they end up.

Items of the patch keep its order, the others keep theirs, and the two are interleaved by where
they were in the live list. Items are maps with a merge key, or plain values; never lists.
"""

from __future__ import annotations

from typing import Any

from jobyard.server.apply.go_text import printed, type_name
from jobyard.server.patching.strategic_faults import (
    list_of_lists,
    no_merge_key,
    plain_fault,
    wrong_type,
)

Items = list[Any]


def same_plain(one: Any, other: Any) -> bool:
    """Equality of plain values with their types, as Go has it."""
    return type(one) is type(other) and bool(one == other)


def matching(items: Items, value: Any) -> bool:
    return any(same_plain(item, value) for item in items)


def items_type(*lists: Items) -> str:
    """The one type of all the items; raises ProblemError."""
    names = [type_name(item) for items in lists for item in items]
    if not names:
        raise plain_fault("no elements in any of the given slices")
    if names[0] == "[]interface {}":
        raise list_of_lists()
    if len(set(names)) > 1:
        told = " ".join(printed(items) for items in lists)
        raise plain_fault(f"list element types are not identical: [{told}]")
    return names[0]


def declared_key(item: Any, by: str) -> Any:
    """The value of an item's merge key; raises ProblemError."""
    if not isinstance(item, dict):
        raise wrong_type("map[string]interface {}", type_name(item))
    if by not in item:
        raise no_merge_key(item, by)
    return item[by]


def position(items: Items, item: Any, by: str) -> int:
    """Where an item is in a list, -1 if it isn't."""
    value = item.get(by) if by else item
    for index, each in enumerate(items):
        other = each.get(by) if by and isinstance(each, dict) else each
        if same_plain(other, value):
            return index
    return -1


def partitioned(merged: Items, names: Items, by: str) -> tuple[Items, Items]:
    """The items that a list names, by key or as such, and the others."""
    mine: Items = []
    others: Items = []
    for item in merged:
        if by:
            declared_key(item, by)
        (mine if position(names, item, by) >= 0 else others).append(item)
    return mine, others


def interleaved(mine: Items, others: Items, order: Items, live: Items, by: str) -> Items:
    """The items of the patch in its order and the others in theirs, as one list."""
    mine = sorted(mine, key=lambda item: position(order, item, by))
    others = sorted(others, key=lambda item: position(live, item, by))
    out: Items = []
    at = 0
    for item in others:
        place = position(live, item, by)
        while at < len(mine):
            other = position(live, mine[at], by)
            if 0 <= place < other:
                break
            out.append(mine[at])
            at += 1
        out.append(item)
    return out + mine[at:]


def remembered(live: Items, patch: Items, by: str) -> Items:
    """The live order as a real server remembers it when the patch also sets an order.

    It deletes and appends in place, in the very list that it then sorts by: what is appended
    after a deletion counts as having been at the end. kubectl's patches depend on it.
    """
    memory = list(live)
    size = len(memory)
    for item in patch:
        while item.get("$patch") == "delete" and position(memory[:size], item, by) >= 0:
            at = position(memory[:size], item, by)
            memory[at : size - 1] = memory[at + 1 : size]
            size -= 1
    if any(item.get("$patch") == "replace" for item in patch):
        return memory
    for item in patch:
        is_new = "$patch" not in item and position(memory[:size], item, by) < 0
        if is_new and size < len(memory):
            memory[size] = item
            size += 1
    return memory


def check_order(patch: Items, order: Items, by: str) -> None:
    """The order that is set must name the items of the patch, in their order."""
    if not patch or not order:
        return
    kept = patch
    if by:
        kept = [item for item in patch if "$patch" not in item or item["$patch"] != "delete"]
    todo = [item for item in kept if not (isinstance(item, dict) and "$patch" in item)]
    for named in order:
        if not todo:
            return
        value = declared_key(named, by) if by else named
        if same_plain(declared_key(todo[0], by) if by else todo[0], value):
            todo.pop(0)
    if todo:
        raise plain_fault(
            f"The order in patch list:\n{printed(patch)}\n doesn't match"
            f" $setElementOrder list:\n{printed(order)}\n"
        )
