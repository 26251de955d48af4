"""A runtime on stage: starts pods in a data folder of the test, and looks for what is left behind.

Pods are orders; nothing of the API is here. A mark in the environment is inherited by all that
the runtime starts, whoever adopts it, and so finds every process of a test.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from msgspec.structs import replace
from rig.places import ROOT

from jobyard.client.backoff import wait_seconds
from jobyard.node.runtime.host_runtime import HostRuntime
from jobyard.node.runtime.hub_runtime import HubRuntime
from jobyard.node.runtime.sandbox_runtime import SandboxRuntime
from jobyard.node.shared.folders import PodFolder
from jobyard.node.shared.order import ContainerOrder, Mount, PodOrder, RestartPolicy
from jobyard.node.shared.runtime import Inside
from jobyard.node.shared.state import ContainerState, End, PodState, Stage

DEADLINE_SECONDS = 60.0
MARK = "JOBYARD_TEST_MARK"


def shell(script: str, **more: object) -> ContainerOrder:
    """A container that runs a shell script."""
    env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    order = ContainerOrder(name="main", argv=("/bin/sh", "-c", script), env=env)
    return replace(order, **more)


def bind(source: Path | str, target: Path | str, **more: object) -> Mount:
    return replace(Mount(source=str(source), target=str(target)), **more)


class Yard:
    """One runtime with its data folder."""

    def __init__(self, runtime: HubRuntime, data: Path) -> None:
        self.runtime = runtime
        self.data = data
        self._count = 0
        self._states: dict[str, PodState] = {}
        self._changed = asyncio.Condition()

    def order(self, container: ContainerOrder, **more: object) -> PodOrder:
        """A pod with an address of its own and a hosts file that all pods share."""
        self._count += 1
        address = f"100.96.1.{self._count}"
        hosts = self.data / "hosts"
        if not hosts.exists():
            hosts.write_text("127.0.0.1 localhost\n")
        with hosts.open("a") as file:
            file.write(f"{address} pod-{self._count}\n")
        empty = self.data / "resolv.conf"
        empty.touch()
        order = PodOrder(
            uid=str(uuid.uuid4()),
            namespace="default",
            name=f"pod-{self._count}",
            host_name=f"pod-{self._count}",
            address=address,
            gateway="100.96.0.1",
            hosts_file=str(hosts),
            resolver_file=str(empty),
            restart_policy=RestartPolicy.NEVER,
            grace_seconds=1,
            containers=(container,),
        )
        return replace(order, **more)

    async def listen(self) -> None:
        async for state in self.runtime.states():
            async with self._changed:
                self._states[state.uid] = state
                self._changed.notify_all()

    async def until(self, uid: str, holds: Callable[[PodState], bool]) -> PodState:
        """The first state of a pod for which it holds."""
        async with asyncio.timeout(DEADLINE_SECONDS), self._changed:
            while uid not in self._states or not holds(self._states[uid]):
                await self._changed.wait()
        return self._states[uid]

    async def start(self, container: ContainerOrder, **more: object) -> PodOrder:
        order = self.order(container, **more)
        await self.runtime.start(order)
        return order

    async def running(self, container: ContainerOrder, **more: object) -> PodOrder:
        """Starts a pod and returns when its container runs."""
        order = await self.start(container, **more)
        await self.until(order.uid, lambda state: state.containers[0].stage != Stage.WAITING)
        return order

    async def run(self, container: ContainerOrder, **more: object) -> End:
        """Runs a pod to its end."""
        order = await self.start(container, **more)
        return await self.ended(order)

    async def ended(self, order: PodOrder) -> End:
        state = await self.until(order.uid, lambda state: state.is_over)
        end = state.containers[0].end
        assert end is not None
        return end

    async def said(self, container: ContainerOrder, **more: object) -> str:
        """What a container wrote until its end, which must be a good one."""
        order = await self.start(container, **more)
        end = await self.ended(order)
        assert end.exit_code == 0, (end, self.log(order))
        return self.log(order)

    def log(self, order: PodOrder) -> str:
        path = PodFolder(self.data, order.uid).log("main", 0)
        lines = path.read_text().splitlines() if path.exists() else []
        return "\n".join(line.split(" ", 3)[3] for line in lines)

    async def logged(self, order: PodOrder, text: str) -> None:
        """Until the log has a text."""
        await eventually(lambda: text in self.log(order), f"{text!r} in the log")

    def state(self, order: PodOrder) -> ContainerState:
        return self._states[order.uid].containers[0]

    async def ask(self, order: PodOrder, *argv: str, tty: bool = False) -> tuple[int, str]:
        """Runs a command in a running container: exit code and output."""
        pipes = await self.runtime.inside(order.uid, Inside(container="main", argv=argv, tty=tty))
        try:
            output = await asyncio.to_thread(read_all, pipes.stdout)
            if pipes.stderr >= 0:
                output += await asyncio.to_thread(read_all, pipes.stderr)
            code = int(await asyncio.to_thread(read_all, pipes.status))
        finally:
            for descriptor in {pipes.stdin, pipes.stdout, pipes.stderr, pipes.status} - {-1}:
                os.close(descriptor)
        return code, output


def read_all(descriptor: int) -> str:
    """To the end, which a terminal tells with an error."""
    os.set_blocking(descriptor, True)
    data = b""
    with contextlib.suppress(OSError):
        while part := os.read(descriptor, 65536):
            data += part
    return data.decode()


async def eventually(holds: Callable[[], bool], what: str) -> None:
    """Looks again until it holds; for what has nothing that could be awaited."""
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not holds():
                await wait_seconds(0.01)
    except TimeoutError:
        raise AssertionError(f"not in time: {what}") from None


@contextlib.asynccontextmanager
async def opened(runtime: HubRuntime, data: Path) -> AsyncIterator[Yard]:
    """A runtime that listens to its pods; it is not closed at the end."""
    yard = Yard(runtime, data)
    await runtime.open()
    listener = asyncio.create_task(yard.listen())
    try:
        yield yard
    finally:
        listener.cancel()
        await asyncio.wait({listener})


def play(
    data: Path, scene: Callable[[Yard], Awaitable[None]], *, host: bool = False, stop: bool = True
) -> None:
    """Runs a scene on a runtime; with `stop` nothing of it may be left."""
    mark = os.environ.setdefault(MARK, str(uuid.uuid4()))

    async def act() -> None:
        runtime = HostRuntime(data) if host else SandboxRuntime(data)
        try:
            async with opened(runtime, data) as yard:
                await scene(yard)
        finally:
            await runtime.close(stop_everything=stop)

    asyncio.run(act())
    if stop:
        assert marked_processes(mark) == []


def marked_processes(mark: str) -> list[str]:
    """The command lines of all that carry the mark, but for this process."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        if int(path.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if f"{MARK}={mark}".encode() in (path / "environ").read_bytes():
                found.append(
                    (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
    return found


def namespaces() -> set[str]:
    """Those of all processes that may be looked at and are more than an exit code."""
    found = set()
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (path / "stat").read_text(errors="replace").rpartition(")")[2].split()[0] != "Z":
                found.update(os.readlink(one) for one in (path / "ns").iterdir())
    return found


def file_as(path: Path, uid: int, home: Path) -> subprocess.CompletedProcess[str]:
    """The tests of a file once more, as a user without rights."""
    prefix = Path(sys.base_prefix)
    closed = [path for path in reversed(prefix.parents) if not path.stat().st_mode & 0o001]
    # The interpreter may be in a folder of root's: in a mount namespace of this test it is the
    # only thing in there, and everybody may pass.
    opening = (
        f"""
        mkdir {home}/prefix; mount --bind {prefix} {home}/prefix
        mount -t tmpfs -o mode=755 tmpfs {closed[0]}; mkdir -p {prefix}
        mount --bind {home}/prefix {prefix}"""
        if closed
        else ""
    )
    command = [
        *(
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-ec",
            f'{opening}\nexec "$@"',
            "sh",
        ),
        *("setpriv", f"--reuid={uid}", f"--regid={uid}"),
        *("--clear-groups", sys.executable, "-m", "pytest", "-n0", "-p", "no:cacheprovider"),
        *("--basetemp", str(home / "t"), str(path)),
    ]
    env = os.environ | {
        "HOME": str(home),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": str(home),
    }
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=500)
