"""What must hold of the figures that the scale of a custom resource reads.

Checked with every write of such an object, whatever its schema says about them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from jobyard.server.problem import Cause
from jobyard.server.resource import Object, Scale

_WORDS: Final = {
    str: "string",
    bool: "bool",
    float: "float64",
    int: "int64",
    list: "[]interface {}",
}
_MAP: Final = "map[string]interface{}"


def scale_faults(value: Object, scale: Scale | None) -> Iterator[Cause]:
    if scale is None:
        return
    for path in (scale.spec_replicas_path, scale.status_replicas_path):
        text = _fault(value, path)
        if text:
            yield Cause("FieldValueInvalid", f"Invalid value: {text}", path)


def _fault(value: Object, path: str) -> str:
    found: Any = value
    for step in (step for step in path.split(".") if step):
        if not isinstance(found, dict):
            return f"0: {_wrong(path, found, _MAP)}"
        if step not in found:
            return ""
        found = found[step]
    if not isinstance(found, int) or isinstance(found, bool):
        return f"0: {_wrong(path, found, 'int64')}"
    return f"{found}: should be a non-negative integer" if found < 0 else ""


def _wrong(path: str, found: Any, wanted: str) -> str:
    word = _WORDS.get(type(found), _MAP)
    return f"{path} accessor error: {found} is of the type {word}, expected {wanted}"
