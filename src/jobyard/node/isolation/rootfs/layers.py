"""The root of a container: the machine's files below a layer that goes with the container.

What the container writes lands in its scratch folder, by overlay mounts, and the machine never sees
it. As root one overlay covers the machine's root, and one each the file systems mounted below it.
An ordinary user can't have the first: the kernel keeps mounts of others in their places, and a
folder with such mounts in it is no lower layer. There the folders above them are recreated, as
plain folders of the scratch, and the overlays begin below.

Nothing is undone here: all mounts end with the mount namespace. Who calls says which folders stay
the machine's own (`kept`) and which nobody is to see (`hidden`); the deeper one counts.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import Final

import msgspec

from jobyard.node.isolation import kernel
from jobyard.node.isolation.rootfs.devices import show_devices
from jobyard.node.isolation.rootfs.mount_points import is_below
from jobyard.node.isolation.rootfs.overlays import Overlays

_BIND: Final = kernel.MS_BIND | kernel.MS_REC
_PLAIN: Final = kernel.MS_NOSUID | kernel.MS_NODEV
SPECIAL: Final = ("/proc", "/sys", "/dev")
# Whose files are no files: of the kernel's own file systems, and of other containers.
_KERNELS: Final = frozenset(
    [
        "autofs",
        "binfmt_misc",
        "bpf",
        "cgroup",
        "cgroup2",
        "configfs",
        "debugfs",
        "devpts",
        "efivarfs",
        "fusectl",
        "hugetlbfs",
        "mqueue",
        "nsfs",
        "proc",
        "pstore",
        "rpc_pipefs",
        "securityfs",
        "sysfs",
        "tracefs",
    ]
)
_CONTAINERS: Final = (
    "/run/containerd",
    "/run/docker",
    "/run/k3s",
    "/run/netns",
    "/var/lib/containerd",
    "/var/lib/containers",
    "/var/lib/docker",
    "/var/lib/kubelet",
)
# Who asks the machine for the name of a user asks through these; a socket can't be reached
# through a layer.
_NAME_SERVICES: Final = (
    "/run/nscd",
    "/run/nslcd",
    "/run/systemd/userdb",
    "/var/lib/sss/pipes",
)
# Of a folder that is both the user's and the engine's, what is the engine's and tells too much.
_ENGINES_OWN: Final = ("pki", "pods", "store.sqlite", "store.sqlite-wal", "hub.sock", "kubeconfig")
_ESCAPE: Final = re.compile(r"\\([0-7]{3})")


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What the root is made of."""

    # The folder to lie below the layer: the machine's root, or that of an image.
    root: str = "/"
    # A folder of this run alone, on the machine.
    scratch: str
    # Only for the machine's root.
    kept: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    # Paths at which something will be mounted or started, as the machine spells them.
    points: tuple[str, ...] = ()
    # Whether root is only what an ordinary user is called here.
    is_mapped: bool = False
    # Whether all devices are shown.
    is_privileged: bool = False


class MountPoint(msgspec.Struct, frozen=True):
    """One file system of the machine, where it is mounted."""

    kind: str
    is_read_only: bool


def mount_points(text: str) -> dict[str, MountPoint]:
    """Where file systems are mounted, and how; from the text of mountinfo."""
    found: dict[str, MountPoint] = {}
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        # The kernel writes some characters as numbers, such as a blank.
        point = _ESCAPE.sub(lambda found: chr(int(found[1], 8)), fields[4])
        kind, _, options = after.split(" ", 2)
        ways = (*fields[5].split(","), *options.split(","))
        found[point] = MountPoint(kind, "ro" in ways)
    return found


