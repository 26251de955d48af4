"""Tables as a server prints them (meta.k8s.io/v1), turned into lines.

Rows may come one after the other, when a watch tells of them: columns stay where they are, and
only widen. Refuses to know what is in the cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from jobyard.terminal.sequences import in_a_row
from jobyard.terminal.widths import padded, width_of


class Column(msgspec.Struct, frozen=True):
    """What a server says of a column; those above priority 0 are for wide tables."""

    name: str
    priority: int = 0


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    """Of a row's object, or of the table itself."""

    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class Whose(msgspec.Struct, frozen=True):
    """The object of a row."""

    metadata: Meta = Meta()


class Row(msgspec.Struct, frozen=True):
    """One object's cells."""

    cells: tuple[Any, ...]
    object: Whose = Whose()


class Table(msgspec.Struct, frozen=True, rename="camel"):
    """What a server answers; a watch tells the columns only once."""

    column_definitions: tuple[Column, ...] | None = None
    rows: tuple[Row, ...] = ()
    metadata: Meta = Meta()


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """Which columns are shown, and what stands before a name."""

    columns: tuple[Column, ...]
    is_wide: bool
    # Whether rows are of several namespaces.
    everywhere: bool
    # Before each name, where there are rows of other kinds too.
    kind: str = ""

    @property
    def head(self) -> list[str]:
        names = [self.columns[n].name.upper() for n in self._shown]
        return ["NAMESPACE", *names] if self.everywhere else names

    def cells(self, row: Row) -> list[str]:
        line = ["" if row.cells[n] is None else str(row.cells[n]) for n in self._shown]
        if self.kind:
            line[0] = f"{self.kind}/{line[0]}"
        return [row.object.metadata.namespace, *line] if self.everywhere else line

    @property
    def _shown(self) -> list[int]:
        return [n for n, each in enumerate(self.columns) if self.is_wide or each.priority == 0]


class GrowingTable:
    """Lines of a table to which rows come; the head goes before the first of them."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._widths: list[int] = []

    def lines(self, rows: Sequence[Row]) -> list[str]:
        if not rows:
            return []
        cells = [list(map(in_a_row, self._layout.cells(row))) for row in rows]
        if not self._widths:
            cells = [list(map(in_a_row, self._layout.head)), *cells]
            self._widths = [0] * len(cells[0])
        self._widths = [
            max(width, *(width_of(line[n]) for line in cells))
            for n, width in enumerate(self._widths)
        ]
        return [self._line(line) for line in cells]

    def _line(self, cells: Sequence[str]) -> str:
        pairs = zip(cells, self._widths, strict=True)
        return "   ".join(padded(cell, width) for cell, width in pairs).rstrip()
