"""The controller as a process of its own, for tests against a real API server."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

READY_SECONDS = 60
STOP_SECONDS = 30
JOBYARD = Path(sys.executable).parent / "jobyard"


@dataclass
class ControllerProcess:
    """A running controller; `lines` are what it has logged so far."""

    process: asyncio.subprocess.Process
    lines: list[dict[str, object]]

    def kill(self) -> None:
        """As hard as it gets: the process has no say."""
        self.process.send_signal(signal.SIGKILL)


@asynccontextmanager
async def running_controller(
    kubeconfig: Path,
    namespace: str,
    *options: str,
    wrapper: Sequence[str] = (),
    program: Path | None = None,
) -> AsyncIterator[ControllerProcess]:
    """A controller that looks after `namespace`, ready; stopped by SIGTERM at the end.

    An empty namespace means all of them. `wrapper` is what starts it, `program` which Jobyard
    it is, if not the one beside this interpreter.
    """
    process = await asyncio.create_subprocess_exec(
        *wrapper,
        str(program or JOBYARD),
        "controller",
        f"--kubeconfig={kubeconfig}",
        f"--namespace={namespace}",
        "--listen=127.0.0.1:0",
        "--log-format=json",
        *options,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": os.environ["PATH"]},
    )
    lines: list[dict[str, object]] = []
    is_ready = asyncio.Event()
    reading = asyncio.create_task(_read(process, lines, is_ready))
    try:
        async with asyncio.timeout(READY_SECONDS):
            await is_ready.wait()
        assert process.returncode is None, lines
        yield ControllerProcess(process, lines)
    finally:
        if process.returncode is None:
            process.terminate()
        async with asyncio.timeout(STOP_SECONDS):
            await process.wait()
        await reading


async def _read(
    process: asyncio.subprocess.Process, lines: list[dict[str, object]], is_ready: asyncio.Event
) -> None:
    assert process.stderr is not None
    async for line in process.stderr:
        try:
            lines.append(json.loads(line))
        except ValueError:
            lines.append({"message": line.decode()})
        if "caches are synced" in str(lines[-1].get("message")):
            is_ready.set()
    is_ready.set()
