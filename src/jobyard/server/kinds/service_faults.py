"""What is wrong with a service, or with a change of one."""

from __future__ import annotations

from typing import Any

from jobyard.server.kinds.addresses import address_faults, endpoint_address_faults, family_of
from jobyard.server.kinds.faults import Faults
from jobyard.server.kinds.metadata import labels_faults
from jobyard.server.kinds.names import (
    dns_label,
    dns_subdomain,
    label_key,
    port_name,
    port_number,
)
from jobyard.server.resource import Object

_AFFINITY_SECONDS_MAX = 86400
_FOR_LOAD_BALANCERS = "may only be used when `type` is 'LoadBalancer'"
_NOT_FOR_NAMES = "may not be set for ExternalName services"


def service_faults(service: Object, faults: Faults) -> None:
    spec = service["spec"]
    if spec["type"] != "ExternalName":
        before = len(faults)
        _address_faults(spec, faults)
        # Addresses are given out before anything else is looked at.
        if len(faults) > before:
            return
    is_headless = spec.get("clusterIPs") == ["None"]
    if not spec.get("ports") and not is_headless and spec["type"] != "ExternalName":
        faults.required("spec.ports")
    if is_headless and spec["type"] in ("LoadBalancer", "NodePort"):
        text = f"may not be set to 'None' for {spec['type']} services"
        faults.invalid("spec.clusterIPs[0]", "None", text)
    if spec["type"] == "ExternalName":
        _external_name_faults(spec, faults)
    _ports_faults(spec.get("ports", []), faults)
    labels_faults(spec.get("selector", {}), faults, "spec.selector")
    if spec["sessionAffinity"] == "ClientIP":
        _affinity_faults(spec, faults)
    for n, address in enumerate(spec.get("externalIPs", ())):
        path = f"spec.externalIPs[{n}]"
        if address_faults(address, faults, path):
            endpoint_address_faults(address, faults, path)
    _node_port_faults(spec, faults)
    _unique_port_faults(spec.get("ports", []), faults)
    if spec["type"] != "LoadBalancer":
        if spec.get("loadBalancerSourceRanges"):
            faults.forbidden("spec.LoadBalancerSourceRanges", _FOR_LOAD_BALANCERS)
        if spec.get("allocateLoadBalancerNodePorts") is not None:
            faults.forbidden("spec.allocateLoadBalancerNodePorts", _FOR_LOAD_BALANCERS)
        if spec.get("loadBalancerClass") is not None:
            faults.forbidden("spec.loadBalancerClass", _FOR_LOAD_BALANCERS)
    policy = spec.get("externalTrafficPolicy", "")
    has_outside = spec["type"] in ("LoadBalancer", "NodePort") or spec.get("externalIPs")
    if policy and not has_outside:
        text = "may only be set for externally-accessible services"
        faults.invalid("spec.externalTrafficPolicy", policy, text)


def _external_name_faults(spec: dict[str, Any], faults: Faults) -> None:
    for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(field):
            faults.forbidden(f"spec.{field}", _NOT_FOR_NAMES)
    name = spec.get("externalName", "").removesuffix(".")
    faults.named("spec.externalName", name, dns_subdomain(name))


def _ports_faults(ports: list[dict[str, Any]], faults: Faults) -> None:
    names: set[str] = set()
    for n, port in enumerate(ports):
        path, name = f"spec.ports[{n}]", port.get("name", "")
        if len(ports) > 1 and not name:
            faults.required(f"{path}.name")
        elif name:
            faults.invalid(f"{path}.name", name, *dns_label(name))
            if name in names:
                faults.duplicate(f"{path}.name", name)
            names.add(name)
        faults.invalid(f"{path}.port", port["port"], *port_number(port["port"]))
        port_or_name_faults(port["targetPort"], faults, f"{path}.targetPort")
        if port.get("appProtocol") is not None:
            text = port["appProtocol"]
            faults.invalid(f"{path}.appProtocol", text, *label_key(text))


