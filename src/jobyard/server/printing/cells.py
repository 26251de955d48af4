"""What a row of a table is made of, and the words for what isn't there.

Printers of kinds make `Row`s; `table` puts them together. Nothing here knows a kind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from jobyard.server.resource import Column, Object

NONE: Final = "<none>"
UNSET: Final = "<unset>"

Cell = str | int | float | bool | None


class Row(msgspec.Struct, frozen=True):
    """The cells of one object, and what is true of the row as a whole."""

    cells: tuple[Cell, ...]
    conditions: tuple[dict[str, str], ...] = ()


# From an object and the time (seconds since the epoch) to its row.
RowPrinter = Callable[[Object, float], Row]


class Layout(msgspec.Struct, frozen=True):
    """The columns of a kind and what fills them."""

    columns: tuple[Column, ...]
    row: RowPrinter


def column(
    name: str,
    description: str = "",
    *,
    type_: str = "string",
    format_: str = "",
    wide: bool = False,
) -> Column:
    """A column that is filled by code; `wide` ones are shown by `-o wide` only."""
    return Column(
        name=name,
        json_path="",
        type=type_,
        format=format_,
        description=description,
        priority=1 if wide else 0,
    )


NAME: Final = column("Name", "The name, unique among its kind in a namespace.", format_="name")
AGE: Final = column("Age", "How long ago the object was created.")


def labels_text(labels: dict[str, str] | None) -> str:
    """Labels or a selector as `a=b,c=d`, in order."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def condition_of(status: Object, type_: str) -> dict[str, Any] | None:
    """The first condition of a type in a status."""
    return next((c for c in status.get("conditions") or () if c.get("type") == type_), None)


def is_condition_true(status: Object, type_: str) -> bool:
    condition = condition_of(status, type_)
    return condition is not None and condition.get("status") == "True"
