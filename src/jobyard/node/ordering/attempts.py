"""Which attempt of its replica a pod is, by the controller's own annotation."""

from __future__ import annotations

from collections.abc import Mapping

from jobyard.plan.naming import ATTEMPT


def attempt_of(annotations: Mapping[str, str]) -> int:
    text = annotations.get(ATTEMPT, "0")
    return int(text) if text.isdecimal() else 0
