"""The rows of custom kinds: one cell per column that the CRD names, found by its JSONPath."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any, Final

from jobyard.server.printing.cells import AGE, NAME, Cell, Layout, Row
from jobyard.server.printing.durations import since
from jobyard.server.printing.json_path import PathError, found
from jobyard.server.resource import Column, Object

# What a CRD without columns of its own gets.
_DEFAULT: Final = (
    Column(
        name="Age",
        json_path=".metadata.creationTimestamp",
        type="date",
        description=AGE.description,
    ),
)
# From here on Go writes a float with an exponent: in texts, and in JSON.
_TEXT_EXPONENT: Final = 6
_JSON_EXPONENT: Final = 21


def custom_layout(columns: tuple[Column, ...]) -> Layout:
    shown = columns or _DEFAULT

    def row(obj: Object, now: float) -> Row:
        cells = (_cell(column, obj, now) for column in shown)
        return Row((str(obj["metadata"].get("name", "")), *cells))

    return Layout((NAME, *(_described(column) for column in shown)), row)


def _described(column: Column) -> Column:
    text = f"Custom resource definition column (in JSONPath format): {column.json_path}"
    return Column(
        name=column.name,
        json_path=column.json_path,
        type=column.type,
        format=column.format,
        description=column.description or text,
        priority=column.priority,
    )


def _cell(column: Column, obj: Object, now: float) -> Cell:
    try:
        values = found(column.json_path, obj)
    except PathError:
        return None
    if not values:
        return None
    value = values[0]
    if column.type == "string":
        return text_of(value)
    if value is None:
        return None
    return _typed(column.type, value, now)


def _typed(type_: str, value: Any, now: float) -> Cell:
    """The value if it is of the column's type, else nothing."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match type_:
        case "integer" if is_number:
            whole: int = math.trunc(value)
            return whole
        case "number" if is_number:
            is_whole = abs(value) < 10**_JSON_EXPONENT and value == math.trunc(value)
            number: int | float = math.trunc(value) if is_whole else value * 1.0
            return number
        case "boolean" if isinstance(value, bool):
            return value
        case "date" if isinstance(value, str):
            return since(value, now)
    return None


def text_of(value: Any) -> str:
    """Any JSON value in a column of texts, as Go prints it."""
    if value is None:
        return "<no value>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float_text(value)
    if isinstance(value, dict | list):
        text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        # Go's JSON is safe to put into a web page.
        for char in "<>&\u2028\u2029":
            text = text.replace(char, f"\\u{ord(char):04x}")
        return text
    return str(value)


def _float_text(value: float) -> str:
    """The shortest digits that mean the same float; `1e+06`, but `100000`."""
    exact = Decimal(repr(value))
    exponent = exact.adjusted() if value else 0
    if -4 <= exponent < _TEXT_EXPONENT:
        return f"{exact:f}".removesuffix(".0")
    digits = "".join(map(str, exact.normalize().as_tuple().digits))
    mantissa = f"{digits[0]}.{digits[1:]}".rstrip(".")
    return f"{'-' if value < 0 else ''}{mantissa}e{exponent:+03d}"
