"""References to a pod's own fields and resources, in variables and in files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import re2

from jobyard.server.kinds.faults import Faults
from jobyard.server.kinds.names import label_key

_ENV_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_FILE_FIELDS = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
# All that can be asked for anywhere; others have no such label at all.
_KNOWN = {*_ENV_FIELDS, *_FILE_FIELDS, "status.phase", "spec.restartPolicy", "spec.schedulerName"}
_RESOURCES = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_HUGE_PAGES = ("limits.hugepages-", "requests.hugepages-")
_SUBSCRIPT = re2.compile(r"^(.*)\['(.*)'\]$")

Reference = Mapping[str, Any]


def env_field_faults(reference: Reference, faults: Faults, path: str) -> None:
    _field_faults(reference, _ENV_FIELDS, faults, path)


def file_reference_faults(file: Reference, faults: Faults, path: str) -> None:
    """The source of a file of a downward API volume."""
    if "fieldRef" in file:
        _field_faults(file["fieldRef"], _FILE_FIELDS, faults, f"{path}.fieldRef")
        if "resourceFieldRef" in file:
            text = "fieldRef and resourceFieldRef can not be specified simultaneously"
            faults.invalid(path, "resource", text)
    elif "resourceFieldRef" in file:
        where = f"{path}.resourceFieldRef"
        resource_faults(file["resourceFieldRef"], faults, where, needs_container=True)
    else:
        faults.required(path, "one of fieldRef and resourceFieldRef is required")


def resource_faults(
    reference: Reference, faults: Faults, path: str, *, needs_container: bool = False
) -> None:
    name = reference["resource"]
    if needs_container and not reference.get("containerName"):
        faults.required(f"{path}.containerName")
    elif not name:
        faults.required(f"{path}.resource")
    elif name not in _RESOURCES and not name.startswith(_HUGE_PAGES):
        faults.not_supported(f"{path}.resource", name, _RESOURCES)


def _field_faults(
    reference: Reference, allowed: tuple[str, ...], faults: Faults, path: str
) -> None:
    field = reference["fieldPath"]
    if not field:
        faults.required(f"{path}.fieldPath")
        return
    subscripted = _SUBSCRIPT.search(field)
    base = subscripted[1] if subscripted else field
    if base not in _KNOWN or reference["apiVersion"] != "v1":
        text = f"error converting fieldPath: field label not supported: {field}"
        faults.invalid(f"{path}.fieldPath", field, text)
    elif not subscripted:
        if field not in allowed:
            faults.not_supported(f"{path}.fieldPath", field, allowed)
    elif base == "metadata.annotations":
        faults.invalid(path, subscripted[2].lower(), *label_key(subscripted[2].lower()))
    elif base == "metadata.labels":
        faults.invalid(path, subscripted[2], *label_key(subscripted[2]))
    else:
        faults.invalid(path, base, "does not support subscript")
