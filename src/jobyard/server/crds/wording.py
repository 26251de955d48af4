"""What a schema finds wrong with a custom object, in the API server's words.

One row for each kind of fault: the reason, where it is told, and a text. Our own words for the
same faults, which `jobyard validate` uses, are `schema.wording`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from jobyard.schema.finding import Fault, FaultKind, Finding, Path
from jobyard.server.problem import Cause

_INVALID, _TYPE = "FieldValueInvalid", "FieldValueTypeInvalid"
# Faults of more than one schema belong to no field, and are told so.
NOWHERE: Final = "<nil>"
UNCHECKED: Final = Cause(
    _INVALID,
    "Invalid value: null: some validation rules were not checked because the object was invalid;"
    " correct the existing errors to complete validation",
    NOWHERE,
)
_BLOCKING: Final = frozenset(
    (
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        _TYPE,
    )
)


class _Words(msgspec.Struct, frozen=True):
    """`{found}`, `{wanted}` and `{path}` are filled in."""

    text: str
    reason: str = _INVALID
    has_field: bool = True


def _in_body(text: str, reason: str = _INVALID) -> _Words:
    return _Words("Invalid value: {found}: {path} in body " + text, reason)


_WORDS: Final[Mapping[FaultKind, _Words]] = {
    FaultKind.TYPE: _Words(
        'Invalid value: "{found}": {path} in body must be of type {wanted}: "{found}"', _TYPE
    ),
    FaultKind.FORMAT: _in_body("must be of type {wanted}: {found}", _TYPE),
    FaultKind.REQUIRED: _Words("Required value", "FieldValueRequired"),
    FaultKind.ENUM: _Words(
        "Unsupported value: {found}: supported values: {wanted}", "FieldValueNotSupported"
    ),
    FaultKind.LOW: _in_body("should be greater than or equal to {wanted}"),
    FaultKind.NOT_ABOVE: _in_body("should be greater than {wanted}"),
    FaultKind.HIGH: _in_body("should be less than or equal to {wanted}"),
    FaultKind.NOT_BELOW: _in_body("should be less than {wanted}"),
    FaultKind.WIDTH: _Words(
        'Invalid value: "": Checked value must be of type integer {wanted} in {path}',
        has_field=False,
    ),
    FaultKind.MULTIPLE: _in_body("should be a multiple of {wanted}"),
    FaultKind.SHORT: _in_body("should be at least {wanted} chars long"),
    FaultKind.LONG: _Words("Too long: may not be more than {wanted} bytes", "FieldValueTooLong"),
    FaultKind.PATTERN: _in_body("should match '{wanted}'"),
    FaultKind.FEW_ITEMS: _in_body("should have at least {wanted} items"),
    FaultKind.MANY_ITEMS: _Words(
        "Too many: {found}: must have at most {wanted} items", "FieldValueTooMany"
    ),
    FaultKind.FEW_ENTRIES: _in_body("should have at least {wanted} properties"),
    FaultKind.MANY_ENTRIES: _Words(
        "Too many: {found}: must have at most {wanted} items", "FieldValueTooMany"
    ),
    FaultKind.DUPLICATE: _Words("Duplicate value: {found}", "FieldValueDuplicate"),
    FaultKind.NONE_OF_ANY: _Words(
        'Invalid value: "": "{path}" must validate at least one schema (anyOf)', has_field=False
    ),
    FaultKind.NONE_OF_ONE: _Words(
        'Invalid value: "": "{path}" must validate one and only one schema (oneOf). Found none'
        " valid",
        has_field=False,
    ),
    FaultKind.SEVERAL_OF_ONE: _Words(
        'Invalid value: "": "{path}" must validate one and only one schema (oneOf). Found {wanted}'
        " valid alternatives",
        has_field=False,
    ),
    FaultKind.SOME_OF_ALL: _Words(
        'Invalid value: "": "{path}" must validate all the schemas (allOf)', has_field=False
    ),
    FaultKind.NONE_OF_ALL: _Words(
        'Invalid value: "": "{path}" must validate all the schemas (allOf). None validated',
        has_field=False,
    ),
    FaultKind.NEGATED: _Words(
        'Invalid value: "": "{path}" must not validate the schema (not)', has_field=False
    ),
    FaultKind.BROKEN_RULE: _Words('Invalid value: "{found}": {wanted}'),
}
# How a rule's own reason reads before its message.
_RULE_REASONS: Final = {
    "FieldValueInvalid": "Invalid value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueRequired": "Required value",
    "FieldValueDuplicate": "Duplicate value",
}
_WITH_VALUE: Final = ("FieldValueInvalid", "FieldValueDuplicate")


def blocks_rules(causes: Iterable[Cause]) -> bool:
    """Whether the object is too far off for its rules to be looked at."""
    return any(cause.reason in _BLOCKING for cause in causes)


def causes_of(findings: Iterable[Finding], root: str | None = None) -> Iterator[Cause]:
    """The findings as a Status tells them; all under the field `root`, if given."""
    for finding in findings:
        fault = finding.fault
        assert fault is not None, f"{finding} was not found by a schema"
        yield _cause(fault, finding.path, root)
        if fault.kind is FaultKind.TYPE and fault.found == "float64":
            wider = Fault(FaultKind.WIDTH, wanted=fault.wanted)
            yield _cause(wider, finding.path, root)
        elif fault.kind is FaultKind.TYPE and (fault.found, fault.wanted) == ("number", "integer"):
            yield _cause(Fault(FaultKind.WIDTH), finding.path, root)


def _cause(fault: Fault, path: Path, root: str | None) -> Cause:
    where = "" if root is not None else joined(path)
    field = root if root is not None else where or NOWHERE
    if fault.kind is FaultKind.RULE:
        reason = fault.wanted or _INVALID
        parts = [_RULE_REASONS[reason], fault.found]
        if fault.value and reason in _WITH_VALUE:
            parts.insert(1, fault.value)
        return Cause(reason, ": ".join(parts), field)
    words, wanted = _WORDS[fault.kind], fault.wanted
    if fault.kind is FaultKind.WIDTH:
        wanted = f"with format {wanted}" if wanted else "(default format)"
    text = words.text.format(found=fault.found, wanted=wanted, path=where)
    if fault.kind in (FaultKind.MANY_ITEMS, FaultKind.MANY_ENTRIES) and fault.wanted == "1":
        text = text.removesuffix("s")
    return Cause(words.reason, text, field if words.has_field else NOWHERE)


def joined(path: Path) -> str:
    """A path as schema messages write it: keys of a map stand like names."""
    out = ""
    for step in path:
        out += f"[{step}]" if isinstance(step, int) else f".{step}"
    return out.removeprefix(".")
