"""Pods without what only a cluster can give: what a relaxed engine leaves out of them.

Most files were written for a cluster. What picks a node, a class or an account there means nothing
on one machine, and would keep the job from running at all. The controller's requests pass through
here; each kind of thing that is left out is told once.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

import msgspec

from jobyard.client.request import Answer, Request
from jobyard.client.sender import Sender

LEFT_OUT: Final = (
    "nodeName",
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "priorityClassName",
    "runtimeClassName",
    "imagePullSecrets",
    "serviceAccountName",
    "serviceAccount",
)


class RelaxedSender:
    """A Sender that leaves those fields out of the pods it creates."""

    def __init__(self, sender: Sender, say: Callable[[str], None]) -> None:
        self._sender = sender
        self._say = say
        self._told: set[str] = set()

    async def send(self, request: Request) -> Answer:
        if request.method == "POST" and request.path.endswith("/pods"):
            request = self._relaxed(request)
        return await self._sender.send(request)

    def lines(self, request: Request) -> AsyncGenerator[bytes, None]:
        return self._sender.lines(request)

    def chunks(self, request: Request) -> AsyncGenerator[bytes, None]:
        return self._sender.chunks(request)

    def _relaxed(self, request: Request) -> Request:
        pod: dict[str, Any] = msgspec.json.decode(request.body or b"{}")
        spec = pod.get("spec") or {}
        dropped = [name for name in LEFT_OUT if spec.get(name)]
        if not dropped:
            return request
        self._tell(dropped)
        kept = {name: value for name, value in spec.items() if name not in dropped}
        return msgspec.structs.replace(request, body=msgspec.json.encode({**pod, "spec": kept}))

    def _tell(self, dropped: list[str]) -> None:
        fresh = [name for name in dropped if name not in self._told]
        if fresh:
            self._told.update(fresh)
            self._say(f"left out of the pods, since this is one machine: {', '.join(fresh)}")
