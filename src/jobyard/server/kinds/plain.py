"""Kinds with little of their own: service accounts, leases, nodes, priority classes."""

from __future__ import annotations

import copy
from typing import Any

from jobyard.server.kinds.faults import Faults
from jobyard.server.kinds.selectors import taint_faults
from jobyard.server.kinds.strategy import KubernetesStrategy, Particulars
from jobyard.server.kinds.surroundings import SYSTEM_PRIORITIES
from jobyard.server.kinds.types.kubernetes_schemas import CORE
from jobyard.server.resource import Object

_PRIORITY_MAX = 1_000_000_000
_SYSTEM_PREFIX = "system-"


def service_account_strategy() -> KubernetesStrategy:
    return KubernetesStrategy(
        Particulars(definition=CORE + "ServiceAccount", kind="ServiceAccount")
    )


def lease_strategy() -> KubernetesStrategy:
    definition = "io.k8s.api.coordination.v1.Lease"
    return KubernetesStrategy(Particulars(definition=definition, kind="Lease", check=_lease_faults))


def node_strategy() -> KubernetesStrategy:
    return KubernetesStrategy(
        Particulars(
            definition=CORE + "Node",
            kind="Node",
            # A node comes with its status; only afterwards that has a door of its own.
            defaults={CORE + "NodeStatus": _complete_node_status},
            prepare_change=_keep_status,
            check=lambda node, faults: taint_faults(
                node["spec"].get("taints", []), faults, "metadata.taints"
            ),
            check_change=_node_change_faults,
            checks_words=False,
        )
    )


def priority_class_strategy() -> KubernetesStrategy:
    definition = "io.k8s.api.scheduling.v1.PriorityClass"
    return KubernetesStrategy(
        Particulars(
            definition=definition,
            kind="PriorityClass",
            defaults={definition: _complete_priority},
            check=_priority_faults,
            check_change=_priority_change_faults,
            checks_change_alone=True,
        )
    )


def _lease_faults(lease: Object, faults: Faults) -> None:
    spec = lease["spec"]
    seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if seconds is not None and seconds <= 0:
        faults.invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    if transitions is not None and transitions < 0:
        text = "must be greater than or equal to 0"
        faults.invalid("spec.leaseTransitions", transitions, text)
    if spec.get("preferredHolder") and not spec.get("strategy"):
        text = "may only be specified if `strategy` is defined"
        faults.forbidden("spec.preferredHolder", text)


def _complete_node_status(status: dict[str, Any]) -> None:
    if "capacity" in status and "allocatable" not in status:
        status["allocatable"] = copy.deepcopy(status["capacity"])


def _keep_status(node: Object, old: Object) -> None:
    node["status"] = old.get("status", {})


def _node_change_faults(node: Object, old: Object, faults: Faults) -> None:
    for field, title in (("podCIDRs", "podCIDR"), ("providerID", "providerID")):
        before = old["spec"].get(field)
        if before and node["spec"].get(field) != before:
            text = f'node updates may not change {title} except from "" to valid'
            faults.forbidden(f"spec.{field}", text)


def _complete_priority(priority: dict[str, Any]) -> None:
    priority.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _priority_faults(priority: Object, faults: Faults) -> None:
    name, value = priority["metadata"].get("name", ""), priority["value"]
    if name.startswith(_SYSTEM_PREFIX):
        if SYSTEM_PRIORITIES.get(name) != value:
            faults.forbidden(
                "metadata.name",
                f"priority class names with '{_SYSTEM_PREFIX}' prefix are reserved for system use"
                f" only. error: {name} is not a known system priority class",
            )
    elif value > _PRIORITY_MAX:
        text = f"maximum allowed value of a user defined priority is {_PRIORITY_MAX}"
        faults.forbidden("value", text)


def _priority_change_faults(priority: Object, old: Object, faults: Faults) -> None:
    if priority["value"] != old.get("value"):
        faults.forbidden("value", "may not be changed in an update.")
    faults.immutable(
        "preemptionPolicy", priority.get("preemptionPolicy"), old.get("preemptionPolicy")
    )
