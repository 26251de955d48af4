"""Namespaces: their label, their finalizer, their phase."""

from __future__ import annotations

from typing import Any

from jobyard.server.kinds.faults import Faults
from jobyard.server.kinds.names import dns_label, label_key
from jobyard.server.kinds.strategy import KubernetesStrategy, Particulars
from jobyard.server.kinds.types.kubernetes_schemas import CORE
from jobyard.server.resource import Object

NAME_LABEL = "kubernetes.io/metadata.name"
FINALIZER = "kubernetes"
_STANDARD_FINALIZERS = (FINALIZER, "orphan", "foregroundDeletion")


def namespace_strategy() -> KubernetesStrategy:
    return KubernetesStrategy(
        Particulars(
            definition=CORE + "Namespace",
            kind="Namespace",
            name_rule=dns_label,
            has_status=True,
            defaults={
                CORE + "Namespace": _label,
                CORE + "NamespaceStatus": lambda status: status.setdefault("phase", "Active"),
            },
            prepare=_finalize,
            prepare_change=_keep_finalizers,
            check=_faults,
            check_status=_status_faults,
        )
    )


def _label(namespace: dict[str, Any]) -> None:
    name = namespace.get("metadata", {}).get("name")
    if name:
        namespace["metadata"].setdefault("labels", {})[NAME_LABEL] = name


def _finalize(namespace: Object) -> None:
    """Its objects go before it does."""
    spec = namespace.setdefault("spec", {})
    finalizers = spec.setdefault("finalizers", [])
    if FINALIZER not in finalizers:
        finalizers.append(FINALIZER)


def _keep_finalizers(namespace: Object, old: Object) -> None:
    # They change through the finalize door alone.
    finalizers = old.get("spec", {}).get("finalizers")
    namespace["spec"] = {"finalizers": finalizers} if finalizers else {}


def _faults(namespace: Object, faults: Faults) -> None:
    for name in namespace["spec"].get("finalizers", ()):
        faults.invalid("spec.finalizers", name, *label_key(name))
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            text = "name is neither a standard finalizer name nor is it fully qualified"
            faults.invalid("spec.finalizers", name, text)


def _status_faults(namespace: Object, _old: Object, faults: Faults) -> None:
    is_going = namespace["metadata"].get("deletionTimestamp") is not None
    wanted = "Terminating" if is_going else "Active"
    phase = namespace.get("status", {}).get("phase", "")
    if phase != wanted:
        state = "not empty" if is_going else "empty"
        text = f"may only be '{wanted}' if `deletionTimestamp` is {state}"
        faults.invalid("status.Phase", phase, text)
