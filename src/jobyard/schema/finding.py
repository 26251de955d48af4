"""What is wrong (or doubtful) about an object, and where.

A finding is a value: whoever shows it adds the file and the line.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

Path = tuple[str | int, ...]


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"


class FaultKind(StrEnum):
    """What a schema can find wrong, for callers that word it themselves."""

    TYPE = "type"
    FORMAT = "format"
    REQUIRED = "required"
    ENUM = "enum"
    LOW = "low"
    NOT_ABOVE = "not above"
    HIGH = "high"
    NOT_BELOW = "not below"
    WIDTH = "width"
    MULTIPLE = "multiple"
    SHORT = "short"
    LONG = "long"
    PATTERN = "pattern"
    FEW_ITEMS = "few items"
    MANY_ITEMS = "many items"
    FEW_ENTRIES = "few entries"
    MANY_ENTRIES = "many entries"
    DUPLICATE = "duplicate"
    NONE_OF_ANY = "anyOf"
    NONE_OF_ONE = "oneOf, none"
    SEVERAL_OF_ONE = "oneOf, several"
    SOME_OF_ALL = "allOf, some"
    NONE_OF_ALL = "allOf, none"
    NEGATED = "not"
    RULE = "rule"
    BROKEN_RULE = "broken rule"


class Fault(msgspec.Struct, frozen=True):
    """The same as a finding's text, as parts: what was found, and what was wanted, as texts."""

    kind: FaultKind
    found: str = ""
    wanted: str = ""
    # The value that a rule refused, where it is a scalar.
    value: str = ""


class Finding(msgspec.Struct, frozen=True):
    """One fault: `text` says what was found and what would be right."""

    path: Path
    text: str
    severity: Severity = Severity.ERROR
    # Only for what a schema finds.
    fault: Fault | None = None


def error(path: Path, text: str, fault: Fault | None = None) -> Finding:
    return Finding(path, text, fault=fault)


def warning(path: Path, text: str) -> Finding:
    return Finding(path, text, Severity.WARNING)


def is_error(finding: Finding) -> bool:
    return finding.severity is Severity.ERROR


def dotted(path: Path) -> str:
    """A path as Kubernetes writes it: `spec.replicaSpecs[0].template`.

    A key that isn't a plain word (an annotation's, say) stands in brackets.
    """
    out = ""
    for step in path:
        if isinstance(step, int):
            out += f"[{step}]"
        elif step and all(ch.isalnum() or ch in "_-" for ch in step):
            out += f".{step}" if out else step
        else:
            out += f"[{step}]"
    return out or "<root>"


def enumerated(words: Iterable[object], conjunction: str = "or") -> str:
    """`a, b or c`."""
    listed = [str(word) for word in words]
    if len(listed) < 2:
        return "".join(listed)
    return f"{', '.join(listed[:-1])} {conjunction} {listed[-1]}"
