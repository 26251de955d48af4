"""The embedded engine: server, scheduler, node agent and controller in one process.

`Engine` is an async context. Leaving it lets go of what runs (`up`, killed or told to stop: the
replicas go on and are adopted by the next engine) or stops everything (`run`, `down`). A part that
fails is started again; `failed` is for what that can't help: a disk that can't be written, and a
node that never came up.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from ipaddress import IPv4Network
from pathlib import Path
from typing import Self

import msgspec

from jobyard.client.backoff import first_of
from jobyard.controller.operations.measuring import Meter
from jobyard.controller.running import Controller, Options
from jobyard.engine.homes import DataFolder, engines_folders, home_of
from jobyard.engine.in_process import InProcess
from jobyard.engine.outside.gateway import Outside
from jobyard.engine.own_crds import install_own_crds
from jobyard.engine.parts import Work, kept_going, reason_of
from jobyard.engine.problem import EngineError
from jobyard.engine.relaxing import RelaxedSender
from jobyard.engine.scheduling.scheduler import Scheduler
from jobyard.node.agent.agent import Agent
from jobyard.node.agent.disk_use import DISK_BYTES_DEFAULT
from jobyard.node.agent.node_object import node_labels
from jobyard.node.agent.options import AgentOptions, options_of, with_capacity, with_log_size
from jobyard.node.objects.surroundings import ImageRule
from jobyard.node.ordering.images import ImageRuleError, rule_of
from jobyard.node.runtime.abilities import look, missing_for_layers, missing_for_sandbox
from jobyard.node.runtime.host_runtime import HostRuntime
from jobyard.node.runtime.kubelet_service import KubeletService
from jobyard.node.runtime.sandbox_runtime import SandboxRuntime
from jobyard.node.shared.descriptor_limit import NEEDED, raise_limit
from jobyard.node.shared.order import LOG_BYTES_DEFAULT
from jobyard.node.shared.private_network import DEFAULT_NETWORK
from jobyard.node.shared.runtime import Runtime
from jobyard.node.shared.state import PodState
from jobyard.schedule.amounts import Amounts
from jobyard.schedule.snapshot import Machine
from jobyard.server.live import LiveServer
from jobyard.server.opening import open_server
from jobyard.server.server import ApiServer
from jobyard.server.store.journal import JournalError

_log = logging.getLogger(__name__)
Say = Callable[[str], None]


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine is told when it is started."""

    is_strict: bool = True
    # auto: namespaces where the machine allows them.
    runtime: str = "auto"
    claims: Mapping[str, Path] = {}
    # Where the files of claims without a folder of their own are kept, for all engines of a home.
    claims_kept: Path | None = None
    images: tuple[tuple[str, str], ...] = ()
    # Whether what was answered survives a power cut, not only a crash of the engine.
    is_durable: bool = True
    # Of sandboxes; and how much of the log of each run of a container is kept.
    network: IPv4Network = DEFAULT_NETWORK
    log_bytes: int = LOG_BYTES_DEFAULT
    # How much the logs of what is over may be, all together.
    disk_bytes: int = DISK_BYTES_DEFAULT
    # What the machine counts as, by resource; what isn't named is measured.
    capacity: Mapping[str, str] = {}
    # Whether queues of higher priority may take room from lower ones.
    may_preempt: bool = True


