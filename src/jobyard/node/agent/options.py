"""What the agent is told when it is put together. `options_of` alone looks at this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from ipaddress import IPv4Network
from pathlib import Path

import msgspec

from jobyard.node.agent.capacity import Capacity, capacity_of_machine
from jobyard.node.agent.disk_use import DISK_BYTES_DEFAULT
from jobyard.node.objects.surroundings import ImageRule, Setup
from jobyard.node.ordering.environment import inherited


class AgentOptions(msgspec.Struct, frozen=True, kw_only=True):
    """One node."""

    data: Path
    setup: Setup
    capacity: Capacity = Capacity()
    # None: pods share the machine's network.
    network: IPv4Network | None = None
    # Claims that are folders of the user's, by name or namespace/name.
    claim_folders: Mapping[str, Path] = {}
    # Where the files of other claims are kept; absent: below the data folder.
    claims_kept: Path | None = None
    # How much what is left of pods that are over may be.
    disk_bytes: int = DISK_BYTES_DEFAULT
    is_strict: bool = False
    # Not on a cluster that has a controller for them.
    writes_endpoints: bool = True
    labels: Mapping[str, str] = {}
    # Where the engine's proxy is; empty where pods have a way out without it.
    proxy: Callable[[], str] = str

    def hiding(self, *folders: Path) -> AgentOptions:
        """The same, with more folders that no sandbox shows."""
        hidden = (*self.setup.hidden_folders, *map(str, folders))
        setup = msgspec.structs.replace(self.setup, hidden_folders=hidden)
        return msgspec.structs.replace(self, setup=setup)

    @property
    def node_name(self) -> str:
        return self.setup.node_name


def options_of(
    node_name: str,
    data: Path,
    *,
    network: IPv4Network | None,
    image_rules: tuple[ImageRule, ...] = (),
    is_strict: bool = False,
    proxy: Callable[[], str] = str,
) -> AgentOptions:
    """Options for this machine, with the environment and folder that the engine has now."""
    has = capacity_of_machine(data)
    gateway = str(network[1]) if network is not None else ""
    resolver = data / "resolv.conf"
    setup = Setup(
        node_name=node_name,
        host_address=gateway or "127.0.0.1",
        environment=inherited(os.environ),
        start_folder=str(Path.cwd()),
        kept_folders=(os.path.expanduser("~"), "/tmp"),  # noqa: S108 - the machine's
        hidden_folders=(str(data),),
        virtualenv=sys.prefix if sys.prefix != sys.base_prefix else "",
        image_rules=image_rules,
        has_real_uids=is_strict and os.geteuid() == 0,
        allocatable=has.resources(),
        has_gpus=has.gpus > 0,
        prefix_length=network.prefixlen if network is not None else 16,
        gateway=gateway,
        resolver_file=str(resolver) if resolver.exists() else "",
    )
    return AgentOptions(
        data=data,
        setup=setup,
        capacity=has,
        network=network,
        is_strict=is_strict,
        proxy=proxy,
    )


def with_capacity(
    options: AgentOptions, declared: Mapping[str, str], say: Callable[[str], None]
) -> AgentOptions:
    """The same, but that the machine counts as what was declared; more than it has is told."""
    if not declared:
        return options
    capacity, more = options.capacity.declaring(declared)
    if more:
        say(f"the machine counts as more than it has: {', '.join(more)}")
    setup = msgspec.structs.replace(options.setup, allocatable=capacity.resources())
    return msgspec.structs.replace(options, capacity=capacity, setup=setup)


def with_log_size(options: AgentOptions, log_bytes: int) -> AgentOptions:
    """The same, but that so much of the log of each run of a container is kept."""
    setup = msgspec.structs.replace(options.setup, log_bytes=log_bytes)
    return msgspec.structs.replace(options, setup=setup)
