"""Other spellings that are in use, turned into the ones the API server takes.

The tools accept them with a warning; a cluster's API server does not know them.
"""

from __future__ import annotations

import copy
from typing import Any

from jobyard.api.kinds import Kind
from jobyard.schema.finding import Finding, warning
from jobyard.schema.wording import shown

_RUN_FIELDS = ("python", "module", "exec")


def respelled(manifest: dict[str, Any], kind: Kind) -> tuple[dict[str, Any], list[Finding]]:
    """The manifest in the API's own spelling, and a warning for each thing changed."""
    found: list[Finding] = []
    out = manifest
    if manifest["kind"] != kind.name:
        out = {**out, "kind": kind.name}
        text = f"is {manifest['kind']}; the API server knows only {kind.name}"
        found.append(warning(("kind",), text))
    if kind.name == "DeepSpeedJob":
        out = _run_as_list(out, found)
    return out, found


def _run_as_list(manifest: dict[str, Any], found: list[Finding]) -> dict[str, Any]:
    try:
        run = manifest["spec"]["config"]["run"]
        texts = {name: run[name] for name in _RUN_FIELDS if isinstance(run.get(name), str)}
    except (KeyError, TypeError, AttributeError):
        return manifest
    if not texts:
        return manifest
    out = copy.deepcopy(manifest)
    for name, text in texts.items():
        out["spec"]["config"]["run"][name] = [text]
        path = ("spec", "config", "run", name)
        found.append(
            warning(path, f"is a string; the API server takes a list only: write [{shown(text)}]")
        )
    return out
