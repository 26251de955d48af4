"""A tree of files becomes a layer of an image: a tar with the same bytes for the same files.

The tree is what overlayfs left in its upper folder, so what was removed is marked in its way:
a character device 0/0 for what is gone, an attribute on a folder that hides all below it.
Images say the same with files whose names begin with `.wh.`.
"""

import hashlib
import io
import json
import os
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

# What is newer is said to be of this time (2025-01-01), or no two layers would be the same.
NEWEST_SECONDS = 1735689600
_GONE = ".wh."
_HIDES_ALL = ".wh..wh..opq"
_OPAQUE = "trusted.overlay.opaque"
_CAPABILITY = "security.capability"


@dataclass(frozen=True, slots=True)
class LayerFile:
    """A layer as a file, not compressed, so its digest is also that of its content."""

    path: Path
    sha256: str
    size: int


class _Digested(io.RawIOBase):
    """Writes through, and knows digest and size of all that was written."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._hash = hashlib.sha256()
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self._hash.update(data)
        self.size += len(data)
        return self._file.write(data)

    def close(self) -> None:
        self._file.close()
        super().close()

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


def write_layer(tree: Path, path: Path) -> LayerFile:
    """All below the tree, sorted by name, owners as numbers."""
    with (
        _Digested(path) as file,
        tarfile.open(
            fileobj=file, mode="w|", format=tarfile.PAX_FORMAT, bufsize=1 << 20
        ) as archive,
    ):
        for member, content in _members(tree, archive):
            if content is None:
                archive.addfile(member)
            else:
                with content.open("rb") as opened:
                    archive.addfile(member, opened)
    return LayerFile(path, file.sha256, file.size)


def _members(tree: Path, archive: tarfile.TarFile) -> Iterator[tuple[tarfile.TarInfo, Path | None]]:
    for at, folders, files in os.walk(tree):
        folders.sort()
        folder = Path(at)
        if folder != tree:
            yield _member(folder, tree, archive), None
            if _has(folder, _OPAQUE):
                yield _mark(folder / _HIDES_ALL, tree), None
        linked = [name for name in folders if (folder / name).is_symlink()]
        for name in sorted(files + linked):
            path = folder / name
            facts = path.lstat()
            if stat.S_ISCHR(facts.st_mode) and facts.st_rdev == 0:
                yield _mark(folder / f"{_GONE}{name}", tree), None
            elif not stat.S_ISSOCK(facts.st_mode):
                member = _member(path, tree, archive)
                yield member, path if member.isreg() else None


def _member(path: Path, tree: Path, archive: tarfile.TarFile) -> tarfile.TarInfo:
    if _has(path, _CAPABILITY):
        # A tar can carry it, but nothing that we install has needed it.
        raise ValueError(f"{path} has file capabilities, which would be lost")
    member = archive.gettarinfo(path, str(path.relative_to(tree)))
    member.mtime = min(int(member.mtime), NEWEST_SECONDS)
    member.uname = member.gname = ""
    return member


def _mark(path: Path, tree: Path) -> tarfile.TarInfo:
    member = tarfile.TarInfo(str(path.relative_to(tree)))
    member.mtime = NEWEST_SECONDS
    return member


def _has(path: Path, attribute: str) -> bool:
    try:
        return bool(os.getxattr(path, attribute, follow_symlinks=False))
    except OSError:
        return False


def remember(layer: LayerFile, path: Path) -> None:
    path.write_text(json.dumps(asdict(layer) | {"path": layer.path.name}))


def recall(path: Path) -> LayerFile | None:
    """What was remembered there, with the layer beside it."""
    if not path.is_file():
        return None
    facts = json.loads(path.read_text())
    return LayerFile(path.parent / facts["path"], facts["sha256"], facts["size"])
