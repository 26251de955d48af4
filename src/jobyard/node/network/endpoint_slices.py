"""EndpointSlices: who is behind a service, as Kubernetes' own controller tells it.

`slices_of` is pure and decides the same as that controller (k8s.io/endpointslice): one slice for
each set of port numbers and family of addresses, of at most a hundred pods, and an empty one where
there is nobody. Pods that are going are told too, as such. The label that says who manages them is
our own, as the API wants it of every controller, and names follow from the service instead of
chance, so that an engine that comes back finds its own. `SliceWriter` is the one that writes; the
directory calls it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_address
from typing import Any, Final

import msgspec

from jobyard.client.deep_json import decoded_json
from jobyard.client.request import Answer, create, delete, listing, replace
from jobyard.client.resources import ENDPOINT_SLICES
from jobyard.client.retrying import send_patiently
from jobyard.client.sender import Sender
from jobyard.node.network.services import Member, Service, target_number
from jobyard.node.objects.pod_object import Metadata, PodObject

ENDPOINTS_MAX: Final = 100
SERVICE_NAME: Final = "kubernetes.io/service-name"
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
HEADLESS: Final = "service.kubernetes.io/headless"
CONTROLLER: Final = "endpointslice-controller.jobyard.dev"
_RESERVED: Final = (SERVICE_NAME, MANAGED_BY, HEADLESS)
_FAMILIES: Final = {4: "IPv4", 6: "IPv6"}
_SUFFIX_LENGTH: Final = 8
NOT_FOUND: Final = 404

JSON = dict[str, Any]


def has_slices(service: Service) -> bool:
    """Those without a selector, and names for what is elsewhere, are not the controller's."""
    return bool(service.spec.selector) and service.spec.type != "ExternalName"


def slices_of(service: Service, members: Sequence[Member]) -> tuple[JSON, ...]:
    """The slices that should be there, in an order that doesn't change."""
    out = []
    for family in service.spec.ip_families or ("IPv4",):
        groups: dict[bytes, tuple[list[JSON], list[JSON]]] = {}
        for member in members:
            if _family(member.address) == family:
                ports = _ports(service, member.pod)
                group = groups.setdefault(msgspec.json.encode(ports), (ports, []))
                group[1].append(_endpoint(service, member))
        parts = [
            (ports, endpoints[at : at + ENDPOINTS_MAX])
            for ports, endpoints in groups.values()
            for at in range(0, len(endpoints), ENDPOINTS_MAX)
        ]
        out += [(family, *part) for part in parts or [([], [])]]
    names = _names(service)
    return tuple(
        {
            "apiVersion": ENDPOINT_SLICES.api_version,
            "kind": ENDPOINT_SLICES.kind,
            "metadata": _metadata(service, f"{service.metadata.name}-{suffix}"),
            "addressType": family,
            "endpoints": endpoints,
            "ports": ports,
        }
        for (family, ports, endpoints), suffix in zip(out, names, strict=False)
    )


def _names(service: Service) -> Iterator[str]:
    """Endings for the slices of a service: always the same, and another service's are others."""
    number = 0
    while True:
        seed = f"{service.metadata.uid}/{number}".encode()
        yield hashlib.sha256(seed).hexdigest()[:_SUFFIX_LENGTH]
        number += 1


def _family(address: str) -> str:
    """The family of an address that an API server takes in a slice; empty for others."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return ""
    # Pods that share the machine's network are at its own address, which leads nowhere else.
    return "" if parsed.is_loopback else _FAMILIES[parsed.version]


def _metadata(service: Service, name: str) -> JSON:
    metadata = service.metadata
    labels = {key: value for key, value in metadata.labels.items() if key not in _RESERVED}
    if service.spec.cluster_ip in ("", "None"):
        labels[HEADLESS] = ""
    owner = {"apiVersion": "v1", "kind": "Service", "name": metadata.name, "uid": metadata.uid}
    return {
        "name": name,
        "generateName": f"{metadata.name}-",
        "namespace": metadata.namespace,
        "labels": {**labels, SERVICE_NAME: metadata.name, MANAGED_BY: CONTROLLER},
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
    }


def _ports(service: Service, pod: PodObject) -> list[JSON]:
    found = []
    for port in service.spec.ports:
        if number := target_number(port, pod):
            told: JSON = {"name": port.name, "port": number, "protocol": port.protocol}
            if port.app_protocol is not None:
                told["appProtocol"] = port.app_protocol
            found.append(told)
    return found


def _endpoint(service: Service, member: Member) -> JSON:
    pod = member.pod
    conditions: Sequence[Mapping[str, Any]] = pod.status.get("conditions") or ()
    is_serving = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    endpoint: JSON = {
        "addresses": [member.address],
        "conditions": {
            "ready": member.is_ready,
            "serving": is_serving,
            "terminating": pod.is_terminating,
        },
        "targetRef": {
            "kind": "Pod",
            "namespace": pod.metadata.namespace,
            "name": pod.metadata.name,
            "uid": pod.metadata.uid,
        },
    }
    if pod.spec.node_name:
        endpoint["nodeName"] = pod.spec.node_name
    if pod.spec.hostname and pod.spec.subdomain == service.metadata.name:
        endpoint["hostname"] = pod.spec.hostname
    return endpoint


class _Item(msgspec.Struct, frozen=True):
    metadata: Metadata


class _List(msgspec.Struct, frozen=True):
    items: tuple[_Item, ...] = ()


class SliceWriter:
    """Writes what has changed. What others made for the same service stays as it is."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        # The slices of a service as they were last written, by its uid and their names.
        self._written: dict[str, dict[str, JSON]] = {}

    def forget(self, uid: str) -> None:
        """The service has gone, and its slices go with it."""
        self._written.pop(uid, None)

    async def write(self, service: Service, members: Sequence[Member]) -> Answer | None:
        """The answer that refused something; None if everything is as it should be."""
        uid = service.metadata.uid
        if uid not in self._written:
            answer = await self._found(service)
            if answer is not None:
                return answer
        written = self._written[uid]
        wanted = {each["metadata"]["name"]: each for each in slices_of(service, members)}
        for name, value in wanted.items():
            if written.get(name) != value:
                answer = await self._put(service.metadata.namespace, name, value)
                if not answer.is_ok:
                    return answer
                written[name] = value
        for name in [name for name in written if name not in wanted]:
            request = delete(ENDPOINT_SLICES, service.metadata.namespace, name)
            answer = await send_patiently(self._sender, request)
            if not answer.is_ok and answer.status != NOT_FOUND:
                return answer
            del written[name]
        return None

    async def _found(self, service: Service) -> Answer | None:
        """Takes up what an engine before this one has written."""
        namespace, name = service.metadata.namespace, service.metadata.name
        selector = f"{SERVICE_NAME}={name},{MANAGED_BY}={CONTROLLER}"
        request = listing(ENDPOINT_SLICES, namespace, label_selector=selector)
        answer = await send_patiently(self._sender, request)
        if not answer.is_ok:
            return answer
        items = decoded_json(answer.body, type=_List).items
        self._written[service.metadata.uid] = {item.metadata.name: {} for item in items}
        return None

    async def _put(self, namespace: str, name: str, value: JSON) -> Answer:
        answer = await send_patiently(
            self._sender, replace(ENDPOINT_SLICES, namespace, name, value)
        )
        if answer.status == NOT_FOUND:
            request = create(ENDPOINT_SLICES, namespace, value)
            answer = await send_patiently(self._sender, request)
        return answer
