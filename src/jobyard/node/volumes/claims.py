"""Claims are folders: those that were named for them, else one of ours that stays.

Which claims exist is the API server's to say; here is only where their files are.

    <kept>/<namespace>/<name>/          what a claim holds
                       .<name>.claim    who used it last (`Binding`)
                       <name>~1/        what one of that name held that was deleted and recreated
    <kept>/.lock                        taken for a moment by whoever binds, or removes

Nothing is removed here. A claim that was deleted and recreated begins empty, as on a cluster, and
what the one before it held is put aside. The claims of two runs are not one deleted and one made
anew: each run has an engine of its own, and finds what the one before it saved.
"""

from __future__ import annotations

import fcntl
import os
import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from jobyard.node.volumes.contents import VolumeError
from jobyard.node.volumes.users import users_of

# What Kubernetes takes as a name; a path is made of it.
_NAME: Final = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
_LOCK: Final = ".lock"
# In an engine's folder: what it is called in bindings, however often its folder was recreated.
_ENGINE: Final = "claims.id"


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """Who used the files of a claim last: which engine, and for which object of its store."""

    engine: str
    uid: str
    # The data folders of all engines that used it and are still there.
    folders: tuple[str, ...] = ()

    @classmethod
    def read(cls, claim: Path) -> Binding | None:
        """Of the claim whose files are in that folder; None if nothing is known."""
        try:
            return msgspec.json.decode(cls.place(claim).read_bytes(), type=cls)
        except (OSError, msgspec.MsgspecError):
            return None

    def write(self, claim: Path) -> None:
        place = self.place(claim)
        draft = place.with_name(f"{place.name}.new")
        draft.write_bytes(msgspec.json.encode(self))
        draft.replace(place)

    @staticmethod
    def place(claim: Path) -> Path:
        return claim.with_name(f".{claim.name}.claim")


@contextmanager
def claims_locked(kept: Path) -> Iterator[None]:
    """Nobody else binds or removes claims of that folder meanwhile; for a moment only."""
    kept.mkdir(parents=True, exist_ok=True)
    # Of the open file: threads of one process keep each other out too.
    lock = os.open(kept / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


class ClaimFolders:
    """Where the files of each claim are. `named` has names, or namespace/name.

    Others are below `kept`, which may be shared by several engines; those that an earlier release
    made below the data folder of one stay where they are.
    """

    def __init__(self, data: Path, named: Mapping[str, Path], kept: Path | None = None) -> None:
        self._data = data
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
        folder = self._kept_folder(volume, namespace, claim)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _kept_folder(self, volume: str, namespace: str, claim: str) -> Path:
        for part in (namespace, claim):
            if not _NAME.fullmatch(part) or ".." in part:
                raise VolumeError(volume, f"claim {part!r}: not a name", may_pass=False)
        earlier = self._own / namespace / claim
        return earlier if earlier.is_dir() else self._kept / namespace / claim

    def bind(self, volume: str, namespace: str, claim: str, uid: str) -> Path | None:
        """From now on the files are used for the claim with that uid.

        Where another of that name held them before, in this engine, they are put aside: returns
        where. VolumeError while pods still use them.
        """
        if self.is_named(namespace, claim):
            return None
        folder = self._kept_folder(volume, namespace, claim)
        with claims_locked(self._own if self._own in folder.parents else self._kept):
            before = Binding.read(folder)
            engine = self._engine()
            aside = None
            folders = tuple(one for one in before.folders if os.path.isdir(one)) if before else ()
            if before is not None and before.engine == engine and before.uid != uid:
                aside = self._put_aside(volume, folder, folders)
                folders = ()
            folder.mkdir(parents=True, exist_ok=True)
            used = tuple(dict.fromkeys((*folders, str(self._data))))
            Binding(engine=engine, uid=uid, folders=used).write(folder)
        return aside

    def _put_aside(self, volume: str, folder: Path, engines: tuple[str, ...]) -> Path | None:
        if not folder.is_dir() or not any(folder.iterdir()):
            return None
        if users := [name for one in engines for name in users_of(Path(one), folder)]:
            raise VolumeError(
                volume,
                f"claim {folder.name} was deleted and recreated; {users[0]} still uses what it held"
                " before, and is waited for",
                may_pass=True,
            )
        number = 1
        while (aside := folder.with_name(f"{folder.name}~{number}")).exists():
            number += 1
        folder.rename(aside)
        return aside

    def _engine(self) -> str:
        path = self._data / _ENGINE
        try:
            return path.read_text(errors="replace")
        except FileNotFoundError:
            made = uuid.uuid4().hex
            path.write_text(made)
            return made
