"""Other spellings that are in use, turned into the ones the API server takes.

The tools accept them with a warning; a cluster's API server does not know them.
"""

from __future__ import annotations

import copy
from typing import Any

from jobyard.api.kinds import Kind
from jobyard.schema.finding import Finding, warning
from jobyard.schema.wording import shown


def respelled(manifest: dict[str, Any], kind: Kind) -> tuple[dict[str, Any], list[Finding]]:
    """The manifest in the API's own spelling, and a warning for each thing changed."""
    found: list[Finding] = []
    out = manifest
    if manifest["kind"] != kind.name:
        out = {**out, "kind": kind.name}
        text = f"is {manifest['kind']}; the API server knows only {kind.name}"
        found.append(warning(("kind",), text))
    for path in kind.lists:
        out = _as_list(out, ("spec", *path.split(".")), found)
    return out, found


def _as_list(
    manifest: dict[str, Any], path: tuple[str, ...], found: list[Finding]
) -> dict[str, Any]:
    value: Any = manifest
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    if not isinstance(value, str):
        return manifest
    text = f"is a string; the API server takes a list only: write [{shown(value)}]"
    found.append(warning(path, text))
    out = place = copy.copy(manifest)
    for step in path[:-1]:
        place[step] = place = copy.copy(place[step])
    place[path[-1]] = [value]
    return out
