"""Claims are folders: those that were named for them, else one of ours that stays.

Which claims exist is the API server's to say; here is only where their files are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from jobyard.node.volumes.contents import VolumeError

# What Kubernetes takes as a name; a path is made of it.
_NAME: Final = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")


class ClaimFolders:
    """Where the files of each claim are. `named` has names, or namespace/name.

    Others are below `kept`, which may be shared by several engines; those that an earlier release
    made below the data folder of one stay where they are.
    """

    def __init__(self, data: Path, named: Mapping[str, Path], kept: Path | None = None) -> None:
        self._own = data / "claims"
        self._kept = kept or self._own
        self._named = dict(named)

    def is_named(self, namespace: str, claim: str) -> bool:
        """Whether the user said which folder it is; then it needs no claim object."""
        return claim in self._named or f"{namespace}/{claim}" in self._named

    def folder(self, volume: str, namespace: str, claim: str) -> Path:
        """The folder, made if it is ours to make."""
        named = self._named.get(f"{namespace}/{claim}") or self._named.get(claim)
        if named is not None:
            if not named.is_dir():
                raise VolumeError(
                    volume,
                    f"claim {claim}: {named} (given by --pvc) is not a folder",
                    may_pass=True,
                )
            return named.absolute()
        for part in (namespace, claim):
            if not _NAME.fullmatch(part) or ".." in part:
                raise VolumeError(volume, f"claim {part!r}: not a name", may_pass=False)
        earlier = self._own / namespace / claim
        if earlier.is_dir():
            return earlier
        folder = self._kept / namespace / claim
        folder.mkdir(parents=True, exist_ok=True)
        return folder
