"""Which words are names of pods and services, where no hosts file can say so.

The same forms that `names` writes into hosts files: `name`, `name.namespace`, `.svc`,
`.svc.cluster.local`, and a host name before a service's; and `<role>-<index>` within a TaskSet.
Pure. An owner is `namespace/name`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import msgspec

from jobyard.node.network.names import CLUSTER_DOMAIN
from jobyard.node.network.services import Service
from jobyard.node.objects.pod_object import PodObject


class Meant(msgspec.Struct, frozen=True):
    """What a word stands for; `is_plain`: a single word that could be anything else too."""

    owner: str
    is_plain: bool = False


class HostNames:
    """Names as the pods of one namespace use them."""

    def __init__(
        self,
        namespace: str,
        services: Iterable[Service],
        pods: Iterable[PodObject],
        replicas: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`replicas`: the owners by the names that a TaskSet's replicas have for one another."""
        self._namespace = namespace
        self._replicas = replicas
        self._services = {
            (service.metadata.namespace, service.metadata.name): service for service in services
        }
        self._addresses = {
            service.spec.cluster_ip: f"{where}/{name}"
            for (where, name), service in self._services.items()
            if service.spec.cluster_ip not in ("", "None")
        }
        self._pods = {
            name
            for pod in pods
            if pod.metadata.namespace == namespace
            for name in (pod.host_name, pod.metadata.name)
        }

    def meant(self, word: str, *, has_port: bool) -> Meant | None:
        """Whose address a word is; None for all that is none of ours."""
        if word in self._addresses:
            return Meant(self._addresses[word])
        if word in self._replicas:
            return Meant(self._replicas[word], is_plain=True)
        for ending in (f".svc.{CLUSTER_DOMAIN}", ".svc"):
            if word.endswith(ending):
                return self._with_namespace(word.removesuffix(ending))
        service = self._services.get((self._namespace, word))
        # One without ports is a domain for its pods' names; nobody connects to it as such.
        if service is not None and (has_port or service.spec.ports):
            return Meant(f"{self._namespace}/{word}", is_plain=True)
        if has_port and word in self._pods:
            return Meant(f"{self._namespace}/{word}", is_plain=True)
        if "." not in word:
            return None
        host, _, domain = word.partition(".")
        if (self._namespace, domain) in self._services:
            return Meant(f"{self._namespace}/{host}")
        return self._with_namespace(word)

    def _with_namespace(self, word: str) -> Meant | None:
        """`service.namespace` or `host.service.namespace`."""
        match word.split("."):
            case [service, namespace] if (namespace, service) in self._services:
                return Meant(f"{namespace}/{service}")
            case [host, service, namespace] if (namespace, service) in self._services:
                return Meant(f"{namespace}/{host}")
        return None

    def leading_to(self, pod: PodObject) -> tuple[Service, ...]:
        """Services behind which the pod stands, the most particular first."""
        labels = pod.metadata.labels.items()
        found = [
            service
            for (namespace, _), service in self._services.items()
            if namespace == pod.metadata.namespace
            and service.spec.selector
            and service.spec.selector.items() <= labels
        ]
        return tuple(sorted(found, key=_particularity))

    def has_port(self, owner: str, port: int) -> bool:
        """Whether the service of this name has such a port."""
        namespace, _, name = owner.partition("/")
        service = self._services.get((namespace, name))
        return service is not None and port in ports_of(service)


def ports_of(service: Service) -> frozenset[int]:
    """The numbers a service is known by, and those its pods listen on."""
    targets = (port.target_port for port in service.spec.ports)
    return frozenset(
        {port.port for port in service.spec.ports}
        | {target for target in targets if isinstance(target, int) and target}
    )


def _particularity(service: Service) -> tuple[int, str]:
    return -len(service.spec.selector), service.metadata.name
