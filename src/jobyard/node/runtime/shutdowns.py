"""Which pods end because their machine or their engine goes, and not by themselves.

A mark in a pod's folder, made before anything is stopped, says so when nobody else is left to
say it: whatever the pod's supervisor could not tell any more counts as taken away, as with
kubelet's graceful shutdown of a node. Decides nothing about pods that are over.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Final

from jobyard.node.hub.starting import supervisor_of
from jobyard.node.runtime.supervisor_wire import (
    CommandFailedError,
    SupervisorGoneError,
    SupervisorLink,
)
from jobyard.node.shared.folders import PodFolder, pod_folders
from jobyard.node.shared.keeping import read_state
from jobyard.node.shared.process_end import has_ended

BOOT_NAME: Final = "boot"
STOP_SECONDS: Final = 10.0
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def mark_all(data: Path) -> None:
    """Every pod that isn't over is about to be stopped."""
    for folder in pod_folders(data):
        # One that is being forgotten has no folder any more, and a full disk stops nobody.
        with contextlib.suppress(OSError):
            stored = read_state(folder)
            if stored is None or not stored.is_over:
                folder.taken_away.touch(mode=0o600)


def notice_boot(data: Path, boot_id: str | None = None) -> None:
    """What ran when the machine went down was taken away; called before pods are looked at."""
    if boot_id is None:
        try:
            boot_id = _BOOT_ID.read_text().strip()
        except OSError:
            return
    known = data / BOOT_NAME
    before = known.read_text(errors="replace") if known.exists() else boot_id
    if before != boot_id:
        mark_all(data)
    elif known.exists():
        return
    # Last: if this is cut short, it is done again.
    beside = known.with_suffix(f".{os.getpid()}")
    beside.write_text(boot_id)
    beside.rename(known)


async def end_pod(folder: PodFolder, link: SupervisorLink | None) -> None:
    """A pod at once, with the supervisor that may not answer; `link` is one that is open."""
    pid = supervisor_of(folder.path)
    stored = read_state(folder)
    # One that is over is about to exit, and does not listen any more.
    if stored is None or not stored.is_over:
        with contextlib.suppress(SupervisorGoneError, CommandFailedError):
            told = link or await SupervisorLink.open(folder)
            await told.stop(0, is_shutdown=True)
            if link is None:
                await told.close()
    if not await has_ended(pid, STOP_SECONDS):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        await has_ended(pid, STOP_SECONDS)
