"""The valid manifests that tests start from: the originals', all examples, and theirs.

Theirs are files as users of other platforms have them: old spellings, mixed shapes, what Go
writes for nothing.
"""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path
from typing import Any

from jobyard.api.kinds import kind_of
from jobyard.manifest.reading import Document, read
from rig.places import ROOT

ORIGINALS = sorted((ROOT / "tests" / "originals").glob("*.yaml"))
EXAMPLES = sorted((ROOT / "examples").glob("*/*.yaml"))
THEIRS = sorted((ROOT / "tests" / "their_files").glob("*.yaml"))


@cache
def documents(path: Path) -> tuple[Document, ...]:
    return read(path.read_text(), str(path.relative_to(ROOT)))


def valid_manifests() -> list[dict[str, Any]]:
    """Every manifest of a kind of ours, a fresh copy each time."""
    found = [doc.value for path in (*ORIGINALS, *EXAMPLES, *THEIRS) for doc in documents(path)]
    return [
        copy.deepcopy(manifest)
        for manifest in found
        if kind_of(manifest["apiVersion"], manifest["kind"])
    ]
