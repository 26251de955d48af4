"""A process that was started in a container ends with its session, whatever interrupts that."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path

import pytest
from rig.waiting import run
from server.streaming_stage import DEADLINE_SECONDS, started

from jobyard.kubelet import ExecOptions
from jobyard.node.runtime.process_session import ProcessSession


@pytest.mark.parametrize("tty", [False, True], ids=["pipes", "a terminal"])
@pytest.mark.parametrize("steps", [None, 0, 1, 2, 3])
def test_the_process_ends_with_the_session(tmp_path: Path, tty: bool, steps: int | None) -> None:
    """Also if closing is cancelled after so many steps, as it is by a server in a hurry."""
    # Deaf to the end of its terminal, so that only who closes the session can end it.
    script = "trap '' HUP; echo ready; exec sleep 600"
    options = ExecOptions(command=("sh", "-c", script), tty=tty, stdin=True)

    async def close() -> None:
        pipes, process = started(options, tmp_path)
        session = ProcessSession(pipes, has_terminal=tty)
        assert await session.read() is not None
        reading = asyncio.create_task(session.read())
        await asyncio.sleep(0)
        closing = asyncio.create_task(session.close())
        if steps is not None:
            for _ in range(steps):
                await asyncio.sleep(0)
            closing.cancel()
        with suppress(asyncio.CancelledError):
            await closing
        if steps == 0:
            # It never began: whoever cancelled it so early closes again.
            await session.close()
        assert await asyncio.to_thread(process.wait, DEADLINE_SECONDS) == -9
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(pipes.status)

    run(close())
