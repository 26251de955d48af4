"""allOf, anyOf, oneOf and not: schemas that only judge a value, and never shape it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from jobyard.schema.finding import Fault, FaultKind, Finding, Path, dotted, error
from jobyard.schema.node import Node

Judge = Callable[[Any, Node, Path], list[Finding]]


def junction_faults(value: Any, node: Node, path: Path, judge: Judge) -> Iterator[Finding]:
    """`judge` tells the faults of a value by one of the schemas."""
    if node.any_of:
        verdicts = [judge(value, part, path) for part in node.any_of]
        if all(verdicts):
            text = "fits none of the alternatives; must fit at least one"
            yield _fault(path, text, FaultKind.NONE_OF_ANY)
            yield from min(verdicts, key=len)
    if node.one_of:
        yield from _one_of_faults(value, node.one_of, path, judge)
    if node.all_of:
        verdicts = [judge(value, part, path) for part in node.all_of]
        for verdict in verdicts:
            yield from verdict
        if any(verdicts):
            kind = FaultKind.NONE_OF_ALL if all(verdicts) else FaultKind.SOME_OF_ALL
            yield _fault(path, "must fit all of several schemas, and doesn't", kind)
    if node.negated is not None and not judge(value, node.negated, path):
        yield _fault(path, "is what the schema excludes", FaultKind.NEGATED)


def _one_of_faults(
    value: Any, parts: tuple[Node, ...], path: Path, judge: Judge
) -> Iterator[Finding]:
    verdicts = [judge(value, part, path) for part in parts]
    count = sum(not verdict for verdict in verdicts)
    if count == 0:
        text = "fits none of the alternatives; must fit exactly one"
        yield _fault(path, text, FaultKind.NONE_OF_ONE)
        yield from min(verdicts, key=len)
    elif count > 1:
        text = f"fits {count} of the alternatives; must fit exactly one"
        yield _fault(path, text, FaultKind.SEVERAL_OF_ONE, str(count))


def _fault(path: Path, text: str, kind: FaultKind, wanted: str = "") -> Finding:
    return error(path, text, Fault(kind, dotted(path), wanted))
