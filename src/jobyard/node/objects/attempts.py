"""Which attempt of its replica a pod is, by the controller's own annotation."""

from __future__ import annotations

from collections.abc import Mapping

from jobyard.numerals import whole_number
from jobyard.plan.facts.pod_facts import COUNT_MAX
from jobyard.plan.lowering.names import ATTEMPT


def attempt_of(annotations: Mapping[str, str]) -> int:
    return whole_number(annotations.get(ATTEMPT, "0"), COUNT_MAX) or 0
