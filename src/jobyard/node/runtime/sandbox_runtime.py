"""Runs pods in namespaces: the default wherever the machine allows them."""

from __future__ import annotations

from ipaddress import IPv4Network
from pathlib import Path

from jobyard.node.hub.starting import SANDBOX
from jobyard.node.runtime.abilities import look, missing_for_sandbox
from jobyard.node.runtime.hub_runtime import HubRuntime
from jobyard.node.shared.private_network import DEFAULT_NETWORK


class SandboxRuntime(HubRuntime):
    """Each pod has a network, mounts, processes and a host name of its own."""

    def __init__(self, data: Path, network: IPv4Network = DEFAULT_NETWORK) -> None:
        super().__init__(SANDBOX, data, network)

    def _remedy(self) -> str:
        missing = missing_for_sandbox(look())
        return f"{missing.reason}: {missing.remedy}" if missing else ""
