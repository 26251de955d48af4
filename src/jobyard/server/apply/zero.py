"""What a kind looks like before anything is set, which is what its creation is compared with.

A real server holds Kubernetes' own kinds as structs: fields that are structs are there from the
beginning, and so are lists and plain values that must be given. Those count as changed when an
object is created, not as added, and are then not owned as a whole. OpenAPI tells both by
`default: {}` and `required`. Custom objects begin as nothing.
"""

from __future__ import annotations

from typing import Any, Final

from jobyard.server.apply.shape import Resolve, referred
from jobyard.server.resource import JSONSchema, Object

_ZERO: Final[dict[str, Any]] = {"string": "", "integer": 0, "number": 0, "boolean": False}
DEPTH_MAX: Final = 12


def zero_object(schema: JSONSchema, resolve: Resolve) -> Object:
    """An object of one of Kubernetes' own kinds before its creation."""
    return _zero(resolve(schema), resolve, 0)


def _zero(schema: JSONSchema, resolve: Resolve, depth: int) -> Object:
    out: Object = {}
    required = schema.get("required") or ()
    for name, member in (schema.get("properties") or {}).items():
        reference = referred(member)
        if reference is None:
            # Plain values that are always told have their zero as the default.
            if name in required or member.get("default") in ("", 0, False):
                out[name] = _ZERO.get(member.get("type", ""))
            continue
        kind = resolve(reference)
        if kind.get("type") == "object" and member.get("default") == {} and depth < DEPTH_MAX:
            out[name] = _zero(kind, resolve, depth + 1)
        elif kind.get("format") == "date-time":
            # Times are structs too; one that isn't set is told as null.
            out[name] = None
    return out
