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
from collections.abc import Callable
from typing import Any, Final, NoReturn

from jobyard.node.isolation import kernel

# The kernel sends it when the supervisor dies; nobody else uses it.
SUPERVISOR_DIED: Final = 62
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
    command: int, *, signals: int, sweep: Callable[[], None], out_of_memory: int = -1
) -> NoReturn:
    """Waits for the command, and exits with its status or 128 + the signal that ended it."""
    watched = [signals] if out_of_memory < 0 else [signals, out_of_memory]
    while True:
        code = _reap(command)
        if code is not None:
            sweep()
            os._exit(code)
        ready, _, _ = select.select(watched, [], [])
        if out_of_memory in ready:
            # As with `memory.oom.group`: a container that lost one process to its limit is over.
            os.kill(command, signal.SIGKILL)
            sweep()
            watched = [signals]
        if signals in ready:
            _pass_on(command, os.read(signals, 512), sweep)


def _reap(command: int) -> int | None:
    code = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == command:
                code = os.waitstatus_to_exitcode(status)
    return code if code is None or code >= 0 else 128 - code


def _pass_on(command: int, numbers: bytes, sweep: Callable[[], None]) -> None:
    for number in numbers:
        if number == SUPERVISOR_DIED:
            os.kill(command, signal.SIGKILL)
            sweep()
            os._exit(137)
        if number != signal.SIGCHLD:
            with contextlib.suppress(ProcessLookupError):
                os.kill(command, number)
