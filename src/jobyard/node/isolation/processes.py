"""What /proc tells about a group of processes: who is in it, and how much memory they use.

A process may end at any moment of reading; it then counts as not there. Nothing is cached.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_KILL_ROUNDS_MAX: Final = 100


def in_namespace_of(pid: int) -> tuple[int, ...]:
    """Everyone in the PID namespace of a process, itself included."""
    try:
        namespace = os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{name}/ns/pid") == namespace:
                    found.append(int(name))
    return tuple(found)


def _parents() -> dict[int, int]:
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                # The name of the program may hold anything, parentheses too.
                rest = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
                if rest[0] != "Z":
                    parents[int(name)] = int(rest[1])
    return parents


def descendants_of(pid: int) -> tuple[int, ...]:
    """Children, their children and so on, without itself and without zombies."""
    if not os.path.isdir("/proc/self"):
        return ()
    parents = _parents()
    found: list[int] = []
    known = {pid}
    grows = True
    while grows:
        more = [child for child, parent in parents.items() if parent in known - {child}]
        fresh = [child for child in more if child not in known]
        found += fresh
        known.update(fresh)
        grows = bool(fresh)
    return tuple(found)


def kill_descendants_of(pid: int) -> None:
    """Until none is left: one that forks meanwhile is caught in the next round.

    None is reaped: their exit codes belong to whoever waits for them.
    """
    for _ in range(_KILL_ROUNDS_MAX):
        victims = descendants_of(pid)
        if not victims:
            return
        for victim in victims:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(victim, signal.SIGKILL)


def memory_bytes(pids: Iterable[int], limit_bytes: int) -> int:
    """What they use together, each shared page counted once where it matters.

    Resident sizes are cheap and count shared pages in every process. Only when they exceed the
    limit is the exact figure looked up, for which the kernel walks all pages.
    """
    pids = tuple(pids)
    rough = sum(_resident(pid) for pid in pids)
    if not limit_bytes or rough <= limit_bytes:
        return rough
    return sum(_proportional(pid) for pid in pids)


def _resident(pid: int) -> int:
    """Anonymous and shared memory; pages of files can be dropped and don't count."""
    try:
        _, resident, _, *_ = Path(f"/proc/{pid}/statm").read_text().split()
        status = Path(f"/proc/{pid}/status").read_text()
    except (OSError, ValueError):
        return 0
    for line in status.splitlines():
        if line.startswith("RssFile:"):
            return int(resident) * _PAGE_BYTES - int(line.split()[1]) * 1024
    return int(resident) * _PAGE_BYTES


def _proportional(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return _resident(pid)
    amounts = [
        int(line.split()[1]) * 1024
        for line in text.splitlines()
        if line.startswith(("Pss_Anon:", "Pss_Shmem:"))
    ]
    return sum(amounts) if amounts else _resident(pid)
