"""What Go's JSON decoder calls a value, as the messages of a real API server quote it."""

from __future__ import annotations

from typing import Any


def go_noun(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"
