"""Pods on the machine's own network: their orders made to fit, or refused.

The agent asks it where there is no private network. It looks up services afresh for each pod,
because nothing can be resolved later: what isn't known when a pod is ordered stays a name that
leads nowhere. Services of a job are made before its pods; a TaskSet says which replicas it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from jobyard.client.deep_json import decoded_json
from jobyard.client.request import SERVICES, get, listing, resource_named
from jobyard.client.retrying import send_patiently
from jobyard.client.sender import Sender
from jobyard.node.isolation.host import refusal
from jobyard.node.network.host_ports import HostPorts, NoPortError
from jobyard.node.network.services import PodIndex, Service, link_of, service_of
from jobyard.node.objects.pod_object import Container, PodObject
from jobyard.node.objects.surroundings import ServiceLink, Setup
from jobyard.node.objects.taskset_replica import TaskSetReplica, replica_of
from jobyard.node.ordering.host_names import HostNames, ports_of
from jobyard.node.ordering.loopback import Ports, Rewriting
from jobyard.node.ordering.problems import NeverError, NotYetError
from jobyard.node.shared.order import PodOrder
from jobyard.plan.lowering.names import TASKSET
from jobyard.plan.lowering.ssh import KEYS_PATH

# First what would do it: what is shown in a table is cut.
_NEEDS: Final = "needs the sandbox runtime (Linux with namespaces; see `jobyard doctor`)"
# Of a pod that plain processes can't be.
REFUSED: Final = "NeedsSandbox"
_TASKSETS: Final = resource_named("octopus.openi.pcl.cn/v1alpha1", "TaskSet")
_NOT_FOUND: Final = 404


class _List(msgspec.Struct):
    items: list[msgspec.Raw] = []


class Known(msgspec.Struct, frozen=True):
    """What a pod's addresses are rewritten by: services, and replicas of its TaskSet by owner."""

    services: tuple[Service, ...] = ()
    replicas: Mapping[str, str] = {}


class _Uid(msgspec.Struct, frozen=True):
    uid: str


class _Role(msgspec.Struct, frozen=True):
    name: str
    replicas: int


class _Roles(msgspec.Struct, frozen=True):
    roles: tuple[_Role, ...]


class _TaskSet(msgspec.Struct, frozen=True):
    metadata: _Uid
    spec: _Roles


class PlainNetwork:
    """See above. `pods` are those known now; `ports` is what they were told."""

    def __init__(
        self, sender: Sender, ports: HostPorts, pods: Callable[[], Iterable[PodObject]]
    ) -> None:
        self._sender = sender
        self._pods = pods
        self.ports = ports

    async def services(self) -> tuple[Service, ...]:
        """All there are now."""
        answer = await send_patiently(self._sender, listing(SERVICES, ""))
        if not answer.is_ok:
            raise NotYetError(f"services can't be looked up: {answer.problem}")
        found = decoded_json(answer.body, type=_List)
        return tuple(service_of(bytes(item)) for item in found.items)

    async def replicas(self, pod: PodObject) -> Mapping[str, str]:
        """Whom a replica of a TaskSet knows as `<role>-<index>`: all there will be, by owner."""
        own = replica_of(pod)
        if own is None:
            return {}
        name = pod.metadata.annotations.get(TASKSET, "")
        if not name:
            return {}
        request = get(_TASKSETS, pod.metadata.namespace, name)
        answer = await send_patiently(self._sender, request)
        if answer.status == _NOT_FOUND:
            return {}
        if not answer.is_ok:
            raise NotYetError(f"TaskSet {name} can't be looked up: {answer.problem}")
        found = decoded_json(answer.body, type=_TaskSet)
        if found.metadata.uid != own.taskset:
            return {}
        return {
            host: _owner(pod, TaskSetReplica(own.taskset, host))
            for role in found.spec.roles
            for host in (f"{role.name}-{index}" for index in range(role.replicas))
        }

    def links(self, namespace: str, services: Iterable[Service]) -> tuple[ServiceLink, ...]:
        """Services as variables tell of them, by their own addresses: those get rewritten."""
        nobody = PodIndex(())
        mine = (each for each in services if each.metadata.namespace == namespace)
        links = (link_of(each, nobody) for each in mine)
        return tuple(link for link in links if link is not None)

    def fitted(self, pod: PodObject, order: PodOrder, setup: Setup, known: Known) -> PodOrder:
        """The order with loopback in place of names; NeverError if plain processes can't do it."""
        _refuse(order)
        names = HostNames(pod.metadata.namespace, known.services, self._pods(), known.replicas)
        try:
            rewriting = Rewriting(names, self._ports_for(pod, names))
            containers = _everyone(pod)
            orders = [
                rewriting.container(each, _untouched(containers[each.name], each.env, setup))
                for each in (*order.init_containers, *order.containers)
            ]
            orders = [rewriting.checks(each) for each in orders]
        except NoPortError as error:
            raise NotYetError(str(error)) from error
        count = len(order.init_containers)
        return msgspec.structs.replace(
            order,
            init_containers=tuple(orders[:count]),
            containers=tuple(orders[count:]),
            ports=self.ports.grants(order.uid),
        )

    def _ports_for(self, pod: PodObject, names: HostNames) -> Ports:
        uid, namespace = pod.metadata.uid, pod.metadata.namespace
        host = f"{namespace}/{pod.host_name}"
        replica = replica_of(pod)
        # Others know a replica of a TaskSet by what stays the same when it is tried again.
        own = _owner(pod, replica) if replica is not None else host
        leading = names.leading_to(pod)

        def own_number(port: int) -> int:
            fitting = [
                f"{namespace}/{each.metadata.name}" for each in leading if port in ports_of(each)
            ]
            return self.ports.take_own(uid, own, fitting, port)

        declared = {port for each in leading for port in ports_of(each)}
        for container in _everyone(pod).values():
            declared.update(port.container_port for port in container.ports)
        return Ports(
            of=lambda owner, port: self.ports.take(uid, owner, port),
            own=own_number,
            declared=frozenset(declared),
            names=frozenset({own, host, f"{namespace}/{pod.metadata.name}"}),
        )


def _owner(pod: PodObject, replica: TaskSetReplica) -> str:
    return f"{pod.metadata.namespace}/{replica.host} of {replica.taskset}"


def _everyone(pod: PodObject) -> dict[str, Container]:
    return {each.name: each for each in (*pod.spec.init_containers, *pod.spec.containers)}


def _untouched(container: Container, env: dict[str, str], setup: Setup) -> frozenset[str]:
    """What the machine gave, and what tells a pod about itself: names that stay names."""
    told = {
        variable.name
        for variable in container.env
        if variable.value_from is not None and variable.value_from.field_ref is not None
    }
    base = {name for name, value in env.items() if setup.environment.get(name) == value}
    return frozenset({"HOSTNAME", "PATH", "VIRTUAL_ENV", *told, *base})


def _refuse(order: PodOrder) -> None:
    for container in (*order.init_containers, *order.containers):
        if any(mount.target == KEYS_PATH for mount in container.mounts):
            raise NeverError(
                f"{_NEEDS}: replicas that log in by ssh must each have a network and files of"
                " their own, and the host runtime has none for them",
                container=container.name,
                reason=REFUSED,
            )
        if problem := refusal(container):
            raise NeverError(
                f"{_NEEDS}: the host runtime can't provide {problem}, which isn't there on"
                " the machine",
                container=container.name,
                reason=REFUSED,
            )
