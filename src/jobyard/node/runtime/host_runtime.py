"""Runs pods as plain processes of this machine: where there are no namespaces, or on request."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from jobyard.node.hub.starting import HOST
from jobyard.node.runtime.hub_runtime import HubRuntime
from jobyard.node.shared.folders import PodFolder
from jobyard.node.shared.order import PodOrder


class HostRuntime(HubRuntime):
    """Pods share the machine's network and files; what needs more is refused."""

    def __init__(self, data: Path) -> None:
        super().__init__(HOST, data)

    async def connect(
        self, uid: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """By the port's number of this pod, if it has another one on the machine's network."""
        text = PodFolder(self._data, uid).order.read_bytes()
        grants = msgspec.json.decode(text, type=PodOrder).ports
        own = {grant.port: grant.number for grant in grants if grant.is_own}
        return await super().connect(uid, own.get(port, port))
