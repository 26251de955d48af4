"""A scheduler and nodes without containers: pods go through the lives that a test wants.

Tests and benchmarks start it beside the real API server, which has nobody else to bind pods
and to write their status. `async with FakeKubelet(plane, namespace=..., script=...)` plays
lives by script; its methods play them by hand. It serves only pods on nodes of its own, so
another scheduler may place pods there too. A pod that is gone or was changed by others (404,
409) is no error; any other refusal ends the `async with` block with the server's words. It
restarts no containers, runs no probes and knows no volumes.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field
from types import TracebackType
from typing import Self

import msgspec
from msgspec.structs import replace

from rig.kube.kubelet_wire import Seen, Wire, now_text
from rig.kube.plane import ControlPlane
from rig.kube.pod_guest import Guest, Nodes
from rig.kube.pod_life import KILLED_BY_KILL, Exit, Json, Life, Pod, Record, unschedulable_patch

# How long a method that acts on a pod waits for that pod.
HAND_SECONDS = 30
SUCCEEDS_AT_ONCE = Life()


@dataclass(eq=False)
class FakeKubelet:
    """Binds, runs and ends pods. Use it as `async with FakeKubelet(plane) as kubelet`.

    Methods take a pod's name (`namespace/name` when it serves all namespaces), wait until
    there is such a pod that is neither over nor leaving, and raise TimeoutError after
    HAND_SECONDS. So `finish` twice ends two attempts.
    """

    plane: ControlPlane
    _: KW_ONLY
    # Empty: all of them, also those of tests that run beside this one.
    namespace: str = ""
    nodes: int = 2
    # The life of every pod, or what chooses it by the pod's JSON, once per pod.
    script: Life | Callable[[Json], Life] = SUCCEEDS_AT_ONCE
    # Pods are bound and started, but none ends by itself.
    manual: bool = False
    # False: pods are neither bound nor started nor ended but by hand.
    start: bool = True
    # May be changed at any time; counts for pods that are deleted after that.
    hold_terminating: bool = False
    ignored_schedulers: frozenset[str] = frozenset()
    # The address of a pod; an empty one means an address at which nobody answers.
    pod_address: Callable[[Pod], str] = field(default=lambda _: "")
    # Asked again at each change of a pod that isn't bound yet.
    may_schedule: Callable[[Json], bool] | None = None

    _nodes: Nodes = field(init=False)
    _wire: Wire = field(init=False)
    _stack: AsyncExitStack = field(init=False)
    _lives: asyncio.TaskGroup = field(init=False)
    _guests: dict[tuple[str, str], Guest] = field(init=False, default_factory=dict)
    _news: asyncio.Event = field(init=False, default_factory=asyncio.Event)

    async def __aenter__(self) -> Self:
        self._nodes = Nodes(f"fake-{secrets.token_hex(4)}", self.nodes)
        async with AsyncExitStack() as stack:
            self._wire = await stack.enter_async_context(Wire(self.plane))
            stack.push_async_callback(self._wire.remove_nodes, self.node_names)
            await self._wire.make_nodes(self._nodes.addresses)
            group = await stack.enter_async_context(asyncio.TaskGroup())
            stack.callback(group.create_task(self._serve()).cancel)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self._stack.__aexit__(kind, error, traceback)
        except BaseExceptionGroup as group:
            # Task groups wrap what the block itself raised too; a test wants that bare.
            errors = list(dict.fromkeys(_leaves(group)))
            if errors != [error]:
                raise BaseExceptionGroup("the fake kubelet failed", errors) from None

    @property
    def node_names(self) -> tuple[str, ...]:
        """The nodes of this kubelet, and of no other."""
        return self._nodes.names

    async def bind(self, name: str) -> None:
        """Put it on a node, without starting it."""
        await self._by_hand(name, Guest.bind)

    async def running(self, name: str) -> None:
        """See to it that it runs: bind and start it, as far as that hasn't been done."""
        await self._by_hand(name, self._run)

    async def finish(
        self,
        name: str,
        exit_code: int = 0,
        reason: str = "",
        message: str = "",
        container: str | None = None,
    ) -> None:
        """End all its containers, or one, and the others go on; it is started if it wasn't."""
        end = Exit(exit_code, reason, message)

        async def ending(guest: Guest) -> bool:
            names = guest.pod.container_names
            assert container is None or container in names, (
                f"pod {name} has no container {container}, but {', '.join(names)}"
            )
            exits = dict.fromkeys(names if container is None else (container,), end)
            return await guest.end(exits)

        await self._by_hand(name, ending)

    async def evict(self, name: str, message: str = "The node was low on memory.") -> None:
        """Its node throws it out: Failed, Evicted, with the condition DisruptionTarget."""

        async def evicting(guest: Guest) -> bool:
            exits = dict.fromkeys(guest.pod.container_names, Exit(KILLED_BY_KILL))
            record = guest.record
            if record.started_at:
                record = record.ending(exits, now_text())
            disruption = "TerminationByKubelet"
            record = replace(
                record, phase="Failed", reason="Evicted", message=message, disruption=disruption
            )
            return await guest.write(record)

        await self._by_hand(name, evicting)

    async def lose_node(self, name: str) -> None:
        """Its node isn't heard of any more: phase Unknown; once deleted it stays until `release`.

        Said of this pod only: the Node object and its other pods stay as they are.
        """

        async def losing(guest: Guest) -> bool:
            if not await self._run(guest):
                return False
            message = f"Node {guest.node} which was running pod {name} is unresponsive"
            record = replace(guest.record, phase="Unknown", reason="NodeLost", message=message)
            guest.is_lost = await guest.write(record)
            return guest.is_lost

        await self._by_hand(name, losing)

    async def image_pull_backoff(self, name: str) -> None:
        """Bound, but waiting for its image; `running` gets it going. Needs `start=False`."""
        why = Exit(reason="ImagePullBackOff", message="Back-off pulling image")
        await self._by_hand(name, lambda guest: guest.wait(why))

    async def unschedulable(self, name: str, message: str) -> None:
        """No node will do. Needs `start=False`, or a pod that may not be scheduled."""

        async def refusing(guest: Guest) -> bool:
            assert not guest.node, f"pod {name} is on node {guest.node} already; use start=False"
            patch = unschedulable_patch(guest.pod, message, now_text())
            return await guest.patch(patch)

        await self._by_hand(name, refusing)

    async def release(self, name: str) -> None:
        """Let go of a pod that was deleted and is held or lost; returns once it is gone."""
        async with _deadline(f"pod {name}: nobody deleted it, or it can't be removed"):
            guest = await self._found(name, lambda guest: guest.leaving.is_set())
            guest.released.set()
            await guest.gone.wait()

    async def _by_hand(self, name: str, act: Callable[[Guest], Awaitable[bool]]) -> None:
        async with _deadline(f"pod {name}: there is none, or it is over or leaving"):
            while True:
                guest = await self._found(name, lambda guest: guest.is_live)
                news = self._news
                async with guest.lock:
                    # It may have ended while someone else held the lock.
                    if guest.is_live and await act(guest):
                        return
                await news.wait()

    async def _found(self, name: str, fits: Callable[[Guest], bool]) -> Guest:
        namespace, _, short = name.rpartition("/")
        key = (namespace or self.namespace, short)
        assert key[0], f"pod {name}: this kubelet serves all namespaces; write namespace/name"
        while True:
            guest = self._guests.get(key)
            if guest is not None and fits(guest):
                return guest
            await self._news.wait()

    async def _serve(self) -> None:
        async with (
            aclosing(self._wire.pods(self.namespace)) as changes,
            asyncio.TaskGroup() as self._lives,
        ):
            async for seen in changes:
                self._see(seen)
                self._news.set()
                self._news = asyncio.Event()

    def _see(self, seen: Seen) -> None:
        metadata, spec = seen.pod.metadata, seen.pod.spec
        key = (metadata.namespace, metadata.name)
        guest = self._guests.get(key)
        if guest is not None and (guest.pod.metadata.uid != metadata.uid or seen.is_deleted):
            guest.vanish()
            del self._guests[key]
            guest = None
        if seen.is_deleted:
            return
        if guest is None:
            guest = Guest(
                seen.pod,
                seen.raw,
                self._wire,
                self._nodes,
                Record(ip=self.pod_address(seen.pod) or self._nodes.next_pod_address(), host_ip=""),
            )
            self._guests[key] = guest
        guest.pod, guest.raw = seen.pod, seen.raw
        if spec.node_name in self.node_names:
            guest.node = spec.node_name
        if metadata.deletion_timestamp:
            guest.leaving.set()
        if not guest.is_played and (guest.node or self._may_take(guest)):
            guest.is_played = True
            self._lives.create_task(self._play(guest))

    def _may_take(self, guest: Guest) -> bool:
        spec = guest.pod.spec
        if not self.start or spec.node_name or spec.scheduling_gates or not guest.is_live:
            return False
        if spec.scheduler_name in self.ignored_schedulers:
            return False
        return self.may_schedule is None or self.may_schedule(msgspec.json.decode(guest.raw))

    def _life_of(self, guest: Guest) -> Life:
        if guest.life is None:
            script = self.script
            life = script if isinstance(script, Life) else script(msgspec.json.decode(guest.raw))
            guest.life = replace(life, run_seconds=None) if self.manual else life
        return guest.life

    async def _play(self, guest: Guest) -> None:
        """All of a pod's life, from the binding to its removal."""
        if self.start:
            await self._begin_and_end(guest)
        if not guest.node:
            # Somebody else took it, or it is gone; `_see` begins anew if it comes to us.
            guest.is_played = False
            return
        await guest.leaving.wait()
        stop_seconds = self._life_of(guest).stop_seconds
        if self.hold_terminating or guest.is_lost or stop_seconds is None:
            await guest.released.wait()
        elif stop_seconds:
            await _came_within(guest.released, stop_seconds)
        async with guest.lock:
            await guest.remove()

    async def _begin_and_end(self, guest: Guest) -> None:
        life, names = self._life_of(guest), guest.pod.container_names
        async with guest.lock:
            if not guest.is_live or not await guest.bind():
                return
            if life.waiting:
                await guest.wait(Exit(reason=life.waiting, message=life.message))
                return
            if life.run_seconds == 0:
                await guest.end(life.exits(names))
            else:
                await self._run(guest)
        if not life.run_seconds or await _came_within(guest.leaving, life.run_seconds):
            return
        async with guest.lock:
            if guest.is_live:
                await guest.end(life.exits(names))

    async def _run(self, guest: Guest) -> bool:
        return await guest.run(ready=self._life_of(guest).ready)


@asynccontextmanager
async def _deadline(what: str) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(HAND_SECONDS):
            yield
    except TimeoutError:
        raise TimeoutError(f"{what}, after {HAND_SECONDS} seconds") from None


async def _came_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