def port_or_name_faults(port: int | str, faults: Faults, path: str) -> None:
    wrong = port_name(port) if isinstance(port, str) else port_number(port)
    faults.invalid(path, port, *wrong)


def _affinity_faults(spec: dict[str, Any], faults: Faults) -> None:
    seconds = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"]
    if not 0 < seconds <= _AFFINITY_SECONDS_MAX:
        path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
        text = f"must be greater than 0 and less than {_AFFINITY_SECONDS_MAX}"
        faults.invalid(path, seconds, text)


def _address_faults(spec: dict[str, Any], faults: Faults) -> None:
    addresses, families = spec.get("clusterIPs", []), spec.get("ipFamilies", [])
    if addresses and addresses[0] != spec.get("clusterIP"):
        faults.invalid("spec.clusterIPs", addresses, "first value must match `clusterIP`")
    for n, family in enumerate(families):
        faults.one_of(f"spec.ipFamilies[{n}]", family, ("IPv4", "IPv6"))
        if family in families[:n]:
            faults.duplicate(f"spec.ipFamilies[{n}]", family)
    if addresses[:1] == ["None"]:
        if len(addresses) > 1:
            faults.invalid("spec.clusterIPs", addresses, "'None' must be the first and only value")
        return
    sound = [
        address_faults(address, faults, f"spec.clusterIPs[{n}]")
        for n, address in enumerate(addresses)
    ]
    if not all(sound):
        return
    for n, (address, family) in enumerate(zip(addresses, families, strict=False)):
        if family in ("IPv4", "IPv6") and family_of(address) != family:
            text = f"expected an {family} value as indicated by `ipFamilies[{n}]`"
            faults.invalid(f"spec.clusterIPs[{n}]", address, text)
    for n, family in enumerate(families):
        if family == "IPv6":
            faults.invalid(f"spec.ipFamilies[{n}]", family, "not configured on this cluster")


def _node_port_faults(spec: dict[str, Any], faults: Faults) -> None:
    seen: set[tuple[str, int]] = set()
    for n, port in enumerate(spec.get("ports", ())):
        number = port.get("nodePort")
        if not number:
            continue
        path = f"spec.ports[{n}].nodePort"
        if spec["type"] == "ClusterIP":
            faults.forbidden(path, "may not be used when `type` is 'ClusterIP'")
        if (port["protocol"], number) in seen:
            faults.duplicate(path, number)
        seen.add((port["protocol"], number))


def _unique_port_faults(ports: list[dict[str, Any]], faults: Faults) -> None:
    seen: set[tuple[str, int]] = set()
    for n, port in enumerate(ports):
        key = (port["protocol"], port["port"])
        if key in seen:
            faults.duplicate(f"spec.ports[{n}]", _as_shown(*key))
        seen.add(key)


def _as_shown(protocol: str, port: int) -> dict[str, Any]:
    """A port as the server tells of it, with the names that its fields have inside."""
    return {
        "Name": "",
        "Protocol": protocol,
        "AppProtocol": None,
        "Port": port,
        "TargetPort": 0,
        "NodePort": 0,
    }


def status_faults(service: Object, _old: Object, faults: Faults) -> None:
    ingress = service.get("status", {}).get("loadBalancer", {}).get("ingress")
    if ingress and service["spec"]["type"] != "LoadBalancer":
        text = "may only be used when `spec.type` is 'LoadBalancer'"
        faults.forbidden("status.loadBalancer.ingress", text)


def change_faults(service: Object, old: Object, faults: Faults) -> None:
    spec, before = service["spec"], old["spec"]
    if "ExternalName" in (spec["type"], before["type"]):
        return
    new_addresses, old_addresses = spec.get("clusterIPs", []), before.get("clusterIPs", [])
    if old_addresses and new_addresses[:1] != old_addresses[:1]:
        faults.invalid("spec.clusterIPs[0]", new_addresses, "may not change once set")
    new_families, old_families = spec.get("ipFamilies", []), before.get("ipFamilies", [])
    if old_families and new_families[:1] != old_families[:1]:
        faults.invalid("spec.ipFamilies[0]", new_families, "may not change once set")
