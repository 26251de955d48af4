"""One process of the control plane: started so that it can't outlive us, and stopped.

Knows processes, logs and deadlines, nothing about Kubernetes. Waiting is always for
several things at once (the condition, the death of a component, the end of the run),
so a plane that can't come up fails at once with the log of the part that died.
"""

import ctypes
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

PROBE_INTERVAL_MILLISECONDS = 50
TAIL_LINES = 15
# <sys/prctl.h>; Python has no name for it.
PR_SET_PDEATHSIG = 1

# The cores are what tests wait for: Go's collector may rest until a component has grown fivefold.
LESS_COLLECTING = {"GOGC": "400", "GOMEMLIMIT": "3GiB"}

# Loaded here because the child may not import anything between fork and exec.
_LIBC = ctypes.CDLL(None, use_errno=True)


class StartError(Exception):
    """A component died or wasn't ready in time; the message ends with its log."""


class AbandonedError(Exception):
    """The run ended while the plane was still starting."""


@dataclass(frozen=True, slots=True)
class Component:
    """A running child process, with a pidfd that turns readable when it ends."""

    name: str
    process: subprocess.Popen[bytes]
    pidfd: int
    log: Path

    def log_tail(self) -> str:
        """The last lines of the log, as part of an error message."""
        lines = self.log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
        return "\n".join([f"last lines of {self.log}:", *(f"  {line}" for line in lines)])


def start(command: Sequence[str], log: Path) -> Component:
    """Start `command` with its output in `log`; it gets killed when we die."""
    name = Path(command[0]).name
    parent = os.getpid()

    def die_with_parent() -> None:
        _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        # We may have died before prctl was called; then no signal would ever come.
        if os.getppid() != parent:
            os._exit(1)

    with log.open("wb") as output:
        try:
            process = subprocess.Popen(
                command,
                env=LESS_COLLECTING | os.environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Safe because the keeper has one thread, which is what the linter can't see.
                preexec_fn=die_with_parent,  # noqa: PLW1509
                start_new_session=True,
            )
        except OSError as problem:
            raise StartError(f"{name} can't be started: {problem}") from problem
    return Component(name, process, os.pidfd_open(process.pid), log)


def await_condition(
    condition: Callable[[], bool],
    what: str,
    components: Sequence[Component],
    *,
    deadline_seconds: float,
    ending: int | None,
) -> None:
    """Return once `condition` holds; raise when a component dies or the deadline passes.

    `ending` is a file descriptor that turns readable when nobody needs the plane any
    more. Between two probes we wait for bad news, not for time to pass.
    """
    deadline = time.monotonic() + deadline_seconds
    poller = _poller(components, ending)
    while not condition():
        for descriptor, _ in poller.poll(PROBE_INTERVAL_MILLISECONDS):
            raise _bad_news(descriptor, components)
        if time.monotonic() > deadline:
            last = components[-1]
            raise StartError(f"{what}: not so after {deadline_seconds:g} s; {last.log_tail()}")


def await_ending(components: Sequence[Component], ending: int) -> None:
    """Block until the run ends; raise when a component dies before that."""
    for descriptor, _ in _poller(components, ending).poll():
        if descriptor == ending:
            return
        raise _bad_news(descriptor, components)


def stop(component: Component, *, grace_seconds: float) -> None:
    """End our own child, once: SIGTERM, and SIGKILL after the grace period."""
    # Does nothing to a child that has been waited for, so a recycled pid is never hit.
    component.process.send_signal(signal.SIGTERM)
    poller = select.poll()
    poller.register(component.pidfd, select.POLLIN)
    if not poller.poll(grace_seconds * 1000):
        component.process.kill()
    component.process.wait()
    os.close(component.pidfd)


def _poller(components: Sequence[Component], ending: int | None) -> select.poll:
    poller = select.poll()
    for component in components:
        poller.register(component.pidfd, select.POLLIN)
    if ending is not None:
        poller.register(ending, select.POLLIN)
    return poller


def _bad_news(descriptor: int, components: Sequence[Component]) -> Exception:
    for component in components:
        if component.pidfd == descriptor:
            code = component.process.wait()
            return StartError(f"{component.name} ended with {code}; {component.log_tail()}")
    return AbandonedError("nobody needs the control plane any more")
