"""What a supervisor needs to start processes: the seam between a pod's life and its isolation.

`isolation` has two: namespaces and plain processes. Everything here is synchronous; a supervisor
has one thread and a selector, and nothing in it may wait for anything but that selector.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from jobyard.node.shared.order import ContainerOrder, Redirect


class Spawned(msgspec.Struct, frozen=True, kw_only=True):
    """A process that was started; the descriptors belong to who asked for it."""

    # Outside all namespaces: the child to wait for. Its exit status is that of the command.
    pid: int
    # -1 where there is none. With a terminal, `stdin` and `stdout` are copies of its master.
    stdin: int = -1
    stdout: int = -1
    stderr: int = -1


class CannotRunError(Exception):
    """The command can't be started; `reason` is Kubernetes' word, with its exit code."""

    def __init__(self, reason: str, message: str, exit_code: int = 128) -> None:
        super().__init__(message)
        self.reason = reason
        self.exit_code = exit_code


class NotNowError(CannotRunError):
    """The machine has no room for another process at the moment; later it may have."""


class Cage(Protocol):
    """The surroundings of one pod: its network, and a way to start containers in it."""

    def open(self) -> None:
        """Makes what the pod's containers share. Called once, before the first of them."""
        ...

    def start(self, container: ContainerOrder) -> Spawned:
        """Runs a container's command with its mounts and limits; CannotRunError if it can't be.

        When the command ends, everything it left running in the container is killed.
        """
        ...

    def inside(
        self, pid: int, container: ContainerOrder, argv: tuple[str, ...], *, stdin: bool, tty: bool
    ) -> Spawned:
        """Starts one more process beside the container's command, which has this pid."""
        ...

    def signal(self, pid: int, number: int) -> None:
        """To the command itself; SIGKILL takes everything in the container with it."""
        ...

    def was_out_of_memory(self, pid: int) -> bool:
        """Whether the container that had this pid was killed for its memory. Asked once, after."""
        ...

    def used_memory_bytes(self, pid: int) -> int:
        """What the container uses now; 0 where the kernel itself enforces the limit."""
        ...

    def forward(self, redirects: tuple[Redirect, ...]) -> None:
        """Lets what comes to some ports of the pod arrive at others; OSError if it can't be."""
        ...

    def close(self) -> None:
        """Takes down what `open` made; no process is left when it is called."""
        ...