class Layers:
    """Puts one root together, in a mount namespace of its own that still shows the machine."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._staging = f"{wanted.scratch}/root"
        self._overlays = Overlays(wanted.scratch, wanted.points, is_mapped=wanted.is_mapped)
        self._mounts = (
            mount_points(os.fsdecode(Path("/proc/self/mountinfo").read_bytes()))
            if wanted.root == "/"
            else {}
        )

    def lay(self) -> str:
        """The folder that is to become the root; OSError where there can be no such layer."""
        os.makedirs(self._staging, exist_ok=True)
        root = self._wanted.root
        if root == "/" and self._has_locked_mounts(root):
            self._overlays.try_one()
            kernel.mount(self._staging, self._staging, "", kernel.MS_BIND)
            self._keep_apart()
            self._mirror(root)
        else:
            self._overlays.put(root, self._staging)
            self._keep_apart()
        for name in (*SPECIAL, "/tmp"):  # noqa: S108 - of the container
            with contextlib.suppress(FileExistsError):
                os.mkdir(self._staging + name)
        for name in ("/proc", "/sys"):
            kernel.mount(name, self._staging + name, "", _BIND)
        show_devices(f"{self._staging}/dev", everything=self._wanted.is_privileged)
        if root == "/":
            self._show_mounts()
            self._show_own_folders()
        return self._staging

    def _keep_apart(self) -> None:
        """Else the root would contain itself, below a kept folder that the pod's folder is in."""
        kernel.mount("", self._staging, "", kernel.MS_UNBINDABLE)

    # The machine's file systems.

    def _has_locked_mounts(self, path: str) -> bool:
        inside = path.rstrip("/") + "/"
        return self._wanted.is_mapped and any(
            point.startswith(inside) and point != path for point in self._mounts
        )

    def _is_shown_later(self, path: str) -> bool:
        return path in SPECIAL or any(is_below(path, own) for own in self._wanted.kept)

    def _show_mounts(self) -> None:
        """As root: what is mounted below the machine's root, each with a layer of its own."""
        if self._wanted.is_mapped:
            return
        for point in sorted(self._mounts, key=lambda one: one.count("/")):
            if (
                point == "/"
                or self._mounts[point].kind in _KERNELS
                or any(is_below(point, each) for each in (*SPECIAL, *_CONTAINERS))
                or self._is_shown_later(point)
            ):
                continue
            # Of another user, or on a server that is gone: nobody sees it from here.
            with contextlib.suppress(OSError):
                self._cover(point)

    def _cover(self, path: str) -> None:
        """A folder with its layer; without one, and then read-only, if it can't have any."""
        target = self._staging + path
        if not os.path.isdir(path):
            self._bind(path, target, is_read_only=True)
        elif self._has_locked_mounts(path):
            self._mirror(path)
        else:
            os.makedirs(target, exist_ok=True)
            if self._wanted.is_mapped and _is_empty(path):
                # The folder that was just made does as well.
                return
            if path in self._mounts and self._mounts[path].is_read_only:
                # Nobody writes there, and a layer costs time.
                self._bind(path, target, is_read_only=True)
                return
            try:
                self._overlays.put(path, target)
            except OSError:
                # Of a type that overlays don't take, such as one without upper and lower case.
                self._bind(path, target, is_read_only=True)

    def _bind(self, path: str, target: str, *, is_read_only: bool) -> None:
        if not os.path.lexists(target):
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, 0o644))
        kernel.mount(path, target, "", _BIND)
        if is_read_only:
            kernel.make_read_only(target)

    def _mirror(self, path: str) -> None:
        """A folder of the container's own, with everything that is in the machine's."""
        folder = self._staging + path
        os.makedirs(folder, exist_ok=True)
        try:
            entries = list(os.scandir(path))
        except PermissionError:
            # What is mounted in there may be open all the same.
            entries = []
            inside = path.rstrip("/") + "/"
            for point in sorted(self._mounts):
                if point.startswith(inside) and not self._is_shown_later(point):
                    with contextlib.suppress(OSError):
                        os.makedirs(self._staging + point, exist_ok=True)
                        self._cover(point)
        for entry in entries:
            if entry.path in SPECIAL:
                continue
            # What can't be shown is left out.
            with contextlib.suppress(OSError):
                if entry.is_symlink():
                    os.symlink(os.readlink(entry.path), self._staging + entry.path)
                elif entry.is_dir(follow_symlinks=False) and (
                    self._is_shown_later(entry.path) or not os.access(entry.path, os.X_OK)
                ):
                    # Of a closed one, such as root's home, nobody here has seen anything.
                    os.mkdir(self._staging + entry.path)
                else:
                    self._cover(entry.path)

    # What is the user's, and what is the engine's.

    def _show_own_folders(self) -> None:
        steps = [(path.count("/"), 0, path) for path in self._wanted.hidden]
        steps += [
            (path.count("/"), 1, path) for path in self._wanted.kept if self._stands_out(path)
        ]
        for _, is_kept, path in sorted(steps):
            target = self._staging + path
            if is_kept:
                # It may be in a folder that was hidden, or be gone.
                with contextlib.suppress(OSError):
                    os.makedirs(target, exist_ok=True)
                    kernel.mount(path, target, "", _BIND)
                    self._restrain(target)
            elif os.path.isdir(target):
                kernel.mount("tmpfs", target, "tmpfs", _PLAIN, "mode=755")
        for path in set(self._wanted.hidden) & set(self._wanted.kept):
            for name in _ENGINES_OWN:
                hide(f"{self._staging}{path}/{name}")
        for path in _NAME_SERVICES:
            if os.path.isdir(path) and os.path.isdir(self._staging + path):
                with contextlib.suppress(OSError):
                    self._bind(path, self._staging + path, is_read_only=True)

    def _stands_out(self, path: str) -> bool:
        """Whether it isn't shown anyhow, with a kept folder that it is in."""
        kept = (len(one) for one in self._wanted.kept if one != path and is_below(path, one))
        hidden = (len(one) for one in self._wanted.hidden if is_below(path, one))
        return max(kept, default=0) <= max(hidden, default=0)

    def _restrain(self, target: str) -> None:
        if not self._wanted.is_privileged:
            # Else root could make itself a device there.
            kernel.forbid_devices(target)


def hide(path: str) -> None:
    """Puts nothing in the place of a folder or a file, if it is there."""
    if os.path.isdir(path):
        kernel.mount("tmpfs", path, "tmpfs", _PLAIN, "mode=755")
    elif os.path.lexists(path):
        kernel.mount(os.devnull, path, "", kernel.MS_BIND)


def _is_empty(path: str) -> bool:
    try:
        with os.scandir(path) as entries:
            return not any(entries)
    except OSError:
        # It may be passed through all the same.
        return False
