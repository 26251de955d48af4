"""The filter for system calls: what container engines deny by default, as a program for the kernel.

A list of what is denied, and not of what is allowed as Docker's own: a new call of a new kernel
works, and what changes the machine is known. Left open on purpose, though Docker closes it: memory
policies (NUMA), `pidfd_getfd` and `process_madvise`, which trainings use and which give no power
over others. Denied calls fail with EPERM; `clone3`, whose flags a filter can't see, with ENOSYS, so
that programs use `clone`.

It decides nothing about which container gets it. Calls by another architecture's numbers are
denied, but those of 32-bit x86, for which there is a column.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Collection, Iterator
from typing import Final

# Name: number on x86_64, on aarch64, on 32-bit x86; -1 where there is none. By the capability
# that opens them again; the empty one does never.
Row = tuple[str, int, int, int]
DENIED: Final[dict[str, tuple[Row, ...]]] = {
    "SYS_ADMIN": (
        ("bpf", 321, 280, 357),
        ("fanotify_init", 300, 262, 338),
        ("fsconfig", 431, 431, 431),
        ("fsmount", 432, 432, 432),
        ("fsopen", 430, 430, 430),
        ("fspick", 433, 433, 433),
        ("lookup_dcookie", 212, 18, 253),
        ("mount", 165, 40, 21),
        ("mount_setattr", 442, 442, 442),
        ("move_mount", 429, 429, 429),
        ("open_tree", 428, 428, 428),
        ("open_tree_attr", 467, 467, 467),
        ("perf_event_open", 298, 241, 336),
        ("pivot_root", 155, 41, 217),
        ("quotactl", 179, 60, 131),
        ("quotactl_fd", 443, 443, 443),
        ("setdomainname", 171, 162, 121),
        ("sethostname", 170, 161, 74),
        ("setns", 308, 268, 346),
        ("umount", -1, -1, 22),
        ("umount2", 166, 39, 52),
        ("unshare", 272, 97, 310),
    ),
    "SYS_BOOT": (
        ("kexec_file_load", 320, 294, -1),
        ("kexec_load", 246, 104, 283),
        ("reboot", 169, 142, 88),
    ),
    "SYS_MODULE": (
        ("create_module", 174, -1, 127),
        ("delete_module", 176, 106, 129),
        ("finit_module", 313, 273, 350),
        ("get_kernel_syms", 177, -1, 130),
        ("init_module", 175, 105, 128),
        ("query_module", 178, -1, 167),
    ),
    "SYS_PACCT": (("acct", 163, 89, 51),),
    "SYS_RAWIO": (("ioperm", 173, -1, 101), ("iopl", 172, -1, 110)),
    "SYS_TIME": (
        ("clock_settime", 227, 112, 264),
        ("clock_settime64", -1, -1, 404),
        ("settimeofday", 164, 170, 79),
        ("stime", -1, -1, 25),
    ),
    "SYS_TTY_CONFIG": (("vhangup", 153, 58, 111),),
    "SYSLOG": (("syslog", 103, 116, 103),),
    "DAC_READ_SEARCH": (("open_by_handle_at", 304, 265, 342),),
    "": (
        ("_sysctl", 156, -1, 149),
        ("add_key", 248, 217, 286),
        ("io_uring_enter", 426, 426, 426),
        ("io_uring_register", 427, 427, 427),
        ("io_uring_setup", 425, 425, 425),
        ("keyctl", 250, 219, 288),
        ("nfsservctl", 180, 42, 169),
        ("request_key", 249, 218, 287),
        ("swapoff", 168, 225, 115),
        ("swapon", 167, 224, 87),
        ("uselib", 134, -1, 86),
        ("userfaultfd", 323, 282, 374),
        ("vm86", -1, -1, 166),
        ("vm86old", -1, -1, 113),
    ),
}
_CLONE: Final = (56, 220, 120)
_CLONE3: Final = 435
_SOCKET: Final = (41, 198, 359)
# Namespaces of any kind that this call can make: mount, cgroup, UTS, IPC, user, PID, network.
_NEW_NAMESPACES: Final = 0x7E020000
# To the machine's hypervisor: no network that a pod has a part in.
_AF_VSOCK: Final = 40
# As the kernel calls architectures, with the column of the table.
_ARCHITECTURES: Final = {
    "x86_64": ((0xC000003E, 0), (0x40000003, 2)),
    "aarch64": ((0xC00000B7, 1),),
}
_X32_BIT: Final = 0x40000000

_LOAD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
_JUMP_EQUAL: Final = 0x15
_JUMP_NOT_LESS: Final = 0x35
_JUMP_ANY_BIT: Final = 0x45
_JUMP: Final = 0x05
_RETURN: Final = 0x06
_ALLOW: Final = 0x7FFF0000
_FAIL: Final = 0x00050000
# In the kernel's `struct seccomp_data`.
_NUMBER_AT: Final = 0
_ARCHITECTURE_AT: Final = 4
_FIRST_ARGUMENT_AT: Final = 16

_Step = tuple[int, int, int, int]


def is_known(machine: str = "") -> bool:
    """Whether there is a filter for this architecture."""
    return (machine or platform.machine()) in _ARCHITECTURES


def program(capabilities: Collection[str], machine: str = "") -> bytes:
    """The filter for a container that keeps these capabilities, as the kernel reads it."""
    steps: list[_Step] = [(_LOAD, 0, 0, _ARCHITECTURE_AT)]
    for architecture, column in _ARCHITECTURES[machine or platform.machine()]:
        part = [*_part(column, capabilities)]
        # A jump's condition reaches 255 steps, a jump itself any number.
        steps += [(_JUMP_EQUAL, 1, 0, architecture), (_JUMP, 0, 0, len(part)), *part]
    steps.append(_failing(errno.ENOSYS))
    return b"".join(struct.pack("HBBI", *step) for step in steps)


def _part(column: int, capabilities: Collection[str]) -> Iterator[_Step]:
    yield (_LOAD, 0, 0, _NUMBER_AT)
    if column == 0:
        # The third set of numbers of an x86: as if the kernel had none.
        yield from ((_JUMP_NOT_LESS, 0, 1, _X32_BIT), _failing(errno.ENOSYS))
    for capability, rows in DENIED.items():
        if capability not in capabilities:
            for _, *numbers in rows:
                if numbers[column] >= 0:
                    yield from ((_JUMP_EQUAL, 0, 1, numbers[column]), _failing(errno.EPERM))
    if "SYS_ADMIN" not in capabilities:
        yield from ((_JUMP_EQUAL, 0, 1, _CLONE3), _failing(errno.ENOSYS))
        yield (_JUMP_EQUAL, 0, 4, _CLONE[column])
        yield from ((_LOAD, 0, 0, _FIRST_ARGUMENT_AT), (_JUMP_ANY_BIT, 0, 1, _NEW_NAMESPACES))
        yield from (_failing(errno.EPERM), (_RETURN, 0, 0, _ALLOW))
    yield (_JUMP_EQUAL, 0, 3, _SOCKET[column])
    yield from ((_LOAD, 0, 0, _FIRST_ARGUMENT_AT), (_JUMP_EQUAL, 0, 1, _AF_VSOCK))
    yield from (_failing(errno.EPERM), (_RETURN, 0, 0, _ALLOW))


def _failing(number: int) -> _Step:
    return (_RETURN, 0, 0, _FAIL | number)
