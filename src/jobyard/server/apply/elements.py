"""One step of a path into an object, as the text that `fieldsV1` has for it.

`f:name` is a field, `k:{...}` an item of a list by its keys, `v:...` an item of a set by its
value, `i:0` an item by its index. The texts are canonical, so two steps are equal when their
texts are. Knows no schema and no sets.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from jobyard.server.kinds.types.go_numbers import parsed_int

# JSON's string escapes as Go's encoder writes them where they differ from Python's.
_GO_ESCAPES = str.maketrans(
    {
        "<": "\\u003c",
        ">": "\\u003e",
        "&": "\\u0026",
        "\u2028": "\\u2028",
        "\u2029": "\\u2029",
    }
)


class ElementError(Exception):
    """A text that names no step of a path, or a value that can't be one."""


# Texts that need no escapes at all, which is nearly all.
_PLAIN = re.compile(r"[ !#-%'-;=?-\[\]-~]*")
# Steps come again and again; reading one costs more than all else about it.
STEPS_KEPT_MAX = 8192


def _scalar_text(value: Any) -> str:
    if isinstance(value, str):
        if _PLAIN.fullmatch(value):
            return f'"{value}"'
        text = json.dumps(value, ensure_ascii=False).translate(_GO_ESCAPES)
        if "\\b" in text or "\\f" in text:
            text = text.replace("\\b", "\\u0008").replace("\\f", "\\u000c")
        return text
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(math.trunc(value))
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def field(name: str) -> str:
    return f"f:{name}"


def keyed(keys: Mapping[str, Any]) -> str:
    """The step to the item of a list with these keys."""
    names = sorted(keys) if len(keys) > 1 else keys
    inner = ",".join([f'"{name}":{_scalar_text(keys[name])}' for name in names])
    return f"k:{{{inner}}}"


def valued(value: Any) -> str:
    """The step to the item of a set with this value."""
    return f"v:{_scalar_text(value)}"


def canonical(text: str) -> str | None:
    """A step as somebody else wrote it, in our text; None for a sort of step not known yet."""
    if len(text) < 2:
        raise ElementError("key must be 2 characters long:")
    if text[1] != ":":
        raise ElementError(f"missing colon: {text}")
    sort, rest = text[0], text[2:]
    try:
        match sort:
            case "f":
                return text
            case "v":
                return valued(json.loads(rest))
            case "k":
                return keyed(dict(json.loads(rest)))
            case "i":
                return f"i:{parsed_int(rest)}"
    except (ValueError, TypeError) as problem:
        raise ElementError(str(problem)) from None
    return None


def _rank(value: Any) -> tuple[int, Any]:
    """Values of any type in one order: numbers, texts, booleans, the rest."""
    if isinstance(value, bool):
        return 2, value
    if isinstance(value, int | float):
        return 0, value
    if isinstance(value, str):
        return 1, value
    return 3, json.dumps(value, sort_keys=True)


@lru_cache(STEPS_KEPT_MAX)
def _order(text: str) -> tuple[Any, ...]:
    sort, rest = text[0], text[2:]
    match sort:
        case "k":
            return 1, [(name, _rank(value)) for name, value in sorted(json.loads(rest).items())]
        case "v":
            return 2, _rank(json.loads(rest))
        case "i":
            return 3, parsed_int(rest)
    return 0, rest


def in_order(texts: Iterable[str]) -> list[str]:
    """Steps as the server sorts them: fields, keys, values, indices, and by content in each."""
    ordered = sorted(texts)
    # Among fields alone, text order is the order; `f:` comes before the other sorts.
    if not ordered or ordered[-1][0] == "f":
        return ordered
    return sorted(ordered, key=_order)


def _quoted(text: str) -> str:
    """A text as Go's %q writes it."""
    out = json.dumps(text, ensure_ascii=False)
    return "".join(
        char if char.isprintable() else f"\\u{ord(char):04x}" if ord(char) > 0xFF else _byte(char)
        for char in out
    )


def _byte(char: str) -> str:
    return f"\\x{ord(char):02x}"


def _shown_value(value: Any) -> str:
    if isinstance(value, str):
        return _quoted(value)
    return _scalar_text(value)


def shown(text: str) -> str:
    """A step as messages show it: `.name`, `[name="a"]`, `[="x"]`, `[0]`."""
    sort, rest = text[0], text[2:]
    match sort:
        case "k":
            keys = json.loads(rest)
            return f"[{','.join(f'{k}={_shown_value(keys[k])}' for k in sorted(keys))}]"
        case "v":
            return f"[={_shown_value(json.loads(rest))}]"
        case "i":
            return f"[{rest}]"
    return f".{rest}"
