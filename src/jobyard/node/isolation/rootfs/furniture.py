"""The files that a container sees: its root, its mounts, and mount points where there were none.

Runs in the container's first process, in a mount namespace of its own, and undoes nothing: the
namespace ends with the container. All sources are opened before the first mount is made, because
a mount may cover the source of the next, and because an open file can't be swapped for a link.

The root is one of layers (`layers`). Where the kernel has none, it is the machine's own: then what
a mount point needs is made in memory, or on the disk for as long as it is used.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import Final

import msgspec

from jobyard.node.isolation import kernel
from jobyard.node.isolation.cage import CannotRunError
from jobyard.node.isolation.launching import start_error, words
from jobyard.node.isolation.privileges import guard_kernel_views
from jobyard.node.isolation.rootfs.layers import Layers, Wanted, hide
from jobyard.node.isolation.rootfs.mount_points import MadeFolders, is_below, wants_mirror
from jobyard.node.shared.order import Mount, MountType

_BIND: Final = kernel.MS_BIND | kernel.MS_REC
_PLAIN: Final = kernel.MS_NOSUID | kernel.MS_NODEV
_NEEDED_IN_ROOT: Final = ("/proc", "/sys", "/dev", "/tmp")  # noqa: S108 - of the container


class Furniture(msgspec.Struct, frozen=True, kw_only=True):
    """What a container is to see."""

    mounts: tuple[Mount, ...]
    working_folder: str
    # Another root than the machine's; empty for that.
    root_folder: str = ""
    # A folder of this run's own: what is written to the root.
    scratch: str
    # Folders of the machine that are shown as they are, and those that aren't shown at all.
    own_folders: tuple[str, ...] = ()
    hidden_folders: tuple[str, ...] = ()
    # Whether root is only what an ordinary user is called here.
    is_mapped: bool = False
    is_privileged: bool = False


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
        self._is_layered = False
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
        if not self._is_layered and not self._wanted.root_folder:
            self._hide()
        self._leave_old_root()

    # The root.

    def _enter_root(self) -> None:
        self._old_root = os.open("/", os.O_PATH | os.O_DIRECTORY)
        root = self._wanted.root_folder
        staging = self._layered_root()
        if not staging and root:
            staging = self._mirror_root(root)
            for name in _NEEDED_IN_ROOT:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(staging + name)
            for name in ("/proc", "/sys", "/dev"):
                kernel.mount(name, staging + name, "", _BIND)
        elif not staging and self._lacks_top_level("/"):
            staging = self._mirror_root("/")
        elif not staging:
            os.close(self._old_root)
            self._old_root = -1
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

    def _layered_root(self) -> str:
        """The root with changes kept in the pod's folder; empty where it can't be had."""
        wanted = self._wanted
        paths = [*(one.target for one in wanted.mounts), wanted.working_folder]
        layers = Layers(
            Wanted(
                root=wanted.root_folder or "/",
                scratch=wanted.scratch,
                kept=wanted.own_folders,
                hidden=wanted.hidden_folders,
                points=tuple(os.path.realpath(one) for one in paths),
                is_mapped=wanted.is_mapped,
                is_privileged=wanted.is_privileged,
            )
        )
        try:
            staging = layers.lay()
        except OSError:
            # `doctor` and the engine have told that there are none.
            return ""
        self._is_layered = True
        return staging

    def _lacks_top_level(self, root: str) -> bool:
        paths = [one.target for one in self._wanted.mounts] + [self._wanted.working_folder]
        tops = {os.path.normpath(path).lstrip("/").split("/")[0] for path in paths}
        return any(top and not os.path.lexists(os.path.join(root, top)) for top in tops)

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

    def _hide(self) -> None:
        """Without layers: what nobody is to see, unless it holds a folder that somebody needs."""
        for path in self._wanted.hidden_folders:
            if not any(is_below(own, path) for own in self._wanted.own_folders):
                hide(path)

    def _refresh_kernel_views(self) -> None:
        """/proc of the new PID namespace, /sys of the pod's network; the old ones if refused."""
        with contextlib.suppress(OSError):
            kernel.mount("proc", "/proc", "proc", _PLAIN | kernel.MS_NOEXEC)
        with contextlib.suppress(OSError):
            groups = os.open("/sys/fs/cgroup", os.O_PATH | os.O_DIRECTORY)
            kernel.mount("sysfs", "/sys", "sysfs", _PLAIN | kernel.MS_NOEXEC)
            kernel.mount(f"/proc/self/fd/{groups}", "/sys/fs/cgroup", "", _BIND)
            os.close(groups)
        if not self._wanted.is_mapped and not self._wanted.is_privileged:
            guard_kernel_views()

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
            if not (self._wanted.is_privileged or is_below(mount.source, "/dev")):
                kernel.forbid_devices(target)
        if mount.read_only:
            kernel.make_read_only(target)

    # Mount points.

    def _is_in_mount(self, path: str) -> bool:
        return any(one == "/" or path == one or path.startswith(one + "/") for one in self._mounted)

    def _is_workplace(self, path: str) -> bool:
        """Whether removing an empty folder here could pull the ground from under others."""
        return not (
            self._is_in_mount(path)
            or self._is_in_layer(path)
            or path in self._ours
            or self._is_mirrored(os.path.dirname(path))
            or not os.access(path, os.R_OK)
        )

    def _is_in_layer(self, path: str) -> bool:
        """Whether what is written there goes with the container."""
        if not self._is_layered:
            return False
        if self._wanted.root_folder:
            return True
        hidden = [len(one) for one in self._wanted.hidden_folders if is_below(path, one)]
        kept = [len(one) for one in self._wanted.own_folders if is_below(path, one)]
        return max(hidden, default=0) > max(kept, default=0) or not kept

    def _is_mirrored(self, parent: str) -> bool:
        # Paths of another root would mean something else to who removes folders afterwards.
        return bool(self._wanted.root_folder) or wants_mirror(parent, self._wanted.own_folders)

    def _make_point(self, target: str, *, is_folder: bool) -> None:
        parent = os.path.dirname(target)
        while not os.path.lexists(parent):
            parent = os.path.dirname(parent)
        if parent not in self._ours:
            if self._is_in_mount(parent) or self._is_in_layer(parent):
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
