"""The first process of a container: it reaps, passes signals on and ends as the command ends.

In a PID namespace it is number 1, and the kernel kills all others when it exits. Without one it
is a subreaper, and `sweep` kills what is left. It runs in a fork of the supervisor, never
returns, and knows nothing of orders.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable
from typing import Any, Final, NoReturn

from jobyard.node.isolation import kernel
from jobyard.node.isolation.visitors import Visitors

# The kernel sends it when the supervisor dies; nobody else uses it.
SUPERVISOR_DIED: Final = 62
# How long after SIGKILL what was killed may take to be gone.
_LEAVE_SECONDS: Final = 5.0
_OWN: Final = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}
_is_listening = False


def listen() -> int:
    """Takes over all signals; returns where their numbers can be read. Call before forking."""
    global _is_listening  # noqa: PLW0603 - as signals are, it belongs to the process
    read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    if not _is_listening:
        # Sixty calls that take longer than a fork; what was forked later has inherited it.
        for number in signal.valid_signals() - _OWN:
            with contextlib.suppress(OSError, ValueError):
                signal.signal(number, _noted)
        _is_listening = True
    return read


def _noted(_number: int, _frame: Any) -> None:
    """The wake-up descriptor carries the number; nothing else is to be done."""


def die_with_supervisor(supervisor: int, number: int) -> None:
    """After the last change of credentials, which would undo it; `supervisor` 0: not checked."""
    if kernel.IS_LINUX:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, number)
    if supervisor and os.getppid() != supervisor:
        os._exit(137)


def reign(
    command: int,
    *,
    signals: int,
    sweep: Callable[[], None],
    out_of_memory: int = -1,
    visitors: Visitors | None = None,
) -> NoReturn:
    """Waits for the command, and exits with its status or 128 + the signal that ended it."""
    while True:
        code = _reap(command, visitors)
        if code is not None:
            _leave(code, signals, sweep, visitors)
        poll = select.poll()
        for descriptor in {signals, out_of_memory} - {-1}:
            poll.register(descriptor, select.POLLIN)
        if visitors is not None:
            visitors.watch(poll)
        ready = {descriptor for descriptor, _ in poll.poll()}
        if out_of_memory in ready:
            # As with `memory.oom.group`: a container that lost one process to its limit is over.
            os.kill(command, signal.SIGKILL)
            sweep()
            out_of_memory = -1
        if visitors is not None:
            visitors.look(ready)
        if signals in ready:
            for number in os.read(signals, 512):
                if number == SUPERVISOR_DIED:
                    os.kill(command, signal.SIGKILL)
                    _leave(137, signals, sweep, visitors)
                if number != signal.SIGCHLD:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(command, number)


def _leave(
    code: int, signals: int, sweep: Callable[[], None], visitors: Visitors | None
) -> NoReturn:
    """Kills what is left and takes its dead along: nobody else would reap them."""
    sweep()
    until = time.monotonic() + _LEAVE_SECONDS
    poll = select.poll()
    poll.register(signals, select.POLLIN)
    while _has_children(visitors) and (left := until - time.monotonic()) > 0:
        if poll.poll(left * 1000):
            os.read(signals, 512)
    os._exit(code)


def _has_children(visitors: Visitors | None) -> bool:
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return True
            if visitors is not None:
                visitors.ended(pid, status)
    except ChildProcessError:
        return False


def _reap(command: int, visitors: Visitors | None) -> int | None:
    code = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == command:
                code = os.waitstatus_to_exitcode(status)
            elif visitors is not None:
                visitors.ended(pid, status)
    return code if code is None or code >= 0 else 128 - code
