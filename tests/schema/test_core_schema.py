"""The core/v1 types that our CRDs embed are the ones Kubernetes publishes."""

from __future__ import annotations

import asyncio
from typing import Any

import core_schema
from rig.kube.api import ApiCaller
from rig.kube.plane import ControlPlane


def test_the_embedded_core_types_are_those_of_the_real_api_server(
    control_plane: ControlPlane,
) -> None:
    async def published() -> list[dict[str, Any]]:
        async with ApiCaller(control_plane) as api:
            return [(await api.request("GET", path)).body for path in core_schema.DOCUMENTS]

    assert core_schema.TARGET.read_text() == core_schema.text(asyncio.run(published())), (
        "run `make core-schema`"
    )
