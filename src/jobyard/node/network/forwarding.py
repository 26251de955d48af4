"""Tells pods which ports of services they have to redirect, whenever that changed.

`redirecting` decides, the pods' supervisors do it. Where something is in the way, an event says so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

import msgspec

from jobyard.node.network.redirecting import redirects_of
from jobyard.node.network.services import PodIndex, Service
from jobyard.node.objects.events import Event, Reason, Reporter
from jobyard.node.objects.pod_object import Metadata, PodObject
from jobyard.node.shared.order import Redirect
from jobyard.node.shared.runtime import RuntimeFailedError

# See `Runtime.forward`.
Forward = Callable[[str, tuple[Redirect, ...]], Awaitable[bool]]


class Forwarder:
    """The redirected ports of all pods."""

    def __init__(self, forward: Forward, reporter: Reporter) -> None:
        self._forward = forward
        self._reporter = reporter
        # What pods were told last, by uid. Told again by a new engine, it does no harm.
        self._told: dict[str, tuple[Redirect, ...]] = {}

    async def forward(self, services: Collection[Service], index: PodIndex) -> None:
        """Makes pods redirect what they should by now."""
        wanted = redirects_of(services, index)
        pods = {pod.metadata.uid: pod for pod in index.pods}
        self._told = {uid: told for uid, told in self._told.items() if uid in pods}
        for uid in self._told.keys() | wanted.by_pod.keys():
            redirects = wanted.by_pod.get(uid, ())
            if self._told.get(uid, ()) != redirects:
                await self._tell(pods[uid], redirects)
        for clash in wanted.clashes:
            text = (
                f"port {clash.port} is not forwarded to {clash.target} on this machine: pod"
                f" {clash.pod} uses port {clash.port} itself or for another service;"
                f" use port {clash.target}"
            )
            self._warn("Service", clash.service.metadata, text)

    async def _tell(self, pod: PodObject, redirects: tuple[Redirect, ...]) -> None:
        uid = pod.metadata.uid
        try:
            # One that doesn't run is told when it does: that is a change.
            if await self._forward(uid, redirects):
                self._told[uid] = redirects
        except RuntimeFailedError as error:
            self._warn("Pod", pod.metadata, f"ports of services are not forwarded: {error}")

    def _warn(self, kind: str, about: Metadata, message: str) -> None:
        self._reporter.tell(
            Event(
                kind=kind,
                about=about,
                reason=Reason.PORT_NOT_FORWARDED,
                message=message,
                is_warning=True,
            )
        )


class PodNetwork(msgspec.Struct, frozen=True):
    """Of pods that have addresses of their own."""

    # Addresses are given before statuses tell of them.
    address_of: Callable[[str], str]
    forwarder: Forwarder
