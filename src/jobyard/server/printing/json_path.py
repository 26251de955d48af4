"""JSONPath in the dialect of Kubernetes, as printer columns and scale paths of CRDs use it.

Read once, walked often: fields with `\\.` escapes, `['quoted']` fields, indexes, slices, unions,
wildcards, `..` and filters such as `[?(@.type=="Ready")]`. Where a path can't be walked (an index
out of bounds, a filter on something that is no list) it raises; what a caller shows then is its
own business. Templates with text and `range` are refused: no column has them.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

import msgspec

from jobyard.numerals import decimal_number, signed_number

Values = list[Any]


class PathError(ValueError):
    """A path that can't be read, or can't be walked on this object."""


class Field(msgspec.Struct, frozen=True):
    """The value of one key of an object."""

    name: str


class Every(msgspec.Struct, frozen=True):
    """`.*`: all values of an object, or of a list."""


class Descent(msgspec.Struct, frozen=True):
    """`..`: the value itself and every object and list inside it."""


class Slice(msgspec.Struct, frozen=True):
    """Some elements of a list; `end` is None up to the last one."""

    start: int = 0
    end: int | None = None
    step: int = 1
    # One index: outside of the list it is a fault, and from the end 0 means the last.
    single: bool = False


class Union(msgspec.Struct, frozen=True):
    """What several paths find, one after another."""

    paths: tuple[tuple[Step, ...], ...]


class Literal(msgspec.Struct, frozen=True):
    """A value that is written in the path itself."""

    value: str | int | float | bool


class Filter(msgspec.Struct, frozen=True):
    """The elements of a list for which a comparison holds; without an operator, that have it."""

    left: tuple[Step, ...]
    comparison: str = ""
    right: tuple[Step, ...] = ()


Step = Field | Every | Descent | Slice | Union | Literal | Filter

_FIELD: Final = re.compile(r"(?:\\.|[^\s.,\[\]$@{}\\])*")
_SLICE: Final = re.compile(r"(-?[0-9]*)(?::(-?[0-9]*))?(?::(-?[0-9]*))?")
_COMPARISON: Final = re.compile(r"([^!<>=]+)([!<>=]+)(.+)", re.DOTALL)
_NUMBER: Final = re.compile(r"[+-]?[0-9.]+")
_QUOTED: Final = re.compile(r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'""")
_BRACKET: Final = re.compile(r"\[([^\]\n]*)\]")

_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@lru_cache(maxsize=1024)
def compiled(path: str) -> tuple[Step, ...]:
    """The steps of a path such as `.status.conditions[?(@.type=="Ready")].status`."""
    return tuple(_steps(path))


def found(path: str, value: Any) -> Values:
    """Everything the path leads to; fields that aren't there lead nowhere, silently."""
    return _walked(compiled(path), [value])


def _steps(text: str) -> Iterator[Step]:
    at = 0
    descended = False
    while at < len(text):
        if text[at] in " @$":
            at += 1
            continue
        if text.startswith("..", at):
            if descended:
                raise PathError("invalid multiple recursive descent")
            yield Descent()
            descended, at = True, at + 2
            if at < len(text) and (text[at].isalnum() or text[at] == "_"):
                step, at = _field(text, at)
                yield step
            continue
        descended = False
        if text.startswith("[?(", at):
            step, at = _filter(text, at)
        elif text[at] == "[":
            inside = _matched(_BRACKET, text, at, "unterminated array")
            yield from _bracketed(inside[1])
            at = inside.end()
            continue
        elif text[at] == ".":
            step, at = _field(text, at + 1)
        else:
            step, at = _literal(text, at)
        yield step


def _field(text: str, at: int) -> tuple[Step, int]:
    match = _FIELD.match(text, at)
    assert match is not None, "the pattern takes nothing too"
    name = match[0]
    return (Every() if name == "*" else Field(name.replace("\\", ""))), match.end()


def _literal(text: str, at: int) -> tuple[Step, int]:
    if text[at] in "\"'":
        match = _matched(_QUOTED, text, at, "unterminated quoted string")
        return Literal(re.sub(r"\\(.)", r"\1", match[0][1:-1])), match.end()
    if number := _NUMBER.match(text, at):
        whole = signed_number(number[0])
        return Literal(_float(number[0]) if whole is None else whole), number.end()
    for word, value in (("true", True), ("false", False)):
        if text.startswith(word, at):
            return Literal(value), at + len(word)
    raise PathError(f"unrecognized character in action: {text[at]!r}")


def _float(text: str) -> float:
    number = decimal_number(text)
    if number is None:
        raise PathError(f"cannot parse number {text}")
    return number


