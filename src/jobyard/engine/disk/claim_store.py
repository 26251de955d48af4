"""What claims hold: which of it may be removed, and its removal.

Claims hold checkpoints, so none goes unless it is asked for; by name, or with all that no engine
and no run has any more. None goes while a pod that runs uses it, whatever was asked for.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from jobyard.engine.disk.keeping import CleaningError, Item, Wanted, What, left_over
from jobyard.engine.homes import DataFolder
from jobyard.node.agent.disk_use import Measure
from jobyard.node.isolation.rootfs.layers import mount_points
from jobyard.node.isolation.rootfs.scratch import remove_tree
from jobyard.node.volumes.claims import Binding, claims_locked
from jobyard.node.volumes.users import users_of
from jobyard.server.store.journal import JournalError, stored_keys

DEFAULT_NAMESPACE: Final = "default"
# A pod that was given a claim so long ago has a supervisor by now, or never will.
_STARTING_SECONDS: Final = 60.0
_NAME: Final = re.compile(r"(?:([a-z0-9][-a-z0-9]*)/)?([a-z0-9][-.a-z0-9]*(?:~[0-9]+)?)")
_REMOVED: Final = ".removed-"


class ClaimStore:
    """The folders that claims are in; `engines` are those that may use them."""

    def __init__(self, roots: Sequence[Path], engines: Callable[[], Sequence[DataFolder]]) -> None:
        self._roots = roots
        self._engines = engines

    def items(self, wanted: Wanted, going: set[Path], measure: Measure) -> Iterator[Item]:
        """All claims; `going` are the folders of runs that will be gone."""
        folders = {
            f"{path.parent.name}/{path.name}": path
            for root in self._roots
            for path in _claim_folders(root)
        }
        named = {self._named(name, folders) for name in wanted.claims}
        objects = self._objects(folders, going) if wanted.all_claims else {}
        for name, path in folders.items():
            stays, remedy = self._stays(path, going), ""
            if not stays and name not in named:
                if not wanted.all_claims:
                    stays, remedy = "it may hold checkpoints", f"--claim {name}"
                elif name in objects:
                    stays, remedy = f"{objects[name]} has such a claim", f"--claim {name}"
            yield Item(
                what=What.CLAIM,
                name=name,
                folder=path,
                use=measure.of(path),
                about="of a claim that was deleted" if "~" in path.name else "",
                stays=stays,
                is_named=name in named,
                remedy=remedy,
            )
        for path in (path for root in self._roots for path in root.glob(f"*/.*{_REMOVED}*")):
            about = "was being removed"
            use = measure.of(path)
            yield Item(what=What.CLAIM, name=path.name, folder=path, use=use, about=about)

    def _named(self, name: str, folders: Mapping[str, Path]) -> str:
        found = _NAME.fullmatch(name)
        if found is None:
            raise CleaningError(f"{name!r} is not the name of a claim, such as data or team/data")
        full = f"{found[1] or DEFAULT_NAMESPACE}/{found[2]}"
        if full not in folders:
            raise CleaningError(
                f"there is no claim {full} in {self._roots[0]};"
                " `jobyard clean --dry-run` lists them"
            )
        return full

    def _stays(self, path: Path, going: Collection[Path] = ()) -> str:
        """Why it can't go now, whoever asks; empty if it can."""
        for engine in self._engines():
            if engine.path in going:
                continue
            for user in users_of(engine.path, path):
                return f"{user} uses it"
        if mounts := _mounts_below(path):
            return f"something is mounted at {mounts[0]}"
        binding = Binding.read(path)
        if binding is not None and _is_young(Binding.place(path)):
            for one in binding.folders:
                if Path(one) not in going and DataFolder(Path(one)).is_in_use:
                    return "a pod that uses it is about to start"
        return ""

    def _objects(self, claims: Mapping[str, Path], going: set[Path]) -> dict[str, str]:
        """The claims that engines and runs still have as objects, and who has them."""
        found: dict[str, str] = {}
        for folder in self._engines():
            if folder.path in going:
                continue
            try:
                keys = stored_keys(folder.path / "store.sqlite", "persistentvolumeclaims")
            except JournalError:
                # A server has it open: those that its pods have used count as its own.
                keys = [name for name, path in claims.items() if _was_used_by(path, folder.path)]
            found |= dict.fromkeys(keys, f"the engine in {folder.path}")
        return found

    def remove(self, path: Path) -> str:
        """Empty if it is gone; else why it isn't."""
        gone = path
        if _REMOVED not in path.name:
            with claims_locked(path.parent.parent):
                if stays := self._stays(path):
                    return stays
                Binding.place(path).unlink(missing_ok=True)
                if path.is_symlink():
                    # Only a way to files that are somebody's own.
                    path.unlink()
                    return ""
                gone = path.with_name(f".{path.name}{_REMOVED}{os.getpid()}")
                path.rename(gone)
        remove_tree(gone)
        return left_over(gone)


def _claim_folders(root: Path) -> list[Path]:
    """Those that hold something of a claim, by namespace and name."""
    return sorted(
        path for path in root.glob("*/*") if path.is_dir() and not path.name.startswith(".")
    )


def _was_used_by(claim: Path, data: Path) -> bool:
    binding = Binding.read(claim)
    return binding is not None and str(data) in binding.folders


def _is_young(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime < _STARTING_SECONDS
    except OSError:
        return False


def _mounts_below(path: Path) -> list[str]:
    """Other disks: what is in them is not ours to remove."""
    real = os.path.realpath(path)
    try:
        points = mount_points(os.fsdecode(Path("/proc/self/mountinfo").read_bytes()))
    except OSError:
        return []
    return [one for one in points if one == real or one.startswith(real + "/")]
