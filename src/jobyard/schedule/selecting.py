"""Whether a pod wants this very machine: nodeSelector and required node affinity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jobyard.numerals import signed_number

Labels = Mapping[str, str]


def wants_node(pod_spec: Mapping[str, Any], name: str, labels: Labels) -> bool:
    """Whether what a pod requires of its node holds here; preferences are no requirements."""
    selector = pod_spec.get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    affinity = (pod_spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    return any(_holds(term, name, labels) for term in required.get("nodeSelectorTerms") or ())


def _holds(term: Mapping[str, Any], name: str, labels: Labels) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    # A term that says nothing matches nothing.
    return bool(expressions or fields) and (
        all(_matches(each, labels) for each in expressions)
        and all(_matches(each, {"metadata.name": name}) for each in fields)
    )


def _matches(expression: Mapping[str, Any], labels: Labels) -> bool:
    value = labels.get(expression["key"])
    wanted: Sequence[str] = expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return value in wanted
        case "NotIn":
            return value not in wanted
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case operator:
            return _compares(operator, value, wanted)


def _compares(operator: str, value: str | None, wanted: Sequence[str]) -> bool:
    """Gt and Lt. What isn't a number compares with nothing; the API server lets it pass."""
    if value is None or len(wanted) != 1:
        return False
    # As Kubernetes' own scheduler, which takes numbers of 64 bits.
    number, bound = signed_number(value), signed_number(wanted[0])
    if number is None or bound is None:
        return False
    return number > bound if operator == "Gt" else number < bound


def selects(selector: Mapping[str, Any] | None, labels: Labels) -> bool:
    """Whether a label selector holds; one that is absent or says nothing is for everybody."""
    if not selector:
        return True
    wanted = selector.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _matches(each, labels) for each in selector.get("matchExpressions") or ()
    )
