"""The fake kubelet's side of the API: its requests, the pods it follows, its Node objects.

`rig.kube.kubelet` alone uses it. Made for thousands of pods: a bounded number of requests at
once, answers that nobody decodes, and watch events of which only what a node needs is
decoded. What a status says and when it is sent is not known here.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import AsyncExitStack, aclosing, suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

import aiohttp
import msgspec

from jobyard.client.backoff import wait_seconds
from rig.kube.api import LINE_BYTES_MAX, REQUEST_SECONDS
from rig.kube.plane import ControlPlane
from rig.kube.pod_life import Json, Pod
from rig.tls import client_context

PARALLEL_REQUESTS = 32
GONE = 410
JSON = "application/json"
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
PLENTY = {"cpu": "10000", "memory": "100Ti", "pods": "100000", "nvidia.com/gpu": "10000"}


# A server that others have brought to its limits; it says so, or that it took too long.
BUSY = (429, 503, 504)
BUSY_SECONDS = 0.5


class RefusedError(Exception):
    """The API server refused a request of the kubelet; the text says which and why."""


class _ForgottenError(Exception):
    """The server has no history from that version on any more (410); a new list helps."""


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str


class _PodList(msgspec.Struct):
    metadata: _ListMetadata
    items: list[msgspec.Raw]


class Seen(msgspec.Struct, frozen=True):
    """A pod at one moment; `raw` is all of its JSON, for scripts that want to look."""

    pod: Pod
    raw: msgspec.Raw
    is_deleted: bool = False


_EVENTS = msgspec.json.Decoder(_Event)
_LISTS = msgspec.json.Decoder(_PodList)
_PODS = msgspec.json.Decoder(Pod)


class Wire:
    """Requests to one control plane, while an `async with` block lasts."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._slots = asyncio.Semaphore(PARALLEL_REQUESTS)
        # A request is never cancelled in the middle: aiohttp wouldn't wait for the TLS
        # goodbye, and a loop that ends before it leaks the socket.
        self._requests = asyncio.TaskGroup()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        plane = self._plane
        self._session = await self._stack.enter_async_context(
            aiohttp.ClientSession(
                base_url=plane.url,
                connector=aiohttp.TCPConnector(
                    limit=0, ssl=client_context(plane.ca, plane.cert, plane.key)
                ),
                timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS),
                read_bufsize=LINE_BYTES_MAX,
            )
        )
        await self._stack.enter_async_context(self._requests)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stack.__aexit__(kind, error, traceback)

    async def call(
        self, method: str, path: str, body: Json | None = None, content_type: str = JSON
    ) -> bytes | None:
        """The answer to one request, or None when its object is gone, replaced or settled.

        Raises RefusedError on any other refusal.
        """
        data = None if body is None else msgspec.json.encode(body)
        while True:
            async with self._slots:
                request = self._requests.create_task(self._send(method, path, data, content_type))
                status, answer = await asyncio.shield(request)
            if status < 300:
                return answer
            if status == 409 and b"object has been modified" in answer:
                continue
            if status in BUSY:
                await wait_seconds(BUSY_SECONDS)
                continue
            if status in (404, 409) or (status == 403 and b"being terminated" in answer):
                return None
            raise RefusedError(f"{method} {path}: {status} {answer.decode(errors='replace')}")

    async def _send(
        self, method: str, path: str, data: bytes | None, content_type: str
    ) -> tuple[int, bytes]:
        async with self._session.request(
            method, path, data=data, headers={} if data is None else {"Content-Type": content_type}
        ) as response:
            return response.status, await response.read()

    async def pods(self, namespace: str) -> AsyncGenerator[Seen, None]:
        """The pods as they are, then as they change, without end; "" is all namespaces."""
        path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
        known: dict[str, Seen] = {}
        while True:
            listed = _LISTS.decode(await self.call("GET", path) or b"")
            present = [Seen(_PODS.decode(raw), raw) for raw in listed.items]
            for uid in known.keys() - {seen.pod.metadata.uid for seen in present}:
                gone = known.pop(uid)
                yield Seen(gone.pod, gone.raw, is_deleted=True)
            for seen in present:
                known[seen.pod.metadata.uid] = seen
                yield seen
            version = listed.metadata.resource_version
            with suppress(_ForgottenError):
                # The server ends a watch now and then, also because its reader is slow.
                while True:
                    async with aclosing(self._watch(path, version)) as changes:
                        async for seen in changes:
                            version = seen.pod.metadata.resource_version
                            known[seen.pod.metadata.uid] = seen
                            if seen.is_deleted:
                                del known[seen.pod.metadata.uid]
                            yield seen

    async def _watch(self, path: str, version: str) -> AsyncGenerator[Seen, None]:
        """What changes after `version`, until the server ends the watch."""
        async with self._session.get(
            path,
            params={"watch": "1", "resourceVersion": version},
            timeout=aiohttp.ClientTimeout(total=None),
        ) as response:
            if response.status == GONE:
                raise _ForgottenError
            response.raise_for_status()
            try:
                async for line in response.content:
                    event = _EVENTS.decode(line)
                    if event.type == "ERROR":
                        raise _ForgottenError
                    pod = _PODS.decode(event.object)
                    yield Seen(pod, event.object, is_deleted=event.type == "DELETED")
            finally:
                if response.connection is not None and response.connection.transport is not None:
                    response.connection.transport.abort()

    async def make_nodes(self, addresses: Mapping[str, str]) -> None:
        """Nodes of these names and addresses that are ready and large."""
        for name, address in addresses.items():
            await self.call("POST", "/api/v1/nodes", _node(name, address))
            # Admission taints every new node as not ready, and the controller that would
            # take that away again isn't there.
            untainted = {"spec": {"taints": None}}
            await self.call("PATCH", f"/api/v1/nodes/{name}", untainted, MERGE)

    async def remove_nodes(self, names: Iterable[str]) -> None:
        for name in names:
            await self.call("DELETE", f"/api/v1/nodes/{name}")


def now_text() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def host_ip(number: int) -> str:
    """The address of a node: of the machine itself, where nothing listens for anybody."""
    return f"127.255.{number // 250}.{number % 250 + 1}"


def _node(name: str, ip: str) -> Json:
    now = now_text()
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "the fake kubelet is ready",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    labels = {"hostname": name, "os": "linux", "arch": "amd64"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {f"kubernetes.io/{key}": value for key, value in labels.items()},
        },
        "status": {
            "capacity": PLENTY,
            "allocatable": PLENTY,
            "conditions": [ready],
            "addresses": [
                {"type": "InternalIP", "address": ip},
                {"type": "Hostname", "address": name},
            ],
        },
    }
