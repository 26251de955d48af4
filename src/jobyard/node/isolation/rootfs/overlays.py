"""Overlays: what is written to a folder of the machine lands elsewhere.

`layers` says which folders; here is where the upper layer is, on the disk or in memory, and what an
ordinary user may write there. Mounts are made in the mount namespace of this process.
"""

from __future__ import annotations

import contextlib
import os
import stat
from itertools import islice
from pathlib import Path
from typing import Final

from jobyard.node.isolation import kernel
from jobyard.node.isolation.rootfs.mount_points import is_below, is_of_system

_PLAIN: Final = kernel.MS_NOSUID | kernel.MS_NODEV
# What the kernel would take for a part of its options.
_SIGNS: Final = (",", ":", "\\")
_OPAQUE: Final = "user.overlay.opaque"
# Where programs are put by hand: one level more of it than elsewhere can be written by everybody.
_LOCAL: Final = "/usr/local"
# Of a folder with more folders than that only some: it holds data, and not a system.
_OWNED_MAX: Final = 256


class Overlays:
    """Those of one root, all in one scratch folder.

    `points` are paths at which something will be mounted or started. `is_mapped`: root is only
    what an ordinary user is called here.
    """

    def __init__(self, scratch: str, points: tuple[str, ...], *, is_mapped: bool) -> None:
        self._scratch = scratch
        self._points = points
        self._is_mapped = is_mapped
        self._count = 0

    def try_one(self) -> None:
        """OSError if there are none for an ordinary user, before anything rests on them."""
        place = f"{self._memory()}/try"
        os.mkdir(place)
        self._put_in(self._memory(), place, place)

    def put(self, lower: str, target: str) -> None:
        """A layer over one folder, to be seen at another; OSError where it can't be had."""
        self._count += 1
        # Of an ordinary user's writing there is little in the system's folders, and making and
        # removing a layer on the disk takes longer than all else.
        if self._is_mapped and is_of_system(lower):
            self._put_in(self._memory(), lower, target)
            return
        try:
            self._put_in(self._scratch, lower, target)
        except OSError:
            # The pod's folder may be where no layer can be: on an overlay itself, or a network.
            self._put_in(self._memory(), lower, target)

    def _memory(self) -> str:
        """A folder in memory, of this root alone."""
        place = f"{self._scratch}/memory"
        if not os.path.lexists(place):
            os.mkdir(place)
            kernel.mount("tmpfs", place, "tmpfs", _PLAIN, "mode=755")
        return place

    def _put_in(self, place: str, lower: str, target: str) -> None:
        upper, work = f"{place}/upper-{self._count}", f"{place}/work-{self._count}"
        os.mkdir(upper)
        os.mkdir(work)
        below = _told(lower)
        if self._is_mapped:
            below = f"{_told(self._owned_folders(lower, upper))}:{below}"
        _mount_overlay(f"lowerdir={below},upperdir={_told(upper)},workdir={_told(work)}", target)

    def _owned_folders(self, lower: str, upper: str) -> str:
        """Lets an ordinary user write where, in a container, root would.

        A folder that is in several layers belongs to the owner of the uppermost. So between the two
        there is one in memory, of empty folders that belong to the user: the first level, and
        whatever something is to be mounted in. Returns where it is.
        """
        os.chmod(upper, stat.S_IMODE(os.stat(lower).st_mode) | 0o700)
        start = len(lower.rstrip("/"))
        between = f"{self._memory()}/owned-{self._count}"
        with contextlib.suppress(FileExistsError):
            os.mkdir(between)
        for path in _folders_to_own(lower):
            with contextlib.suppress(OSError):
                os.makedirs(between + path[start:])
        for point in self._points:
            if is_below(point, lower):
                parents = [str(one) for one in Path(point).parents]
                with contextlib.suppress(OSError):
                    for path in sorted((one for one in parents if len(one) > start + 1), key=len):
                        _own(path, between + path[start:], upper + path[start:])
        return between


def _told(path: str) -> str:
    """A path as it can be told to the kernel among other options."""
    if not any(sign in path for sign in _SIGNS):
        return path
    # Open until this process becomes another.
    return f"/proc/self/fd/{os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)}"


def _mount_overlay(data: str, target: str) -> None:
    # Without the first, the kernel wants an attribute that only real root may set; with the
    # second nothing waits for the disk, which would be in vain: the layer goes with its container.
    problem: OSError | None = None
    for options in ("userxattr,volatile", "userxattr", ""):
        try:
            kernel.mount("overlay", target, "overlay", kernel.MS_NODEV, f"{data},{options}")
        except OSError as error:
            problem = error
        else:
            return
    assert problem is not None, "at least one way was tried"
    raise problem


def _folders_to_own(lower: str) -> list[str]:
    found: list[str] = []
    places = [lower, *([_LOCAL] if is_below(_LOCAL, lower) and lower != _LOCAL else ())]
    for place in places:
        with contextlib.suppress(OSError):
            folders = (
                entry.path
                for entry in os.scandir(place)
                if entry.is_dir(follow_symlinks=False) and os.access(entry.path, os.X_OK)
            )
            found += islice(folders, _OWNED_MAX)
    return found


def _own(path: str, between: str, upper: str) -> None:
    """A folder that something is to be mounted in; one that can't be looked into appears empty."""
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        return
    if os.access(path, os.X_OK):
        with contextlib.suppress(FileExistsError):
            os.makedirs(between)
        return
    os.makedirs(upper, exist_ok=True)
    os.setxattr(upper, _OPAQUE, b"y")
