"""What every object's metadata must be, when it is made and when it changes.

The one place for that: kinds only say how their names must look. Custom resources use it too.
Names are made, and versions and generations counted, elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobyard.schema.objectmeta import expected_name
from jobyard.server.kinds.faults import Faults
from jobyard.server.kinds.names import NameRule, as_prefix, dns_label, label_key, label_value

ANNOTATIONS_BYTES_MAX = 256 * 1024
# What only the server sets; a client's word for it is passed over.
_KEPT = ("creationTimestamp", "deletionTimestamp")
_ORPHAN, _FOREGROUND = "orphan", "foregroundDeletion"
_STANDARD = ("kubernetes", _ORPHAN, _FOREGROUND)
_OWNER_FIELDS = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")

Metadata = Mapping[str, Any]


def created_faults(metadata: Metadata, rule: NameRule, faults: Faults, path: str) -> None:
    """`rule` says how the kind's names look; one that is still to be made is made up."""
    base = metadata.get("generateName", "")
    if base:
        faults.invalid(f"{path}.generateName", base, *as_prefix(rule, base))
    name = expected_name(metadata)
    if not name:
        faults.required(f"{path}.name", "name or generateName is required")
    else:
        faults.invalid(f"{path}.name", name, *rule(name))
    namespace = metadata.get("namespace", "")
    if namespace:
        faults.invalid(f"{path}.namespace", namespace, *dns_label(namespace))
    _content_faults(metadata, faults, path)
    _finalizer_faults(metadata.get("finalizers") or (), faults, f"{path}.finalizers")


def finalizer_standing_faults(metadata: Metadata, faults: Faults, path: str) -> None:
    """Finalizers of Kubernetes' own kinds are well known or carry a domain."""
    for n, name in enumerate(metadata.get("finalizers") or ()):
        if "/" not in name and name not in _STANDARD:
            text = "name is neither a standard finalizer name nor is it fully qualified"
            faults.invalid(f"{path}.finalizers[{n}]", name, text)


def carried(metadata: Metadata, old: Metadata) -> dict[str, Any]:
    """The metadata of an update with what a client can't change put back."""
    out = dict(metadata)
    for field in _KEPT:
        if old.get(field) is not None:
            out[field] = old[field]
    for field in ("uid", "namespace", "deletionGracePeriodSeconds"):
        if out.get(field) in (None, "") and old.get(field) is not None:
            out[field] = old[field]
    return out


def updated_faults(metadata: Metadata, old: Metadata, faults: Faults, path: str) -> None:
    if old.get("deletionTimestamp"):
        before = old.get("finalizers") or ()
        added = sorted(set(metadata.get("finalizers") or ()).difference(before))
        if added:
            listed = ", ".join(f'"{name}"' for name in added)
            faults.forbidden(
                f"{path}.finalizers",
                "no new finalizers can be added if the object is being deleted, found new"
                f" finalizers []string{{{listed}}}",
            )
    for field in ("name", "namespace", "uid", *_KEPT, "deletionGracePeriodSeconds"):
        faults.immutable(f"{path}.{field}", metadata.get(field), old.get(field))
    _content_faults(metadata, faults, path)


def labels_faults(labels: Mapping[str, str], faults: Faults, path: str) -> None:
    for key, value in labels.items():
        faults.invalid(path, key, *label_key(key))
        faults.invalid(path, value, *label_value(value))


def annotations_faults(annotations: Mapping[str, str], faults: Faults, path: str) -> None:
    for key in annotations:
        faults.invalid(path, key, *label_key(key.lower()))
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > ANNOTATIONS_BYTES_MAX:
        faults.too_long(path, ANNOTATIONS_BYTES_MAX)


def _content_faults(metadata: Metadata, faults: Faults, path: str) -> None:
    labels_faults(metadata.get("labels") or {}, faults, f"{path}.labels")
    annotations_faults(metadata.get("annotations") or {}, faults, f"{path}.annotations")
    _owner_faults(metadata.get("ownerReferences") or [], faults, f"{path}.ownerReferences")


def _finalizer_faults(finalizers: Any, faults: Faults, path: str) -> None:
    for name in finalizers:
        faults.invalid(path, name, *label_key(name))
    if _ORPHAN in finalizers and _FOREGROUND in finalizers:
        text = f"finalizer {_ORPHAN} and {_FOREGROUND} cannot be both set"
        faults.invalid(path, list(finalizers), text)


def _owner_faults(owners: list[dict[str, Any]], faults: Faults, path: str) -> None:
    controller = ""
    for owner in owners:
        if not owner.get("apiVersion", "").rpartition("/")[2]:
            faults.invalid(
                f"{path}.apiVersion", owner.get("apiVersion", ""), "version must not be empty"
            )
        for field in ("kind", "name", "uid"):
            if not owner.get(field):
                faults.invalid(f"{path}.{field}", "", "must not be empty")
        if owner.get("apiVersion") == "v1" and owner.get("kind") == "Event":
            text = "/v1, Kind=Event is disallowed from being an owner"
            faults.invalid(path, owner, text)
        if owner.get("controller"):
            named = f"{owner.get('kind')}/{owner.get('name')}"
            if controller:
                faults.invalid(
                    path,
                    [{f: one[f] for f in _OWNER_FIELDS if f in one} for one in owners],
                    'Only one reference can have Controller set to true. Found "true" in'
                    f" references for {controller} and {named}",
                )
            controller = controller or named
