"""Values as CEL rules see them: Kubernetes changes some names, and makes times of some texts.

Most rules see a value as it is; only a rule that speaks of such a name or of times pays for
the translation.
"""

from __future__ import annotations

import datetime
from functools import cache
from typing import Any

import re2

from jobyard.schema.formats import duration_seconds
from jobyard.schema.node import EMPTY, Node

_RESERVED = frozenset(
    """
    true false null in as break const continue else for function if import let loop package
    namespace return var void while
    """.split()  # noqa: SIM905
)
_ESCAPES = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))
_TIMELY = re2.compile(r"timestamp\(|duration\(|\.get(FullYear|Month|Date|Day|Hours|Minutes|Sec)")


def as_seen(value: Any, node: Node, rule: str) -> Any:
    """The value under the names and with the types that the rule may use."""
    has_escapes, is_timely = needs(rule)
    if not has_escapes and not is_timely:
        return value
    return _translated(value, node, has_escapes, is_timely)


@cache
def needs(rule: str) -> tuple[bool, bool]:
    """Whether a rule speaks of names that are changed, and of times."""
    return "__" in rule, bool(_TIMELY.search(rule))


def _translated(value: Any, node: Node, has_escapes: bool, is_timely: bool) -> Any:
    if isinstance(value, dict):
        return {
            _name(name, node) if has_escapes else name: _translated(
                item, node.at(name), has_escapes, is_timely
            )
            for name, item in value.items()
        }
    if isinstance(value, list):
        items = node.items or EMPTY
        return [_translated(item, items, has_escapes, is_timely) for item in value]
    if is_timely and isinstance(value, str):
        return _moment(value, node.format)
    return value


def _name(name: str, node: Node) -> str:
    """Only names that the schema knows are escaped; keys of a map are taken as they are."""
    if name not in node.properties:
        return name
    if name in _RESERVED:
        return f"__{name}__"
    for text, escape in _ESCAPES:
        name = name.replace(text, escape)
    return name


def _moment(text: str, format_: str) -> Any:
    if format_ in ("date-time", "datetime"):
        return datetime.datetime.fromisoformat(text)
    if format_ == "date":
        return datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)
    if format_ == "duration":
        return datetime.timedelta(seconds=duration_seconds(text))
    return text
