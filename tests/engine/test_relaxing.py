"""What a relaxed engine leaves out of the pods that its controller makes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest

from jobyard.client.request import PODS, SERVICES, Answer, Request, create
from jobyard.engine.relaxing import LEFT_OUT, RelaxedSender


class Kept:
    """Keeps what was sent."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    async def send(self, request: Request) -> Answer:
        self.sent.append(msgspec.json.decode(request.body or b"null"))
        return Answer(201, b"{}")

    def lines(self, request: Request) -> AsyncGenerator[bytes, None]:
        raise NotImplementedError

    def chunks(self, request: Request) -> AsyncGenerator[bytes, None]:
        raise NotImplementedError


def pod(**fields: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "a", "resources": {"requests": {"cpu": "64"}}}], **fields}
    return {"kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_only_a_cluster_has_is_left_out_and_told_once(name: str) -> None:
    kept, said = Kept(), list[str]()
    sender = RelaxedSender(kept, said.append)
    for _ in range(2):
        asyncio.run(sender.send(create(PODS, "default", pod(**{name: ["x"]}))))
    assert kept.sent == [pod(), pod()]
    assert said == [f"left out of the pods, since this is one machine: {name}"]


def test_everything_else_passes_as_it_is() -> None:
    kept, said = Kept(), list[str]()
    sender = RelaxedSender(kept, said.append)
    whole = pod(restartPolicy="Never", nodeSelector={})
    service = {"kind": "Service", "spec": {"nodeName": "x"}}
    asyncio.run(sender.send(create(PODS, "default", whole)))
    asyncio.run(sender.send(create(SERVICES, "default", service)))
    assert kept.sent == [whole, service]
    assert said == []
