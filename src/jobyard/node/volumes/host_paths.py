"""Paths of the machine itself as volumes, with the checks that `type` asks for.

One that isn't there is made on the machine only where its user's files are; elsewhere the pod gets
a folder of its own in its place, and the machine stays as it was.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from jobyard.node.objects.volume_source import HostPath
from jobyard.node.volumes.contents import VolumeError

_CHECKS: Final[Mapping[str, tuple[Callable[[int], bool], str]]] = {
    "Directory": (stat.S_ISDIR, "a directory"),
    "DirectoryOrCreate": (stat.S_ISDIR, "a directory"),
    "File": (stat.S_ISREG, "a file"),
    "FileOrCreate": (stat.S_ISREG, "a file"),
    "Socket": (stat.S_ISSOCK, "a socket file"),
    "CharDevice": (stat.S_ISCHR, "a character device"),
    "BlockDevice": (stat.S_ISBLK, "a block device"),
}
# Kubelet's own runtime makes a folder where no type is given and nothing is there.
_MADE: Final = ("", "DirectoryOrCreate", "FileOrCreate")


class Grounds(msgspec.Struct, frozen=True, kw_only=True):
    """Where a path may be made."""

    # Folders of the machine in which it may.
    kept: tuple[str, ...]
    # What stands in for it otherwise, of the pod alone.
    instead: Path


def place(volume: str, source: HostPath, grounds: Grounds) -> str:
    """The path, or what stands in for it; VolumeError when it isn't what was asked for."""
    path = Path(source.path)
    if not path.is_absolute() or ".." in path.parts or "\0" in source.path:
        raise VolumeError(
            volume,
            f"hostPath {source.path!r}: must be absolute and without '..'",
            may_pass=False,
        )
    try:
        if source.type in _MADE and not path.exists():
            path = path if _may_be_made(path, grounds) else grounds.instead
            _make(path, is_file=source.type == "FileOrCreate")
        mode = path.stat().st_mode
    except OSError as error:
        raise VolumeError(
            volume,
            f"hostPath type check failed: {source.path}: {error.strerror or error}",
            may_pass=True,
        ) from error
    if not source.type:
        return str(path)
    if source.type not in _CHECKS:
        raise VolumeError(
            volume,
            f"hostPath type {source.type!r}: must be one of {', '.join(_CHECKS)}",
            may_pass=False,
        )
    fits, what = _CHECKS[source.type]
    if not fits(mode):
        raise VolumeError(
            volume, f"hostPath type check failed: {source.path} is not {what}", may_pass=True
        )
    return str(path)


def _may_be_made(path: Path, grounds: Grounds) -> bool:
    """By its real name: a link in it may lead anywhere."""
    real = path.resolve()
    return any(real.is_relative_to(Path(each).resolve()) for each in grounds.kept)


def _make(path: Path, *, is_file: bool) -> None:
    if is_file:
        # As kubelet: the file alone, in a folder that is there.
        path.touch(mode=0o644)
    else:
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
