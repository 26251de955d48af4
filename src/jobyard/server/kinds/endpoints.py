"""Endpoints and EndpointSlices: where a service's pods are reached."""

from __future__ import annotations

from typing import Any

from jobyard.server.kinds.addresses import address_faults, endpoint_address_faults
from jobyard.server.kinds.faults import Faults
from jobyard.server.kinds.names import dns_label, dns_subdomain, label_key, port_number
from jobyard.server.kinds.strategy import KubernetesStrategy, Particulars
from jobyard.server.kinds.types.kubernetes_schemas import CORE
from jobyard.server.resource import Object

_DISCOVERY = "io.k8s.api.discovery.v1."
_ADDRESSES_MAX, _ENDPOINTS_MAX, _PORTS_MAX = 100, 1000, 20000


def endpoints_strategy() -> KubernetesStrategy:
    return KubernetesStrategy(
        Particulars(
            definition=CORE + "Endpoints",
            kind="Endpoints",
            defaults={CORE + "EndpointPort": lambda port: port.setdefault("protocol", "TCP")},
            check=_subset_faults,
            advice=_deprecated,
        )
    )


def slice_strategy() -> KubernetesStrategy:
    return KubernetesStrategy(
        Particulars(
            definition=_DISCOVERY + "EndpointSlice",
            kind="EndpointSlice",
            defaults={_DISCOVERY + "EndpointPort": _complete_slice_port},
            prepare=_complete_slice,
            prepare_change=lambda new, _old: _complete_slice(new),
            check=_slice_faults,
            check_change=_slice_change_faults,
        )
    )


def _deprecated(_obj: Object) -> tuple[str, ...]:
    return ("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",)


def _subset_faults(obj: Object, faults: Faults) -> None:
    for n, subset in enumerate(obj.get("subsets", ())):
        path = f"subsets[{n}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            faults.required(path, "must specify `addresses` or `notReadyAddresses`")
        for field in ("addresses", "notReadyAddresses"):
            for index, address in enumerate(subset.get(field, ())):
                _address_faults(address, faults, f"{path}.{field}[{index}]")
        ports = subset.get("ports", ())
        for index, port in enumerate(ports):
            _port_faults(port, len(ports) > 1, faults, f"{path}.ports[{index}]")


def _address_faults(address: dict[str, Any], faults: Faults, path: str) -> None:
    address_faults(address["ip"], faults, f"{path}.ip")
    if address.get("hostname"):
        faults.invalid(f"{path}.hostname", address["hostname"], *dns_label(address["hostname"]))
    if address.get("nodeName") is not None:
        faults.invalid(f"{path}.nodeName", address["nodeName"], *dns_subdomain(address["nodeName"]))
    endpoint_address_faults(address["ip"], faults, f"{path}.ip")


def _port_faults(port: dict[str, Any], needs_name: bool, faults: Faults, path: str) -> None:
    name = port.get("name", "")
    if needs_name and not name:
        faults.required(f"{path}.name")
    elif name:
        faults.invalid(f"{path}.name", name, *dns_label(name))
    faults.invalid(f"{path}.port", port["port"], *port_number(port["port"]))
    if port.get("appProtocol") is not None:
        text = port["appProtocol"]
        faults.invalid(f"{path}.appProtocol", text, *label_key(text))


def _complete_slice_port(port: dict[str, Any]) -> None:
    port.setdefault("name", "")
    port.setdefault("protocol", "TCP")


def _complete_slice(obj: Object) -> None:
    # These two are there even when there is nothing to list.
    obj.setdefault("endpoints", None)
    obj.setdefault("ports", None)


def _slice_faults(obj: Object, faults: Faults) -> None:
    if not obj["addressType"]:
        faults.required("addressType")
    endpoints = obj["endpoints"] or ()
    if len(endpoints) > _ENDPOINTS_MAX:
        faults.too_many("endpoints", len(endpoints), _ENDPOINTS_MAX)
    for n, endpoint in enumerate(endpoints):
        addresses = endpoint.get("addresses") or ()
        if not addresses:
            faults.required(f"endpoints[{n}].addresses", "must contain at least 1 address")
        elif len(addresses) > _ADDRESSES_MAX:
            faults.too_many(f"endpoints[{n}].addresses", len(addresses), _ADDRESSES_MAX)
        if obj["addressType"] in ("IPv4", "IPv6"):
            for index, address in enumerate(addresses):
                endpoint_address_faults(address, faults, f"endpoints[{n}].addresses[{index}]")
    ports = obj["ports"] or ()
    names = [port.get("name", "") for port in ports]
    for n, name in enumerate(names):
        if name:
            faults.invalid(f"ports[{n}].name", name, *dns_label(name))
        if name in names[:n]:
            faults.duplicate(f"ports[{n}].name", name)


def _slice_change_faults(obj: Object, old: Object, faults: Faults) -> None:
    faults.immutable("addressType", obj["addressType"], old.get("addressType"))
