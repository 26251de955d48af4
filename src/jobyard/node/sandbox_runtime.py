"""Runs pods in namespaces: the default wherever the machine allows them."""

from __future__ import annotations

from pathlib import Path

from jobyard.node.abilities import look, missing_for_sandbox
from jobyard.node.hub.starting import SANDBOX
from jobyard.node.hub_runtime import HubRuntime


class SandboxRuntime(HubRuntime):
    """Each pod has a network, mounts, processes and a host name of its own."""

    def __init__(self, data: Path) -> None:
        super().__init__(SANDBOX, data)

    def _remedy(self) -> str:
        missing = missing_for_sandbox(look())
        return f"{missing.reason}: {missing.remedy}" if missing else ""
