"""Parts of objects as they come over the API, of which nobody vouches that they are as expected.

A CRD may be older or newer than this program, and some kinds belong to others: what is missing or
of another type is as if it weren't there.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

JSON = Mapping[str, Any]


class Holds(msgspec.Struct, frozen=True):
    """One condition of an object."""

    is_true: bool = False
    status: str = ""
    reason: str = ""
    message: str = ""
    since: str = ""


def part(obj: Any, *path: str) -> JSON:
    """The object at a path; an empty one if there is none."""
    for name in path:
        obj = obj.get(name) if isinstance(obj, Mapping) else None
    return obj if isinstance(obj, Mapping) else {}


def parts(obj: Any, *path: str) -> list[JSON]:
    """The objects of the list at a path."""
    found = part(obj, *path[:-1]).get(path[-1])
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def text(obj: Any, *path: str) -> str:
    """The text at a path; empty if there is none."""
    found = part(obj, *path[:-1]).get(path[-1])
    return found if isinstance(found, str) else ""


def count(obj: Any, *path: str) -> int | None:
    found = part(obj, *path[:-1]).get(path[-1])
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def is_set(obj: Any, *path: str) -> bool:
    return part(obj, *path[:-1]).get(path[-1]) is True


def conditions(obj: Any) -> dict[str, Holds]:
    """The conditions in an object's status, by type."""
    return {
        text(each, "type"): Holds(
            text(each, "status") == "True",
            text(each, "status"),
            text(each, "reason"),
            text(each, "message"),
            text(each, "lastTransitionTime"),
        )
        for each in parts(obj, "status", "conditions")
    }


def seconds(moment: str) -> float | None:
    """A moment as a number; None for what is none."""
    try:
        found = datetime.fromisoformat(moment)
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
