"""Everything that can be said about a manifest without a cluster.

The verdict is the API server's (`schema.admission`); to it come what only the
controller would notice (variables), what has no effect, and what a person probably meant
by a name that nobody knows.
"""

from __future__ import annotations

from typing import Any

import msgspec

from jobyard.api.crd import schema_node
from jobyard.api.kinds import KINDS, Kind, kind_of
from jobyard.api.podgroup import PodGroup
from jobyard.api.queue import Queue
from jobyard.manifest.others import is_platforms, mistakes
from jobyard.manifest.reading import Document
from jobyard.manifest.spelling import respelled
from jobyard.plan.lowering.table import described
from jobyard.plan.reporting.advice import advice, scheduling_advice
from jobyard.schema.admission import admitted
from jobyard.schema.finding import Finding, Path, dotted, error, is_error, warning
from jobyard.schema.node import EMPTY, Node
from jobyard.schema.objectmeta import object_meta
from jobyard.schema.validation import type_of
from jobyard.schema.wording import noun, suggestion

_PROBLEM_LENGTH_MAX = 300


class Checked(msgspec.Struct, frozen=True):
    """What is known of one document. `kind` is None for documents that aren't ours."""

    document: Document
    kind: Kind | None
    findings: tuple[Finding, ...]
    # As the API server would store it; only of use if there are no errors.
    value: dict[str, Any]

    @property
    def has_errors(self) -> bool:
        return any(is_error(finding) for finding in self.findings)

    @property
    def is_platforms(self) -> bool:
        """Of a kind that the platform has and Jobyard hasn't: no command does anything with it."""
        return self.kind is None and not self.findings and is_platforms(self.value)

    @property
    def title(self) -> str:
        """`GenericJob train`, or as much of it as is known."""
        value = self.document.value if isinstance(self.document.value, dict) else {}
        metadata = value.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        return " ".join(str(part) for part in (value.get("kind"), name) if part)


def checked(document: Document, old: dict[str, Any] | None = None) -> Checked:
    """Looks at one document; `old` is the object it would take the place of."""
    manifest = document.value
    if not isinstance(manifest, dict):
        text = (
            f"is {noun(type_of(manifest))}; a document must be a mapping with apiVersion and kind"
        )
        return Checked(document, None, (error((), text),), {})
    missing = _header_faults(manifest)
    if missing:
        return Checked(document, None, missing, manifest)
    kind = kind_of(manifest["apiVersion"], manifest["kind"])
    if kind is None:
        return Checked(document, None, mistakes(manifest), manifest)
    return _checked_as(kind, manifest, document, old)


def _header_faults(manifest: dict[str, Any]) -> tuple[Finding, ...]:
    return tuple(
        error((field,), f"is missing, and required: {meaning}")
        for field, meaning in (
            ("apiVersion", f"such as {KINDS[0].api_version}"),
            ("kind", f"such as {KINDS[0].name}"),
        )
        if not isinstance(manifest.get(field), str) or not manifest[field]
    )


def _checked_as(
    kind: Kind, manifest: dict[str, Any], document: Document, old: dict[str, Any] | None
) -> Checked:
    spelled, findings = respelled(manifest, kind)
    verdict = admitted(spelled, schema_node(kind), old)
    findings += verdict.errors
    findings += [_unknown(path, kind) for path in verdict.unknown]
    findings += [
        warning(
            repeated.path,
            f"is set twice (lines {repeated.first_line} and {repeated.line}); the last one wins",
        )
        for repeated in document.repeated
    ]
    # An empty one is how Go writes that there is none.
    if manifest.get("status"):
        findings.append(warning(("status",), "is ignored: only the controller writes it"))
    if not verdict.errors:
        findings += _beyond_admission(kind, verdict.value)
    return Checked(document, kind, tuple(findings), verdict.value)


def _beyond_admission(kind: Kind, value: dict[str, Any]) -> list[Finding]:
    try:
        return _advised(kind, value)
    except MemoryError:
        raise
    except Exception as problem:
        # Something that nobody thought of: the controller says the same of such a job.
        return [not_understood(problem)]


def not_understood(problem: Exception) -> Finding:
    """An object that the API server would take, and that made the program raise."""
    told = f"{type(problem).__name__}: {problem}"[:_PROBLEM_LENGTH_MAX].rstrip(": ")
    text = f"is not understood, though the API server would take it ({told}); nothing would run"
    return error(("spec",), text)


def _advised(kind: Kind, value: dict[str, Any]) -> list[Finding]:
    found: list[Finding] = []
    description = described(kind, value)
    if description is not None:
        found += [*advice(description), *description.faults]
    if kind.type is Queue:
        found += scheduling_advice(msgspec.convert(value, Queue))
    if kind.type is PodGroup:
        found += scheduling_advice(msgspec.convert(value, PodGroup))
    return found


def _unknown(path: Path, kind: Kind) -> Finding:
    """An unknown field, with the name that was probably meant."""
    node = _node_at(path[:-1], kind)
    near = suggestion(str(path[-1]), node.properties)
    place = dotted(path[:-1]) if len(path) > 1 else kind.name
    return warning(path, f"is not a field of {place}, and is ignored{near}")


def _node_at(path: Path, kind: Kind) -> Node:
    node: Node | None = schema_node(kind)
    if path[:1] == ("metadata",):
        node, path = object_meta(), path[1:]
    for step in path:
        if node is None:
            return EMPTY
        node = node.items if isinstance(step, int) else node.properties.get(step, node.additional)
    return node or EMPTY
