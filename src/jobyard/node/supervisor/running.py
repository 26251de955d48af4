"""One run of one container: its process, its output, its memory, and how it ended.

It starts when it is made and calls `ended` once, after all output is in the log. Whether the
container runs again is not decided here.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from typing import Final

from jobyard.node.isolation.cage import Cage
from jobyard.node.logs.log_files import LogStream, LogWriter, remove_log
from jobyard.node.shared.folders import PodFolder
from jobyard.node.shared.order import ContainerOrder, PodOrder
from jobyard.node.supervisor.checks import Cancellable
from jobyard.node.supervisor.facts import Ending
from jobyard.node.supervisor.last_words import last_words, with_message_file
from jobyard.node.supervisor.loop import Loop, Timer
from jobyard.node.supervisor.outputs import Output

# Of a container that starts again and again, the logs of so many runs.
RUNS_KEPT: Final = 5
# The next look at the memory is when the limit could be reached at this rate, within bounds.
_MEMORY_BYTES_PER_SECOND: Final = 1 << 30
_MEMORY_SECONDS_MIN: Final = 0.1
_MEMORY_SECONDS_MAX: Final = 2.0
# How long after the end a disk may take to have room for the rest of the log.
_STUCK_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 0.5


class Surroundings:
    """What every run of a pod's containers needs."""

    def __init__(self, folder: PodFolder, order: PodOrder, cage: Cage, loop: Loop) -> None:
        self.folder = folder
        self.order = order
        self.cage = cage
        self.loop = loop


class Run:
    """A command that was started; raises CannotRunError if it can't be."""

    def __init__(
        self,
        around: Surroundings,
        container: ContainerOrder,
        run: int,
        ended: Callable[[Ending], None],
    ) -> None:
        self._around = around
        self.container = container
        self.run = run
        self._ended = ended
        # Probes and hooks under way; they end with the command.
        self.checks: set[Cancellable] = set()
        self._status: int | None = None
        self._is_over_memory = False
        self._watching: Timer | None = None
        # While the disk takes no more of the log: when that stops being a reason to wait.
        self._waits_until: float | None = None
        order = around.order
        path = around.folder.log(container.name, run)
        if run >= RUNS_KEPT:
            with contextlib.suppress(OSError):
                remove_log(around.folder.log(container.name, run - RUNS_KEPT))
        self._writer = LogWriter(path, order.log_bytes_max, order.log_files_max)
        try:
            mounted = with_message_file(around.folder, container, run)
            spawned = around.cage.start(mounted)
        except BaseException:
            self._writer.close()
            raise
        self.pid = spawned.pid
        self.stdin = spawned.stdin
        self._outputs = [
            Output(around.loop, descriptor, stream, self._writer, self._settle)
            for descriptor, stream in (
                (spawned.stdout, LogStream.STDOUT),
                (spawned.stderr, LogStream.STDERR),
            )
            if descriptor >= 0
        ]
        around.loop.child(spawned.pid, self._exited)
        if container.memory_limit_bytes:
            self._watching = around.loop.after(_MEMORY_SECONDS_MIN, self._watch_memory)

    @property
    def is_alive(self) -> bool:
        return self._status is None

    def lend_input(self) -> int:
        """The input for somebody who attaches; theirs alone where it ends when they leave."""
        if not self.container.stdin_once:
            return os.dup(self.stdin)
        lent, self.stdin = self.stdin, -1
        return lent

    def signal(self, number: int) -> None:
        # The pid of a process that ended may be another's by now.
        if self.is_alive:
            with contextlib.suppress(ProcessLookupError):
                self._around.cage.signal(self.pid, number)

    def _watch_memory(self) -> None:
        used = self._around.cage.used_memory_bytes(self.pid)
        limit = self.container.memory_limit_bytes
        if used > limit:
            self._is_over_memory = True
            self.signal(signal.SIGKILL)
        elif used > 0:
            soonest = (limit - used) / _MEMORY_BYTES_PER_SECOND
            seconds = min(max(soonest, _MEMORY_SECONDS_MIN), _MEMORY_SECONDS_MAX)
            self._watching = self._around.loop.after(seconds, self._watch_memory)

    def _exited(self, status: int) -> None:
        self._status = status
        if self._watching is not None:
            self._watching.cancel()
        for check in list(self.checks):
            check.cancel()
        self.checks.clear()
        for output in self._outputs:
            output.finish()
        self._settle()

    def _settle(self) -> None:
        """Over when the command has ended and its output has, whichever comes last."""
        if self._status is None or any(output.is_open for output in self._outputs):
            return
        if self._writer.is_stuck and not self._writer.retry() and self._may_wait():
            self._around.loop.after(_RETRY_SECONDS, self._settle)
            return
        self._writer.close()
        if self.stdin >= 0:
            os.close(self.stdin)
        self._ended(self._ending(os.waitstatus_to_exitcode(self._status)))

    def _may_wait(self) -> bool:
        """Not for ever: a pod that ended must not seem to run because its disk is full."""
        now = self._around.loop.now()
        if self._waits_until is None:
            self._waits_until = now + _STUCK_SECONDS
        return now < self._waits_until

    def _ending(self, code: int) -> Ending:
        number = -code if code < 0 else 0
        code = 128 + number if number else code
        is_out_of_memory = self._around.cage.was_out_of_memory(self.pid) or self._is_over_memory
        if is_out_of_memory:
            reason = "OOMKilled"
            code = code or 137
        else:
            reason = "Error" if code else "Completed"
        message = last_words(
            self._around.folder,
            self._around.order,
            self.container,
            self.run,
            has_failed=code != 0,
        )
        return Ending(exit_code=code, signal=number, reason=reason, message=message)
