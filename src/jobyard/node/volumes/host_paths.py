"""Paths of the machine itself as volumes, with the checks that `type` asks for."""

from __future__ import annotations

import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from jobyard.node.volume_source import HostPath
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


def place(volume: str, source: HostPath) -> str:
    """The path, made if it may be; VolumeError when it isn't what was asked for."""
    path = Path(source.path)
    if not path.is_absolute() or ".." in path.parts or "\0" in source.path:
        raise VolumeError(
            volume,
            f"hostPath {source.path!r}: must be absolute and without '..'",
            may_pass=False,
        )
    try:
        if source.type == "DirectoryOrCreate":
            path.mkdir(mode=0o755, parents=True, exist_ok=True)
        elif source.type == "FileOrCreate" and not path.exists():
            path.touch(mode=0o644)
        # Kubelet's own runtime makes a folder where no type is given and nothing is there.
        elif not source.type and not path.exists():
            path.mkdir(mode=0o755, parents=True)
        mode = path.stat().st_mode
    except OSError as error:
        raise VolumeError(
            volume,
            f"hostPath type check failed: {source.path}: {error.strerror or error}",
            may_pass=True,
        ) from error
    if not source.type:
        return source.path
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
    return source.path
