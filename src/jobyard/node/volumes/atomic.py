"""Files that are changed all at once: the layout that kubelet uses and programs know.

    volume/..2026_01_02_…/a/b     what is there now
    volume/..data -> ..2026_01_02_…
    volume/a -> ..data/a

A new version is written beside the old one, then `..data` is renamed over: a reader that holds
`..data` open, or watches it, sees one version or the other. Links that lead nowhere any more
go afterwards.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from jobyard.node.volumes.contents import File

DATA: Final = "..data"
_NEW_DATA: Final = "..data_tmp"


def write(folder: Path, files: Mapping[str, File]) -> bool:
    """Make the volume hold exactly these files; says whether anything had to change."""
    folder.mkdir(parents=True, exist_ok=True)
    current = folder / DATA
    if current.exists() and _is_same(current, files):
        _link(folder, files)
        return False
    fresh = Path(tempfile.mkdtemp(prefix="..version_", dir=folder))
    # mkdtemp lets nobody else in; the modes of the files are what protects them.
    fresh.chmod(0o755)
    try:
        for path, file in files.items():
            target = fresh / path
            target.parent.mkdir(parents=True, exist_ok=True)
            _write_file(target, file)
    except OSError as error:
        shutil.rmtree(fresh, ignore_errors=True)
        if error.filename:
            # As the user wrote it: the folder has another name at each try, and an event with it.
            error.filename = os.path.relpath(error.filename, fresh)
        raise
    old = os.readlink(current) if current.is_symlink() else None
    new_link = folder / _NEW_DATA
    new_link.unlink(missing_ok=True)
    new_link.symlink_to(fresh.name)
    new_link.replace(current)
    _link(folder, files)
    if old is not None:
        shutil.rmtree(folder / Path(old).name, ignore_errors=True)
    return True


def _write_file(path: Path, file: File) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as handle:
        handle.write(file.data)
        # Not by `open`, which the umask would have a say in.
        os.fchmod(handle.fileno(), file.mode & 0o777)


def _is_same(current: Path, files: Mapping[str, File]) -> bool:
    present = {
        str(path.relative_to(current)): path for path in current.rglob("*") if not path.is_dir()
    }
    if present.keys() != files.keys():
        return False
    return all(
        path.stat().st_mode & 0o777 == files[name].mode & 0o777
        and path.read_bytes() == files[name].data
        for name, path in present.items()
    )


def _link(folder: Path, files: Mapping[str, File]) -> None:
    """The names that users see; only the first part of a path is a link."""
    wanted = {path.split("/")[0] for path in files}
    for name in wanted:
        link = folder / name
        if not link.is_symlink():
            link.symlink_to(f"{DATA}/{name}")
    for entry in folder.iterdir():
        if entry.is_symlink() and not entry.name.startswith("..") and entry.name not in wanted:
            entry.unlink()
