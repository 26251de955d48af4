"""A node that isn't there: what is asked of it is refused, and the rest of the server works."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import NoReturn

from jobyard.kubelet import ExecOptions, KubeletError, LogOptions, Session
from jobyard.server.streaming.kubelet import Pod


class NoNode:
    """Implements `Kubelet` for a server that runs without a node."""

    def logs(self, pod: Pod, options: LogOptions) -> AsyncGenerator[bytes, None]:
        del options
        _refuse(pod)

    async def execute(self, pod: Pod, options: ExecOptions) -> Session:
        del options
        _refuse(pod)

    async def attach(self, pod: Pod, options: ExecOptions) -> Session:
        del options
        _refuse(pod)

    async def connect(
        self, pod: Pod, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        del port
        _refuse(pod)


def _refuse(pod: Pod) -> NoReturn:
    name = pod["metadata"]["name"]
    text = f"pod {name}: this server runs without a node, so nothing of the pod is here"
    raise KubeletError(503, "ServiceUnavailable", text)
