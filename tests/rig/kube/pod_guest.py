"""One pod on a fake node: what is known of it, and each single thing that a node does to it.

`rig.kube.kubelet` decides what is done when; a guest does it, with one request, and keeps what the
server accepted. Whoever calls one of the deeds holds the guest's lock. Each returns False
when the pod is gone or isn't ours to touch any more, which is never an error here.
"""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from rig.kube.kubelet_wire import STRATEGIC, Wire, host_ip, now_text
from rig.kube.pod_life import (
    KILLED_BY_TERM,
    Exit,
    Json,
    Life,
    Pod,
    Record,
    is_over,
    status_patch,
)


class Nodes:
    """The nodes of one kubelet, dealt out in turn."""

    def __init__(self, title: str, count: int) -> None:
        assert count > 0, f"{count} nodes; pods need at least 1"
        self.names = tuple(f"{title}-{number}" for number in range(count))
        self.addresses = {name: host_ip(number) for number, name in enumerate(self.names)}
        self._pod_addresses = _pod_addresses()
        self._dealt = 0

    def next_name(self) -> str:
        self._dealt += 1
        return self.names[(self._dealt - 1) % len(self.names)]

    def next_pod_address(self) -> str:
        return next(self._pod_addresses)


@dataclass(slots=True, eq=False)
class Guest:
    """A pod (one uid) as its node knows it."""

    pod: Pod
    # The newest JSON of it.
    raw: msgspec.Raw
    wire: Wire
    nodes: Nodes
    record: Record
    # Chosen when it is first needed.
    life: Life | None = None
    node: str = ""
    is_played: bool = False
    is_lost: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    leaving: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.pod.metadata.namespace}/pods/{self.pod.metadata.name}"

    @property
    def is_live(self) -> bool:
        leaves = self.leaving.is_set() or self.is_lost
        return not leaves and not is_over(self.pod, self.record)

    def vanish(self) -> None:
        for event in (self.leaving, self.released, self.gone):
            event.set()

    async def bind(self) -> bool:
        if self.node:
            return True
        node = self.nodes.next_name()
        metadata = self.pod.metadata
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": metadata.name, "uid": metadata.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        if await self.wire.call("POST", f"{self.path}/binding", binding) is not None:
            self.node = node
        # Even when it was refused, a watch may have told that another scheduler put it here.
        return bool(self.node)

    async def run(self, *, ready: bool = True) -> bool:
        if self.record.started_at:
            return True
        return await self.write(replace(self.record, started_at=now_text(), ready=ready))

    async def wait(self, why: Exit) -> bool:
        name = self.pod.metadata.name
        assert not self.record.started_at, f"pod {name} runs already; use start=False"
        return await self.write(replace(self.record, waiting=why))

    async def end(self, exits: Mapping[str, Exit]) -> bool:
        return await self.write(self.record.ending(exits, now_text()))

    async def remove(self) -> None:
        """End what still runs, and take the pod away for good."""
        if self.gone.is_set():
            return
        if self.record.started_at and not is_over(self.pod, self.record):
            # A node that was lost and is back has its own say again.
            self.record = replace(self.record, phase="", reason="", message="")
            await self.end(dict.fromkeys(self.pod.container_names, Exit(KILLED_BY_TERM)))
        only_this = {"gracePeriodSeconds": 0, "preconditions": {"uid": self.pod.metadata.uid}}
        await self.wire.call("DELETE", self.path, only_this)

    async def write(self, record: Record) -> bool:
        """Tell the API server all that the node knows; binds the pod first if need be."""
        if not await self.bind():
            return False
        host = self.nodes.addresses[self.node]
        written = replace(record, host_ip=host, written_at=now_text())
        if not await self.patch(status_patch(self.pod, written)):
            return False
        self.record = written
        return True

    async def patch(self, patch: Json) -> bool:
        return await self.wire.call("PATCH", f"{self.path}/status", patch, STRATEGIC) is not None


def _pod_addresses() -> Iterator[str]:
    """Of the machine itself: an API server refuses to call those, and so calls nobody else's."""
    for high in range(256):
        for middle in range(256):
            for low in range(1, 255):
                yield f"127.{high}.{middle}.{low}"
