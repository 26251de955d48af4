"""The parameters of a write: dry run, field validation, who writes, how to delete.

Read from the query, and for deletions from the body, with the refusals of a real server.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

import msgspec

from jobyard.numerals import INT64_MAX, INT64_MIN
from jobyard.server.call import Call
from jobyard.server.kinds.types.misfit import misfit
from jobyard.server.messages.bodies import object_in
from jobyard.server.messages.paging import integer, options_problem
from jobyard.server.problem import bad_request

MANAGER_BYTES_MAX: Final = 128
_FORBIDDEN: Final = "FieldValueForbidden"
_NOT_SUPPORTED: Final = "FieldValueNotSupported"
_INVALID: Final = "FieldValueInvalid"


class Validation(StrEnum):
    """What becomes of fields that nobody knows, or that are there twice."""

    IGNORE = "Ignore"
    STRICT = "Strict"
    WARN = "Warn"


class Propagation(StrEnum):
    """What becomes of the objects that a deleted one owns."""

    FOREGROUND = "Foreground"
    BACKGROUND = "Background"
    ORPHAN = "Orphan"


class WriteOptions(msgspec.Struct, frozen=True):
    """How to write."""

    manager: str
    dry_run: bool = False
    validation: Validation = Validation.WARN
    force: bool = False


class DeleteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to delete. None stands for what the kind or the object says."""

    grace_seconds: int | None = None
    propagation: Propagation | None = None
    uid: str | None = None
    version: str | None = None
    dry_run: bool = False
    # A client of old asked for it: the answer says 202 while it isn't done.
    must_cascade: bool = False


def write_options(call: Call, kind: str, *, is_apply: bool = False) -> WriteOptions:
    """`kind` is what the options object is called, such as `CreateOptions`."""
    manager = call.user_agent.partition("/")[0][:MANAGER_BYTES_MAX]
    if not call.query and not is_apply:
        return WriteOptions(manager)
    chosen = call.option("fieldManager")
    if len(chosen.encode()) > MANAGER_BYTES_MAX:
        text = f"Too long: may not be more than {MANAGER_BYTES_MAX} bytes"
        raise options_problem(kind, "fieldManager", text, "FieldValueTooLong")
    if is_apply and not chosen:
        text = "Required value: is required for apply patch"
        raise options_problem(kind, "fieldManager", text, "FieldValueRequired")
    if not is_apply and call.option("force"):
        text = "Forbidden: may not be specified for non-apply patch"
        raise options_problem(kind, "force", text, _FORBIDDEN)
    text = call.option("fieldValidation")
    if text and text not in tuple(Validation):
        listed = ", ".join(f'"{known}"' for known in ("", *Validation))
        raise options_problem(
            kind,
            "fieldValidation",
            f'Unsupported value: "{text}": supported values: {listed}',
            _NOT_SUPPORTED,
        )
    return WriteOptions(
        chosen or manager,
        _dry_run(call.options("dryRun"), kind),
        Validation(text or "Warn"),
        call.flag("force"),
    )


def _dry_run(values: Any, kind: str) -> bool:
    if not values:
        return False
    wrong = [value for value in values if value != "All"]
    if wrong:
        listed = " ".join(f'"{value}"' for value in values)
        text = f'Unsupported value: [{listed}]: supported values: "All"'
        raise options_problem(kind, "dryRun", text, _NOT_SUPPORTED)
    return True


def delete_options(call: Call) -> DeleteOptions:
    """From the body if there is one, else from the query."""
    given = _body(call) if call.body.strip() else _query(call)
    kind = "DeleteOptions"
    dry_run = _dry_run(given.get("dryRun") or (), kind)
    policy, orphan = given.get("propagationPolicy"), given.get("orphanDependents")
    if policy is not None and policy not in tuple(Propagation):
        text = f'Unsupported value: "{policy}": supported values:'
        text += ' "Foreground", "Background", "Orphan", "nil"'
        raise options_problem(kind, "propagationPolicy", text, _NOT_SUPPORTED)
    if policy is not None and orphan is not None:
        text = "orphanDependents and deletionPropagation cannot be both set"
        raise options_problem(
            kind, "propagationPolicy", f'Invalid value: "{policy}": {text}', _INVALID
        )
    if orphan is not None:
        policy = Propagation.ORPHAN if orphan else Propagation.BACKGROUND
    preconditions = given.get("preconditions") or {}
    return DeleteOptions(
        grace_seconds=given.get("gracePeriodSeconds"),
        propagation=None if policy is None else Propagation(policy),
        uid=preconditions.get("uid"),
        version=preconditions.get("resourceVersion"),
        dry_run=dry_run,
        must_cascade=orphan is False,
    )


def _body(call: Call) -> dict[str, Any]:
    text = "the body of a deletion must be a DeleteOptions object"
    return delete_options_value(object_in(call, text))


def delete_options_value(value: dict[str, Any]) -> dict[str, Any]:
    """A DeleteOptions object with the right kind and types of fields."""
    kind = value.get("kind") or "DeleteOptions"
    if kind != "DeleteOptions":
        version = value.get("apiVersion") or "v1"
        raise bad_request(
            f'no kind "{kind}" is registered for version "{version}" in scheme'
            ' "pkg/runtime/scheme.go:111"'
        )
    types: dict[str, tuple[type, str]] = {
        "gracePeriodSeconds": (int, "integer"),
        "propagationPolicy": (str, "string"),
        "orphanDependents": (bool, "boolean"),
        "preconditions": (dict, "object"),
        "dryRun": (list, "array"),
    }
    for name, (type_, word) in types.items():
        found = value.get(name)
        if found is not None and (not isinstance(found, type_) or (found is True and type_ is int)):
            raise bad_request(misfit(name, found, word))
    grace = value.get("gracePeriodSeconds") or 0
    if not INT64_MIN <= grace <= INT64_MAX:
        why = "a whole number of 64 bits"
        raise bad_request(misfit("gracePeriodSeconds", grace, "integer", why))
    for found in value.get("dryRun") or ():
        if not isinstance(found, str):
            raise bad_request(misfit("dryRun", found, "string"))
    conditions = value.get("preconditions") or {}
    for name in ("uid", "resourceVersion"):
        found = conditions.get(name)
        if found is not None and not isinstance(found, str):
            raise bad_request(misfit(f"preconditions.{name}", found, "string"))
    return value


def _query(call: Call) -> dict[str, Any]:
    if not call.query:
        return {}
    orphan = call.option("orphanDependents")
    return {
        "gracePeriodSeconds": integer(call, "gracePeriodSeconds"),
        "propagationPolicy": call.option("propagationPolicy") or None,
        "orphanDependents": call.flag("orphanDependents") if orphan else None,
        "dryRun": list(call.options("dryRun")),
    }
