"""A fork into another PID namespace, whose child is still this process's own child.

Entering a PID namespace only holds for children, and an ordinary user can't take it back. So a
process in between enters it, forks and exits at once; its child then belongs to the nearest
subreaper, which is the caller.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from jobyard.node.isolation import kernel
from jobyard.node.isolation.descriptors import Held

_FAILED: Final = -1


def adopt_orphans() -> None:
    """Once, before the first `fork_apart`."""
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)


def fork_apart(enter: Callable[[], None]) -> int:
    """As os.fork; the child is where `enter`, called in between, puts children."""
    with Held() as held:
        told, tell = held.pipe()
        go, hold = held.pipe()
        between = os.fork()
        if between == 0:
            held.close(told, hold)
            if _fork_in(enter, tell) == 0:
                held.close(tell)
                # The end of the file: the process in between is gone, and who it belonged to too.
                os.read(go, 1)
                return 0
            os._exit(0)
        held.close(tell, go)
        text = os.read(told, 32)
        os.waitpid(between, 0)
    number = int(text or b"0")
    if number <= 0:
        raise OSError(-number, os.strerror(-number), "PID namespace")
    return number


def _fork_in(enter: Callable[[], None], tell: int) -> int:
    """0 in the child; the process in between tells the pid, or the error as a negative number."""
    try:
        enter()
        pid = os.fork()
    except OSError as error:
        os.write(tell, b"%d" % -(error.errno or 1))
        return _FAILED
    if pid:
        os.write(tell, b"%d" % pid)
    return pid
