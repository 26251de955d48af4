"""The SQLite file: every revision of every object that is current or recent.

One table is enough. A write adds a row; a row goes when what took its place is no longer told to
watches. A start reads what is there now, and one commit holds any number of writes. The store
decides what to write and what to drop; threads and the loop are `committing`'s business.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS revisions (
    version INTEGER PRIMARY KEY, shelf TEXT NOT NULL, key TEXT NOT NULL, data BLOB
);
CREATE TABLE IF NOT EXISTS floors (shelf TEXT PRIMARY KEY, version INTEGER NOT NULL);
"""
_FORMAT: Final = 1
BUSY_SECONDS: Final = 2.0
_PROBE_BYTES: Final = 64 * 1024


class JournalError(Exception):
    """The file can't be opened, read or written; what to do about it is in the text."""


class NoRoomError(JournalError):
    """The disk is full. Nothing of the batch is in the file: it can be written again later."""


class Revision(msgspec.Struct, frozen=True):
    """One object as one write left it; no data means that the write deleted it."""

    version: int
    shelf: str
    key: str
    data: bytes | None


class Batch(msgspec.Struct, frozen=True):
    """What one commit holds: all of it is on disk afterwards, or nothing."""

    revisions: tuple[Revision, ...] = ()
    # Versions that nobody can ask for any more.
    obsolete: tuple[int, ...] = ()
    # By shelf: the newest version whose successors are no longer all known.
    floors: tuple[tuple[str, int], ...] = ()


class Journal:
    """One open file. Used by one thread at a time."""

    def __init__(self, path: Path | None, *, durable: bool = True) -> None:
        """None is a database in memory. Not `durable`: a power cut may take the last second."""
        self.path = path
        try:
            if path is not None:
                # Secrets are in it: SQLite gives its other files the mode of this one.
                os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            self._db = sqlite3.connect(
                ":memory:" if path is None else path,
                isolation_level=None,
                check_same_thread=False,
                timeout=BUSY_SECONDS,
            )
            self._prepare(durable)
        except sqlite3.DatabaseError as problem:
            if getattr(problem, "sqlite_errorcode", 0) in (
                sqlite3.SQLITE_NOTADB,
                sqlite3.SQLITE_CORRUPT,
            ):
                raise self.damaged(str(problem)) from problem
            raise JournalError(f"{self._name}: {problem}") from problem
        except (sqlite3.Error, OSError) as problem:
            raise JournalError(f"{self._name}: {problem}") from problem

    @property
    def _name(self) -> str:
        return "the database in memory" if self.path is None else str(self.path)

    def _prepare(self, durable: bool) -> None:
        # One server at a time: a second one on the same file would hand out the same versions.
        self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        (found,) = self._db.execute("PRAGMA user_version").fetchone()
        if found not in (0, _FORMAT):
            raise JournalError(f"{self._name}: format {found}; this program reads {_FORMAT}")
        self._db.executescript(f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version={_FORMAT}; COMMIT;")

    def floors(self) -> dict[str, int]:
        with self._reading():
            rows = self._db.execute("SELECT shelf, version FROM floors")
            return {str(shelf): version for shelf, version in rows}

    def versions(self) -> Iterator[tuple[int, str, str]]:
        """Of everything the version, shelf and key, in the order in which it was written."""
        with self._reading():
            yield from self._db.execute(
                "SELECT version, shelf, key FROM revisions ORDER BY version"
            )

    def revisions(self, versions: Iterable[int] | None = None) -> Iterator[Revision]:
        """Those of some versions, or everything in the order in which it was written."""
        asked = "SELECT version, shelf, key, data FROM revisions"
        with self._reading():
            if versions is None:
                for row in self._db.execute(f"{asked} ORDER BY version"):
                    yield Revision(*row)
                return
            for version in versions:
                yield Revision(
                    *self._db.execute(f"{asked} WHERE version = ?", (version,)).fetchone()
                )

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as problem:
            raise self.damaged(str(problem)) from problem

    def damaged(self, why: str) -> JournalError:
        """What is said of a file that can be opened and not understood."""
        return JournalError(
            f"{self._name} is damaged: {why}; put a copy from before in its place,"
            " or move it away to start over without the objects in it"
        )

    def write(self, batch: Batch) -> None:
        """One transaction. After an error nothing of it is in the file."""
        db = self._db
        try:
            db.execute("BEGIN IMMEDIATE")
            try:
                db.executemany(
                    "INSERT INTO revisions VALUES (?, ?, ?, ?)",
                    [(r.version, r.shelf, r.key, r.data) for r in batch.revisions],
                )
                if batch.obsolete:
                    db.executemany(
                        "DELETE FROM revisions WHERE version = ?", [(v,) for v in batch.obsolete]
                    )
                if batch.floors:
                    db.executemany("INSERT OR REPLACE INTO floors VALUES (?, ?)", batch.floors)
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
        except sqlite3.Error as problem:
            kind = NoRoomError if self._has_no_room(problem) else JournalError
            raise kind(f"{self._name}: {problem}") from problem

    def _has_no_room(self, problem: sqlite3.Error) -> bool:
        """Not after a flush that failed: what the kernel has then is nobody's guess."""
        code = getattr(problem, "sqlite_errorcode", 0)
        if code == sqlite3.SQLITE_FULL:
            return True
        # SQLite tells a quota as a write that failed; another write says which it was.
        return code == sqlite3.SQLITE_IOERR_WRITE and self.path is not None and is_full(self.path)

    def close(self) -> None:
        self._db.close()


def stored_keys(path: Path, shelf: str) -> list[str]:
    """The objects of one kind in a file that no server has open; JournalError if one has."""
    asked = "SELECT key, data IS NULL FROM revisions WHERE shelf = ? ORDER BY version"
    if not path.exists():
        return []
    try:
        db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=0)
        try:
            # Of each the last one counts.
            is_gone = dict(db.execute(asked, (shelf,)).fetchall())
        finally:
            db.close()
    except sqlite3.Error as problem:
        raise JournalError(f"{path}: {problem}") from problem
    return [str(key) for key, gone in is_gone.items() if not gone]


def is_full(path: Path) -> bool:
    """Whether the disk has no room for a few pages beside this file."""
    probe = path.with_name(f".{path.name}.room")
    try:
        descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            return os.write(descriptor, bytes(_PROBE_BYTES)) < _PROBE_BYTES
        finally:
            os.close(descriptor)
            probe.unlink()
    except OSError as problem:
        return problem.errno in (errno.ENOSPC, errno.EDQUOT)