def _bracketed(inside: str) -> Iterator[Step]:
    """What stands between brackets and is no filter."""
    parts = inside.split(",")
    if len(parts) > 1:
        yield Union(tuple(tuple(_bracketed(part.strip(" "))) for part in parts))
        return
    if len(inside) > 1 and inside[0] == inside[-1] == "'" and "'" not in inside[1:-1]:
        # A quoted key is read as a path: a dot in it parts two fields unless escaped.
        yield from _steps(f".{inside[1:-1]}")
        return
    match = _SLICE.fullmatch(":" if inside == "*" else inside)
    if match is None:
        raise PathError(f"invalid array index {inside}")
    start, end, step = match.groups()
    if end is None:
        if start in ("", "-"):
            raise PathError(f"invalid array index {inside}")
        first = _place(start)
        yield Slice(first, first + 1, single=True)
    else:
        yield Slice(
            _place(start) if start else 0,
            _place(end) if end else None,
            _place(step) if step else 1,
        )


def _place(text: str) -> int:
    number = signed_number(text)
    if number is None:
        raise PathError(f"cannot parse index {text}")
    return number


def _filter(text: str, at: int) -> tuple[Step, int]:
    """A filter from `[?(` to the `)]` that isn't inside quotes."""
    begin = end = at + len("[?(")
    while end < len(text) and text[end] != ")":
        quoted = _QUOTED.match(text, end) if text[end] in "\"'" else None
        end = quoted.end() if quoted else end + 1
    if not text.startswith(")]", end):
        raise PathError("unterminated filter")
    inside = text[begin:end]
    match = _COMPARISON.fullmatch(inside)
    if match is None:
        return Filter(tuple(_steps(inside))), end + 2
    if match[2] not in _COMPARISONS:
        raise PathError(f"unrecognized filter operator {match[2]}")
    return Filter(tuple(_steps(match[1])), match[2], tuple(_steps(match[3]))), end + 2


def _matched(pattern: re.Pattern[str], text: str, at: int, fault: str) -> re.Match[str]:
    match = pattern.match(text, at)
    if match is None:
        raise PathError(fault)
    return match


def _walked(steps: tuple[Step, ...], values: Values) -> Values:
    for step in steps:
        values = _taken(step, values)
    return values


def _taken(step: Step, values: Values) -> Values:
    match step:
        case Field(name=name):
            return [v[name] for v in values if isinstance(v, dict) and name in v]
        case Every():
            return [inner for value in values for inner in _inside(value)]
        case Descent():
            return list(_descended(values))
        case Slice():
            return [e for v in values if v is not None for e in _sliced(step, v)]
        case Union(paths=paths):
            return [found for path in paths for found in _walked(path, values)]
        case Literal(value=value):
            return [value] * max(len(values), 1)
        case Filter():
            return [e for value in values for e in _filtered(step, value)]


def _inside(value: Any) -> Values:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list) else []


def _descended(values: Values) -> Iterator[Any]:
    for value in values:
        if inner := _inside(value):
            yield value
            yield from _descended(inner)


def _sliced(step: Slice, value: Any) -> Values:
    if not isinstance(value, list):
        raise PathError(f"{type(value).__name__} is not array or slice")
    length = len(value)
    start = step.start + length if step.start < 0 else step.start
    end = length if step.end is None else step.end
    if end < 0 or (end == 0 and step.single):
        end += length
    if start == end:
        return []
    if not 0 <= start < length or not 0 <= end <= length or start > end:
        raise PathError(f"array index out of bounds: index {start}, length {length}")
    if step.step <= 0:
        raise PathError("step must be > 0")
    return value[start : end : step.step]


def _filtered(step: Filter, value: Any) -> Iterator[Any]:
    if not isinstance(value, list):
        raise PathError(f"{value!r} is not array or slice and cannot be filtered")
    for element in value:
        left = _walked(step.left, [element])
        if not step.comparison:
            if left:
                yield element
            continue
        right = _walked(step.right, [element])
        if not left or not right:
            continue
        if len(left) > 1 or len(right) > 1:
            raise PathError("can only compare one element at a time")
        if _compared(step.comparison, left[0], right[0]):
            yield element


def _compared(comparison: str, left: Any, right: Any) -> bool:
    if type(left) is not type(right) or not isinstance(left, str | int | float):
        raise PathError("incompatible types for comparison")
    if isinstance(left, bool) and comparison not in ("==", "!="):
        raise PathError("invalid type for comparison")
    return _COMPARISONS[comparison](left, right)
