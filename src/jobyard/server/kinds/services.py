"""Services: defaults, addresses, ports, and what may change.

Addresses come from the `Surroundings`; everything else follows from the object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobyard.server.kinds.faults import Faults
from jobyard.server.kinds.names import dns_label
from jobyard.server.kinds.service_faults import change_faults, service_faults, status_faults
from jobyard.server.kinds.strategy import KubernetesStrategy, Particulars
from jobyard.server.kinds.surroundings import Surroundings
from jobyard.server.kinds.types.kubernetes_schemas import CORE
from jobyard.server.resource import Object

AFFINITY_SECONDS = 10800
HEADLESS = "None"
_WITH_ADDRESS = ("ClusterIP", "NodePort", "LoadBalancer")


def service_strategy(surroundings: Surroundings) -> KubernetesStrategy:
    def prepare(service: Object) -> None:
        _normalize(service, {})
        _allocate(service, surroundings)

    def prepare_change(service: Object, old: Object) -> None:
        _carry_over(service, old)
        _normalize(service, old["spec"])
        _allocate(service, surroundings)

    def check(service: Object, faults: Faults) -> None:
        service_faults(service, faults)
        address = service["spec"].get("clusterIP", "")
        metadata = service["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
        is_own = address and address != HEADLESS
        if is_own and surroundings.is_cluster_ip_taken(address, namespace, name):
            text = "failed to allocate IP {address}: provided IP is already allocated"
            listed = service["spec"]["clusterIPs"]
            faults.invalid("spec.clusterIPs", listed, text.format(address=address))

    return KubernetesStrategy(
        Particulars(
            definition=CORE + "Service",
            kind="Service",
            name_rule=dns_label,
            has_status=True,
            defaults={CORE + "ServiceSpec": _complete},
            prepare=prepare,
            prepare_change=prepare_change,
            check=check,
            check_change=change_faults,
            check_status=status_faults,
        )
    )


def is_externally_accessible(spec: dict[str, Any]) -> bool:
    kind = spec.get("type")
    if kind in ("LoadBalancer", "NodePort"):
        return True
    return kind == "ClusterIP" and bool(spec.get("externalIPs"))


def _complete(spec: dict[str, Any]) -> None:
    affinity = spec.setdefault("sessionAffinity", "None")
    if affinity == "None":
        spec.pop("sessionAffinityConfig", None)
    elif affinity == "ClientIP":
        config = spec.get("sessionAffinityConfig", {}).get("clientIP", {})
        if config.get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": AFFINITY_SECONDS}}
    kind = spec.setdefault("type", "ClusterIP")
    for port in spec.get("ports", ()):
        port.setdefault("protocol", "TCP")
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port["port"]
    if is_externally_accessible(spec):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind in _WITH_ADDRESS:
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def _normalize(service: Object, before: Mapping[str, Any]) -> None:
    """`clusterIP` is the first of `clusterIPs`, whichever of the two was given or changed."""
    spec = service["spec"]
    is_new = spec.get("clusterIP") != before.get("clusterIP")
    if before and is_new and spec.get("clusterIPs") == before.get("clusterIPs"):
        spec.pop("clusterIPs", None)
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    elif spec.get("clusterIPs") and not spec.get("clusterIP"):
        spec["clusterIP"] = spec["clusterIPs"][0]


def _allocate(service: Object, surroundings: Surroundings) -> None:
    spec, metadata = service["spec"], service["metadata"]
    if spec["type"] not in _WITH_ADDRESS:
        return
    is_headless = spec.get("clusterIP") == HEADLESS
    namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
    if not spec.get("clusterIP"):
        address = surroundings.cluster_ip(namespace, name)
        spec["clusterIP"], spec["clusterIPs"] = address, [address]
    if is_headless and not spec.get("selector"):
        # Nobody knows what stands behind it, so it is told to be of both families.
        spec.setdefault("ipFamilyPolicy", "RequireDualStack")
        families = spec.setdefault("ipFamilies", ["IPv4"])
        if len(families) < 2 and spec["ipFamilyPolicy"] != "SingleStack":
            spec["ipFamilies"] = [*families, "IPv6" if families == ["IPv4"] else "IPv4"]
    else:
        spec.setdefault("ipFamilyPolicy", "SingleStack")
        spec.setdefault("ipFamilies", ["IPv4"])
    if _needs_node_ports(spec):
        for port in spec.get("ports", ()):
            if not port.get("nodePort"):
                port["nodePort"] = surroundings.node_port(namespace, name, port["port"])


def _needs_node_ports(spec: dict[str, Any]) -> bool:
    if spec["type"] == "NodePort":
        return True
    wants_ports: bool = spec.get("allocateLoadBalancerNodePorts", True)
    return spec["type"] == "LoadBalancer" and wants_ports


def _carry_over(service: Object, old: Object) -> None:
    """What was allocated stays, unless the new type has no use for it."""
    spec, before = service["spec"], old["spec"]
    has_address, had_address = (s["type"] in _WITH_ADDRESS for s in (spec, before))
    fields = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
    if has_address and had_address:
        for field in fields:
            if not spec.get(field) and before.get(field):
                spec[field] = before[field]
    elif had_address:
        for field in fields:
            if spec.get(field) == before.get(field):
                spec.pop(field, None)
    if _needs_node_ports(spec) and _needs_node_ports(before):
        known = {port.get("name", ""): port.get("nodePort") for port in before.get("ports", ())}
        used = {port.get("nodePort") for port in spec.get("ports", ())}
        for port in spec.get("ports", ()):
            number = known.get(port.get("name", ""))
            if not port.get("nodePort") and number and number not in used:
                port["nodePort"] = number
    elif _needs_node_ports(before):
        for port in spec.get("ports", ()):
            port.pop("nodePort", None)
    if spec["type"] == "ExternalName":
        spec.pop("internalTrafficPolicy", None)
    if not is_externally_accessible(spec) and is_externally_accessible(before):
        spec.pop("externalTrafficPolicy", None)
    if before["type"] == "LoadBalancer" != spec["type"]:
        spec.pop("allocateLoadBalancerNodePorts", None)
