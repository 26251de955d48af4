"""The verdict of an API server on an object of a kind with a structural schema."""

from __future__ import annotations

from typing import Any

import msgspec

from jobyard.schema.finding import Finding, Path, error
from jobyard.schema.node import Node
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
    body = settled(_body(obj, "status"), schema, (), unknown)
    # What the API server keeps has its defaults filled in, whatever file it is from.
    before = settled(_body(old), schema, (), []) if old is not None else None
    metadata, found = _metadata(obj.get("metadata"), unknown, is_update=old is not None)
    # The root's own rules read the name, so they wait until the metadata is known to be right.
    found += faults(body, msgspec.structs.replace(schema, rules=()), (), before)
    if not found:
        was = _visible(before, old.get("metadata")) if before is not None and old else None
        found += rule_faults(_visible(body, metadata), schema.rules, (), was)
    header: dict[str, Any] = {key: obj[key] for key in ("apiVersion", "kind") if key in obj}
    return Verdict({**header, "metadata": metadata, **body}, tuple(found), tuple(unknown))


def _body(obj: dict[str, Any], *left_out: str) -> dict[str, Any]:
    skipped = ("apiVersion", "kind", "metadata", *left_out)
    return {name: item for name, item in obj.items() if name not in skipped}


def _metadata(
    metadata: Any, unknown: list[Path], *, is_update: bool
) -> tuple[dict[str, Any], list[Finding]]:
    """What is kept of the metadata, and its faults."""
    if not isinstance(metadata, dict):
        text = f"is {noun(type_of(metadata))}; must be a mapping with at least a name"
        return {}, [error(("metadata",), text if metadata is not None else missing(None))]
    kept = settled(metadata, object_meta(), ("metadata",), unknown)
    found = faults(kept, object_meta(), ("metadata",))
    if not found:
        # An update tells which version it is of; only on something new that makes no sense.
        found += metadata_faults({**kept, "resourceVersion": ""} if is_update else kept)
    return kept, found


def _visible(body: dict[str, Any], metadata: Any) -> dict[str, Any]:
    """What a rule at the root can see: of the metadata only the name."""
    return {**body, "metadata": {"name": expected_name(metadata)}}
