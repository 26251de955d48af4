"""What is said of a value of another type than its field takes, before anything else is looked at.

A real server answers with the same code and reason, and in the words of Go's decoder, which names
types of Go. Ours name the field as it stands in the manifest.
"""

from __future__ import annotations

from typing import Any

from jobyard.schema.wording import noun, shown

_TYPES = {list: "array", dict: "object", str: "string", bool: "boolean"}


def misfit(where: str, found: Any, wanted: str, why: str = "") -> str:
    """`wanted` is a JSON type; `why` a narrower bound that the value doesn't keep."""
    kind = _TYPES.get(type(found), "number")
    is_plain = not isinstance(found, list | dict)
    value = f"{shown(found)}, {noun(kind)}" if is_plain else noun(kind)
    return f"json: {where or 'the body'} is {value}; must be {why or noun(wanted)}"
