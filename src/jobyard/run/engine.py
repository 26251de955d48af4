"""The embedded engine: server, scheduler, node agent and controller in one process.

`Engine` is an async context. Leaving it lets go of what runs (`up`, killed or told to stop: the
replicas go on and are adopted by the next engine) or stops everything (`run`, `down`).
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from ipaddress import IPv4Network
from pathlib import Path
from typing import Self

import msgspec

from jobyard.controller.measuring import Unmeasured
from jobyard.controller.running import Controller, Options
from jobyard.node.abilities import look, missing_for_sandbox
from jobyard.node.agent import Agent
from jobyard.node.host_runtime import HostRuntime
from jobyard.node.node_object import node_labels
from jobyard.node.options import options_of, with_log_size
from jobyard.node.order import LOG_BYTES_DEFAULT
from jobyard.node.ordering.images import rule_of
from jobyard.node.private_network import DEFAULT_NETWORK
from jobyard.node.runtime import Runtime
from jobyard.node.sandbox_runtime import SandboxRuntime
from jobyard.run.homes import DataFolder
from jobyard.run.in_process import InProcess
from jobyard.run.outside import Outside
from jobyard.run.own_crds import install_own_crds
from jobyard.run.placing import Scheduler
from jobyard.run.relaxing import RelaxedSender
from jobyard.schedule.amounts import Amounts
from jobyard.schedule.placing import Machine
from jobyard.server.live import LiveServer
from jobyard.server.opening import open_server

_log = logging.getLogger(__name__)
Say = Callable[[str], None]


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine is told when it is started."""

    is_strict: bool = True
    # auto: namespaces where the machine allows them.
    runtime: str = "auto"
    claims: Mapping[str, Path] = {}
    images: tuple[tuple[str, str], ...] = ()
    # Whether what was answered survives a power cut, not only a crash of the engine.
    is_durable: bool = True
    stops_everything: bool = False
    # Of sandboxes; and how much of the log of each run of a container is kept.
    network: IPv4Network = DEFAULT_NETWORK
    log_bytes: int = LOG_BYTES_DEFAULT


class Engine:
    """One engine on one data folder, which is locked by whoever made it."""

    def __init__(self, folder: DataFolder, settings: EngineSettings, say: Say) -> None:
        self.folder = folder
        self.settings = settings
        self._say = say
        self._stack = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self.failed = asyncio.Event()

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _start(self) -> None:
        path = self.folder.path
        runtime = runtime_for(self.settings, path, self._say)
        self.runtime_name = "sandbox" if isinstance(runtime, SandboxRuntime) else "host"
        server = open_server(path / "store.sqlite", durable=self.settings.is_durable)
        self._stack.callback(server.store.journal.close)
        self.live = await self._stack.enter_async_context(LiveServer(server))
        install_own_crds(server)
        # Else a list of our kinds is older than the kinds are, and can't be watched from.
        await self.live.settled()
        self.sender = InProcess(self.live)
        network = self.settings.network if isinstance(runtime, SandboxRuntime) else None
        outside = self._outside(runtime)
        options = options_of(
            node_name(socket.gethostname()),
            path,
            network=network,
            image_rules=tuple(rule_of("=".join(rule)) for rule in self.settings.images),
            claim_folders=self.settings.claims,
            is_strict=self.settings.is_strict,
            proxy=outside.url if outside is not None else str,
        )
        options = with_log_size(options, self.settings.log_bytes)
        agent = Agent(self.sender, runtime, options, say=self._say)
        self.kubelet = self.sender.kubelet = agent.kubelet
        machine = Machine(
            name=options.node_name,
            capacity=Amounts.of(options.capacity.resources()),
            labels=node_labels(options),
            is_relaxed=not self.settings.is_strict,
        )
        scheduler = Scheduler(self.sender, machine)
        relaxed = RelaxedSender(self.sender, self._say)
        own = self.sender if self.settings.is_strict else relaxed
        controller = Controller(own, Options(), Unmeasured())
        self._stack.push_async_callback(
            runtime.close, stop_everything=self.settings.stops_everything
        )
        self._stack.push_async_callback(self._cancelled)
        for name, work in (
            ("node agent", agent.run()),
            ("scheduler", scheduler.run()),
            ("controller", controller.run()),
            # Nothing that is answered any more would be true.
            ("store", self.live.until_failed()),
        ):
            task = asyncio.create_task(work, name=name)
            task.add_done_callback(self._ended)
            self._tasks.append(task)

    def _outside(self, runtime: Runtime) -> Outside | None:
        """The way out of the private network, if there is one; it is there before the pods."""
        if not isinstance(runtime, SandboxRuntime):
            return None
        outside = Outside(runtime.hub, self.settings.network, self.folder.path)
        runtime.hub.when_ready = outside.listen
        self._stack.push_async_callback(outside.close)
        return outside

    async def _cancelled(self) -> None:
        for task in self._tasks:
            task.remove_done_callback(self._ended)
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """None of the parts ends by itself: without one of them the engine is no use."""
        problem = None if task.cancelled() else task.exception()
        _log.error("%s ended: %s", task.get_name(), problem, exc_info=problem)
        self.failed.set()


def runtime_for(settings: EngineSettings, data: Path, say: Say) -> Runtime:
    """The runtime that was asked for, or the best that the machine allows."""
    if settings.runtime == "host":
        return HostRuntime(data)
    missing = missing_for_sandbox(look()) if settings.runtime == "auto" else None
    if missing is None:
        return SandboxRuntime(data, settings.network)
    say(f"replicas run as plain processes: {missing.reason} ({missing.remedy})")
    return HostRuntime(data)


def node_name(host: str) -> str:
    """The machine's name as an object may be called."""
    plain = re.sub(r"[^a-z0-9.-]+", "-", host.lower()).strip(".-")
    return plain or "localhost"
