"""Puts the volumes of a pod on disk, and keeps those made of objects up to date.

One row for each kind of volume. A kind that needs a cluster or a driver is refused by name,
with what would do instead. Called again for a pod that was placed before, it changes nothing
but what changed.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from jobyard.api.parts.quantity import Quantity
from jobyard.node.objects.pod_object import PodObject
from jobyard.node.objects.surroundings import Placed
from jobyard.node.objects.volume_source import Volume
from jobyard.node.shared.folders import PodFolder
from jobyard.node.shared.order import Mount, MountType, PodOrder
from jobyard.node.volumes import atomic, host_paths
from jobyard.node.volumes.claims import ClaimFolders
from jobyard.node.volumes.contents import About, VolumeError, files_of, is_made_of_objects
from jobyard.node.volumes.patience import Begin
from jobyard.numerals import INT64_MAX


def _nobody(_volume: str) -> None:
    """Hears of the volume that comes next, if nobody else does."""


# Of a path that no disk takes, its end.
_PATH_SHOWN: Final = 200


class Site(msgspec.Struct, frozen=True):
    """Where volumes of one pod go."""

    folder: PodFolder
    claims: ClaimFolders
    # Folders of the machine in which a hostPath that isn't there is made.
    kept: tuple[str, ...] = ("/",)


def place_all(about: About, site: Site, begin: Begin = _nobody) -> dict[str, Placed]:
    """Every volume of the pod, ready to be mounted; VolumeError for the first that isn't."""
    # Secrets are below it: nobody but the engine's user gets that far.
    site.folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    site.folder.volumes.mkdir(mode=0o700, exist_ok=True)
    placed = {}
    for volume in about.pod.spec.volumes:
        begin(volume.name)
        with told(volume):
            placed[volume.name] = _placed(volume, about, site)
    return placed


@contextlib.contextmanager
def told(volume: Volume) -> Iterator[None]:
    """What the disk refuses (no room, a path too long, a file where a folder has to be)."""
    try:
        yield
    except OSError as error:
        about = f"{error.filename}: " if error.filename else ""
        text = f"volume {volume.name}: {about[-_PATH_SHOWN:]}{error.strerror or error}"
        raise VolumeError(volume.name, text, may_pass=True) from error


def update(about: About, site: Site, begin: Begin = _nobody) -> tuple[str, ...]:
    """Write anew what objects were changed; the names of the volumes that are different now."""
    changed = []
    for volume in about.pod.spec.volumes:
        if is_made_of_objects(volume):
            begin(volume.name)
            with told(volume):
                if atomic.write(_own_folder(volume, site), files_of(volume, about)):
                    changed.append(volume.name)
    return tuple(changed)


def make_sub_paths(order: PodOrder, begin: Begin = _nobody) -> None:
    """Folders that a subPath names and that aren't there yet, as kubelet makes them."""
    for container in (*order.init_containers, *order.containers):
        for mount in container.mounts:
            if mount.type is not MountType.BIND or not mount.within:
                continue
            begin(f"mounted at {mount.target}")
            root, path = Path(mount.within).resolve(), Path(mount.source).resolve()
            if path == root:
                continue
            if not path.is_relative_to(root):
                raise _leading_out(mount)
            try:
                _make_below(root, path.relative_to(root).parts)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENOTDIR):
                    raise _leading_out(mount) from error
                raise VolumeError(
                    "", f"subPath {mount.source}: {error.strerror or error}", may_pass=True
                ) from error


def _leading_out(mount: Mount) -> VolumeError:
    return VolumeError("", f"subPath {mount.source}: leads out of the volume", may_pass=False)


def _make_below(root: Path, parts: tuple[str, ...]) -> None:
    """Step by step and through no link: who shares the volume may put one there any moment."""
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for index, part in enumerate(parts):
            try:
                mode = os.stat(part, dir_fd=folder, follow_symlinks=False).st_mode
            except FileNotFoundError:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=folder)
            else:
                if index == len(parts) - 1 and not stat.S_ISLNK(mode):
                    return
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            below = os.open(part, flags, dir_fd=folder)
            os.close(folder)
            folder = below
    finally:
        os.close(folder)


def _placed(volume: Volume, about: About, site: Site) -> Placed:
    if is_made_of_objects(volume):
        folder = _own_folder(volume, site)
        atomic.write(folder, files_of(volume, about))
        return Placed(source=str(folder), read_only=True)
    if volume.empty_dir is not None:
        if volume.empty_dir.medium == "Memory" and _is_of_one_container(about.pod, volume.name):
            size = min(math.trunc(Quantity.of(volume.empty_dir.size_limit).amount), INT64_MAX)
            return Placed(is_memory=True, size_bytes=size)
        folder = _own_folder(volume, site)
        folder.mkdir(exist_ok=True)
        # Kubelet's mode: containers of one pod may run as different users.
        folder.chmod(0o777)
        return Placed(source=str(folder))
    if volume.host_path is not None:
        grounds = host_paths.Grounds(kept=site.kept, instead=_own_folder(volume, site))
        source = host_paths.place(volume.name, volume.host_path, grounds)
        return Placed(source=source, is_of_host=True, stands_in=source != volume.host_path.path)
    if volume.persistent_volume_claim is not None:
        claim = volume.persistent_volume_claim
        namespace = about.pod.metadata.namespace
        path = site.claims.folder(volume.name, namespace, claim.claim_name)
        return Placed(source=str(path), read_only=claim.read_only)
    raise VolumeError(
        volume.name,
        f"volume {volume.name} ({volume.others}) can't be had on one machine: use a"
        " persistentVolumeClaim and say where its files are with --pvc NAME=FOLDER",
        may_pass=False,
    )


def _own_folder(volume: Volume, site: Site) -> Path:
    name = volume.name
    if not name or name in (".", "..") or os.sep in name or "\0" in name:
        raise VolumeError(name, f"volume {name!r}: not a name", may_pass=False)
    return site.folder.volumes / name


def _is_of_one_container(pod: PodObject, name: str) -> bool:
    """A tmpfs belongs to one container; what several share has to be a folder."""
    uses = [
        mount
        for container in (*pod.spec.init_containers, *pod.spec.containers)
        for mount in container.volume_mounts
        if mount.name == name
    ]
    return len(uses) <= 1 and not any(mount.sub_path or mount.sub_path_expr for mount in uses)
