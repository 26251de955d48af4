"""Server-side apply: merging an intent into an object, and what that does to owners.

An applier owns what it applies; what it applied before and doesn't any more goes, unless
somebody else owns it too. Setting a field of somebody else to another value is a conflict,
unless it is forced. The rules and texts are those of a real server, with the one exception that
all versions of a kind merge by the schema of the version that is applied.
"""

from __future__ import annotations

import json
from typing import Any, Final, NoReturn, TypedDict, Unpack

from jobyard.server.apply.checking import faults
from jobyard.server.apply.comparing import compared, same
from jobyard.server.apply.elements import ElementError, in_order, shown
from jobyard.server.apply.entries import (
    APPLY,
    EntriesError,
    Owned,
    Owner,
    Owners,
    decoded,
    encoded,
    owner,
)
from jobyard.server.apply.field_sets import (
    FieldSet,
    difference,
    intersection,
    paths,
    union,
    without_branches,
)
from jobyard.server.apply.form import Form, form_of
from jobyard.server.apply.last_applied import LAST_APPLIED, with_last_applied
from jobyard.server.apply.merging import fields_of, merged, with_declared, without
from jobyard.server.apply.ownership import (
    NEVER_OWNED,
    conflicting,
    reconciled,
    reset_fields,
    taken,
    updated,
    updater,
    visible,
)
from jobyard.server.apply.shape import Resolve, Shape
from jobyard.server.apply.tracking import differences, with_entries, without_entries
from jobyard.server.problem import Cause, Details, ProblemError, bad_request
from jobyard.server.resource import Object, Part, ServedResource

BEFORE_FIRST_APPLY: Final = "before-first-apply"
KUBECTL: Final = "kubectl"


class Apply(TypedDict):
    """How an intent is applied, by whom, when, through which door and to what."""

    manager: str
    force: bool
    time: str
    part: Part
    resource: ServedResource
    resolve: Resolve


class _Outcome(TypedDict):
    obj: Object
    owners: Owners
    conflicts: dict[Owner, FieldSet]


def applied(live: Object | None, intent: Object, **apply: Unpack[Apply]) -> Object:
    """The live object with the intent merged in, and its managed fields; raises ProblemError.

    The result has no defaults yet for what the intent brought; they are nobody's. It is `live`
    itself when nothing changed. `live` is None when the object is to be created.
    """
    resource, manager = apply["resource"], apply["manager"]
    _check(intent, resource)
    try:
        owners = decoded(_entries(live), is_canonical=True)
    except EntriesError as problem:
        raise _plain(f"failed to decode managed fields: {problem}") from None
    form = form_of(resource, apply["resolve"])
    fault = faults(intent, form.shape)
    if fault:
        raise _plain(f"failed to create typed patch object ({_named(intent, resource)}): {fault}")
    outcome = _outcome(live, intent, owners, form, apply)
    if outcome["conflicts"] and manager == KUBECTL and live is not None:
        outcome = _after_client_side_apply(outcome, live, form, resource)
    if outcome["conflicts"]:
        _refuse(outcome["conflicts"])
    obj = outcome["obj"]
    if manager == KUBECTL:
        obj = with_last_applied(obj, intent)
    return with_entries(obj, encoded(outcome["owners"], resource.is_custom))


def _entries(live: Object | None) -> Any:
    return ((live or {}).get("metadata") or {}).get("managedFields")


def _plain(message: str) -> ProblemError:
    """What a real server answers when an error of its own has no status."""
    return ProblemError(500, "", message)


def _kind(obj: Object) -> str:
    group, slash, version = str(obj.get("apiVersion", "")).rpartition("/")
    return f"{group if slash else ''}/{version}, Kind={obj.get('kind', '')}"


def _named(obj: Object, resource: ServedResource) -> str:
    metadata = obj.get("metadata")
    names = metadata if isinstance(metadata, dict) else {}
    kind = _kind({"apiVersion": resource.api_version, "kind": resource.kind})
    return f"{names.get('namespace', '')}/{names.get('name', '')}; {kind}"


def _check(intent: Object, resource: ServedResource) -> None:
    if (intent.get("apiVersion"), intent.get("kind")) != (resource.api_version, resource.kind):
        raise bad_request(f"invalid object type: {_kind(intent)}")
    metadata = intent.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("managedFields"), list):
        raise bad_request("metadata.managedFields must be nil")


