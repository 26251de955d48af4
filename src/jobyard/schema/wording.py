"""How a fault in a value is put into words: what was found, what would be right."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from typing import Any

from jobyard.schema.finding import enumerated
from jobyard.schema.node import Node

_SHOWN_LENGTH_MAX = 60
_NOUNS = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "object": "a mapping",
    "string": "a string",
    "null": "null",
}


def shown(value: Any) -> str:
    """A value as it would stand in a manifest, cut short."""
    text = json.dumps(value, ensure_ascii=False)
    if len(text) <= _SHOWN_LENGTH_MAX:
        return text
    return text[: _SHOWN_LENGTH_MAX - 1] + "…"


def wrong_type(value: Any, found: str, node: Node) -> str:
    if node.is_quantity:
        return f"is {shown(value)}; a quantity is a whole number or a string{_as_quantity(value)}"
    wanted = enumerated(_NOUNS[kind] for kind in node.types)
    if node.types == ("string",) and found in ("integer", "number", "boolean"):
        return f'is {shown(value)}, {noun(found)}; must be a string: write "{shown(value)}"'
    if node.types == ("array",) and found == "string":
        return f"is the string {shown(value)}; must be a list: write [{shown(value)}]"
    if node.types == ("integer",) and found == "number":
        return f"is {shown(value)}; must be {_narrower(value, node) or wanted}"
    return f"is {noun(found)}; must be {wanted}"


def _narrower(value: float, node: Node) -> str:
    """What a number must be that is whole, but too big to be taken for a whole one."""
    if value % 1:
        return ""
    if value < 0 and node.minimum is not None and not node.is_minimum_exclusive:
        return f"at least {node.minimum:.0f}"
    if value > 0 and node.maximum is not None and not node.is_maximum_exclusive:
        return f"at most {node.maximum:.0f}"
    bits = node.format.removeprefix("int") or "64"
    return f"a whole number of at most {bits} bits" if isinstance(value, int) else ""


def noun(kind: str) -> str:
    """A JSON type in words."""
    return "a truth value" if kind == "boolean" else _NOUNS[kind]


def type_noun(value: Any) -> str:
    """The type of a value of the right shape, as CEL's messages name it."""
    match value:
        case bool():
            return "boolean"
        case int() | float():
            return "integer"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _as_quantity(value: Any) -> str:
    if not isinstance(value, float):
        return ""
    thousandths = value * 1000
    return f': write "{thousandths:.0f}m"' if thousandths.is_integer() else f': write "{value}"'


def advised(words: Iterable[Any]) -> list[Any]:
    """Those that somebody is told to write.

    An empty text only means absent, and of two spellings of a word the first is the right one.
    """
    found: dict[str, Any] = {}
    for word in words:
        found.setdefault(str(word).lower(), word)
    return [word for word in found.values() if word != ""]


def not_listed(value: Any, allowed: tuple[Any, ...]) -> str:
    words = advised(allowed)
    return f"is {shown(value)}; must be {enumerated(words)}{suggestion(str(value), words)}"


def suggestion(word: str, known: Iterable[str]) -> str:
    """` (did you mean X?)`, where X is near enough."""
    by_case = {str(name).lower(): str(name) for name in known}
    near = difflib.get_close_matches(word.lower(), by_case, n=1, cutoff=0.7)
    return f" (did you mean {by_case[near[0]]}?)" if near else ""


def mismatch(value: str, node: Node) -> str:
    if node.is_quantity:
        return f"is {shown(value)}; must be a quantity such as 500m, 2 or 4Gi"
    hint = _PATTERN_HINTS.get(node.pattern.pattern, f"must match {node.pattern.pattern}")
    return f"is {shown(value)}; {hint}"


# Plain words for the patterns that our types use.
_PATTERN_HINTS = {
    "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$": (
        "must hold only lower-case letters, digits and '-', and neither begin nor end with '-'"
    ),
    "^/": "must be an absolute path, beginning with /",
    "^(/|$)": "must be an absolute path, beginning with /",
    "^([0-9]{0,4}|gpu|cpu|auto)$": "must be a number such as 4, or gpu, cpu or auto",
    "^[0-9]{1,4}$": "must be a number of at most four digits",
    "^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$": (
        "must hold only lower-case letters, digits and '-', and neither begin nor end with '-'"
    ),
    "^t9k://(pvc|minio)/[a-z0-9]([-a-z0-9.]*[a-z0-9])?(/.*)?$": "must be t9k://pvc/<claim>/<path>",
    "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$": (
        "must hold only lower-case letters, digits, '-' and '.', and begin and end with one of the"
        " first two"
    ),
    "^(running|paused)?$": "must be running or paused",
    "^[0-9]{1,3}([.][0-9]{1,3}){1,2}$": 'must be a version such as "1.19" or "3.5.1"',
    "^(0|([0-9]+y)?([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?)$": (
        "must be a duration such as 3w or 2h45m, the larger units first"
    ),
}


def missing(node: Node | None) -> str:
    meant = f": {node.description}" if node is not None and node.description else ""
    return f"is missing, and required{meant}"


def out_of_size(size: int, least: int | None, most: int | None, unit: str) -> str:
    if least is not None and size < least:
        return f"has {size} {unit}; must have at least {least}"
    return f"has {size} {unit}; must have at most {most}"
