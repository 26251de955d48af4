"""What is said of documents that a command leaves out because they aren't of a kind of ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from jobyard.manifest.checking import Checked

_NOTES_MAX: Final = 5


def skipped(others: Sequence[Checked], remedy: str = "") -> list[str]:
    """A note for each document; for many, one note in all. `remedy` is what takes them."""
    more = f"; {remedy}" if remedy else ""
    if len(others) <= _NOTES_MAX:
        return [
            f"{other.document.source}: {other.title}: not a kind of Jobyard, skipped{more}"
            for other in others
        ]
    kinds = Counter(_kind(other.document.value) for other in others)
    told = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
    return [f"{len(others)} documents are not of a kind of Jobyard and were skipped: {told}{more}"]


def _kind(value: dict[str, Any]) -> str:
    return str(value.get("kind"))
