"""Who owns which fields after a write: the rules of a real server's field management.

Whoever changes a field takes it from everybody else; a field that went leaves all sets. Some
fields are nobody's: identity, what the server keeps itself, and what a door can't change.
Called by `tracking` for ordinary writes and by `applying`; knows neither bodies nor answers.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from jobyard.server.apply.comparing import Difference
from jobyard.server.apply.entries import (
    UPDATE,
    Owned,
    Owner,
    Owners,
    capped,
    owner,
)
from jobyard.server.apply.field_sets import (
    SELF,
    FieldSet,
    difference,
    has,
    inner,
    intersection,
    of_paths,
    union,
    without_branches,
)
from jobyard.server.apply.shape import Shape
from jobyard.server.resource import Part, ServedResource

NEVER_OWNED: Final = of_paths(
    ("apiVersion",),
    ("kind",),
    ("metadata",),
    ("metadata", "name"),
    ("metadata", "namespace"),
    ("metadata", "creationTimestamp"),
    ("metadata", "selfLink"),
    ("metadata", "uid"),
    ("metadata", "clusterName"),
    ("metadata", "generation"),
    ("metadata", "managedFields"),
    ("metadata", "resourceVersion"),
)


@cache
def _reset(group: str, plural: str, is_custom: bool, part: str, has_status: bool) -> FieldSet:
    if part != Part.STATUS:
        return of_paths(("status",)) if has_status else {}
    if is_custom:
        return of_paths(("metadata",), ("spec",))
    if (group, plural) == ("", "pods"):
        return of_paths(
            ("spec",), ("metadata", "deletionTimestamp"), ("metadata", "ownerReferences")
        )
    return of_paths(("spec",))


def reset_fields(resource: ServedResource, part: Part) -> FieldSet:
    """The fields that a door can't change, and so gives to nobody."""
    has_status = resource.subresource("status") is not None
    return _reset(resource.group, resource.plural, resource.is_custom, str(part), has_status)


def visible(difference_: Difference, reset: FieldSet) -> Difference:
    """The difference without what the door can't change."""
    if not reset:
        return difference_
    return Difference(*(without_branches(fields, reset) for fields in difference_))


def changed_fields(found: Difference) -> FieldSet:
    """What came or has another value: what a writer takes."""
    return union(found.changed, found.added)


def taken(owners: Owners, found: Difference, but: Owner | None = None) -> Owners:
    """The owners after somebody else's write: less what it set and less what went."""
    out: Owners = {}
    if not owners:
        return out
    lost = union(changed_fields(found), found.removed)
    for who, owned in owners.items():
        left = owned if who == but else owned.having(difference(owned.fields, lost))
        if left.fields:
            out[who] = left
    return out


def conflicting(owners: Owners, found: Difference, but: Owner) -> dict[Owner, FieldSet]:
    """The fields of others that a write would change, by owner."""
    wanted = changed_fields(found)
    out = {}
    for who, owned in owners.items():
        if who != but:
            fields = intersection(owned.fields, wanted)
            if fields:
                out[who] = fields
    return out


def updated(
    owners: Owners, found: Difference, writer: Owner, api_version: str, time: str
) -> Owners:
    """The owners after an ordinary write. A write that only removes leaves no time."""
    out = taken(owners, found)
    fields = difference(changed_fields(found), NEVER_OWNED)
    if not fields:
        return capped(out)
    before = out.get(writer)
    if before is not None:
        fields = union(fields, before.fields)
    out[writer] = Owned(fields, api_version, time)
    return capped(out)


def updater(manager: str, api_version: str, part: Part) -> Owner:
    return owner(manager, UPDATE, api_version, str(part))


def reconciled(owners: Owners, shape: Shape) -> Owners:
    """The owners after the schema made single values of what used to merge field by field."""
    return {who: owned.having(_reconciled(owned.fields, shape)) for who, owned in owners.items()}


def _reconciled(fields: FieldSet, shape: Shape) -> FieldSet:
    out = fields
    for key, node in fields.items():
        if key == SELF or not node:
            continue
        if key[0] == "f" and shape.is_map and (shape.declares(key[2:]) or not shape.is_closed):
            below = shape.field(key[2:])
        elif key[0] != "f" and not shape.is_map and shape.is_list:
            below = shape.element()
        else:
            continue
        left = _reconciled_node(node, below)
        if left is not node:
            out = dict(fields) if out is fields else out
            out[key] = left
    return out


def _reconciled_node(node: FieldSet, shape: Shape) -> FieldSet:
    if shape.is_deduced or (not shape.is_map and not shape.is_list):
        return node
    if shape.is_map_atomic if shape.is_map else shape.is_list_atomic:
        return {}
    mine = inner(node)
    below = _reconciled(mine, shape)
    if below is mine:
        return node
    return {SELF: {}, **below} if has(node) else below
