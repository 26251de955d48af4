"""The runs of this machine: what each was started with, and who is left of it.

    <home>/runs/<name>/run.json          what it was started with
                       attended.lock     held by the command that shows it
                       engine.lock       held by its engine
                       run.sock          where its engine is asked

A run goes on without the command that started it, and its replicas go on without its engine. So
whatever is left of a run is somebody's work: it is told of, and taken up or removed on request.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Final, Self

import msgspec

from jobyard.engine.homes import DataFolder, home_of, private_ones
from jobyard.node.shared import locks

RECORD: Final = "run.json"
SOCKET: Final = "run.sock"
_ATTENDED: Final = "attended.lock"


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What a run was started with: enough to go on with it from anywhere."""

    # KIND/NAME, as the user's files have them.
    jobs: tuple[str, ...] = ()
    namespace: str = ""
    started_at: str = ""
    # The folder that `run` was called in, and the variables that replicas get.
    folder: str = ""
    environment: Mapping[str, str] = {}
    is_strict: bool = False
    runtime: str = "auto"
    claims: Mapping[str, str] = {}
    images: tuple[tuple[str, str], ...] = ()
    network: str = ""
    log_bytes: int = 0
    disk_bytes: int = 0
    capacity: Mapping[str, str] = {}
    may_preempt: bool = True
    # In the folder of `up`, where its jobs stay.
    keeps: bool = False

    def write(self, folder: Path) -> None:
        draft = folder / f"{RECORD}.new"
        draft.write_bytes(msgspec.json.encode(self))
        draft.replace(folder / RECORD)

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """None of a folder that has none, or none that can be read."""
        try:
            return msgspec.json.decode((folder / RECORD).read_bytes(), type=cls)
        except (OSError, msgspec.MsgspecError):
            return None


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class State(StrEnum):
    """How a run stands."""

    ATTENDED = "attended"
    # Its engine is there, and nobody looks.
    LEFT = "left"
    # Its engine isn't there any more, but replicas are.
    CUT_OFF = "cut off"
    ENDED = "ended"


class Run:
    """One run, as it stands on this machine."""

    def __init__(self, folder: DataFolder) -> None:
        self.folder = folder

    @property
    def name(self) -> str:
        return self.folder.path.name

    @property
    def socket(self) -> Path:
        return self.folder.path / SOCKET

    @property
    def record(self) -> Record:
        return Record.read(self.folder.path) or Record()

    @property
    def state(self) -> State:
        if self.is_attended:
            return State.ATTENDED
        if self.folder.is_in_use:
            return State.LEFT
        # Imported here: it is slow to load, and most runs have an engine.
        from jobyard.node.hub.starting import supervisor_of
        from jobyard.node.shared.folders import pod_folders

        is_there = any(supervisor_of(each.path) for each in pod_folders(self.folder.path))
        return State.CUT_OFF if is_there else State.ENDED

    @property
    def is_attended(self) -> bool:
        try:
            return locks.is_taken(self.folder.path / _ATTENDED)
        except OSError:
            return False

    @contextmanager
    def attended(self) -> Iterator[bool]:
        """While inside, others know that somebody looks; false if somebody does already."""
        lock = locks.take(self.folder.path / _ATTENDED)
        try:
            yield lock is not None
        finally:
            if lock is not None:
                os.close(lock)


def runs_of(home: Path) -> Iterator[Run]:
    """Those that are there, in the order in which they were started."""
    for folder in private_ones(home):
        yield Run(folder)


def left_runs(environment: Mapping[str, str]) -> Sequence[Run]:
    """Those that nobody looks at: what they do, or did, is somebody's work."""
    found = []
    for run in runs_of(home_of(environment)):
        record = Record.read(run.folder.path)
        # Without jobs it is about to start, or never did.
        if record is not None and record.jobs and not run.is_attended:
            found.append(run)
    return found
