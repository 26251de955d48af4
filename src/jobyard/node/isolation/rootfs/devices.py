"""The devices that a container sees: those of the machine, without its disks and its memory.

On a cluster a container has a handful of devices, and GPUs come by plugins. Here nobody says which
devices a job needs, so it gets all of those that compute, and none that are the machine itself.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from typing import Final

from jobyard.node.isolation import kernel

_BIND: Final = kernel.MS_BIND | kernel.MS_REC
# File systems of their own.
_WHOLE: Final = frozenset(("hugepages", "mqueue", "pts", "shm"))
_MACHINES_OWN: Final = re.compile(
    "autofs|block|bsg|btrfs-control|bus|cachefiles|char|console|cpu|cpu_dma_latency|disk|hidraw.*"
    "|hpet|hwrng|i2c-.*|initctl|input|ipmi.*|kmem|kmsg|log|loop-control|mapper|mcelog|mei.*|mem|ng[0-9].*"
    "|nvme[0-9].*|nvram|port|ppp|rtc.*|sg[0-9].*|snapshot|tpm.*|tty[0-9A-Za-z].*|udmabuf|uhid"
    "|uinput|userfaultfd|vcs.*|vfio|vga_arbiter|vhost.*|vport.*|vsock|watchdog.*"
)


def show_devices(target: str, *, everything: bool) -> None:
    """A folder in memory with the machine's devices; `everything` as for a privileged container."""
    # Those in it are mounts of their own; one that root makes there itself is no device.
    flags = kernel.MS_NOSUID | kernel.MS_NODEV
    kernel.mount("tmpfs", target, "tmpfs", flags, "mode=755")
    _show("/dev", target, everything=everything)


def _show(folder: str, target: str, *, everything: bool) -> None:
    with os.scandir(folder) as entries:
        for entry in entries:
            if not everything and _MACHINES_OWN.fullmatch(entry.name):
                continue
            # What can't be shown is left out.
            with contextlib.suppress(OSError):
                _show_one(entry, os.path.join(target, entry.name), everything=everything)


def _show_one(entry: os.DirEntry[str], path: str, *, everything: bool) -> None:
    if entry.is_symlink():
        os.symlink(os.readlink(entry.path), path)
    elif entry.is_dir(follow_symlinks=False):
        os.mkdir(path)
        if entry.name in _WHOLE:
            kernel.mount(entry.path, path, "", _BIND)
        else:
            _show(entry.path, path, everything=everything)
    elif everything or stat.S_ISCHR(entry.stat(follow_symlinks=False).st_mode):
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
        kernel.mount(entry.path, path, "", kernel.MS_BIND)
