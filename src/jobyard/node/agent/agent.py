"""The agent: what a kubelet is on a cluster, for pods that are processes of this machine.

Watches the pods of its node and the states of a runtime, and brings them together: one pass per
pod, level-triggered. It is the only writer of pod statuses. What a pass does is decided in
`pod_step` and done in `passes`, what a status says is in `pod_status`, how a pod is ordered in
`starting`; here is only who wakes whom.

A kill between any two steps does no harm. A pod's end is on the API server before anything of
it is forgotten, and it is forgotten only when its object is gone.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from typing import Final

import msgspec

from jobyard.client.backoff import Backoff
from jobyard.client.errors import ClientError
from jobyard.client.request import CONFIG_MAPS, PODS, SECRETS, SERVICES
from jobyard.client.sender import Sender
from jobyard.client.unreadable import Unreadable
from jobyard.client.watching import Decode, Sink, T, Watched, follow
from jobyard.node.agent.disk_keeper import DiskKeeper
from jobyard.node.agent.lookups import Lookups
from jobyard.node.agent.node_object import keep_node, register_node
from jobyard.node.agent.options import AgentOptions
from jobyard.node.agent.pod_queue import Lanes
from jobyard.node.agent.pod_worker import Parts, Passes
from jobyard.node.agent.sources import PodChanges, Sources, named
from jobyard.node.agent.starting import Starter
from jobyard.node.network.addresses import AddressPool
from jobyard.node.network.directory import Directory
from jobyard.node.network.forwarding import Forwarder, PodNetwork
from jobyard.node.network.host_ports import HostPorts, Reservations
from jobyard.node.network.names import HostsFiles
from jobyard.node.network.services import service_of
from jobyard.node.objects.events import Event, Reason, Reporter
from jobyard.node.objects.pod_book import PodBook
from jobyard.node.objects.pod_object import Metadata, pod_of
from jobyard.node.ordering.plain_network import PlainNetwork
from jobyard.node.ordering.references import CONFIG_MAP, SECRET
from jobyard.node.runtime.kubelet_service import KubeletService
from jobyard.node.shared.folders import pod_folders
from jobyard.node.shared.order import PodOrder
from jobyard.node.shared.runtime import Runtime
from jobyard.node.shared.state import PodState
from jobyard.node.volumes.claims import ClaimFolders

PATIENCE: Final = Backoff(first_seconds=0.2, max_seconds=10.0)
_log = logging.getLogger(__name__)


class Agent:
    """One node: `run` until cancelled. `say` gets the few lines that a user should read."""

    def __init__(
        self,
        sender: Sender,
        runtime: Runtime,
        options: AgentOptions,
        *,
        say: Callable[[str], None] = _log.info,
        ready: asyncio.Event | None = None,
    ) -> None:
        """`ready` is set once the node is on the API server and its pods are known."""
        self._sender = sender
        self._runtime = runtime
        self._options = options
        network = options.network
        self._pool = AddressPool(network, reserved=(network[1],)) if network is not None else None
        self._book = PodBook()
        self._reservations = Reservations()
        self._ports = HostPorts(self._may_listen, reservations=self._reservations)
        self._reporter = Reporter(sender, options.node_name)
        pod_network = None
        if self._pool is not None:
            pod_network = PodNetwork(self._pool.known, Forwarder(runtime.forward, self._reporter))
        self._directory = Directory(
            sender,
            self._book,
            HostsFiles(options.data / "hosts"),
            self._reporter,
            endpoints_of_node=options.node_name if options.writes_endpoints else "",
            network=pod_network,
        )
        claims = ClaimFolders(options.data, options.claim_folders, options.claims_kept)
        lookups = Lookups(sender, claims, is_strict=options.is_strict, say=say)
        plain = PlainNetwork(sender, self._ports, self._book.pods)
        starter = Starter(runtime, lookups, self._directory, self._pool or plain, options, say=say)
        self._passes = Passes(
            Parts(
                sender=sender,
                runtime=runtime,
                book=self._book,
                starter=starter,
                reporter=self._reporter,
                pool=self._pool,
                ports=self._ports,
                options=options,
            )
        )
        self._disk = DiskKeeper(options.data, options.disk_bytes)
        self.kubelet = KubeletService(runtime, options.data, self._book.state)
        self.ready = ready or asyncio.Event()

    def state(self, uid: str) -> PodState | None:
        """How a pod stands, as far as this agent has heard."""
        return self._book.state(uid)

    async def run(self) -> None:
        """Until cancelled, or until the runtime was closed. Takes over what already runs."""
        try:
            await self._run()
        finally:
            self._reservations.close()

    async def _run(self) -> None:
        since = time.time()
        for state in await self._runtime.open():
            self._passes.adopt(state)
            self._book.stands(state)
        self._adopt_addresses()
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._reporter.run()),
                group.create_task(self._directory.run()),
                group.create_task(self._keep_node(since)),
                group.create_task(self._disk.run()),
                *(group.create_task(each) for each in self._watches()),
            ]
            await self._book.synced.wait()
            await self._directory.synced.wait()
            lanes = self._passes.lanes = Lanes(group, self._passes.work, PATIENCE)
            self._book.listen(lanes.wake)
            try:
                self._clear_leftovers()
                for uid in self._book.uids():
                    lanes.wake(uid)
                async with aclosing(self._runtime.states()) as states:
                    async for state in states:
                        self._book.stands(state)
                        self._disk.heard(state)
            finally:
                lanes.close()
            for task in tasks:
                task.cancel()

    def _adopt_addresses(self) -> None:
        """Of every pod that was ordered, also if it was never started: its order stays."""
        for folder in pod_folders(self._options.data):
            try:
                order = msgspec.json.decode(folder.order.read_bytes(), type=PodOrder)
            except FileNotFoundError:
                continue
            except (OSError, msgspec.DecodeError) as error:
                _log.warning("%s: the order can't be read: %s", folder.order, error)
                continue
            self._ports.adopt(order.uid, order.ports)
            if self._pool is not None:
                self._pool.adopt(order.uid, order.address)

    def _may_listen(self, uid: str) -> bool:
        pod, state = self._book.pod(uid), self._book.state(uid)
        return pod is not None and not pod.has_ended and (state is None or not state.is_over)

    def _clear_leftovers(self) -> None:
        """Folders of pods that were never started, and whose objects went while no engine ran."""
        known = self._book.uids()
        lanes = self._passes.lanes
        assert lanes is not None, "leftovers are cleared by passes"
        for folder in pod_folders(self._options.data):
            if folder.uid not in known:
                self._passes.clear(folder.uid)
                lanes.wake(folder.uid)

    async def _keep_node(self, since: float) -> None:
        failures = 0
        while True:
            try:
                await register_node(self._sender, self._options, since)
                break
            except ClientError as error:
                failures += 1
                _log.warning("node %s: %s", self._options.node_name, error)
                await PATIENCE.after(failures)
        await self._book.synced.wait()
        self.ready.set()
        await keep_node(self._sender, self._options, since)

    def _watches(self) -> list[Coroutine[None, None, None]]:
        mine = Watched(resource=PODS, field_selector=f"spec.nodeName={self._options.node_name}")
        sources = {kind: Sources(kind, self._book, self._touched) for kind in (CONFIG_MAP, SECRET)}
        pods = PodChanges(self._book, self._passes.spoil)
        services = Watched(resource=SERVICES)
        return [
            self._follow(mine, pod_of, pods),
            self._follow(services, service_of, self._directory),
            self._follow(Watched(resource=CONFIG_MAPS), named, sources[CONFIG_MAP]),
            self._follow(Watched(resource=SECRETS), named, sources[SECRET]),
        ]

    def _touched(self, uid: str, *, is_mounted: bool) -> None:
        """Something that a pod refers to changed."""
        if is_mounted:
            self._passes.spoil(uid)
        if self._passes.lanes is not None and (is_mounted or self._passes.is_waiting(uid)):
            self._passes.lanes.wake(uid)

    async def _follow(self, watched: Watched, decode: Decode[T], sink: Sink[T]) -> None:
        def tell(error: ClientError, failures: int) -> None:
            _log.warning("watching %s (failure %d): %s", watched.resource.plural, failures, error)

        def report(found: Unreadable) -> None:
            _log.error("%s", found)
            if found.name and found.namespace:
                event = Event(
                    kind=found.resource.kind,
                    about=Metadata(name=found.name, namespace=found.namespace, uid=found.uid),
                    reason=Reason.FAILED,
                    message=str(found),
                    is_warning=True,
                )
                self._reporter.tell(event)

        await follow(self._sender, watched, decode, sink, notice=tell, report=report)
