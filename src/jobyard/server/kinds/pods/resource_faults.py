"""What is wrong with the resources that a container asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobyard.server.kinds.faults import Faults
from jobyard.server.kinds.names import label_key
from jobyard.server.kinds.types.quantities import amount_of

_STANDARD = ("cpu", "memory", "ephemeral-storage")
# Of quotas, volumes and nodes; no container can have them.
_STANDARD_ELSEWHERE = ("storage", "pods", "services", "secrets", "configmaps", "limits.cpu")
_HUGE_PAGES = "hugepages-"
_NATIVE_DOMAIN = "kubernetes.io/"


def requirements_faults(resources: Mapping[str, Any], faults: Faults, path: str) -> None:
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            where = f"{path}.{field}[{name}]"
            _name_faults(name, faults, where)
            _amount_faults(name, amount, faults, where)
            if field == "requests":
                _limit_faults(name, amount, limits, faults, path)
    asked = {*limits, *requests}
    if any(name.startswith(_HUGE_PAGES) for name in asked) and not asked & {"cpu", "memory"}:
        faults.forbidden(path, "HugePages require cpu or memory")


def _name_faults(name: str, faults: Faults, path: str) -> None:
    faults.invalid(path, name, *label_key(name))
    if "/" not in name:
        if name not in _STANDARD and not name.startswith(_HUGE_PAGES):
            if name not in _STANDARD_ELSEWHERE:
                faults.invalid(path, name, "must be a standard resource type or fully qualified")
            faults.invalid(path, name, "must be a standard resource for containers")
    elif _NATIVE_DOMAIN not in name and name.startswith("requests."):
        faults.invalid(path, name, "doesn't follow extended resource name standard")


def _amount_faults(name: str, amount: str, faults: Faults, path: str) -> None:
    if amount_of(amount) < 0:
        faults.invalid(path, amount, "must be greater than or equal to 0")
    if _is_whole(name) and amount_of(amount).denominator != 1:
        faults.invalid(path, amount, "must be an integer")


def _limit_faults(
    name: str, amount: str, limits: Mapping[str, str], faults: Faults, path: str
) -> None:
    limit = limits.get(name)
    if limit is None:
        if not _may_overcommit(name):
            text = "Limit must be set for non overcommitable resources"
            faults.required(f"{path}.limits", text)
    elif amount_of(amount) != amount_of(limit) and not _may_overcommit(name):
        text = f"must be equal to {name} limit of {limit}"
        faults.invalid(f"{path}.requests", amount, text)
    elif amount_of(amount) > amount_of(limit):
        text = f"must be less than or equal to {name} limit of {limit}"
        faults.invalid(f"{path}.requests", amount, text)


def _is_native(name: str) -> bool:
    return "/" not in name or _NATIVE_DOMAIN in name


def _is_whole(name: str) -> bool:
    return not _is_native(name)


def _may_overcommit(name: str) -> bool:
    return _is_native(name) and not name.startswith(_HUGE_PAGES)
