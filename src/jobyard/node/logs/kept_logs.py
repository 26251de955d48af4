"""Logs of pods that are gone: those of a replica's earlier attempts.

    <data>/kept/<namespace>/<pod>/pods/<attempt>/logs/<container>/<run>.log

A pod that is recreated has the name of the one before it, whose folder goes with its object. Of
each name the last few attempts are kept, and of all names those that were used last. How many bytes
that may be is `disk_keeper`'s business.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from pathlib import Path
from typing import Final

import msgspec

from jobyard.node.shared.folders import PodFolder
from jobyard.node.shared.order import PodOrder
from jobyard.numerals import whole_number

ATTEMPTS_MAX: Final = 5
NAMES_MAX: Final = 500
_KEPT: Final = "kept"
# Names of objects; a path is made of them.
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


def kept_folder(data: Path, namespace: str, name: str, attempt: int) -> PodFolder:
    """Where the logs of one attempt are, if they are kept."""
    return PodFolder(_home(data, namespace, name), str(attempt))


def kept_attempts(data: Path, namespace: str, name: str) -> list[int]:
    """The attempts whose logs are kept, oldest first."""
    found = (_home(data, namespace, name) / "pods").glob("*")
    numbers = (whole_number(path.name) for path in found)
    return sorted(number for number in numbers if number is not None)


def all_kept(data: Path) -> list[Path]:
    """The folders of all attempts whose logs are kept."""
    return list((data / _KEPT).glob("*/*/pods/*"))


def last_run(folder: PodFolder, container: str) -> int | None:
    """The last run of a container that has a log."""
    runs = (whole_number(path.stem) for path in (folder.logs / container).glob("*.log"))
    return max((run for run in runs if run is not None), default=None)


def keep_logs(data: Path, folder: PodFolder) -> None:
    """Puts the logs of a pod aside, before its folder goes. Without an order there are none."""
    try:
        order = msgspec.json.decode(folder.order.read_bytes(), type=PodOrder)
        if not folder.logs.is_dir():
            return
        kept = kept_folder(data, order.namespace, order.name, order.attempt)
        # Made anew without counting, it is the same attempt: the last one's log stays.
        shutil.rmtree(kept.path, ignore_errors=True)
        kept.path.mkdir(parents=True, mode=0o700)
        folder.logs.rename(kept.logs)
    except (OSError, ValueError, msgspec.MsgspecError):
        # A log that can't be put aside is no reason to keep a pod.
        return
    _make_room(data, order)


def _home(data: Path, namespace: str, name: str) -> Path:
    for part in (namespace, name):
        if not _NAME.fullmatch(part):
            raise ValueError(f"{part!r} is not the name of an object")
    return data / _KEPT / namespace / name


def _make_room(data: Path, order: PodOrder) -> None:
    attempts = kept_attempts(data, order.namespace, order.name)
    for attempt in attempts[:-ATTEMPTS_MAX]:
        path = kept_folder(data, order.namespace, order.name, attempt).path
        shutil.rmtree(path, ignore_errors=True)
    names = list((data / _KEPT).glob("*/*"))
    if len(names) > NAMES_MAX:
        with contextlib.suppress(OSError):
            oldest = min(names, key=lambda path: (path / "pods").stat().st_mtime)
            shutil.rmtree(oldest, ignore_errors=True)
