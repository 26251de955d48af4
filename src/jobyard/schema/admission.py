"""The verdict of an API server on an object of a kind with a structural schema."""

from __future__ import annotations

from typing import Any

import msgspec

from jobyard.schema.finding import Finding, Path, error
from jobyard.schema.node import CompiledRule, Node
from jobyard.schema.objectmeta import expected_name, metadata_faults, object_meta
from jobyard.schema.settling import settled
from jobyard.schema.validation import faults, rule_faults, type_of
from jobyard.schema.wording import missing, noun


class Verdict(msgspec.Struct, frozen=True):
    """`value` is the object as it would be stored; it is taken if there are no errors."""

    value: dict[str, Any]
    errors: tuple[Finding, ...]
    unknown: tuple[Path, ...]


def admitted(obj: dict[str, Any], schema: Node, old: dict[str, Any] | None = None) -> Verdict:
    """Looks at an object that is created, or that takes the place of `old`.

    As on an API server, a status in the manifest is dropped: it has a door of its own. Only
    the old object's status counts, for rules that ask how far the job has come.
    """
    unknown: list[Path] = []
    value = settled(_body(obj, "status"), schema, (), unknown)
    before = _stored(old, schema) if old is not None else None
    found = _metadata(obj.get("metadata"), value, unknown, is_update=old is not None)
    found += _body_faults(value, schema, before)
    if not found and schema.rules:
        seen = _visible(before) if before is not None else None
        found += rule_faults(_visible(value), schema.rules, (), seen)
    header = {key: obj[key] for key in ("apiVersion", "kind") if key in obj}
    named = {key: value.pop(key) for key in ("metadata",) if key in value}
    stored = header | named | value
    return Verdict(stored, tuple(found), tuple(unknown))


def _body(obj: dict[str, Any], *left_out: str) -> dict[str, Any]:
    skipped = ("apiVersion", "kind", "metadata", *left_out)
    return {name: item for name, item in obj.items() if name not in skipped}


def _stored(old: dict[str, Any], schema: Node) -> dict[str, Any]:
    """The old object as the API server keeps it, defaults filled in, whatever file it is from."""
    return {**settled(_body(old), schema, (), []), "metadata": old.get("metadata")}


def _metadata(
    metadata: Any, value: dict[str, Any], unknown: list[Path], *, is_update: bool
) -> list[Finding]:
    """Faults of the metadata; what is kept of it goes into `value`."""
    if not isinstance(metadata, dict):
        text = f"is {noun(type_of(metadata))}; must be a mapping with at least a name"
        return [error(("metadata",), text if metadata is not None else missing(None))]
    kept = settled(metadata, object_meta(), ("metadata",), unknown)
    value["metadata"] = kept
    found = faults(kept, object_meta(), ("metadata",))
    if not found:
        given = {**kept, "resourceVersion": ""} if is_update else kept
        found += metadata_faults(given)
    return found


def _body_faults(value: dict[str, Any], schema: Node, old: Any) -> list[Finding]:
    """All but the root's own rules, which wait until the metadata is known to be right."""
    without_rules = msgspec.structs.replace(schema, rules=_NO_RULES)
    return faults(_body(value), without_rules, (), old)


_NO_RULES: tuple[CompiledRule, ...] = ()


def _visible(obj: dict[str, Any]) -> dict[str, Any]:
    """What a rule at the root can see: of the metadata only the name."""
    name = expected_name(obj.get("metadata"))
    return {**obj, "metadata": {"name": name}}
