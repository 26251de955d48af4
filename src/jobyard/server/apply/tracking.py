"""The managed fields of an ordinary write: create, replace, and patches of every sort but apply.

Runs on every write. It compares the object with the one before, walking only where they differ,
and touches only the entries that lose or win something. A write never fails here: where managed
fields can't be kept they are dropped, as a real server does.
"""

from __future__ import annotations

from typing import Any

from jobyard.server.apply.comparing import Difference, compared
from jobyard.server.apply.elements import ElementError
from jobyard.server.apply.entries import (
    EntriesError,
    Entry,
    Owners,
    decoded,
    encoded,
)
from jobyard.server.apply.field_sets import FieldSet, has
from jobyard.server.apply.form import form_of
from jobyard.server.apply.ownership import (
    reconciled,
    reset_fields,
    updated,
    updater,
    visible,
)
from jobyard.server.apply.shape import Resolve, Shape
from jobyard.server.resource import Object, Part, ServedResource


def tracked(
    old: Object | None,
    new: Object,
    *,
    manager: str,
    time: str,
    part: Part,
    resource: ServedResource,
    resolve: Resolve,
) -> Object:
    """The new object with the managed fields that it has after this write.

    `new` is the object with its defaults; `old` the stored one, None when it is created. What
    the server fills in on its own (addresses, phases) is to be put in afterwards: it is nobody's.
    """
    form = form_of(resource, resolve)
    live = form.zero if old is None else old
    is_new = not (live.get("metadata") or {}).get("uid")
    owners = _owners(live, new, part, resource.is_custom)
    # An object that had its managed fields cleared stays without them until it is applied.
    if not owners and not is_new:
        return with_entries(new, [])
    try:
        found = differences(live, new, form.shape, reset_fields(resource, part))
    except ElementError:
        return with_entries(new, [])
    if resource.is_custom:
        owners = reconciled(owners, form.shape)
    version = resource.api_version
    owners = updated(owners, found, updater(manager, version, part), version, time)
    return with_entries(new, encoded(owners, resource.is_custom))


def _owners(live: Object, new: Object, part: Part, is_custom: bool) -> Owners:
    """The owners before the write: a client may send them, but only through the main door."""
    stored = (live.get("metadata") or {}).get("managedFields")
    sent = (new.get("metadata") or {}).get("managedFields")
    if part == Part.WHOLE and sent is not stored and isinstance(sent, list):
        # Both clear them; but the empty list of a custom object is lost when it is decoded.
        if sent == [{}] or (not sent and not is_custom):
            return {}
        if sent and sent != stored:
            try:
                return decoded(sent, is_canonical=False)
            except EntriesError:
                pass
    try:
        return decoded(stored, is_canonical=True)
    except EntriesError:
        return {}


def differences(live: Object, new: Object, shape: Shape, reset: FieldSet) -> Difference:
    """What differs between two objects, without managed fields and what the door can't change."""
    unseen = {key[2:] for key, node in reset.items() if has(node)}
    before, after = (
        {name: value for name, value in without_entries(obj).items() if name not in unseen}
        for obj in (live, new)
    )
    return visible(compared(before, after, shape), reset)


def without_entries(obj: Object) -> Object:
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return obj
    left = {name: value for name, value in metadata.items() if name != "managedFields"}
    return {**obj, "metadata": left}


def with_entries(obj: Object, entries: list[Entry]) -> Object:
    """The object with these managed fields, or without any."""
    metadata: dict[str, Any] = obj.get("metadata") or {}
    present = metadata.get("managedFields")
    if entries:
        if present == entries:
            return obj
        return {**obj, "metadata": {**metadata, "managedFields": entries}}
    return obj if "managedFields" not in metadata else without_entries(obj)
