"""Runs a command on a machine that has something else to do: two busy loops for each core.

    python tools/busy.py pytest tests/client/test_client.py

Tests that only pass where nobody else is at work lose their races here. The loops end with the
command, and by the kernel's hand if this process is killed. The exit code is the command's.
Standard library only.
"""

import ctypes
import os
import signal
import subprocess
import sys

LOOPS_PER_CORE = 2
PR_SET_PDEATHSIG = 1


def spin(parent: int) -> None:
    """Until killed; a parent that was gone before the kernel knew whom to watch is noticed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    while os.getppid() == parent:
        for _ in range(1_000_000):
            pass


def main(command: list[str]) -> int:
    parent = os.getpid()
    loops = []
    for _ in range(LOOPS_PER_CORE * len(os.sched_getaffinity(0))):
        pid = os.fork()
        if pid == 0:
            spin(parent)
            os._exit(0)
        loops.append(pid)
    # Ctrl-C is for the command, which then tells how far it came; it would inherit SIG_IGN.
    signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        return subprocess.run(command, check=False).returncode
    finally:
        for pid in loops:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
