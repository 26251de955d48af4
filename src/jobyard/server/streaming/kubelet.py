"""What the server asks of the node that runs a pod: logs, processes inside, connections.

`node.kubelet_service` implements it; the composition root brings the two together. The values
are in `jobyard.kubelet`, which both may import. Nothing here imports the node.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, Protocol

from jobyard.kubelet import ExecOptions, LogOptions, Session

Pod = dict[str, Any]


class Kubelet(Protocol):
    """One node. Pods are whole objects as stored; a pod not here, or not running, is refused."""

    def logs(self, pod: Pod, options: LogOptions) -> AsyncGenerator[bytes, None]: ...

    async def execute(self, pod: Pod, options: ExecOptions) -> Session: ...

    async def attach(self, pod: Pod, options: ExecOptions) -> Session:
        """The container's own process; `command` is not looked at."""
        ...

    async def connect(
        self, pod: Pod, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A TCP connection to a port of the pod, from inside its network (its loopback too)."""
        ...
