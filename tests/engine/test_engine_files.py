"""An engine's own files when they are damaged, empty, made by a wrong clock, or somebody else's."""

from __future__ import annotations

import datetime
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography import x509
from rig.needs import needed
from rig.person import Person, person

from jobyard.node.shared import locks
from jobyard.server.http.credentials import CredentialsError, credentials

BAD_INPUT = 2
NOW = datetime.datetime(2026, 6, 1, tzinfo=datetime.UTC)


@pytest.fixture
def who() -> Iterator[Person]:
    with person(is_ordinary=False) as somebody:
        yield somebody


# Certificates and tokens.


@pytest.mark.parametrize("days_ahead", [1, 100, 4000])
def test_certificates_made_by_a_clock_that_was_ahead_are_made_again(
    tmp_path: Path, days_ahead: int
) -> None:
    ahead = NOW + datetime.timedelta(days=days_ahead)
    before = credentials(tmp_path, ahead).certificate.read_bytes()
    made = credentials(tmp_path, NOW)
    assert made.certificate.read_bytes() != before
    for path in (made.certificate, made.ca):
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        assert certificate.not_valid_before_utc <= NOW < certificate.not_valid_after_utc
    # Those are good, and stay.
    kept = made.certificate.read_bytes()
    assert credentials(tmp_path, NOW).certificate.read_bytes() == kept


@pytest.mark.parametrize(
    "text", ["", "\n", " ", "\u00a0", "short", "x" * 31, "ü" * 40, "a b" * 20, "x" * 40 + "\u00a0"]
)
def test_a_token_that_can_be_guessed_is_refused(tmp_path: Path, text: str) -> None:
    made = credentials(tmp_path, NOW)
    assert len(made.token) >= 32
    made.token_file.write_text(text)
    with pytest.raises(CredentialsError, match=r"has no token.*remove the file") as caught:
        _ = made.token
    assert str(made.token_file) in str(caught.value)


def test_a_token_in_a_file_that_an_editor_wrote_is_taken(tmp_path: Path) -> None:
    made = credentials(tmp_path, NOW)
    token = made.token
    made.token_file.write_text(f"{token}\r\n")
    assert made.token == token


# Damage.


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def garbled(path: Path) -> None:
    path.write_bytes(b"no database at all" * 1000)


def with_row(data: bytes) -> Callable[[Path], None]:
    def damaged(path: Path) -> None:
        with sqlite3.connect(path) as database:
            row = (1_000_000, "configmaps", "default/odd", data)
            database.execute("INSERT INTO revisions VALUES (?, ?, ?, ?)", row)
        database.close()

    return damaged


@pytest.mark.parametrize(
    "damage",
    [
        garbled,
        with_row(b"\xff\x00"),
        with_row(b"{}"),
        with_row(b"[1]"),
        with_row(b'{"metadata":1}'),
    ],
    ids=["no database", "no JSON", "no metadata", "no object", "other metadata"],
)
def test_a_damaged_store_is_told_with_its_name_and_a_remedy(
    who: Person, damage: Callable[[Path], None]
) -> None:
    folder = who.home / "engine"
    words = ("up", "-d", "--runtime", "host", "--data-dir", str(folder))
    assert who.run(*words).returncode == 0
    assert who.run("down", "--data-dir", str(folder)).returncode == 0
    damage(folder / "store.sqlite")
    done = who.run("up", *words[2:])
    assert done.returncode == BAD_INPUT, (done.stdout, done.stderr)
    assert f"{folder}/store.sqlite is damaged: " in done.stderr
    assert "put a copy from before in its place" in done.stderr
    assert "fault of jobyard" not in done.stderr
    assert who.processes() == {}


@pytest.mark.parametrize("name", ["server.key", "token"])
def test_a_damaged_key_is_told_with_its_name_and_a_remedy(who: Person, name: str) -> None:
    folder = who.home / "engine"
    words = ("up", "-d", "--runtime", "host", "--data-dir", str(folder))
    assert who.run(*words).returncode == 0
    assert who.run("down", "--data-dir", str(folder)).returncode == 0
    cut(folder / "pki" / name)
    done = who.run("up", *words[2:])
    assert done.returncode == BAD_INPUT, (done.stdout, done.stderr)
    assert f"{folder}/pki/{name}" in done.stderr
    assert "remove " in done.stderr
    assert "fault of jobyard" not in done.stderr
    assert who.run("down", "--data-dir", str(folder)).returncode == 0
    assert who.processes() == {}


# Folders.


def test_the_folders_above_are_nobody_elses_whatever_the_umask(who: Person) -> None:
    folder = who.home / "share" / "of mine" / "engine"
    script = 'umask 000; exec "$@"'
    words = who.jobyard("up", "-d", "--runtime", "host", "--data-dir", str(folder))
    started = subprocess.run(
        ["sh", "-c", script, "sh", *words],
        env=who.environment,
        cwd=who.work,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert started.returncode == 0, started.stderr
    assert who.run("down", "--data-dir", str(folder)).returncode == 0
    for path in (folder, folder.parent, folder.parent.parent):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_a_folder_that_is_there_for_something_else_stays_as_it_is(who: Person) -> None:
    folder = who.home / "somebody"
    folder.mkdir(mode=0o755)
    (folder / "thesis.tex").write_text("")
    done = who.run("up", "--runtime", "host", "--data-dir", str(folder))
    assert done.returncode == BAD_INPUT
    assert f"{folder} is open to others and not an engine's" in done.stderr
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    assert [path.name for path in folder.iterdir()] == ["thesis.tex"]


# Locks.

ASKING = """
import sys
from pathlib import Path
from jobyard.node.shared import locks
print(locks.is_taken(Path(sys.argv[1])))
"""


def test_a_lock_that_another_pid_namespace_has_is_taken(tmp_path: Path) -> None:
    """Whoever has it has no number there."""
    needed("unshare")
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    path = tmp_path / "lock"
    words = ["unshare", *user, "--pid", "--fork", sys.executable, "-c", ASKING, str(path)]
    held = locks.take(path)
    assert held is not None
    asked = subprocess.run(words, capture_output=True, text=True, check=True)
    assert asked.stdout == "True\n"
    os.close(held)
    asked = subprocess.run(words, capture_output=True, text=True, check=True)
    assert asked.stdout == "False\n"
