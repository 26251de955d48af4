"""Waits for the end of a process, whoever its parent is."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from typing import Final

_EXIT_SECONDS: Final = 5.0


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


class PeerEnd:
    """The end of the process at the other side, which is later than that of its connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._over = asyncio.Event()
        self._descriptor = -1
        try:
            size = struct.calcsize("3i")
            packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
            self._descriptor = os.pidfd_open(struct.unpack("3i", packed)[0])
        except (OSError, AttributeError):
            # Gone already, or no Linux; then the connection has to do.
            self._over.set()
            return
        asyncio.get_running_loop().add_reader(self._descriptor, self._ended)

    async def wait(self) -> None:
        """Not for long: only a process that the kernel itself holds up takes its time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_EXIT_SECONDS):
                await self._over.wait()

    def _ended(self) -> None:
        self._over.set()
        self.close()

    def close(self) -> None:
        if self._descriptor >= 0:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
