"""Where engines keep their data, and which of them are alive.

    <home>/engine/            the standing engine of `jobyard up`
    <home>/runs/<name>/       the engine of one `jobyard run` each, gone when it has ended well
    <home>/claims/            what claims without a folder of their own hold, whoever made them

A folder belongs to the process that holds its lock, so that a folder left by a killed engine
is told from one in use without trusting any pid.
"""

from __future__ import annotations

import fcntl
import os
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from jobyard.node.isolation.rootfs.scratch import remove_tree
from jobyard.node.shared import locks

HOME_VARIABLE: Final = "JOBYARD_HOME"
_ENGINE: Final = "engine"
_RUNS: Final = "runs"
_CLAIMS: Final = "claims"
_RUNS_LOCK: Final = "runs.lock"
_LOCK: Final = "engine.lock"
# What an engine's folder has, be it of an older one.
_OURS: Final = frozenset({_LOCK, "engine.log", "store.sqlite", "pods", "pki", "hub.lock"})
# The folders whose lock this process has.
_HELD: Final[set[Path]] = set()


class HomeError(Exception):
    """A data folder can't be used; the message says which and what would help."""


class Presence(msgspec.Struct, frozen=True):
    """What an engine tells about itself in its folder."""

    pid: int
    server: str
    runtime: str
    started_at: str
    # The folder `jobyard run` or `jobyard up` was called in.
    started_in: str = ""
    # How much the logs of what is over may be; 0 of an engine that doesn't say.
    disk_bytes: int = 0


