"""The system calls that Python 3.11 has no names for, as functions that raise OSError.

It decides nothing. On systems other than Linux it can be imported; a call raises ENOSYS.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from typing import Any, Final

CLONE_NEWNS: Final = 0x00020000
CLONE_NEWUTS: Final = 0x04000000
CLONE_NEWIPC: Final = 0x08000000
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWPID: Final = 0x20000000
CLONE_NEWNET: Final = 0x40000000

MS_RDONLY: Final = 1
MS_NOSUID: Final = 2
MS_NODEV: Final = 4
MS_NOEXEC: Final = 8
MS_REMOUNT: Final = 32
MS_BIND: Final = 4096
MS_MOVE: Final = 8192
MS_REC: Final = 16384
MS_UNBINDABLE: Final = 1 << 17
MS_SLAVE: Final = 1 << 19
MNT_DETACH: Final = 2

PR_SET_PDEATHSIG: Final = 1
PR_SET_DUMPABLE: Final = 4
PR_SET_NAME: Final = 15
_PR_SET_SECCOMP: Final = 22
PR_CAPBSET_DROP: Final = 24
PR_SET_CHILD_SUBREAPER: Final = 36
PR_SET_NO_NEW_PRIVS: Final = 38
_SECCOMP_MODE_FILTER: Final = 2
_CAPABILITY_VERSION: Final = 0x20080522

# The same number on every architecture, as all calls since Linux 5.1.
_SYS_OPENAT2: Final = 437
_SYS_MOUNT_SETATTR: Final = 442
_AT_RECURSIVE: Final = 0x8000
_MOUNT_ATTR_RDONLY: Final = 1
_MOUNT_ATTR_NODEV: Final = 4
_RESOLVE_NO_MAGICLINKS: Final = 0x02
_RESOLVE_BENEATH: Final = 0x08

IS_LINUX: Final = sys.platform == "linux"
NOT_LINUX: Final = (
    "only Linux can run replicas (here is "
    f"{sys.platform}): run Jobyard in a virtual machine or a container with Linux, or use a cluster"
)
_libc: Final = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: Any, about: str = "") -> int:
    if not IS_LINUX:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), about or name)
    result = int(getattr(_libc, name)(*arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), about or name)
    return result


def unshare(flags: int) -> None:
    """New namespaces for this process; of CLONE_NEWPID only for its children."""
    _call("unshare", ctypes.c_int(flags))


def setns(descriptor: int, flags: int = 0) -> None:
    """Enters a namespace, given as an open file of /proc/<pid>/ns."""
    _call("setns", ctypes.c_int(descriptor), ctypes.c_int(flags))


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """mount(2); an empty text stands for a null pointer where the kernel looks at none."""
    _call(
        "mount",
        os.fsencode(source) if source else None,
        os.fsencode(target),
        os.fsencode(kind) if kind else None,
        ctypes.c_ulong(flags),
        os.fsencode(data) if data else None,
        about=target,
    )


def unmount(target: str) -> None:
    """Takes a mount and all below it out of sight at once."""
    _call("umount2", os.fsencode(target), ctypes.c_int(MNT_DETACH), about=target)


def pivot_root(new: str, old: str) -> None:
    """Makes a mount point the root of this mount namespace."""
    _call("pivot_root", os.fsencode(new), os.fsencode(old), about=new)


def set_host_name(name: str) -> None:
    """Names the UTS namespace of this process."""
    text = os.fsencode(name)
    _call("sethostname", text, ctypes.c_size_t(len(text)), about=name)


def prctl(option: int, argument: int | bytes) -> None:
    """One setting of this process."""
    value = argument if isinstance(argument, bytes) else ctypes.c_ulong(argument)
    # Some options demand that the rest is nothing.
    rest = (ctypes.c_ulong(0),) * 3
    _call("prctl", ctypes.c_int(option), value, *rest, about=f"prctl {option}")


def filter_calls(program: bytes) -> None:
    """From now on the kernel asks this BPF program about every system call, for good."""
    text = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HP", len(program) // 8, ctypes.addressof(text))
    _call(
        "prctl",
        ctypes.c_int(_PR_SET_SECCOMP),
        ctypes.c_ulong(_SECCOMP_MODE_FILTER),
        header,
        *(ctypes.c_ulong(0),) * 2,
        about="seccomp",
    )


def keep_capabilities(kept: int) -> None:
    """Of the capabilities that this process has, only these; a bit for each, by number."""
    header = struct.pack("Ii", _CAPABILITY_VERSION, 0)
    now = ctypes.create_string_buffer(24)
    _call("capget", header, now)
    low, _, _, high, _, _ = struct.unpack("6I", now.raw)
    low, high = low & kept & 0xFFFFFFFF, high & kept >> 32
    _call("capset", header, struct.pack("6I", low, low, 0, high, high, 0))


def make_read_only(target: str) -> None:
    """A mount and all mounts below it, leaving their other flags as they are."""
    _restrict(target, _MOUNT_ATTR_RDONLY, MS_RDONLY)


def forbid_devices(target: str) -> None:
    """In a mount and all mounts below it a device is no more than a file."""
    _restrict(target, _MOUNT_ATTR_NODEV, MS_NODEV)


def _restrict(target: str, attribute: int, flag: int) -> None:
    attributes = struct.pack("QQQQ", attribute, 0, 0, 0)
    try:
        _call(
            "syscall",
            ctypes.c_long(_SYS_MOUNT_SETATTR),
            ctypes.c_long(-100),
            os.fsencode(target),
            ctypes.c_long(_AT_RECURSIVE),
            attributes,
            ctypes.c_long(len(attributes)),
            about=target,
        )
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
        # Before Linux 5.12. In a user namespace a remount must repeat the flags that are locked;
        # these have the same bits in statvfs, and access times are kept when none is named.
        kept = os.statvfs(target).f_flag & (MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
        mount("", target, "", MS_REMOUNT | MS_BIND | flag | kept)


def open_beneath(folder: int, path: str) -> int:
    """Opens a path below a folder as O_PATH; a link that leads out of it is EXDEV or ELOOP."""
    how = struct.pack("QQQ", os.O_PATH | os.O_CLOEXEC, 0, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS)
    try:
        return _call(
            "syscall",
            ctypes.c_long(_SYS_OPENAT2),
            ctypes.c_long(folder),
            os.fsencode(path or "."),
            how,
            ctypes.c_long(len(how)),
            about=path,
        )
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM):
            raise
    return _walk_beneath(folder, path)


def _walk_beneath(folder: int, path: str) -> int:
    """Before Linux 5.6: one name at a time, and no links at all."""
    here = os.open(".", os.O_PATH | os.O_DIRECTORY, dir_fd=folder)
    for name in path.split("/"):
        if name in ("", "."):
            continue
        if name == "..":
            os.close(here)
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
        try:
            there = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=here)
        finally:
            os.close(here)
        here = there
        if os.stat(here).st_mode & 0o170000 == 0o120000:
            os.close(here)
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    return here
