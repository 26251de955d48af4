"""What may change in a pod that exists: little of its spec, and its status within reason."""

from __future__ import annotations

import copy
from typing import Any

from jobyard.server.kinds.addresses import address_faults
from jobyard.server.kinds.faults import Faults
from jobyard.server.kinds.names import ID_MAX, within
from jobyard.server.kinds.pods.pod_faults import pod_faults
from jobyard.server.kinds.selectors import toleration_faults
from jobyard.server.kinds.types.enumerations import enumeration_faults
from jobyard.server.kinds.types.kubernetes_schemas import CORE
from jobyard.server.resource import Object

_UPDATABLE = ",".join(
    (
        "`spec.containers[*].image`",
        "`spec.initContainers[*].image`",
        "`spec.activeDeadlineSeconds`",
        "`spec.tolerations` (only additions to existing tolerations)",
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously"
        " negative)",
    )
)


def change_faults(pod: Object, old: Object, faults: Faults) -> None:
    pod_faults(pod, faults)
    enumeration_faults(pod, CORE + "Pod", faults)
    spec, before = pod["spec"], old["spec"]
    for field in ("containers", "initContainers"):
        if len(spec.get(field) or ()) != len(before.get(field) or ()):
            text = "pod updates may not add or remove containers"
            faults.forbidden(f"spec.{field}", text)
            return
    if not _deadline_is_fine(spec, before, faults):
        return
    _toleration_faults(spec, before, faults)
    _gate_faults(spec, before, faults)
    if _without_updatable(spec, before) != before:
        text = f"pod updates may not change fields other than {_UPDATABLE}"
        faults.forbidden("spec", text)


def _deadline_is_fine(spec: dict[str, Any], before: dict[str, Any], faults: Faults) -> bool:
    new, old = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    path = "spec.activeDeadlineSeconds"
    if new is None:
        if old is not None:
            faults.invalid(path, None, "must not update from a positive integer to nil value")
        return True
    wrong = within(new, 0, ID_MAX)
    if not wrong and old is not None and old < new:
        wrong = ("must be less than or equal to previous value",)
    faults.invalid(path, new, *wrong)
    return not wrong


def _toleration_faults(spec: dict[str, Any], before: dict[str, Any], faults: Faults) -> None:
    def bare(toleration: dict[str, Any]) -> dict[str, Any]:
        return {key: item for key, item in toleration.items() if key != "tolerationSeconds"}

    tolerations = spec.get("tolerations", [])
    kept = [bare(toleration) for toleration in tolerations]
    if any(bare(toleration) not in kept for toleration in before.get("tolerations", ())):
        text = "existing toleration can not be modified except its tolerationSeconds"
        faults.forbidden("spec.tolerations", text)
        return
    for n, toleration in enumerate(tolerations):
        toleration_faults(toleration, faults, f"spec.tolerations[{n}]")


def _gate_faults(spec: dict[str, Any], before: dict[str, Any], faults: Faults) -> None:
    known = {gate["name"] for gate in before.get("schedulingGates", ())}
    for n, gate in enumerate(spec.get("schedulingGates", ())):
        if gate["name"] not in known:
            text = f"only deletion is allowed, but found new scheduling gate '{gate['name']}'"
            faults.forbidden(f"spec.schedulingGates[{n}].name", text)


def _without_updatable(spec: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """The new spec with the old one's values in all that may change."""
    out = copy.deepcopy(spec)
    for field in ("containers", "initContainers"):
        for new, old in zip(out.get(field) or (), before.get(field) or (), strict=True):
            new["image"] = old.get("image", "")
            if not new["image"]:
                new.pop("image")
    for field in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        out.pop(field, None)
        if field in before:
            out[field] = before[field]
    grace = before.get("terminationGracePeriodSeconds", 0)
    if grace < 0 and out.get("terminationGracePeriodSeconds") == 1:
        out["terminationGracePeriodSeconds"] = grace
    if before.get("schedulingGates") and "nodeSelector" in out:
        added = {**out["nodeSelector"], **before.get("nodeSelector", {})}
        if added == out["nodeSelector"]:
            out.pop("nodeSelector")
            if "nodeSelector" in before:
                out["nodeSelector"] = before["nodeSelector"]
    return out


def status_faults(pod: Object, old: Object, faults: Faults) -> None:
    status, before = pod.get("status", {}), old.get("status", {})
    faults.immutable("status.qosClass", status.get("qosClass"), before.get("qosClass"))
    if status.get("observedGeneration", 0) < 0:
        text = "must be a non-negative integer"
        faults.invalid("status.observedGeneration", status["observedGeneration"], text)
    for field in ("containerStatuses", "initContainerStatuses"):
        _transition_faults(status, before, field, pod["spec"], faults)
    _address_list_faults(status, "podIPs", faults)
    hosts = status.get("hostIPs", [])
    if hosts and status.get("hostIP") != hosts[0]["ip"]:
        faults.invalid("status.hostIPs[0].ip", hosts[0]["ip"], "must be equal to `hostIP`")
    _address_list_faults(status, "hostIPs", faults)


def _address_list_faults(status: dict[str, Any], field: str, faults: Faults) -> None:
    addresses = [item["ip"] for item in status.get(field, ())]
    for n, address in enumerate(addresses):
        address_faults(address, faults, f"status.{field}[{n}]")
    if len(addresses) > 2 or len({":" in address for address in addresses}) < len(addresses):
        text = "may specify no more than one IP for each IP family"
        faults.invalid(f"status.{field}", status[field], text)


def _transition_faults(
    status: dict[str, Any],
    before: dict[str, Any],
    field: str,
    spec: dict[str, Any],
    faults: Faults,
) -> None:
    """A container that ended for good does not run again."""
    now = {item["name"]: item.get("state", {}) for item in status.get(field, ())}
    for n, item in enumerate(before.get(field, ())):
        ended = item.get("state", {}).get("terminated")
        state = now.get(item["name"])
        if ended is None or state is None or state.get("terminated") is not None:
            continue
        if not _may_restart(item["name"], field, ended.get("exitCode", 0), spec):
            text = "may not be transitioned to non-terminated state"
            faults.forbidden(f"status.{field}[{n}].state", text)


def _may_restart(name: str, field: str, exit_code: int, spec: dict[str, Any]) -> bool:
    listed = spec.get("containers" if field == "containerStatuses" else "initContainers") or ()
    container: dict[str, Any] = next((item for item in listed if item["name"] == name), {})
    if container.get("restartPolicyRules"):
        return True
    policy = container.get("restartPolicy", spec["restartPolicy"])
    if field == "initContainerStatuses" and policy != "Never":
        return exit_code != 0 or container.get("restartPolicy") == "Always"
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)