def _outcome(
    live: Object | None, intent: Object, owners: Owners, form: Form, apply: Apply
) -> _Outcome:
    """What applying makes of object and owners, conflicts included; forced or not."""
    resource, part, time = apply["resource"], apply["part"], apply["time"]
    version = resource.api_version
    reset = reset_fields(resource, part)
    before = {} if live is None else without_entries(live)
    try:
        if live is not None and not owners:
            # Whatever is there already belongs to somebody; nobody knows to whom.
            found = differences(form.zero, live, form.shape, reset)
            first = updater(BEFORE_FIRST_APPLY, version, part)
            owners = updated({}, found, first, version, time)
        owners = reconciled(owners, form.shape)
        obj = merged(before, intent, form.shape)
        applier = owner(apply["manager"], APPLY, version, str(part))
        last = owners.get(applier)
        fields = without_branches(fields_of(intent, form.shape), reset)
        owners = {**owners, applier: Owned(fields, version, last.time if last else "")}
        if last is not None and last.fields:
            obj = _pruned(obj, last.fields, owners, form.shape)
        found = visible(compared(before, obj, form.shape), reset)
    except ElementError as problem:
        raise _plain(f"failed to merge config: {problem}") from None
    conflicts = {} if apply["force"] else conflicting(owners, found, applier)
    owners = taken(owners, found, but=applier)
    if applier in owners:
        owners[applier] = _stripped(owners[applier], last, time, changed=not same(before, obj))
        if not owners[applier].fields:
            del owners[applier]
    if live is not None and same(before, obj):
        obj = live
    return {"obj": obj, "owners": owners, "conflicts": conflicts}


def _stripped(mine: Owned, last: Owned | None, time: str, changed: bool) -> Owned:
    """An applier's entry; its time tells when it last changed the object."""
    fields = difference(mine.fields, NEVER_OWNED)
    if changed:
        return Owned(fields, mine.api_version, time)
    if last is not None and last.api_version == mine.api_version and same(fields, last.fields):
        return last
    return Owned(fields, mine.api_version, mine.time)


def _pruned(obj: Object, last: FieldSet, owners: Owners, shape: Shape) -> Object:
    """The merged object without what this applier had applied and nobody owns any more."""
    last = with_declared(last, shape)
    everything = with_declared(fields_of(obj, shape), shape)
    left = _left(without(obj, last, shape))
    kept = with_declared(fields_of(left, shape), shape)
    owned: FieldSet = {}
    for each in owners.values():
        owned = union(owned, each.fields)
    # What went with a parent, and is owned, comes back.
    spared = union(kept, with_declared(owned, shape))
    left = _left(without(obj, difference(everything, spared), shape))
    # So does what went with a parent and was never applied by this applier.
    kept = with_declared(fields_of(left, shape), shape)
    return _left(without(obj, intersection(difference(everything, kept), last), shape))


def _left(obj: Any) -> Object:
    return obj if isinstance(obj, dict) else {}


def _after_client_side_apply(
    outcome: _Outcome, live: Object, form: Form, resource: ServedResource
) -> _Outcome:
    """The outcome without conflicts about what kubectl itself applied from the client's side.

    A first server-side apply after client-side ones would conflict with them otherwise.
    """
    allowed = _last_applied_fields(live, form.shape, resource)
    if allowed is None:
        return outcome
    conflicts = {}
    for who, fields in outcome["conflicts"].items():
        left = difference(fields, allowed)
        if left:
            conflicts[who] = left
    return {**outcome, "conflicts": conflicts}


def _last_applied_fields(live: Object, shape: Shape, resource: ServedResource) -> FieldSet | None:
    annotations = (live.get("metadata") or {}).get("annotations") or {}
    try:
        last = json.loads(annotations.get(LAST_APPLIED, ""))
        if not isinstance(last, dict) or last.get("apiVersion") != resource.api_version:
            return None
        if faults(last, shape) or faults(live, shape):
            return None
        found = compared(last, without_entries(live), shape)
        fields = fields_of(last, shape)
    except (ValueError, ElementError):
        return None
    # What differs from it by now belongs to whoever changed it.
    return difference(fields, union(union(found.changed, found.added), found.removed))


def _refuse(conflicts: dict[Owner, FieldSet]) -> NoReturn:
    rows = [
        (who, "".join(shown(step) for step in path))
        for who in sorted(conflicts, key=lambda who: who.order)
        for path in paths(conflicts[who], in_order)
    ]
    causes = tuple(
        Cause("FieldManagerConflict", f"conflict with {who.shown}", path) for who, path in rows
    )
    if len(rows) == 1:
        who, path = rows[0]
        text = f"Apply failed with 1 conflict: conflict with {who.shown}: {path}"
    else:
        lines: list[str] = []
        for index, (who, path) in enumerate(rows):
            if index == 0 or rows[index - 1][0] != who:
                lines.append(f"conflicts with {who.shown}:")
            lines.append(f"- {path}")
        text = f"Apply failed with {len(rows)} conflicts: " + "\n".join(lines)
    raise ProblemError(409, "Conflict", text, Details(causes=causes))
