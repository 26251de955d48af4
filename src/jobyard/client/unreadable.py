"""An object that can't be read: who it is, as far as that can be told, and why not.

Somebody else's object may be anything. Whoever follows many of them goes on without the one, and
reports it: in a log line and an event, once for each version of it.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from jobyard.client.deep_json import without_depth
from jobyard.client.resources import Resource

PROBLEM_LENGTH_MAX: Final = 300
_KEPT_MAX: Final = 10_000


class Unreadable(msgspec.Struct, frozen=True, kw_only=True):
    """One version of one object. What isn't known is empty."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    uid: str = ""
    version: str = ""
    problem: str = ""

    def __str__(self) -> str:
        who = f"{self.namespace}/{self.name}" if self.name else "an object without a name"
        return f"{self.resource.kind} {who} can't be read: {self.problem}"


def said(problem: Exception) -> str:
    """An exception in a line of bounded length."""
    text = f"{type(problem).__name__}: {problem}" if str(problem) else type(problem).__name__
    return text if len(text) <= PROBLEM_LENGTH_MAX else f"{text[:PROBLEM_LENGTH_MAX]}…"


def unreadable(resource: Resource, text: bytes, problem: Exception) -> Unreadable:
    """What can be told of an object that made `problem`; it raises nothing itself."""
    found: dict[str, Any] = {}
    try:
        value: Any = msgspec.json.decode(without_depth(text))
        metadata = value.get("metadata") or {}
        found = {
            "namespace": metadata.get("namespace"),
            "name": metadata.get("name"),
            "uid": metadata.get("uid"),
            "version": metadata.get("resourceVersion"),
        }
    except (msgspec.DecodeError, UnicodeDecodeError, AttributeError, RecursionError):
        # No JSON, or none that is an object: then nothing is known of it.
        pass
    known = {name: item for name, item in found.items() if isinstance(item, str)}
    return Unreadable(resource=resource, problem=said(problem), **known)


class Told:
    """Which versions of which objects have been reported."""

    def __init__(self) -> None:
        self._versions: dict[tuple[str, str, str], str] = {}

    def is_new(self, found: Unreadable) -> bool:
        """Whether this one wasn't reported yet; it counts as reported from now on."""
        key = (found.resource.path, found.namespace, found.name)
        mark = f"{found.uid}/{found.version}"
        if self._versions.get(key) == mark:
            return False
        self._versions.pop(key, None)
        if len(self._versions) >= _KEPT_MAX:
            # The oldest: what is forgotten may be told again, and nothing grows without end.
            del self._versions[next(iter(self._versions))]
        self._versions[key] = mark
        return True
