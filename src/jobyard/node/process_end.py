"""Waits for the end of a process, whoever its parent is."""

from __future__ import annotations

import asyncio
import os


async def has_ended(pid: int, seconds: float) -> bool:
    """Whether it is gone in time; 0 is nobody, who always is."""
    if not pid:
        return True
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    gone = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(watched, gone.set)
    try:
        async with asyncio.timeout(seconds):
            await gone.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(watched)
        os.close(watched)
    return True