class DataFolder:
    """One engine's folder; used as a context it is locked."""

    def __init__(self, path: Path) -> None:
        self.path = _spelled(path.absolute())
        self.kubeconfig = path / "kubeconfig"
        self._presence = path / "engine.json"
        self._lock = -1

    def __enter__(self) -> DataFolder:
        with usable(self.path):
            self.make()
            # Somebody else's folder, or one that others can read, is no place for secrets.
            found = self.path.stat()
            if found.st_uid != os.geteuid():
                raise HomeError(f"{self.path} belongs to another user; name one with --data-dir")
            if stat.S_IMODE(found.st_mode) & 0o077:
                self._close_to_others()
            lock = locks.take(self.path / _LOCK) if self.path not in _HELD else None
        if lock is None:
            raise HomeError(
                f"an engine is running with {self.path}; stop it with `jobyard down`,"
                " or name another folder with --data-dir"
            )
        self._lock = lock
        _HELD.add(self.path)
        # What an engine that was killed said of itself is not true of this one.
        self._presence.unlink(missing_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._presence.unlink(missing_ok=True)
        os.close(self._lock)
        self._lock = -1
        _HELD.discard(self.path)

    def _close_to_others(self) -> None:
        """Not a folder that is there for something else, such as a home."""
        names = {path.name for path in self.path.iterdir()}
        if names and names.isdisjoint(_OURS):
            raise HomeError(
                f"{self.path} is open to others and not an engine's;"
                " name a new or an empty folder with --data-dir"
            )
        self.path.chmod(0o700)

    def make(self) -> None:
        """The folder itself, for its owner alone; HomeError if it can't be."""
        with usable(self.path):
            make_private(self.path)

    def announce(self, presence: Presence) -> None:
        """From now on others find this engine."""
        draft = self._presence.with_suffix(".new")
        draft.write_bytes(msgspec.json.encode(presence))
        draft.replace(self._presence)

    @property
    def is_in_use(self) -> bool:
        # To look at a lock of one's own would be to let go of it.
        if self.path in _HELD:
            return True
        try:
            return locks.is_taken(self.path / _LOCK)
        except OSError:
            # Somebody else's folder: whoever is in there is no engine of ours.
            return False

    @property
    def holder(self) -> int:
        """The pid of the other process that works here, announced or not; 0 if none is known."""
        if self.path in _HELD or sys.platform != "linux":
            return 0
        try:
            return locks.holder_of(self.path / _LOCK)
        except OSError:
            return 0

    @property
    def presence(self) -> Presence | None:
        """What the engine that is running here says of itself; None if there is none."""
        if not self.is_in_use:
            return None
        try:
            return msgspec.json.decode(self._presence.read_bytes(), type=Presence)
        except (OSError, msgspec.MsgspecError):
            return None


def make_private(path: Path) -> None:
    """The folder and those above it that aren't there, for their owner, whatever the umask is."""
    for folder in (*reversed(path.parents), path):
        if not folder.exists():
            folder.mkdir(mode=0o700, exist_ok=True)


@contextmanager
def usable(path: Path) -> Iterator[None]:
    """What the machine says against a folder is told as the caller's mistake, not as ours."""
    try:
        yield
    except OSError as problem:
        raise HomeError(
            f"{path} can't be used: {problem.strerror or problem};"
            f" name a folder of yours with --data-dir or ${HOME_VARIABLE}"
        ) from problem


def home_of(environment: Mapping[str, str]) -> Path:
    named = environment.get(HOME_VARIABLE)
    if named:
        return _spelled(Path(named).absolute())
    shared = environment.get("XDG_DATA_HOME")
    base = Path(shared) if shared else Path(os.path.expanduser("~")) / ".local" / "share"
    return _spelled(base.absolute() / "jobyard")


def _spelled(path: Path) -> Path:
    """What engines tell one another about a folder is JSON: its name has to be text."""
    shown = os.fsencode(path).decode(errors="backslashreplace")
    if shown.encode() != os.fsencode(path):
        raise HomeError(f"{shown}: the name of this folder isn't UTF-8; name another one")
    return path


def standing(home: Path) -> DataFolder:
    """The folder of the engine that `jobyard up` starts."""
    return DataFolder(home / _ENGINE)


def claims_of(home: Path) -> Path:
    """Where the files of claims stay, whichever engine made them."""
    return home / _CLAIMS


def engines_folders(home: Path) -> tuple[Path, ...]:
    """Where the engines of a home keep what is theirs alone; claims are their users'."""
    return home / _ENGINE, home / _RUNS


@contextmanager
def new_run(home: Path, name: str) -> Iterator[DataFolder]:
    """A new folder for one `jobyard run`, called after its job, in use from its first moment."""
    with ExitStack() as held:
        with _all_runs(home) as runs:
            with usable(runs):
                made = Path(tempfile.mkdtemp(dir=runs, prefix=f"{name[:40]}-"))
            folder = held.enter_context(DataFolder(made))
        yield folder


@contextmanager
def dead_run(home: Path, path: Path) -> Iterator[DataFolder | None]:
    """The folder of a run without an engine: meanwhile it is ours, and nobody else's."""
    with ExitStack() as held:
        dead = None
        with _all_runs(home):
            # In use, somebody else's, or gone.
            if path.is_dir():
                with suppress(HomeError, OSError):
                    dead = held.enter_context(DataFolder(path))
        yield dead


def removed(home: Path, folder: DataFolder) -> None:
    """Takes the folder of a run, which is ours, away for good."""
    # Most of it while the folder still has its lock: others may be waiting to make theirs.
    with suppress(OSError):
        for path in folder.path.iterdir():
            if path.is_dir() and not path.is_symlink():
                remove_tree(path)
    with _all_runs(home):
        remove_tree(folder.path)


@contextmanager
def _all_runs(home: Path) -> Iterator[Path]:
    """The folder of all runs, where meanwhile no other process makes, claims or removes one.

    A folder's own lock isn't enough: a new folder has none yet, and one that is being removed
    has none any more. Nothing may be awaited meanwhile, since a process has the lock as a whole.
    """
    runs = home / _RUNS
    with usable(home):
        make_private(runs)
        # Beside the folder: whatever is in there is a run.
        lock = os.open(home / _RUNS_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        # Of the process, as in `locks`: what it forks does not hold it on.
        fcntl.lockf(lock, fcntl.LOCK_EX)
        yield runs
    finally:
        os.close(lock)


def private_ones(home: Path) -> Iterator[DataFolder]:
    """The folders of runs, in the order in which they were made; any may go at any time."""
    runs = home / _RUNS
    found: list[tuple[int, Path]] = []
    try:
        paths = list(runs.iterdir())
    except OSError:
        # No run yet, or a home that isn't ours.
        paths = []
    for path in paths:
        # The lock's file is made with the folder and never written, unlike the folder itself.
        lock = path / _LOCK
        with suppress(OSError):
            made = lock.stat() if lock.exists() else path.stat()
            found += [(made.st_mtime_ns, path)] if path.is_dir() else []
    for _, path in sorted(found):
        yield DataFolder(path)


def alive(home: Path) -> DataFolder | None:
    """The engine that commands speak to: the standing one, else the youngest private one."""
    folders = [standing(home), *reversed(list(private_ones(home)))]
    return next((folder for folder in folders if folder.presence is not None), None)
