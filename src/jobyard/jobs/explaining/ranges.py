"""Names of replicas, told together where they are alike: `worker-0, worker-3…worker-66`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from jobyard.numerals import whole_number

_NUMBERED: Final = re.compile(r"(.+)-([0-9]+)")
_SPANS_MAX: Final = 4


def named(names: Sequence[str]) -> str:
    """The names in order, those with numbers in a row as spans; of many the first few."""
    spans = list(_spans(names))
    more = sum(size for _, size in spans[_SPANS_MAX:])
    shown = ", ".join(span for span, _ in spans[:_SPANS_MAX])
    return f"{shown} and {more} more" if more else shown


def _spans(names: Iterable[str]) -> Iterator[tuple[str, int]]:
    row: list[str] = []
    for name in names:
        if row and not _follows(row[-1], name):
            yield _span(row), len(row)
            row = []
        row.append(name)
    if row:
        yield _span(row), len(row)


def _span(row: Sequence[str]) -> str:
    return row[0] if len(row) == 1 else f"{row[0]}{', ' if len(row) == 2 else '…'}{row[-1]}"


def _follows(before: str, name: str) -> bool:
    first, second = _NUMBERED.fullmatch(before), _NUMBERED.fullmatch(name)
    if first is None or second is None or first[1] != second[1]:
        return False
    one, other = whole_number(first[2]), whole_number(second[2])
    return one is not None and other == one + 1
