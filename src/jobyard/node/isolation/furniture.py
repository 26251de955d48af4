"""The files that a container sees: its root, its mounts, and mount points where there were none.

Runs in the container's first process, in a mount namespace of its own, and undoes nothing: the
namespace ends with the container. All sources are opened before the first mount is made, because
a mount may cover the source of the next, and because an open file can't be swapped for a link.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import Final

import msgspec

from jobyard.node.cage import CannotRunError
from jobyard.node.isolation import kernel
from jobyard.node.isolation.launching import start_error, words
from jobyard.node.isolation.points import MadeFolders, wants_mirror
from jobyard.node.order import Mount, MountType

_BIND: Final = kernel.MS_BIND | kernel.MS_REC
_PLAIN: Final = kernel.MS_NOSUID | kernel.MS_NODEV
_NEEDED_IN_ROOT: Final = ("/proc", "/sys", "/dev", "/tmp")  # noqa: S108 - of the container


class Furniture(msgspec.Struct, frozen=True, kw_only=True):
    """What a container is to see."""

    mounts: tuple[Mount, ...]
    working_folder: str
    # Another root than the machine's; empty for that.
    root_folder: str = ""
    # A folder of the pod's own: staging, and what is written to another root.
    scratch: str
    own_folders: tuple[str, ...] = ()


def open_source(mount: Mount) -> int:
    """The folder or file to bind, not outside of what the mount must stay within."""
    try:
        if not mount.within:
            return os.open(mount.source, os.O_PATH | os.O_CLOEXEC)
        below = os.path.relpath(mount.source, mount.within)
        base = os.open(mount.within, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return kernel.open_beneath(base, below)
        finally:
            os.close(base)
    except OSError as error:
        if error.errno in (errno.EXDEV, errno.ELOOP):
            raise CannotRunError(
                "CreateContainerConfigError",
                f'failed to prepare subPath for volumeMount at "{mount.target}": '
                f"{mount.source} leads out of {mount.within}",
            ) from error
        raise start_error(
            f'error mounting "{mount.source}" to "{mount.target}": {words(error.errno or 0)}'
        ) from error


class Room:
    """The mount namespace of this process, while it is being furnished."""

    def __init__(self, wanted: Furniture, made: MadeFolders) -> None:
        self._wanted = wanted
        self._made = made
        # Folders in memory: made by us, or mirrors. Others can be made in them freely.
        self._ours: set[str] = set()
        # Volumes, tmpfs and the like: new mount points are made in them, as Kubernetes does.
        self._mounted: list[str] = []
        self._old_root = -1

    def furnish(self) -> None:
        """All of it; afterwards the process stands in the container's root folder."""
        kernel.unshare(kernel.CLONE_NEWNS)
        kernel.mount("", "/", "", kernel.MS_REC | kernel.MS_SLAVE)
        sources = [
            open_source(one) if one.type == MountType.BIND else -1 for one in self._wanted.mounts
        ]
        self._enter_root()
        self._refresh_kernel_views()
        for mount, source in zip(self._wanted.mounts, sources, strict=True):
            self._place(mount, source)
            if source >= 0:
                os.close(source)
        folder = os.path.realpath(self._wanted.working_folder)
        if not os.path.lexists(folder):
            self._make_point(folder, is_folder=True)
        self._leave_old_root()

    # The root.

    def _enter_root(self) -> None:
        root = self._wanted.root_folder
        if root:
            self._old_root = os.open("/", os.O_PATH | os.O_DIRECTORY)
            staging = self._overlay(root) or self._mirror_root(root)
            for name in _NEEDED_IN_ROOT:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(staging + name)
            for name in ("/proc", "/sys", "/dev"):
                kernel.mount(name, staging + name, "", _BIND)
        elif self._lacks_top_level("/"):
            self._old_root = os.open("/", os.O_PATH | os.O_DIRECTORY)
            staging = self._mirror_root("/")
        else:
            return
        os.chdir(staging)
        try:
            kernel.pivot_root(".", ".")
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            # The machine's root is its initial memory file system, which can't be put aside.
            os.close(self._old_root)
            self._old_root = -1
            kernel.mount(".", "/", "", kernel.MS_MOVE)
            os.chroot(".")
        os.chdir("/")

    def _lacks_top_level(self, root: str) -> bool:
        paths = [one.target for one in self._wanted.mounts] + [self._wanted.working_folder]
        tops = {os.path.normpath(path).lstrip("/").split("/")[0] for path in paths}
        return any(top and not os.path.lexists(os.path.join(root, top)) for top in tops)

    def _overlay(self, root: str) -> str:
        """The other root with changes kept in the pod's folder; empty where it can't be had."""
        scratch = Path(self._wanted.scratch)
        for name in ("upper", "work", "root"):
            (scratch / name).mkdir(parents=True, exist_ok=True)
        if any(sign in f"{root}{scratch}" for sign in ",:\\"):
            return ""
        data = f"lowerdir={root},upperdir={scratch}/upper,workdir={scratch}/work"
        # Without the first, the kernel wants an attribute that only real root may set.
        for options in (f"{data},userxattr", data):
            with contextlib.suppress(OSError):
                kernel.mount("overlay", f"{scratch}/root", "overlay", kernel.MS_NODEV, options)
                self._mounted.append("/")
                return f"{scratch}/root"
        return ""

    def _mirror_root(self, root: str) -> str:
        staging = os.path.join(self._wanted.scratch, "root")
        os.makedirs(staging, exist_ok=True)
        entries = os.open(root, os.O_PATH | os.O_DIRECTORY)
        kernel.mount("tmpfs", staging, "tmpfs", _PLAIN, "mode=755")
        # Else the root would contain itself, below the pod's folder.
        kernel.mount("", staging, "", kernel.MS_UNBINDABLE)
        _show_entries(entries, staging)
        os.close(entries)
        self._ours.add("/")
        return staging

    def _leave_old_root(self) -> None:
        if self._old_root >= 0:
            os.fchdir(self._old_root)
            kernel.unmount(".")
            os.close(self._old_root)
        os.chdir("/")

    def _refresh_kernel_views(self) -> None:
        """/proc of the new PID namespace, /sys of the pod's network; the old ones if refused."""
        with contextlib.suppress(OSError):
            kernel.mount("proc", "/proc", "proc", _PLAIN | kernel.MS_NOEXEC)
        with contextlib.suppress(OSError):
            groups = os.open("/sys/fs/cgroup", os.O_PATH | os.O_DIRECTORY)
            kernel.mount("sysfs", "/sys", "sysfs", _PLAIN | kernel.MS_NOEXEC)
            kernel.mount(f"/proc/self/fd/{groups}", "/sys/fs/cgroup", "", _BIND)
            os.close(groups)

    # One mount.

    def _place(self, mount: Mount, source: int) -> None:
        target = os.path.realpath(mount.target)
        is_folder = source < 0 or stat.S_ISDIR(os.fstat(source).st_mode)
        try:
            if not os.path.lexists(target):
                self._make_point(target, is_folder=is_folder)
            elif self._is_workplace(target):
                self._made.claim(target, is_folder=is_folder)
            self._mount(mount, source, target)
        except OSError as error:
            hint = ""
            if error.errno == errno.ENOTDIR:
                hint = ": are you trying to mount a directory onto a file (or the other way round)?"
            raise start_error(
                f'error mounting "{mount.source or mount.type}" to "{mount.target}": '
                f"{words(error.errno or 0)}{hint}"
            ) from error
        self._mounted.append(target)

    def _mount(self, mount: Mount, source: int, target: str) -> None:
        if mount.type == MountType.TMPFS:
            size = f",size={mount.size_bytes}" if mount.size_bytes else ""
            kernel.mount("tmpfs", target, "tmpfs", _PLAIN, f"mode=1777{size}")
        else:
            kernel.mount(f"/proc/self/fd/{source}", target, "", _BIND)
        if mount.read_only:
            kernel.make_read_only(target)

    # Mount points.

    def _is_in_mount(self, path: str) -> bool:
        return any(one == "/" or path == one or path.startswith(one + "/") for one in self._mounted)

    def _is_workplace(self, path: str) -> bool:
        """Whether removing an empty folder here could pull the ground from under others."""
        return not (
            self._is_in_mount(path)
            or path in self._ours
            or self._is_mirrored(os.path.dirname(path))
            or not os.access(path, os.R_OK)
        )

    def _is_mirrored(self, parent: str) -> bool:
        # Paths of another root would mean something else to who removes folders afterwards.
        return bool(self._wanted.root_folder) or wants_mirror(parent, self._wanted.own_folders)

    def _make_point(self, target: str, *, is_folder: bool) -> None:
        parent = os.path.dirname(target)
        while not os.path.lexists(parent):
            parent = os.path.dirname(parent)
        if parent not in self._ours:
            if self._is_in_mount(parent):
                with contextlib.suppress(OSError):
                    _make_here(target, is_folder=is_folder)
                    return
            elif not self._is_mirrored(parent):
                with contextlib.suppress(OSError):
                    # Kept open, thus claimed, until the container ends.
                    self._made.claim(target, is_folder=is_folder)
                    return
            self._mirror(parent)
        self._ours.update(_make_here(target, is_folder=is_folder))

    def _mirror(self, folder: str) -> None:
        assert folder != "/", "the root itself is mirrored before all else"
        entries = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        mode = stat.S_IMODE(os.fstat(entries).st_mode)
        kernel.mount("tmpfs", folder, "tmpfs", _PLAIN, f"mode={mode:o}")
        _show_entries(entries, folder)
        os.close(entries)
        self._ours.add(folder)


def _make_here(target: str, *, is_folder: bool) -> list[str]:
    """Makes the path with its parents; returns the folders among them."""
    made = []
    folder = target if is_folder else os.path.dirname(target)
    while not os.path.lexists(folder):
        made.append(folder)
        folder = os.path.dirname(folder)
    for one in reversed(made):
        os.mkdir(one, 0o755)
    if not is_folder:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    return made


def _show_entries(folder: int, target: str) -> None:
    """Binds everything in a folder into another; what can't be shown is left out."""
    base = f"/proc/self/fd/{folder}"
    try:
        entries = os.scandir(f"{base}/.")
    except PermissionError:
        # Of another user, such as root's home: nobody who looks from here has seen any of it.
        return
    with entries:
        for entry in entries:
            path = os.path.join(target, entry.name)
            with contextlib.suppress(OSError):
                if entry.is_symlink():
                    os.symlink(os.readlink(f"{base}/{entry.name}"), path)
                    continue
                if entry.is_dir(follow_symlinks=False):
                    os.mkdir(path)
                else:
                    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
                kernel.mount(f"{base}/{entry.name}", path, "", _BIND)
