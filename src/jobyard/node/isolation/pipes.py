"""The streams between a supervisor and a process it starts: pipes, or a terminal.

It makes both ends; who starts the process closes those of the command afterwards.
"""

from __future__ import annotations

import fcntl
import os

import msgspec

from jobyard.node.isolation.cage import Spawned
from jobyard.node.isolation.descriptors import Held
from jobyard.node.isolation.launching import Streams


class Wiring(msgspec.Struct, frozen=True, kw_only=True):
    """Both ends: what the command gets, and what the supervisor keeps."""

    streams: Streams
    stdin: int = -1
    stdout: int = -1
    stderr: int = -1

    @property
    def inner(self) -> set[int]:
        """The command's ends, to be closed in every process but the command's."""
        return {self.streams.stdin, self.streams.stdout, self.streams.stderr}

    def close_inner(self) -> None:
        """In the first process of a container, which holds nothing else."""
        for descriptor in self.inner:
            os.close(descriptor)

    def spawned(self, pid: int, held: Held) -> Spawned:
        """The process runs: what the supervisor keeps is told, and is its own."""
        for descriptor in (self.stdin, self.stdout, self.stderr):
            held.give(descriptor)
        return Spawned(pid=pid, stdin=self.stdin, stdout=self.stdout, stderr=self.stderr)


def wire(held: Held, *, stdin: bool, tty: bool, owner: int | None = None) -> Wiring:
    """Pipes, or a terminal that belongs to the command's user."""
    if tty:
        master, slave = (held.take(one) for one in os.openpty())
        if owner is not None:
            os.fchown(slave, owner, -1)
        streams = Streams(stdin=slave, stdout=slave, stderr=slave, is_terminal=True)
        copy = held.take(fcntl.fcntl(master, fcntl.F_DUPFD_CLOEXEC, 3))
        return Wiring(streams=streams, stdin=copy, stdout=master)
    if stdin:
        read_in, write_in = held.pipe()
    else:
        read_in, write_in = held.take(os.open(os.devnull, os.O_RDONLY)), -1
    read_out, write_out = held.pipe()
    read_err, write_err = held.pipe()
    streams = Streams(stdin=read_in, stdout=write_out, stderr=write_err)
    return Wiring(streams=streams, stdin=write_in, stdout=read_out, stderr=read_err)