class Engine:
    """One engine on one data folder, which is locked by whoever made it."""

    def __init__(self, folder: DataFolder, settings: EngineSettings, say: Say) -> None:
        self.folder = folder
        self.settings = settings
        self._say = say
        self._stack = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self._agent: Agent | None = None
        # Set once a node agent has been ready, and for good: the next ones are started again.
        self._was_ready = asyncio.Event()
        self.failed = asyncio.Event()
        # Whether what runs is stopped when the engine is left, or goes on.
        self.stops_everything = False
        self._failure = ""

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
        if (limit := raise_limit()) < NEEDED:
            raise EngineError(
                f"a process may have {limit} open files here, and an engine needs {NEEDED};"
                f" allow more with `ulimit -n 1024`"
            )
        path = self.folder.path
        runtime = runtime_for(self.settings, path, self._say)
        self.runtime_name = "sandbox" if isinstance(runtime, SandboxRuntime) else "host"
        server = await self._serve()
        options = self._agent_options(runtime)
        # Agents come and go; what is asked of the node is asked of the one that is there.
        self.kubelet = KubeletService(runtime, path, self._state_of)
        self.sender.kubelet = self.kubelet
        self._stack.push_async_callback(self._close, runtime)
        self._stack.push_async_callback(self._cancelled)
        for name, work in self._parts(runtime, options).items():
            self._begin(name, kept_going(name, work, server.troubles))
        # Nothing that is answered any more would be true.
        self._begin("store", self.live.until_failed())

    async def _serve(self) -> ApiServer:
        """The API server, with our kinds: else a list of them would be older than they are."""
        try:
            server = open_server(
                self.folder.path / "store.sqlite", durable=self.settings.is_durable
            )
        except JournalError as problem:
            raise EngineError(str(problem)) from problem
        self._stack.callback(server.store.journal.close)
        self.live = await self._stack.enter_async_context(LiveServer(server))
        install_own_crds(server)
        await self.live.settled()
        self.sender = InProcess(self.live)
        return server

    def _agent_options(self, runtime: Runtime) -> AgentOptions:
        settings = self.settings
        outside = self._outside(runtime)
        options = options_of(
            node_name(socket.gethostname()),
            self.folder.path,
            network=settings.network if isinstance(runtime, SandboxRuntime) else None,
            image_rules=self._image_rules(),
            is_strict=settings.is_strict,
            proxy=outside.url if outside is not None else str,
        ).hiding(*engines_folders(home_of(os.environ)))
        options = msgspec.structs.replace(
            options,
            claim_folders=settings.claims,
            claims_kept=settings.claims_kept,
            disk_bytes=settings.disk_bytes,
        )
        options = with_log_size(options, settings.log_bytes)
        return with_capacity(options, settings.capacity, self._say)

    def _parts(self, runtime: Runtime, options: AgentOptions) -> dict[str, Work]:
        """What is started again when it fails."""
        settings = self.settings
        machine = Machine(
            name=options.node_name,
            capacity=Amounts.of(options.capacity.resources()),
            labels=node_labels(options),
            is_relaxed=not settings.is_strict,
        )
        own = self.sender if settings.is_strict else RelaxedSender(self.sender, self._say)

        async def node() -> None:
            self._agent = Agent(self.sender, runtime, options, say=self._say, ready=self._was_ready)
            await self._agent.run()

        async def schedule() -> None:
            scheduler = Scheduler(self.sender, machine, may_preempt=settings.may_preempt)
            self.live.server.figures["scheduler"] = scheduler.figures
            await scheduler.run()

        async def control() -> None:
            await Controller(own, Options(), Meter()).run()

        return {"node agent": self._at_first(node), "scheduler": schedule, "controller": control}

    def _image_rules(self) -> tuple[ImageRule, ...]:
        try:
            return tuple(rule_of("=".join(rule)) for rule in self.settings.images)
        except ImageRuleError as problem:
            raise EngineError(str(problem)) from problem

    def _begin(self, name: str, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _state_of(self, uid: str) -> PodState | None:
        return self._agent.state(uid) if self._agent is not None else None

    def _at_first(self, node: Work) -> Work:
        """A node that never came up won't by itself: whoever starts the engine has to know."""

        async def work() -> None:
            try:
                await node()
            except Exception as problem:
                if not self._was_ready.is_set():
                    self._fail("node agent", problem)
                    await asyncio.Event().wait()
                raise

        return work

    async def ready(self) -> None:
        """Returns once pods can be run; raises EngineError if they never will."""
        await first_of(self._was_ready, self.failed)
        if self.failed.is_set():
            raise EngineError(f"the engine can't run pods: {self._failure}")

    def _outside(self, runtime: Runtime) -> Outside | None:
        """The way out of the private network, if there is one; it is there before the pods."""
        if not isinstance(runtime, SandboxRuntime):
            return None
        outside = Outside(runtime.hub, self.settings.network, self.folder.path)
        runtime.hub.when_ready = outside.listen
        self._stack.push_async_callback(outside.close)
        return outside

    async def _close(self, runtime: Runtime) -> None:
        await runtime.close(stop_everything=self.stops_everything)

    async def _cancelled(self) -> None:
        for task in self._tasks:
            task.remove_done_callback(self._ended)
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Only the store does: without it the engine is no use."""
        problem = None if task.cancelled() else task.exception()
        self._fail(task.get_name(), problem)

    def _fail(self, name: str, problem: BaseException | None) -> None:
        self._failure = reason_of(problem) if problem is not None else f"its {name} ended"
        _log.error("%s ended: %s", name, self._failure, exc_info=problem)
        self.failed.set()


def runtime_for(settings: EngineSettings, data: Path, say: Say) -> Runtime:
    """The runtime that was asked for, or the best that the machine allows."""
    if settings.runtime == "host":
        return HostRuntime(data)
    abilities = look()
    missing = missing_for_sandbox(abilities) if settings.runtime == "auto" else None
    if missing is None:
        if layers := missing_for_layers(abilities):
            say(f"what replicas write to this machine's own folders stays there: {layers.reason}")
        return SandboxRuntime(data, settings.network)
    say(f"replicas run as plain processes: {missing.reason} ({missing.remedy})")
    return HostRuntime(data)


def node_name(host: str) -> str:
    """The machine's name as an object may be called."""
    plain = re.sub(r"[^a-z0-9.-]+", "-", host.lower()).strip(".-")
    return plain or "localhost"
