"""A runtime for tests of the agent: a pod is its containers' plain processes, and nothing more.

No isolation, no restarts, no probes; init containers run one after another. Orders, states and
logs are on disk as with the real one, so that an agent that starts anew finds them; the
processes themselves belong to the test and end with it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path

import msgspec

from jobyard.node.logs.log_files import LogStream, LogWriter
from jobyard.node.shared.folders import PodFolder
from jobyard.node.shared.order import ContainerOrder, PodOrder, Redirect
from jobyard.node.shared.runtime import Inside, Pipes, RuntimeFailedError
from jobyard.node.shared.state import ContainerState, End, PodState, Stage


class PlainRuntime:
    """Runs pods as plain processes of the test."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._news: asyncio.Queue[PodState | None] = asyncio.Queue()
        self._lives: dict[str, asyncio.Task[None]] = {}
        self._processes: dict[str, dict[str, asyncio.subprocess.Process]] = {}
        self._states: dict[str, PodState] = {}
        self._stopped: set[str] = set()
        # For tests: what was asked of it.
        self.starts: list[str] = []
        self.stops: list[tuple[str, float]] = []
        self.forwards: list[tuple[str, tuple[Redirect, ...]]] = []

    async def forward(self, uid: str, redirects: tuple[Redirect, ...]) -> bool:
        self.forwards.append((uid, redirects))
        return True

    async def open(self) -> tuple[PodState, ...]:
        for path in sorted(self._data.glob("pods/*/state.json")):
            state = msgspec.json.decode(path.read_bytes(), type=PodState)
            self._states.setdefault(state.uid, state)
        return tuple(self._states.values())

    async def start(self, order: PodOrder) -> None:
        if order.uid in self._states:
            return
        self.starts.append(order.uid)
        folder = PodFolder(self._data, order.uid)
        folder.path.mkdir(parents=True, exist_ok=True)
        folder.order.write_bytes(msgspec.json.encode(order))
        state = PodState(
            uid=order.uid,
            started_at=time.time(),
            init_containers=tuple(ContainerState(name=c.name) for c in order.init_containers),
            containers=tuple(ContainerState(name=c.name) for c in order.containers),
        )
        self._put(state)
        self._lives[order.uid] = asyncio.create_task(self._live(order))

    async def states(self) -> AsyncGenerator[PodState, None]:
        for state in list(self._states.values()):
            yield state
        while (state_or_none := await self._news.get()) is not None:
            if state_or_none.uid in self._states:
                yield state_or_none

    async def stop(self, uid: str, grace_seconds: float) -> None:
        self.stops.append((uid, grace_seconds))
        self._stopped.add(uid)
        for process in self._processes.get(uid, {}).values():
            if process.returncode is None:
                process.send_signal(signal.SIGTERM if grace_seconds > 0 else signal.SIGKILL)

    async def forget(self, uid: str) -> None:
        life = self._lives.pop(uid, None)
        if life is not None:
            await life
        self._states.pop(uid, None)
        shutil.rmtree(PodFolder(self._data, uid).path, ignore_errors=True)

    async def inside(self, uid: str, what: Inside) -> Pipes:
        out, out_end = os.pipe()
        in_end, stdin = os.pipe()
        status, status_end = os.pipe()
        process = await asyncio.create_subprocess_exec(
            *what.argv, stdin=in_end, stdout=out_end, stderr=out_end
        )
        os.close(out_end)
        os.close(in_end)

        async def tell() -> None:
            code = await process.wait()
            # Who asked may have closed its end already.
            with suppress(BrokenPipeError):
                os.write(status_end, str(code).encode())
            os.close(status_end)

        self._lives[f"{uid}/{process.pid}"] = asyncio.create_task(tell())
        return Pipes(stdin=stdin, stdout=out, status=status, pid=process.pid)

    async def attach(self, uid: str, container: str) -> int:
        return -1

    async def connect(
        self, uid: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        raise RuntimeFailedError("plain processes have no network of their own")

    async def close(self, *, stop_everything: bool) -> None:
        for uid in list(self._processes):
            await self.stop(uid, 0)
        await asyncio.gather(*self._lives.values())
        self._lives.clear()
        self._news.put_nowait(None)

    def detach(self) -> PlainRuntime:
        """The same processes for another engine, as after a kill of the one before."""
        self._news.put_nowait(None)
        self._news = asyncio.Queue()
        return self

    def _put(self, state: PodState) -> None:
        known = self._states.get(state.uid)
        revision = known.revision + 1 if known is not None else 1
        state = msgspec.structs.replace(state, revision=revision)
        self._states[state.uid] = state
        PodFolder(self._data, state.uid).state.write_bytes(msgspec.json.encode(state))
        self._news.put_nowait(state)

    async def _live(self, order: PodOrder) -> None:
        is_good = True
        for number, container in enumerate(order.init_containers):
            end = await self._run(order, container, ("init_containers", number))
            is_good = end.exit_code == 0
            if not is_good:
                break
        if is_good and order.uid not in self._stopped:
            runs = [
                self._run(order, container, ("containers", number))
                for number, container in enumerate(order.containers)
            ]
            await asyncio.gather(*runs)
        self._put(msgspec.structs.replace(self._states[order.uid], is_over=True))

    async def _run(self, order: PodOrder, container: ContainerOrder, place: tuple[str, int]) -> End:
        started = time.time()
        process = await asyncio.create_subprocess_exec(
            *container.argv,
            env=container.env,
            cwd=container.working_folder or None,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        self._processes.setdefault(order.uid, {})[container.name] = process
        state = ContainerState(
            name=container.name,
            stage=Stage.RUNNING,
            pid=process.pid,
            started_at=started,
            is_ready=True,
            has_started=True,
        )
        self._change(order.uid, place, state)
        await self._log(order, container, process)
        code = await process.wait()
        end = End(
            exit_code=code if code >= 0 else 128 - code,
            signal=max(0, -code),
            reason="Completed" if code == 0 else "Error",
            started_at=started,
            finished_at=time.time(),
        )
        self._change(
            order.uid,
            place,
            msgspec.structs.replace(state, stage=Stage.ENDED, end=end, is_ready=False, pid=0),
        )
        return end

    async def _log(
        self, order: PodOrder, container: ContainerOrder, process: asyncio.subprocess.Process
    ) -> None:
        path = PodFolder(self._data, order.uid).log(container.name, 0)
        writer = LogWriter(path, order.log_bytes_max, order.log_files_max)
        assert process.stdout is not None
        while data := await process.stdout.read(65536):
            writer.feed(LogStream.STDOUT, data, time.time_ns())
        writer.flush(LogStream.STDOUT, time.time_ns())
        writer.close()

    def _change(self, uid: str, place: tuple[str, int], container: ContainerState) -> None:
        field, number = place
        state = self._states[uid]
        containers = list(getattr(state, field))
        containers[number] = container
        self._put(msgspec.structs.replace(state, **{field: tuple(containers)}))
