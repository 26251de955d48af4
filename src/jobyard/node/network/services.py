"""Services as the agent reads them: which pods stand behind one, and where it listens.

Pure. Kubernetes' endpoints controller decides the same: pods that fit the selector, have an
address and haven't ended; ready, unless the service publishes those that aren't.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address
from typing import Any, Final

import msgspec

from jobyard.node.objects.pod_object import Metadata, PodObject
from jobyard.node.objects.surroundings import ServiceLink


class ServicePort(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One port of a service."""

    port: int
    name: str = ""
    protocol: str = "TCP"
    target_port: int | str = 0
    app_protocol: str | None = None


class ServiceSpec(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Which pods a service is for."""

    selector: dict[str, str] = {}
    ports: tuple[ServicePort, ...] = ()
    cluster_ip: str = msgspec.field(name="clusterIP", default="")
    ip_families: tuple[str, ...] = ()
    publish_not_ready_addresses: bool = False
    type: str = "ClusterIP"


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """One service."""

    metadata: Metadata
    spec: ServiceSpec = ServiceSpec()


_decoder: Final = msgspec.json.Decoder(Service)


class _Bare(msgspec.Struct, frozen=True):
    metadata: Metadata


def service_of(raw: bytes) -> Service:
    """Reads what an API server sent; one that makes no sense to us leads nowhere."""
    try:
        return _decoder.decode(raw)
    except msgspec.ValidationError:
        return Service(metadata=msgspec.json.decode(raw, type=_Bare).metadata)


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A pod behind a service."""

    pod: PodObject
    address: str
    is_ready: bool


def address_of(pod: PodObject) -> str:
    """The pod's address, empty while it has none or once it has ended."""
    return "" if pod.has_ended else str(pod.status.get("podIP") or "")


def is_ready(pod: PodObject) -> bool:
    """Whether traffic should go there."""
    if pod.is_terminating:
        return False
    conditions: Sequence[Mapping[str, Any]] = pod.status.get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


class PodIndex:
    """Pods by one label each, so that a service looks at few of them and not at all."""

    def __init__(self, pods: Iterable[PodObject]) -> None:
        self.pods = tuple(pods)
        self._by_label: dict[tuple[str, str, str], list[PodObject]] = {}
        for pod in self.pods:
            for key, value in pod.metadata.labels.items():
                label = (pod.metadata.namespace, key, value)
                self._by_label.setdefault(label, []).append(pod)

    def candidates(self, service: Service) -> Sequence[PodObject]:
        """Pods with the rarest label of the selector; they need not have the others."""
        namespace = service.metadata.namespace
        lists = (
            self._by_label.get((namespace, key, value), [])
            for key, value in service.spec.selector.items()
        )
        return min(lists, key=len, default=[])


def members_of(service: Service, index: PodIndex) -> tuple[Member, ...]:
    """All pods behind the service, by name; none for one without a selector."""
    selector = service.spec.selector.items()
    found = [
        Member(
            pod=pod,
            address=address,
            is_ready=is_ready(pod) or service.spec.publish_not_ready_addresses,
        )
        for pod in index.candidates(service)
        if selector <= pod.metadata.labels.items() and (address := address_of(pod))
    ]
    return tuple(sorted(found, key=lambda member: member.pod.metadata.name))


def link_of(service: Service, index: PodIndex) -> ServiceLink | None:
    """What variables tell of it; nothing of a headless one, as in Kubernetes."""
    spec = service.spec
    if not spec.cluster_ip or spec.cluster_ip == "None" or not spec.ports:
        return None
    ready = [member.address for member in members_of(service, index) if member.is_ready]
    return ServiceLink(
        name=service.metadata.name,
        # A cluster IP leads nowhere without a proxy; a pod behind it is as good, if there is one.
        address=ready[0] if ready else spec.cluster_ip,
        ports=tuple((port.name, port.port, port.protocol) for port in spec.ports),
    )


def endpoints_of(service: Service, members: Sequence[Member], node: str) -> dict[str, Any]:
    """The Endpoints object that shows who is behind the service."""
    metadata = service.metadata
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {
            "name": metadata.name,
            "namespace": metadata.namespace,
            "labels": {**metadata.labels, "endpoints.kubernetes.io/managed-by": "jobyard"},
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Service",
                    "name": metadata.name,
                    "uid": metadata.uid,
                }
            ],
        },
        "subsets": _subsets(service, members, node),
    }


def _subsets(service: Service, members: Sequence[Member], node: str) -> list[dict[str, Any]]:
    """Pods that listen on the same numbers are told together."""
    groups: dict[tuple[tuple[str, int, str], ...], list[Member]] = {}
    for member in members:
        # Pods that share the machine's network; an API server takes no such Endpoints.
        if _is_loopback(member.address):
            continue
        ports = tuple(
            (port.name, number, port.protocol)
            for port in service.spec.ports
            if (number := target_number(port, member.pod))
        )
        if ports or not service.spec.ports:
            groups.setdefault(ports, []).append(member)
    out = []
    for ports, group in groups.items():
        subset: dict[str, Any] = {}
        ready = [_address(member, node) for member in group if member.is_ready]
        waiting = [_address(member, node) for member in group if not member.is_ready]
        if ready:
            subset["addresses"] = ready
        if waiting:
            subset["notReadyAddresses"] = waiting
        if ports:
            subset["ports"] = [
                {**({"name": name} if name else {}), "port": number, "protocol": protocol}
                for name, number, protocol in ports
            ]
        out.append(subset)
    return out


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        # Nothing that the agent wrote; the API server says what is wrong with it.
        return False


def target_number(port: ServicePort, pod: PodObject) -> int:
    """The number of the port on which the pod listens; 0 if it has none of that name."""
    if isinstance(port.target_port, int):
        return port.target_port or port.port
    for container in pod.spec.side_by_side:
        for known in container.ports:
            if (known.name, known.protocol) == (port.target_port, port.protocol):
                return known.container_port
    return 0


def _address(member: Member, node: str) -> dict[str, Any]:
    pod = member.pod
    has_name = pod.spec.hostname and pod.spec.subdomain
    return {
        "ip": member.address,
        **({"hostname": pod.spec.hostname} if has_name else {}),
        "nodeName": node,
        "targetRef": {
            "kind": "Pod",
            "namespace": pod.metadata.namespace,
            "name": pod.metadata.name,
            "uid": pod.metadata.uid,
        },
    }
