"""What the agent knows of pods: their objects from the API server, their states from the runtime.

Fed by a watch, by answers to the agent's own writes and by the runtime. Every change wakes the
pod that it is about. Decides nothing but which of two versions of an object is the newer one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

import msgspec

from jobyard.node.objects.pod_object import PodObject
from jobyard.node.objects.taskset_replica import without_discovery
from jobyard.node.shared.state import PodState


class PodBook:
    """Pods by uid. A sink for `client.watching.follow`."""

    def __init__(self) -> None:
        self._pods: dict[str, PodObject] = {}
        self._states: dict[str, PodState] = {}
        self._listeners: list[Callable[[str], None]] = []
        self.synced = asyncio.Event()

    def listen(self, tell: Callable[[str], None]) -> None:
        """Be told the uid of every pod of which something changed."""
        self._listeners.append(tell)

    def pods(self) -> Iterator[PodObject]:
        return iter(self._pods.values())

    def pod(self, uid: str) -> PodObject | None:
        return self._pods.get(uid)

    def state(self, uid: str) -> PodState | None:
        return self._states.get(uid)

    def uids(self) -> frozenset[str]:
        """All that anything is known of."""
        return frozenset(self._pods) | frozenset(self._states)

    def replaced(self, items: Sequence[PodObject], resource_version: str) -> None:  # noqa: ARG002
        listed = {pod.metadata.uid for pod in items}
        gone = [uid for uid in self._pods if uid not in listed]
        for uid in gone:
            del self._pods[uid]
        for pod in items:
            self._put(pod)
        self.synced.set()
        for uid in (*gone, *listed):
            self._tell(uid)

    def changed(self, obj: PodObject) -> None:
        if self._put(obj):
            self._tell(obj.metadata.uid)

    def removed(self, obj: PodObject) -> None:
        self.vanished(obj.metadata.uid)

    def reached(self, resource_version: str) -> None:
        pass

    def absorb(self, pod: PodObject) -> None:
        """The answer to a write of our own; if the watch tells of it later, it is no news then."""
        if pod.metadata.uid in self._pods:
            self.changed(pod)

    def vanished(self, uid: str) -> None:
        """The object is gone."""
        if self._pods.pop(uid, None) is not None:
            self._tell(uid)

    def stands(self, state: PodState) -> None:
        """The runtime tells how a pod stands; nothing older takes the place of something newer."""
        known = self._states.get(state.uid)
        if known is not None and known.revision > state.revision:
            return
        self._states[state.uid] = state
        self._tell(state.uid)

    def forgotten(self, uid: str) -> None:
        """The runtime keeps nothing of it any more."""
        self._states.pop(uid, None)

    def _put(self, pod: PodObject) -> bool:
        uid = pod.metadata.uid
        known = self._pods.get(uid)
        if known is not None and known.version >= pod.version:
            return False
        self._pods[uid] = without_discovery(pod)
        return True

    def _tell(self, uid: str) -> None:
        for tell in self._listeners:
            tell(uid)


def with_address(pod: PodObject, address: str) -> PodObject:
    """The pod as it will be once its status is written: it has its address before that."""
    if not address or pod.status.get("podIP"):
        return pod
    return msgspec.structs.replace(pod, status={**pod.status, "podIP": address})
