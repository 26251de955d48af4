"""What the agent needs of a runtime: the seam between "which pods" and "how they run".

`sandbox_runtime` runs pods in namespaces, `host_runtime` as plain processes; both leave the
life of a pod to a supervisor process and find it again after the engine was killed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Protocol

import msgspec

from jobyard.node.shared.order import PodOrder, Redirect
from jobyard.node.shared.state import PodState


class RuntimeFailedError(Exception):
    """The runtime can't do it; the message says what is missing and what would help."""


class Pipes(msgspec.Struct, frozen=True, kw_only=True):
    """File descriptors of a process started inside; with a terminal `stdin` is its master."""

    stdin: int = -1
    stdout: int = -1
    stderr: int = -1
    # Readable once the process ended; holds its exit code as decimal digits.
    status: int = -1
    # Outside all namespaces, for signals.
    pid: int = 0
    # Whether it is ended by whoever started it once nobody holds `status` any more.
    ends_with_status: bool = False


class Inside(msgspec.Struct, frozen=True, kw_only=True):
    """A process to start inside a running container."""

    container: str
    argv: tuple[str, ...]
    stdin: bool = False
    tty: bool = False


class Runtime(Protocol):
    """Runs pods. All methods may be called again after a crash; none does a thing twice."""

    async def open(self) -> tuple[PodState, ...]:
        """Gets ready, and tells of every pod that is still there from before."""
        ...

    async def start(self, order: PodOrder) -> None:
        """Starts a pod unless it was started before (then nothing happens)."""
        ...

    def states(self) -> AsyncGenerator[PodState, None]:
        """The state of each pod, at first and whenever it changes, until `close`."""
        ...

    async def stop(self, uid: str, grace_seconds: float) -> None:
        """Asks the pod to end; its state tells when it has. May be called again to hurry."""
        ...

    async def forget(self, uid: str) -> None:
        """Removes the state and the volumes of a pod that is over; `kept_logs` gets its logs."""
        ...

    async def inside(self, uid: str, what: Inside) -> Pipes:
        """Starts a process in a running container."""
        ...

    async def attach(self, uid: str, container: str) -> int:
        """The writing end of the container's own standard input; -1 if it has none."""
        ...

    async def connect(
        self, uid: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A TCP connection to a port of the pod, its loopback included."""
        ...

    async def forward(self, uid: str, redirects: tuple[Redirect, ...]) -> bool:
        """What comes to some ports of the pod arrives at others, in place of what was so before.

        Only where pods have a network of their own. False if the pod isn't running.
        """
        ...

    async def close(self, *, stop_everything: bool) -> None:
        """Lets go; with `stop_everything` no process, mount or interface is left behind."""
        ...
