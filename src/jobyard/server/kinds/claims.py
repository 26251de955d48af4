"""PersistentVolumeClaims: what a claim must ask for, and that it asks once."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

from jobyard.server.kinds.faults import Faults
from jobyard.server.kinds.names import dns_subdomain
from jobyard.server.kinds.selectors import label_selector_faults
from jobyard.server.kinds.strategy import KubernetesStrategy, Particulars
from jobyard.server.kinds.types.decoding import Default
from jobyard.server.kinds.types.kubernetes_schemas import CORE
from jobyard.server.kinds.types.quantities import amount_of, rounded_to_milli
from jobyard.server.resource import Object

_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_ALONE = "ReadWriteOncePod"


def claim_strategy() -> KubernetesStrategy:
    return KubernetesStrategy(
        Particulars(
            definition=CORE + "PersistentVolumeClaim",
            kind="PersistentVolumeClaim",
            has_status=True,
            defaults={
                **CLAIM_DEFAULTS,
                CORE + "PersistentVolumeClaimStatus": _complete_status,
            },
            prepare=_normalize,
            prepare_change=lambda claim, _old: _normalize(claim),
            check=lambda claim, faults: claim_spec_faults(claim["spec"], faults, "spec"),
            check_change=_change_faults,
        )
    )


def _complete_spec(spec: dict[str, Any]) -> None:
    spec.setdefault("volumeMode", "Filesystem")


def _complete_status(status: dict[str, Any]) -> None:
    status.setdefault("phase", "Pending")


def _round(resources: dict[str, Any]) -> None:
    for field in ("limits", "requests"):
        for name, text in resources.get(field, {}).items():
            resources[field][name] = rounded_to_milli(text)


# What a claim inside a pod gets as well.
CLAIM_DEFAULTS: Final[Mapping[str, Default]] = {
    CORE + "PersistentVolumeClaimSpec": _complete_spec,
    CORE + "VolumeResourceRequirements": _round,
}


def _normalize(claim: Object) -> None:
    """The two spellings of a data source stand for one another, within the namespace."""
    spec = claim["spec"]
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source and not reference:
        spec["dataSourceRef"] = copy.deepcopy(source)
    elif reference and not source and not reference.get("namespace"):
        spec["dataSource"] = copy.deepcopy(reference)


def claim_spec_faults(spec: dict[str, Any], faults: Faults, path: str) -> None:
    modes = spec.get("accessModes", [])
    if not modes:
        faults.required(f"{path}.accessModes", "at least 1 access mode is required")
    if "selector" in spec:
        label_selector_faults(spec["selector"], faults, f"{path}.selector")
    for mode in modes:
        faults.one_of(f"{path}.accessModes", mode, _MODES)
    if _ALONE in modes and any(mode in _MODES and mode != _ALONE for mode in modes):
        text = "may not use ReadWriteOncePod with other access modes"
        faults.forbidden(f"{path}.accessModes", text)
    _storage_faults(spec, faults, f"{path}.resources[storage]")
    name = spec.get("storageClassName")
    if name:
        faults.invalid(f"{path}.storageClassName", name, *dns_subdomain(name))


def _storage_faults(spec: dict[str, Any], faults: Faults, path: str) -> None:
    storage = spec.get("resources", {}).get("requests", {}).get("storage")
    if storage is None:
        faults.required(path)
    elif amount_of(storage) <= 0:
        faults.invalid(path, storage, "must be greater than zero")


def _change_faults(claim: Object, old: Object, faults: Faults) -> None:
    new_spec, old_spec = copy.deepcopy(claim["spec"]), copy.deepcopy(old["spec"])
    for field in ("volumeName", "storageClassName"):
        if not old_spec.get(field):
            old_spec[field] = new_spec.get(field)
            new_spec.setdefault(field, None)
    if claim.get("status", {}).get("phase") == "Bound":
        for spec in (new_spec, old_spec):
            spec.get("resources", {}).get("requests", {}).pop("storage", None)
            spec.pop("volumeAttributesClassName", None)
    if new_spec != old_spec:
        faults.forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and"
            " volumeAttributesClassName for bound claims",
        )
    faults.immutable("volumeMode", claim["spec"].get("volumeMode"), old["spec"].get("volumeMode"))
