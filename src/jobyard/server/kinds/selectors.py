"""Label selectors, node selectors and tolerations: shared by pods, claims and services."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobyard.server.kinds.faults import Faults
from jobyard.server.kinds.metadata import labels_faults
from jobyard.server.kinds.names import dns_subdomain, label_key, label_value

_WITH_VALUES, _WITHOUT_VALUES = ("In", "NotIn"), ("Exists", "DoesNotExist")
# Labels of nodes can be numbers.
_COMPARING = ("Gt", "Lt")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def label_selector_faults(selector: Mapping[str, Any], faults: Faults, path: str) -> None:
    labels_faults(selector.get("matchLabels", {}), faults, f"{path}.matchLabels")
    for n, requirement in enumerate(selector.get("matchExpressions", ())):
        _label_requirement_faults(requirement, faults, f"{path}.matchExpressions[{n}]")


def _label_requirement_faults(term: Mapping[str, Any], faults: Faults, path: str) -> None:
    _operator_faults(term, faults, path)
    faults.invalid(f"{path}.key", term.get("key", ""), *label_key(term.get("key", "")))
    for n, value in enumerate(term.get("values", ())):
        faults.invalid(f"{path}.values[{n}]", value, *label_value(value))


def node_selector_term_faults(term: Mapping[str, Any], faults: Faults, path: str) -> None:
    for n, requirement in enumerate(term.get("matchExpressions", ())):
        where = f"{path}.matchExpressions[{n}]"
        key = requirement.get("key", "")
        _operator_faults(requirement, faults, where, comparing=_COMPARING)
        faults.invalid(f"{where}.key", key, *label_key(key))
    for n, requirement in enumerate(term.get("matchFields", ())):
        where = f"{path}.matchFields[{n}]"
        values = requirement.get("values", ())
        if requirement.get("operator") not in _WITH_VALUES:
            faults.invalid(
                f"{where}.operator", requirement.get("operator"), "not a valid selector operator"
            )
        elif len(values) != 1:
            text = (
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            )
            faults.required(f"{where}.values", text)
        if requirement.get("key") != "metadata.name":
            faults.invalid(f"{where}.key", requirement.get("key"), "not a valid field selector key")
        for index, value in enumerate(values):
            faults.invalid(f"{where}.values[{index}]", value, *dns_subdomain(value))


def _operator_faults(
    term: Mapping[str, Any], faults: Faults, path: str, comparing: tuple[str, ...] = ()
) -> None:
    """Whether the operator is one, and has as many values as it takes."""
    operator, values = term.get("operator", ""), term.get("values", ())
    if operator in _WITH_VALUES:
        if not values:
            text = "must be specified when `operator` is 'In' or 'NotIn'"
            faults.required(f"{path}.values", text)
    elif operator in _WITHOUT_VALUES:
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            faults.forbidden(f"{path}.values", text)
    elif operator in comparing:
        if len(values) != 1:
            text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            faults.required(f"{path}.values", text)
    else:
        faults.invalid(f"{path}.operator", operator, "not a valid selector operator")


def toleration_faults(toleration: Mapping[str, Any], faults: Faults, path: str) -> None:
    key, operator = toleration.get("key", ""), toleration.get("operator", "")
    value, effect = toleration.get("value", ""), toleration.get("effect", "")
    if key:
        faults.invalid(f"{path}.key", key, *label_key(key))
    if not key and operator != "Exists":
        text = (
            'operator must be Exists when `key` is empty, which means "match all values and all'
            ' keys"'
        )
        faults.invalid(f"{path}.operator", operator, text)
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        faults.invalid(f"{path}.effect", effect, text)
    if operator in ("", "Equal"):
        wrong = label_value(value)
        if wrong:
            faults.invalid(f"{path}.operator", value, ";".join(wrong))
    elif operator == "Exists":
        if value:
            text = "value must be empty when `operator` is 'Exists'"
            faults.invalid(f"{path}.operator", value, text)
    elif operator not in _COMPARING:
        faults.not_supported(f"{path}.operator", operator, ("Equal", "Exists"))
    if effect:
        faults.one_of(f"{path}.effect", effect, _EFFECTS)


def taint_faults(taints: list[dict[str, Any]], faults: Faults, path: str) -> None:
    seen: set[tuple[str, str]] = set()
    for n, taint in enumerate(taints):
        where = f"{path}[{n}]"
        faults.invalid(f"{where}.key", taint["key"], *label_key(taint["key"]))
        wrong = label_value(taint.get("value", ""))
        if wrong:
            faults.invalid(f"{where}.value", taint.get("value", ""), ";".join(wrong))
        if not taint.get("effect"):
            faults.required(f"{where}.effect")
        else:
            faults.one_of(f"{where}.effect", taint["effect"], _EFFECTS)
        pair = (taint["key"], taint.get("effect", ""))
        if pair in seen:
            shown = {"Key": pair[0], "Value": taint.get("value", ""), "Effect": pair[1]}
            text = "taints must be unique by key and effect pair"
            faults.duplicate(where, shown | {"TimeAdded": taint.get("timeAdded")}, text)
        seen.add(pair)
