"""The pages of `describe`, as lines. Pure: objects and events in, text out."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

from jobyard.cli.asking import Found
from jobyard.cli.commands.events import Event, event_lines
from jobyard.cli.output.printing import as_yaml
from jobyard.cli.output.rows import HEAD, cells
from jobyard.cli.output.style import Palette, table
from jobyard.jobs.view import JobView
from jobyard.terminal.sequences import in_a_row
from jobyard.terminal.widths import cut

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
JSON = dict[str, Any]


def job_page(known: Found, view: JobView, events: list[Event], palette: Palette) -> list[str]:
    """A job: its phase, conditions and replicas."""
    status = known.value.get("status") or {}
    facts = [
        ("Name", known.name),
        ("Namespace", known.namespace),
        ("Kind", f"{known.kind.name} ({known.kind.api_version})"),
        ("Phase", palette.phase(view.phase)),
        ("Created", str(known.value["metadata"].get("creationTimestamp", ""))),
        ("Started", view.started_at or "not yet"),
        ("Ended", view.ended_at or "not yet"),
    ]
    lines = [f"{name + ':':<12}{in_a_row(value)}" for name, value in facts]
    conditions = status.get("conditions") or ()
    if conditions:
        rows = [
            [each["type"], each["status"], each.get("reason", ""), each.get("message", "")]
            for each in conditions
        ]
        lines += ["", palette.bold("Conditions")]
        lines += _indented(table(["TYPE", "STATUS", "REASON", "MESSAGE"], rows))
    elif view.message:
        lines.append(f"{'Message:':<12}{in_a_row(view.message)}")
    lines += ["", palette.bold("Replicas")]
    rows = [cells(row, palette) for row in view.replicas]
    lines += _indented(table(HEAD, rows)) if rows else ["  none yet"]
    return lines + _events(events, palette)


def object_page(value: JSON, events: list[Event], palette: Palette) -> list[str]:
    """Any other object: what it is called, and all that it says, as YAML."""
    metadata = value["metadata"]
    owners = [f"{each['kind']}/{each['name']}" for each in metadata.get("ownerReferences") or ()]
    facts = [
        ("Name", metadata["name"]),
        ("Namespace", metadata.get("namespace", "")),
        ("Kind", f"{value['kind']} ({value['apiVersion']})"),
        ("Created", metadata.get("creationTimestamp", "")),
        ("Deleted", metadata.get("deletionTimestamp", "")),
        ("Owner", ", ".join(owners)),
    ]
    lines = [f"{name + ':':<13}{in_a_row(told)}" for name, told in facts if told]
    for name, pairs in (("Labels", "labels"), ("Annotations", "annotations")):
        told = _pairs(metadata.get(pairs))
        lines += [f"{name + ':':<13}{told}"] if told else []
    for name, part in value.items():
        if name in ("apiVersion", "kind", "metadata") or not part:
            continue
        lines += ["", palette.bold(name[0].upper() + name[1:])]
        lines += _indented(as_yaml(part).splitlines())
    return lines + _events(events, palette)


def _pairs(texts: dict[str, str] | None) -> str:
    # One below the other, as kubectl has them; a long value is cut, as it may hold a whole object.
    pairs = [f"{in_a_row(key)}={cut(in_a_row(text), 80)}" for key, text in (texts or {}).items()]
    return f"\n{'':<13}".join(pairs)


def concealed(value: JSON) -> JSON:
    """The object with no values of a Secret in it, only how long they are."""
    if value["kind"] != "Secret":
        return value
    data = {key: f"{len(b64decode(text))} bytes" for key, text in (value.get("data") or {}).items()}
    # kubectl apply puts the whole object into a note.
    notes = dict(value["metadata"].get("annotations") or {})
    notes.pop(_LAST_APPLIED, None)
    return {**value, "metadata": {**value["metadata"], "annotations": notes}, "data": data}


def _events(events: list[Event], palette: Palette) -> list[str]:
    return ["", palette.bold("Events"), *(_indented(event_lines(events)) or ["  none"])]


def _indented(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]
