"""A limit on the memory of a process that a test starts, as a kubelet would set one.

As root it is a control group of the process' own (either version of them), in which the kernel
kills what takes more. Without root it is a limit on data: not on the address space, of which a
Python process with threads reserves many times what it ever touches. Such a process isn't killed
but fails to allocate, which comes to the same for a test.
"""

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
JOIN = 'echo $$ >"$0" && exec "$@"'
LIMIT = 'ulimit -d "$0" && exec "$@"'


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """How a command is started under the limit: `(*limit.wrapper, *command)`."""

    wrapper: tuple[str, ...]
    what: str


@contextmanager
def memory_limit(limit_bytes: int) -> Iterator[MemoryLimit]:
    """A limit for the time of a `with` block, at whose end the process must have ended."""
    group = _made_group(limit_bytes)
    if group is None:
        yield MemoryLimit(("sh", "-c", LIMIT, str(limit_bytes // 1024)), "RLIMIT_DATA")
        return
    try:
        yield MemoryLimit(("sh", "-c", JOIN, str(group / "cgroup.procs")), f"control group {group}")
    finally:
        group.rmdir()


def peak_bytes(pid: int) -> int:
    """The most memory that the process ever had."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None, "a process without memory has ended"
    return int(found[1]) * 1024


def _made_group(limit_bytes: int) -> Path | None:
    if os.geteuid() != 0:
        return None
    name = f"jobyard-test-{secrets.token_hex(4)}"
    for parent, file in ((GROUPS / "memory", "memory.limit_in_bytes"), (GROUPS, "memory.max")):
        group = parent / name
        with suppress(OSError):
            group.mkdir()
            with suppress(OSError):
                (group / file).write_text(str(limit_bytes))
                # Where there is swap, it counts too.
                with suppress(OSError):
                    (group / "memory.swap.max").write_text("0")
                return group
            group.rmdir()
    return None
