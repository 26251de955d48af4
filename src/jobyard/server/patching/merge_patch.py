"""RFC 7386, as a real server does it: null removes, objects merge, all else replaces.

Nulls inside of what is new are dropped, also those of objects in lists, but a list that takes
the place of an object is taken as it is.
"""

from __future__ import annotations

from typing import Any

from jobyard.server.resource import Object


def merge_patched(old: Object, patch: dict[str, Any]) -> Object:
    """The object that the patch makes of `old`."""
    out = old
    for name, value in patch.items():
        if value is None:
            if name in out:
                out = dict(old) if out is old else out
                del out[name]
            continue
        before = old.get(name)
        if not isinstance(before, dict):
            after = without_nulls(value)
        elif isinstance(value, dict):
            after = merge_patched(before, value)
        else:
            after = value
        if after is not before:
            out = dict(old) if out is old else out
            out[name] = after
    return out


def without_nulls(value: Any) -> Any:
    """A patch asks for what is new; a null in it asks for nothing."""
    if isinstance(value, dict):
        return {name: without_nulls(child) for name, child in value.items() if child is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value
