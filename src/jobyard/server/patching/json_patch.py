"""RFC 6902, as a real server does it, which isn't quite what the RFC says.

`replace` of a field that isn't there adds it, indices may be negative, and copying a field that
isn't there gives null. Whatever doesn't apply is refused with one and the same answer, which
doesn't tell what.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import msgspec

from jobyard.numerals import signed_number
from jobyard.server.problem import Cause, Details, ProblemError, invalid
from jobyard.server.resource import Object

# What Go's decoder says about a list where it wants to find out the kind of an object.
_NO_OBJECT: Final = (
    "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of"
    ' type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string'
    ' "json:\\"kind,omitempty\\"" }'
)
# What all copies of one patch may come to, as JSON: the real server's JSONPatchMaxCopyBytes.
COPIED_BYTES_MAX: Final = 3 * 1024 * 1024
# Go's encoder has six bytes for each of these.
_ESCAPED: Final = re.compile("[<>&\u2028\u2029]")


class _MismatchError(Exception):
    """An operation that doesn't apply."""


class _Draft:
    """The object while operations change it: containers are copied when first written to."""

    def __init__(self, root: Any) -> None:
        self.root = root
        # By identity, and kept, so that an identity isn't given to another object meanwhile.
        self._own: dict[int, Any] = {}
        self._copied_bytes = 0

    def copied(self, value: Any) -> None:
        """A value is in two places from now on; what all copies hold has a limit."""
        self._copied_bytes += _json_bytes(value)
        if self._copied_bytes > COPIED_BYTES_MAX:
            raise _MismatchError
        self.disown()

    def disown(self) -> None:
        """From now on a value may be in two places; neither may be written to any more."""
        self._own.clear()

    def owned(self, container: Any) -> Any:
        if id(container) in self._own:
            return container
        copy = container.copy()
        self._own[id(copy)] = copy
        return copy

    def parent(self, path: str, is_written: bool) -> tuple[Any, str]:
        """The container that a path ends in, and the last step."""
        steps = [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")]
        if len(steps) < 2:
            raise _MismatchError
        at = self.root
        if is_written:
            at = self.root = self.owned(at)
        # What comes before the first slash doesn't count.
        for step in steps[1:-1]:
            key = _key(at, step)
            below = at.get(key) if isinstance(at, dict) else at[key]
            if not isinstance(below, dict | list):
                raise _MismatchError
            if is_written:
                own = self.owned(below)
                if own is not below:
                    at[key] = below = own
            at = below
        return at, steps[-1]


def _index(step: str, length: int) -> int:
    """A step as a place in a list that has this length."""
    index = signed_number(step)
    if index is None or not -length <= index < length:
        raise _MismatchError
    return index % length


def _key(container: Any, step: str) -> Any:
    return step if isinstance(container, dict) else _index(step, len(container))


def _got(container: Any, step: str) -> Any:
    """The value at a step; a field that isn't there is null."""
    if isinstance(container, dict):
        return container.get(step)
    return container[_index(step, len(container))]


def _added(container: Any, step: str, value: Any) -> None:
    if isinstance(container, dict):
        container[step] = value
    elif step == "-":
        container.append(value)
    else:
        container.insert(_index(step, len(container) + 1), value)


def _removed(container: Any, step: str) -> None:
    if isinstance(container, dict):
        if step not in container:
            raise _MismatchError
        del container[step]
    else:
        del container[_index(step, len(container))]


def _equal(one: Any, other: Any) -> bool:
    """Equality as texts: 1 and 1.0 differ, as do 1 and true."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return type(one) is type(other) and bool(one == other)


def _json_bytes(value: Any) -> int:
    """How long a value is as the real server would write it; what isn't there has no length."""
    if value is None:
        return 0
    text = msgspec.json.encode(value).decode()
    more = sum(6 - len(each[0].encode()) for each in _ESCAPED.finditer(text))
    return len(text.encode()) + more


def _text(operation: dict[str, Any], name: str) -> str:
    text = operation.get(name)
    if not isinstance(text, str):
        raise _MismatchError
    return text


def _perform(draft: _Draft, operation: dict[str, Any]) -> None:
    kind = operation.get("op")
    path = _text(operation, "path")
    value = operation.get("value")
    match kind:
        case "add":
            container, step = draft.parent(path, is_written=True)
            _added(container, step, value)
        case "remove":
            container, step = draft.parent(path, is_written=True)
            _removed(container, step)
        case "replace":
            _replace(draft, path, value)
        case "move" | "copy":
            _carry(draft, _text(operation, "from"), path, is_moved=kind == "move")
        case "test":
            found = draft.root
            if path:
                container, step = draft.parent(path, is_written=False)
                found = _got(container, step)
            if not _equal(found, value):
                raise _MismatchError
        case _:
            raise _MismatchError


def _replace(draft: _Draft, path: str, value: Any) -> None:
    if not path:
        if not isinstance(value, dict | list):
            raise _MismatchError
        draft.root = value
        return
    container, step = draft.parent(path, is_written=True)
    container[_key(container, step)] = value


def _carry(draft: _Draft, origin: str, path: str, is_moved: bool) -> None:
    container, step = draft.parent(origin, is_written=is_moved)
    value = _got(container, step)
    if is_moved:
        _removed(container, step)
    else:
        draft.copied(value)
    container, step = draft.parent(path, is_written=True)
    _added(container, step, value)


def json_patched(old: Object, operations: list[dict[str, Any] | None]) -> Object:
    """The object that the operations make of `old`; raises ProblemError."""
    draft = _Draft(old)
    try:
        for operation in operations:
            _perform(draft, operation or {})
    except _MismatchError:
        text = "the server rejected our request due to an error in our request"
        raise ProblemError(422, "Invalid", text, Details()) from None
    if not isinstance(draft.root, dict):
        shown = json.dumps(msgspec.json.encode(draft.root).decode(), ensure_ascii=False)
        cause = Cause("FieldValueInvalid", f"Invalid value: {shown}: {_NO_OBJECT}", "patch")
        raise invalid("", "", "", [cause])
    return draft.root
