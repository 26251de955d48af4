"""The annotation in which kubectl keeps what it applied from the client's side.

Where an object has it and kubectl applies on the server's side, the server keeps it up to date,
so that going back works. Knows nothing about owners.
"""

from __future__ import annotations

import json
from typing import Any, Final

from jobyard.server.resource import Object

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
ANNOTATIONS_BYTES_MAX: Final = 256 * 1024
_GO_ESCAPES: Final = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


def with_last_applied(obj: Object, intent: Object) -> Object:
    """The object with the annotation telling this intent, if it has the annotation at all."""
    metadata: dict[str, Any] = obj.get("metadata") or {}
    annotations: dict[str, Any] = metadata.get("annotations") or {}
    if not annotations.get(LAST_APPLIED):
        return obj
    text = _encoded(intent)
    if annotations[LAST_APPLIED] == text:
        return obj
    changed = {**annotations, LAST_APPLIED: text}
    size = sum(len(k.encode()) + len(str(v).encode()) for k, v in changed.items())
    if size > ANNOTATIONS_BYTES_MAX:
        del changed[LAST_APPLIED]
    return {**obj, "metadata": {**metadata, "annotations": changed}}


def _encoded(intent: Object) -> str:
    metadata: dict[str, Any] = intent.get("metadata") or {}
    annotations = metadata.get("annotations")
    if annotations and LAST_APPLIED in annotations:
        left = {name: value for name, value in annotations.items() if name != LAST_APPLIED}
        intent = {**intent, "metadata": {**metadata, "annotations": left}}
    text = json.dumps(intent, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    # The line end is what Go's encoder leaves behind each value.
    return text.translate(_GO_ESCAPES) + "\n"
