"""What pods that are over leave on the disk: what of it goes by itself, and when.

Their volumes and layers go at once, as kubelet takes the emptyDirs of a terminated pod away; so do
the layers of a container's runs before the one that runs. Their logs stay within a budget: those of
earlier attempts (`kept_logs`) and those of pods that have ended and are still there as objects. The
oldest go first, the newest stays in any case. Pods that run are never touched, and neither is a
claim.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from jobyard.client.backoff import wait_seconds
from jobyard.node.isolation.rootfs.scratch import all_put_away, remove_tree
from jobyard.node.logs.kept_logs import all_kept
from jobyard.node.logs.log_files import remove_log, stamp_of
from jobyard.node.shared.folders import PodFolder, pod_folders
from jobyard.node.shared.keeping import is_supervised, read_state
from jobyard.node.shared.state import PodState

# Pods end together: one look for all of them, and none for those of a run that ends with them.
PAUSE_SECONDS: Final = 1.0
# What is smaller than this is not worth to be taken from anybody.
_SMALL_BYTES: Final = 16 * 1024
_REMOVED: Final = b"jobyard: this log was removed to keep within the disk budget (--disk-budget)"
_log = logging.getLogger(__name__)


class DiskKeeper:
    """Looks after one data folder, whenever it is woken; until cancelled."""

    def __init__(self, data: Path, bytes_max: int) -> None:
        self._data = data
        self._bytes_max = bytes_max
        self._woken = asyncio.Event()
        self._woken.set()

    def wake(self) -> None:
        """A pod is over, or gone."""
        self._woken.set()

    def heard(self, state: PodState) -> None:
        """How a pod stands now: it may have left something."""
        if state.is_over or any(each.run for each in state.containers):
            self.wake()

    async def run(self) -> None:
        while True:
            await self._woken.wait()
            await wait_seconds(PAUSE_SECONDS)
            self._woken.clear()
            await asyncio.to_thread(tidy, self._data, self._bytes_max)


class Heap(msgspec.Struct, frozen=True, order=True):
    """Logs that may go together."""

    since: float
    bytes: int
    path: Path
    # Of a pod that is still there as an object: who reads it is told why there is none.
    is_told: bool = False


def tidy(data: Path, bytes_max: int) -> None:
    """Once over everything. What a disk refuses is tried again the next time."""
    try:
        folders = pod_folders(data)
        for folder in folders:
            for layer in all_put_away(folder.path):
                remove_tree(layer)
        ended = [folder for folder in folders if is_over(folder)]
        for folder in ended:
            clear_ended(folder)
        heaps = sorted([*_kept(data), *_of_ended(ended)])
    except OSError as problem:
        _log.warning("%s: %s", data, problem)
        return
    used = sum(heap.bytes for heap in heaps)
    for heap in heaps[:-1]:
        if used <= bytes_max:
            return
        if heap.bytes > _SMALL_BYTES:
            _drop(heap)
            used -= heap.bytes


def is_over(folder: PodFolder) -> bool:
    """Whether nothing of the pod will ever run again."""
    state = read_state(folder)
    return state is not None and state.is_over and not is_supervised(folder)


def left_of_ended(folder: PodFolder) -> list[Path]:
    """What a pod that is over has no use for: its volumes and its layers."""
    places = (folder.volumes, folder.path / "scratch")
    return [path for path in places if path.is_dir()]


def clear_ended(folder: PodFolder) -> None:
    for path in left_of_ended(folder):
        remove_tree(path)


def _kept(data: Path) -> Iterator[Heap]:
    for path in all_kept(data):
        with contextlib.suppress(OSError):
            yield Heap(path.stat().st_mtime, _size(path), path)


def _of_ended(ended: list[PodFolder]) -> Iterator[Heap]:
    for folder in ended:
        with contextlib.suppress(OSError):
            since = folder.state.stat().st_mtime
            yield Heap(since, _size(folder.logs), folder.logs, is_told=True)


def _size(path: Path) -> int:
    return sum(part.stat().st_size for part in path.rglob("*.log*"))


def _drop(heap: Heap) -> None:
    if not heap.is_told:
        shutil.rmtree(heap.path, ignore_errors=True)
        return
    line = b"%s stdout F %s\n" % (stamp_of(time.time_ns()), _REMOVED)
    with contextlib.suppress(OSError):
        for path in list(heap.path.glob("*/*.log")):
            remove_log(path)
            path.write_bytes(line)
