"""Small edits of a manifest, as values: a table can list them and a reader can see them.

A place is written as in messages, `spec.replicaSpecs[0].replicas`. An edit touches a
place whose parent is there: a typing mistake in a table must not make a new field.
"""

import copy
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Manifest = dict[str, Any]
Steps = tuple[str | int, ...]

_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


@dataclass(frozen=True, slots=True)
class Edit:
    """What is done to the mapping or list (first argument) that holds the place's last step."""

    place: str
    apply: Callable[[Any, Any], None]


def put(place: str, value: Any) -> Edit:
    """Sets a field, whether it was there or not."""

    def apply(parent: Any, last: Any) -> None:
        parent[last] = copy.deepcopy(value)

    return Edit(place, apply)


def append(place: str, value: Any) -> Edit:
    """Adds an item at the end of a list."""

    def apply(parent: Any, last: Any) -> None:
        parent[last].append(copy.deepcopy(value))

    return Edit(place, apply)


def drop(place: str) -> Edit:
    """Takes out a field, or an item of a list."""

    def apply(parent: Any, last: Any) -> None:
        del parent[last]

    return Edit(place, apply)


def flip(place: str) -> Edit:
    """Turns true to false and false, or an absent field, to true."""

    def apply(parent: Any, last: Any) -> None:
        parent[last] = not parent.get(last, False)

    return Edit(place, apply)


def turn_around(place: str) -> Edit:
    """Puts the items of a list in the opposite order."""

    def apply(parent: Any, last: Any) -> None:
        parent[last].reverse()

    return Edit(place, apply)


def edited(manifest: Manifest, *edits: Edit) -> Manifest:
    """A changed copy; the manifest itself stays as it is."""
    out = copy.deepcopy(manifest)
    for edit in edits:
        *path, last = steps(edit.place)
        parent: Any = out
        for step in path:
            parent = parent[step]
        edit.apply(parent, last)
    return out


def steps(place: str) -> Steps:
    """`spec.roles[0]` as ("spec", "roles", 0)."""
    return tuple(
        int(match[1]) if match[1] is not None else match[2] for match in _STEP.finditer(place)
    )
