"""What /proc tells about a group of processes: who is in it, and how much memory they use.

A process may end at any moment of reading; it then counts as not there. Nothing is cached.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Set
from functools import cache
from pathlib import Path
from typing import Final

_KILL_ROUNDS_MAX: Final = 100


@cache
def _lists_children() -> bool:
    """Whether the kernel tells whose children are whose; some are built without."""
    return os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def children_of(pid: int) -> tuple[int, ...]:
    """Those of all its threads. While some of them end, others may be missing."""
    if not _lists_children():
        return tuple(child for child, parent in _parents().items() if parent == pid)
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children") as file:
                found += map(int, file.read().split())
    return tuple(found)


def family_of(pid: int) -> tuple[int, ...]:
    """Itself, its children and so on; costs what these cost, however many others there are."""
    if not _lists_children():
        return (pid, *descendants_of(pid))
    found = [pid]
    for one in found:
        found += children_of(one)
    return tuple(found)


def in_namespace_of(pid: int, *, below: int) -> tuple[int, ...]:
    """The families of all children of `below` that are in the PID namespace of a process."""
    try:
        namespace = os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ()
    found: list[int] = []
    for child in children_of(below):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{child}/ns/pid") == namespace:
                found += family_of(child)
    return tuple(found)


def _parents() -> dict[int, int]:
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                # The name of the program may hold anything, parentheses and what is no text too.
                rest = Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()
                if rest[0] != b"Z":
                    parents[int(name)] = int(rest[1])
    return parents


def descendants_of(pid: int, *, but: Set[int] = frozenset()) -> tuple[int, ...]:
    """Children, their children and so on, without itself and without zombies.

    Those in `but` and what is below them are left out.
    """
    children: dict[int, list[int]] = {}
    for child, parent in _parents().items():
        children.setdefault(parent, []).append(child)
    found = [pid]
    for one in found:
        found += (child for child in children.get(one, ()) if child not in but)
    return tuple(found[1:])


def kill_descendants_of(pid: int, *, but: Set[int] = frozenset()) -> None:
    """Until all are killed: one that forks meanwhile is caught in the next round.

    None is reaped: exit codes belong to whoever waits for them.
    """
    killed: set[int] = set()
    for _ in range(_KILL_ROUNDS_MAX):
        victims = set(descendants_of(pid, but=but)) - killed
        if not victims:
            return
        for victim in victims:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(victim, signal.SIGKILL)
        killed |= victims


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
        # Its first line is the name, which may be no text.
        with open(f"/proc/{pid}/status", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return 0
    return sum(
        int(line.split()[1]) * 1024 for line in lines if line.startswith(("RssAnon:", "RssShmem:"))
    )


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
