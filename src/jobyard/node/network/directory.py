"""Keeps names up to date: hosts files for the pods, Endpoints and EndpointSlices for people.

Wakes whenever a pod or a service changed, and then looks at all of them: many changes at once
make one round. What a pod needs before it starts is there before it starts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from jobyard.client.backoff import Backoff, wait_seconds
from jobyard.client.errors import ClientError
from jobyard.client.request import Answer, create, replace
from jobyard.client.resources import ENDPOINTS
from jobyard.client.retrying import send_patiently
from jobyard.client.sender import Sender
from jobyard.node.network.endpoint_slices import SliceWriter, has_slices
from jobyard.node.network.forwarding import PodNetwork
from jobyard.node.network.names import Circle, HostsFiles, Names, circle_of, pod_line
from jobyard.node.network.services import (
    Member,
    PodIndex,
    Service,
    endpoints_of,
    link_of,
    members_of,
)
from jobyard.node.objects.events import Reporter
from jobyard.node.objects.pod_book import PodBook, with_address
from jobyard.node.objects.pod_object import PodObject
from jobyard.node.objects.surroundings import ServiceLink
from jobyard.node.objects.taskset_replica import replica_of

# A round at most this often: a gang that starts is a hundred changes.
REST_SECONDS: Final = 0.02
PATIENCE: Final = Backoff(first_seconds=1.0, max_seconds=30.0)
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
_log = logging.getLogger(__name__)


class Directory:
    """Names of pods and services. A sink for the services; `run` belongs in a task group."""

    def __init__(
        self,
        sender: Sender,
        book: PodBook,
        files: HostsFiles,
        reporter: Reporter,
        *,
        endpoints_of_node: str,
        network: PodNetwork | None,
    ) -> None:
        self._sender = sender
        self._book = book
        self._files = files
        self._reporter = reporter
        # The node that Endpoints objects name; empty: they are somebody else's to write.
        self._node = endpoints_of_node
        self._network = network
        self._services: dict[tuple[str, str], Service] = {}
        self._written: dict[str, Any] = {}
        self._slices = SliceWriter(sender)
        # Why Endpoints were not taken, by uid of the service; as of the last round.
        self._refused: dict[str, str] = {}
        self._changed = asyncio.Event()
        self.synced = asyncio.Event()
        book.listen(lambda _uid: self._changed.set())

    def replaced(self, items: Sequence[Service], resource_version: str) -> None:  # noqa: ARG002
        self._services = {(item.metadata.namespace, item.metadata.name): item for item in items}
        self.synced.set()
        self._changed.set()

    def changed(self, obj: Service) -> None:
        self._services[obj.metadata.namespace, obj.metadata.name] = obj
        self._changed.set()

    def removed(self, obj: Service) -> None:
        self._services.pop((obj.metadata.namespace, obj.metadata.name), None)
        self._written.pop(obj.metadata.uid, None)
        self._slices.forget(obj.metadata.uid)
        self._reporter.forget(obj.metadata.uid)
        self._changed.set()

    def reached(self, resource_version: str) -> None:
        pass

    def prepare(self, pod: PodObject, address: str) -> str:
        """The hosts file of the pod's circle, with the pod in it; its path."""
        circle = circle_of(pod)
        self._files.add(circle.file_name, (pod_line(pod, address, circle),))
        self._changed.set()
        return str(self._files.path(circle.file_name))

    def known_names(self, pod: PodObject) -> tuple[str, ...]:
        """Short names of services and pods of its namespace, and of replicas of its TaskSet."""
        namespace, taskset = pod.metadata.namespace, circle_of(pod).taskset
        services = (name for where, name in self._services if where == namespace)
        pods = [each for each in self._book.pods() if each.metadata.namespace == namespace]
        replicas = (replica_of(each) for each in pods) if taskset else ()
        hosts = (each.host for each in replicas if each is not None and each.taskset == taskset)
        return tuple(dict.fromkeys((*services, *(each.host_name for each in pods), *hosts)))

    def links(self, namespace: str) -> tuple[ServiceLink, ...]:
        """Services of a namespace as variables tell of them."""
        mine = [
            service
            for (where, _), service in sorted(self._services.items())
            if where == namespace and service.spec.cluster_ip not in ("", "None")
        ]
        if not mine:
            return ()
        index = self._index()
        links = (link_of(service, index) for service in mine)
        return tuple(link for link in links if link is not None)

    async def run(self) -> None:
        """Until cancelled."""
        await self.synced.wait()
        await self._book.synced.wait()
        failures = 0
        while True:
            # What failed is tried again by itself, and sooner when there is news anyway.
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE.delay_seconds(failures) if failures else None):
                    await self._changed.wait()
            self._changed.clear()
            failures = 0 if await self._round() else failures + 1
            await wait_seconds(REST_SECONDS)

    async def _round(self) -> bool:
        """Whether everything is written as it should be."""
        index = self._index()
        try:
            self._write_files(index)
            await self._write_endpoints(index)
            if self._network is not None:
                await self._network.forwarder.forward(self._services.values(), index)
        except (ClientError, OSError) as error:
            _log.warning("names: %s", error)
            return False
        return not self._refused

    def _index(self) -> PodIndex:
        if self._network is None:
            return PodIndex(self._book.pods())
        address_of = self._network.address_of
        return PodIndex(
            with_address(pod, address_of(pod.metadata.uid)) for pod in self._book.pods()
        )

    def _write_files(self, index: PodIndex) -> None:
        names = Names(index, self._services.values())
        self._files.keep_tasksets({circle.file_name for circle in names.circles})
        populated = names.circles
        for circle in populated | {Circle(each) for each in self._files.namespaces}:
            self._files.write(circle.file_name, names.lines(circle), is_read=circle in populated)

    async def _write_endpoints(self, index: PodIndex) -> None:
        refused: dict[str, str] = {}
        for service in list(self._services.values()):
            if not service.spec.selector:
                continue
            if self._node and (problem := await self._write_one(service, index)):
                refused[service.metadata.uid] = problem
        self._refused = refused

    async def _write_one(self, service: Service, index: PodIndex) -> str:
        """Why they were not taken; empty if they were."""
        members = members_of(service, index)
        refusal = await self._write_subsets(service, members)
        if refusal is None and has_slices(service):
            refusal = await self._slices.write(service, members)
        if refusal is None:
            return ""
        uid = service.metadata.uid
        namespace, name = service.metadata.namespace, service.metadata.name
        problem = str(refusal.problem)
        # A namespace on its way out takes nothing new, and the service goes with it.
        is_news = refusal.status not in (FORBIDDEN, NOT_FOUND) and self._refused.get(uid) != problem
        if is_news:
            _log.warning("endpoints of service %s/%s: %s", namespace, name, problem)
        return problem

    async def _write_subsets(self, service: Service, members: Sequence[Member]) -> Answer | None:
        """The answer that refused the Endpoints; None if they are as they should be."""
        wanted = endpoints_of(service, members, self._node)
        uid = service.metadata.uid
        if self._written.get(uid) == wanted["subsets"]:
            return None
        namespace, name = service.metadata.namespace, service.metadata.name
        answer = await send_patiently(self._sender, replace(ENDPOINTS, namespace, name, wanted))
        if answer.status == NOT_FOUND:
            answer = await send_patiently(self._sender, create(ENDPOINTS, namespace, wanted))
        if not answer.is_ok:
            return answer
        self._written[uid] = wanted["subsets"]
        return None
