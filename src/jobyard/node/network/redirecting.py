"""Ports of services that arrive at other ports of pods: which pod has to change what.

A service's name leads straight to its pods, without an address of its own in between; so it is
the pod that lets a call at the service's port arrive where it listens. Pure: `directory` asks for
it whenever a pod or a service changed. A headless service changes no ports, as on a cluster.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

import msgspec

from jobyard.node.network.services import PodIndex, Service, members_of, target_number
from jobyard.node.shared.order import Redirect


class Clash(msgspec.Struct, frozen=True):
    """A port of a service that can't be changed, since the pod has another use for it."""

    service: Service
    pod: str
    port: int
    target: int


class Redirects(msgspec.Struct, frozen=True):
    """By uid of the pod."""

    by_pod: Mapping[str, tuple[Redirect, ...]]
    clashes: tuple[Clash, ...]


def redirects_of(services: Collection[Service], index: PodIndex) -> Redirects:
    """What pods that run have to change, services in order of their names."""
    changing = sorted(filter(_may_change_ports, services), key=lambda s: s.metadata.name)
    if not changing:
        return Redirects({}, ())
    own = _own_ports(services, index)
    wanted: dict[str, dict[tuple[str, int], int]] = {}
    clashes = []
    for service in changing:
        for member in members_of(service, index):
            pod = member.pod
            if pod.status.get("phase") != "Running":
                continue
            mine = wanted.setdefault(pod.metadata.uid, {})
            for port in service.spec.ports:
                target = target_number(port, pod)
                if target in (0, port.port):
                    continue
                called = (port.protocol, port.port)
                is_own = called in own[pod.metadata.uid]
                if is_own or mine.setdefault(called, target) != target:
                    clashes.append(Clash(service, pod.metadata.name, port.port, target))
    by_pod = {
        uid: tuple(
            Redirect(protocol=protocol, port=port, target=target)
            for (protocol, port), target in sorted(ports.items())
        )
        for uid, ports in wanted.items()
    }
    return Redirects(by_pod, tuple(clashes))


def _may_change_ports(service: Service) -> bool:
    is_headless = service.spec.cluster_ip in ("", "None")
    return not is_headless and any(
        isinstance(port.target_port, str) or port.target_port not in (0, port.port)
        for port in service.spec.ports
    )


def _own_ports(
    services: Collection[Service], index: PodIndex
) -> Mapping[str, set[tuple[str, int]]]:
    """By uid, the ports at which a pod is to be reached itself.

    Those that its containers declare, and those of services that lead to the same number.
    """
    own: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for service in services:
        for member in members_of(service, index):
            pod = member.pod
            own[pod.metadata.uid] |= {
                (port.protocol, port.port)
                for port in service.spec.ports
                if target_number(port, pod) == port.port
            }
            own[pod.metadata.uid] |= {
                (known.protocol, known.container_port)
                for container in pod.spec.side_by_side
                for known in container.ports
            }
    return own
