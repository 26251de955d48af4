"""What the real server answered, in one file for each topic; written with JOBYARD_WRITE_GOLDEN=1.

Only answers of the real server are ever written. The files are YAML with a case an entry, sorted,
so that a change of one case is a change in one place.
"""

from __future__ import annotations

import fcntl
import os
from functools import cache
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent.parent / "golden" / "conformance"
WRITES = bool(os.environ.get("JOBYARD_WRITE_GOLDEN"))


class _Dumper(yaml.CSafeDumper):
    """No aliases: each answer stands for itself."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def text_of(answers: Any) -> str:
    """Small collections on one line each, so that a golden file stays readable."""
    return yaml.dump(
        answers, Dumper=_Dumper, default_flow_style=None, width=160, allow_unicode=True
    )


@cache
def _topic(topic: str) -> dict[str, Any]:
    path = FOLDER / f"{topic}.yaml"
    found = yaml.load(path.read_text(), yaml.CSafeLoader) if path.exists() else None
    return found or {}


def wanted(topic: str, sentence: str) -> Any:
    """What the real server answered; None if that was never written down."""
    return _topic(topic).get(sentence)


def write(topic: str, sentence: str, answers: Any) -> None:
    """Takes the place of what was there; workers take turns."""
    path = FOLDER / f"{topic}.yaml"
    folder = os.open(FOLDER, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        _topic.cache_clear()
        path.write_text(text_of({**_topic(topic), sentence: answers}))
        _topic.cache_clear()
    finally:
        os.close(folder)


def sentences(topic: str) -> set[str]:
    """The cases that a topic has answers for."""
    return set(_topic(topic))
