"""What both runtimes share: a hub that starts pods, a link to each supervisor, states as they come.

It follows each pod that has a supervisor, and reads from its folder how one without ended. It
decides nothing about a pod; kinds of isolation differ only in the hub's kind.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import AsyncGenerator
from ipaddress import IPv4Network
from pathlib import Path
from typing import Final

import msgspec

from jobyard.client.backoff import Backoff
from jobyard.node.hub.clearing import clear
from jobyard.node.hub.client import HubClient
from jobyard.node.hub.starting import supervisor_of
from jobyard.node.isolation import cgroups, kernel
from jobyard.node.isolation.rootfs.mount_points import clear_made_folders
from jobyard.node.isolation.rootfs.scratch import remove_tree
from jobyard.node.logs.kept_logs import keep_logs
from jobyard.node.runtime.shutdowns import STOP_SECONDS, end_pod, mark_all, notice_boot
from jobyard.node.runtime.supervisor_wire import (
    CommandFailedError,
    SupervisorGoneError,
    SupervisorLink,
    final_state,
    is_supervised,
    read_state,
    was_started,
)
from jobyard.node.shared.folders import PodFolder, pod_folders
from jobyard.node.shared.order import PodOrder, Redirect
from jobyard.node.shared.private_network import DEFAULT_NETWORK
from jobyard.node.shared.process_end import has_ended
from jobyard.node.shared.protocol import told
from jobyard.node.shared.runtime import Inside, Pipes, RuntimeFailedError
from jobyard.node.shared.state import PodState

_log: Final = logging.getLogger(__name__)
PATIENCE: Final = Backoff(first_seconds=0.1, max_seconds=2.0)


def _is_readable(order: Path) -> bool:
    """A power cut may leave a file without its content."""
    try:
        msgspec.json.decode(order.read_bytes(), type=PodOrder)
    except (FileNotFoundError, msgspec.DecodeError):
        return False
    return True


def _settle(known: asyncio.Future[str], problem: str = "") -> None:
    if not known.done():
        known.set_result(problem)


def _remove(pod: Path) -> None:
    cgroups.clear(pod)
    remove_tree(pod)


class HubRuntime:
    """See `Runtime`. `data` is the engine's folder; one runtime at a time works on it."""

    def __init__(self, kind: str, data: Path, network: IPv4Network = DEFAULT_NETWORK) -> None:
        self.hub = HubClient(kind, data, network)
        self._kind = kind
        self._data = data.absolute()
        self._states: dict[str, PodState] = {}
        self._links: dict[str, SupervisorLink] = {}
        self._followers: dict[str, asyncio.Task[None]] = {}
        # Of each listener: what it was not told yet, and what wakes it.
        self._listeners: list[tuple[dict[str, None], asyncio.Event]] = []
        self._forgetting = asyncio.Lock()
        self._is_closed = False

    async def open(self) -> tuple[PodState, ...]:
        if not kernel.IS_LINUX:
            raise RuntimeFailedError(kernel.NOT_LINUX)
        await self._ensure()
        clear_made_folders(self._data)
        notice_boot(self._data)
        await asyncio.gather(*(self._adopt(folder) for folder in pod_folders(self._data)))
        return tuple(self._states.values())

    async def _adopt(self, folder: PodFolder) -> None:
        """One pod from before; one that never started tells nothing, and is still to start."""
        if folder.uid in self._followers:
            # Of an agent before this one.
            return
        try:
            stored = read_state(folder)
            if stored and stored.is_over:
                self._tell(stored)
            elif is_supervised(folder):
                # Somebody wanted to stop it, and was stopped before that.
                folder.taken_away.unlink(missing_ok=True)
                with contextlib.suppress(RuntimeFailedError):
                    await self._follow(folder, is_starting=False)
            elif state := final_state(folder):
                self._tell(state)
        except OSError:
            # On a full disk it is told once it can be stored. Other pods don't wait for that.
            self._listen_to(folder, is_starting=False)

    async def _ensure(self) -> None:
        """A hub from before is as good as a new one, and is there at once."""
        there, will_do = await self.hub.answering()
        if there == self._kind:
            if will_do:
                await self.hub.ready()
                return
            # What it starts would be of another release, or on another network.
            await self.hub.dismiss()
        elif there:
            if any(supervisor_of(folder.path) for folder in pod_folders(self._data)):
                raise RuntimeFailedError(
                    f"pods of the {there} runtime are still running; stop them with `jobyard down`"
                )
            await self.hub.quit()
        try:
            await self.hub.ensure()
        except RuntimeFailedError as error:
            remedy = self._remedy()
            raise RuntimeFailedError(f"{error}; {remedy}" if remedy else str(error)) from error

    def _remedy(self) -> str:
        """What would help if there can be no hub."""
        return ""

    async def start(self, order: PodOrder) -> None:
        folder = PodFolder(self._data, order.uid)
        if order.uid in self._followers:
            return
        if was_started(folder) and not is_supervised(folder):
            if state := final_state(folder):
                self._tell(state)
            return
        folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_readable(folder.order):
            beside = folder.order.with_suffix(".new")
            beside.write_bytes(msgspec.json.encode(order))
            beside.rename(folder.order)
        folder.taken_away.unlink(missing_ok=True)
        await self.hub.start(order.uid)
        await self._follow(folder, is_starting=True)

    async def _follow(self, folder: PodFolder, *, is_starting: bool) -> None:
        """Returns once a state is known, or it is that there will be none."""
        problem = await self._listen_to(folder, is_starting=is_starting)
        if problem:
            raise RuntimeFailedError(f"pod {folder.uid} could not be started: {problem}")

    def _listen_to(self, folder: PodFolder, *, is_starting: bool) -> asyncio.Future[str]:
        """What comes of it: done once something is known."""
        known = asyncio.get_running_loop().create_future()
        listening = self._listen(folder, known, is_starting=is_starting)
        self._followers[folder.uid] = asyncio.create_task(listening)
        return known

    async def _listen(
        self, folder: PodFolder, known: asyncio.Future[str], *, is_starting: bool
    ) -> None:
        """Until the pod is over; a supervisor that does not answer is asked again."""
        problem = "the engine stops"
        failures = 0
        try:
            while True:
                try:
                    try:
                        link = await SupervisorLink.open(folder, is_starting=is_starting)
                    except SupervisorGoneError as error:
                        problem, last = str(error), final_state(folder)
                        if last is None:
                            return
                    else:
                        last = await self._hear(folder, link, known)
                except OSError as error:
                    # A full disk, mostly: how the pod ended has to be stored before it is told.
                    failures += 1
                    if failures == 1:
                        _log.warning("pod %s: %s; asked again until it works", folder.uid, error)
                    await PATIENCE.after(failures)
                    continue
                if last is not None:
                    self._tell(last)
                    _settle(known)
                    if last.is_over:
                        return
        finally:
            self._followers.pop(folder.uid, None)
            _settle(known, problem)

    async def _hear(
        self, folder: PodFolder, link: SupervisorLink, known: asyncio.Future[str]
    ) -> PodState | None:
        """All that one link tells; then how the pod ended, None if only the link did."""
        self._links[folder.uid] = link
        if link.is_strange:
            _log.warning(
                "pod %s was started by %s, which can't be understood: it goes on, and only its end"
                " will be known; `jobyard down` ends it",
                folder.uid,
                told(link.protocol),
            )
            _settle(known)
        try:
            async for state in link.states():
                self._tell(state)
                _settle(known)
        finally:
            del self._links[folder.uid]
            await link.close()
        return await self._last_state(folder)

    async def _last_state(self, folder: PodFolder) -> PodState | None:
        """None if the supervisor lives on, and only the link was cut."""
        for _ in range(2):
            state = final_state(folder)
            if state is None or state.is_over:
                return state or self._states.get(folder.uid)
            # It has closed its end, and is about to let go of its lock.
            if not await has_ended(supervisor_of(folder.path), STOP_SECONDS):
                return None
        return None

    def _tell(self, state: PodState) -> None:
        before = self._states.get(state.uid)
        if before is not None and before.revision >= state.revision:
            return
        self._states[state.uid] = state
        for dirty, woken in self._listeners:
            dirty[state.uid] = None
            woken.set()

    async def states(self) -> AsyncGenerator[PodState, None]:
        dirty, woken = dict.fromkeys(self._states), asyncio.Event()
        self._listeners.append((dirty, woken))
        try:
            while True:
                while dirty:
                    uid = next(iter(dirty))
                    del dirty[uid]
                    # It may have been forgotten meanwhile.
                    if state := self._states.get(uid):
                        yield state
                if self._is_closed:
                    return
                woken.clear()
                await woken.wait()
        finally:
            self._listeners.remove((dirty, woken))

    async def stop(self, uid: str, grace_seconds: float) -> None:
        link = self._links.get(uid)
        if link is None:
            return
        if link.is_strange:
            # It can't be asked, and all that it runs ends with it.
            pid = supervisor_of(PodFolder(self._data, uid).path)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL) if pid else None
            return
        # If it is gone, its state tells.
        with contextlib.suppress(SupervisorGoneError):
            await link.stop(grace_seconds)

    async def forget(self, uid: str) -> None:
        folder = PodFolder(self._data, uid)
        if follower := self._followers.get(uid):
            state = self._states.get(uid)
            if state is None or not state.is_over:
                raise RuntimeFailedError(f"pod {uid} is not over yet")
            await asyncio.wait({follower})
        await has_ended(supervisor_of(folder.path), STOP_SECONDS)
        self._states.pop(uid, None)
        # One after the other: two pods of one name may be on their way out.
        async with self._forgetting:
            await asyncio.to_thread(keep_logs, self._data, folder)
        await asyncio.to_thread(_remove, folder.path)

    async def inside(self, uid: str, what: Inside) -> Pipes:
        try:
            return await self._link(uid).inside(what)
        except (CommandFailedError, SupervisorGoneError) as error:
            raise RuntimeFailedError(str(error)) from error

    async def attach(self, uid: str, container: str) -> int:
        """The writing end of the container's own standard input; -1 if it has none."""
        try:
            return await self._link(uid).attach(container)
        except (CommandFailedError, SupervisorGoneError) as error:
            raise RuntimeFailedError(str(error)) from error

    async def connect(
        self, uid: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            connection = await self._link(uid).connect(port)
        except (CommandFailedError, SupervisorGoneError) as error:
            raise RuntimeFailedError(str(error)) from error
        return await asyncio.open_connection(sock=connection)

    async def forward(self, uid: str, redirects: tuple[Redirect, ...]) -> bool:
        link = self._links.get(uid)
        try:
            if link is not None:
                await link.forward(redirects)
                return True
        except CommandFailedError as error:
            raise RuntimeFailedError(str(error)) from error
        except SupervisorGoneError:
            pass
        return False

    def _link(self, uid: str) -> SupervisorLink:
        link = self._links.get(uid)
        if link is None:
            raise RuntimeFailedError(f"pod {uid} is not running")
        return link

    async def close(self, *, stop_everything: bool) -> None:
        if stop_everything:
            await self._stop_everything()
        self._is_closed = True
        followers = tuple(self._followers.values())
        for follower in followers:
            follower.cancel()
        if followers:
            await asyncio.wait(followers)
        for _, woken in self._listeners:
            woken.set()

    async def _stop_everything(self) -> None:
        folders = pod_folders(self._data)
        # Before anything is stopped: none of them fails because of it.
        mark_all(self._data)
        running = [each for each in folders if supervisor_of(each.path)]
        await asyncio.gather(*(end_pod(each, self._links.get(each.uid)) for each in running))
        await clear(self.hub, self._data)
