"""tools/locks: current with what is wanted, complete, and nothing in them but files by hash.

That the versions can be had is seen by whoever installs them; nothing here needs a network.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import get_frameworks
import locked_install
import make_locks
import pytest
from make_locks import LOCKS, Lock
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from rig.places import ROOT

EACH = pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)


def text_of(lock: Lock) -> str:
    return locked_install.lock_file(lock.name).read_text()


def entries(text: str) -> Iterator[tuple[Requirement, list[str]]]:
    """Every requirement of a lock, with its hashes."""
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    for entry in lines.replace("\\\n", " ").splitlines():
        requirement, *hashes = re.split(r"\s--hash=", entry.strip())
        if requirement:
            yield Requirement(requirement), hashes


def faults_in(text: str) -> list[str]:
    """What makes an entry more than a file by its hash, or less."""
    return [
        str(wanted)
        for wanted, hashes in entries(text)
        if not hashes
        or not all(re.fullmatch(r"sha256:[0-9a-f]{64}", each.strip()) for each in hashes)
        or [each.operator for each in wanted.specifier] != ["=="]
        or wanted.url
    ]


@EACH
def test_it_is_made_of_what_is_wanted_now(lock: Lock) -> None:
    assert lock.is_current, "run `make locks`"


def test_there_is_no_lock_that_nothing_makes() -> None:
    made = {locked_install.lock_file(lock.name) for lock in LOCKS}
    assert set(locked_install.LOCKS.iterdir()) == made


def test_every_list_of_a_framework_is_locked() -> None:
    lists = {path.name for path in make_locks.LISTS.glob("*.txt")}
    assert {name for lock in LOCKS for name in lock.lists} == lists
    used = {step.lock for each in get_frameworks.FRAMEWORKS for step in each.steps}
    assert used == {lock.name for lock in LOCKS if lock.lists}


@EACH
def test_every_entry_is_one_version_by_hash(lock: Lock) -> None:
    assert list(entries(text_of(lock)))
    assert not faults_in(text_of(lock))


@pytest.mark.parametrize(
    "text",
    [
        "click==8.5.1\n",
        "click>=8 \\\n    --hash=sha256:" + "0" * 64 + "\n",
        "click==8.5.1 \\\n    --hash=md5:0123\n",
        "click @ https://example.com/click.whl --hash=sha256:" + "0" * 64 + "\n",
    ],
)
def test_the_test_of_entries_can_fail(text: str) -> None:
    assert faults_in(text)


@EACH
def test_what_is_wanted_is_in_it_in_a_version_that_fits(lock: Lock) -> None:
    pinned: dict[str, list[Requirement]] = {}
    for entry, _ in entries(text_of(lock)):
        pinned.setdefault(canonicalize_name(entry.name), []).append(entry)
    for wanted in map(Requirement, lock.wanted):
        name = canonicalize_name(wanted.name)
        if name in lock.built:
            assert name not in pinned
            continue
        for pin in pinned[name]:
            (version,) = (each.version for each in pin.specifier)
            assert wanted.specifier.contains(version, prereleases=True), (wanted, pin)


@pytest.mark.parametrize("name", ["uv", "package", "build"])
def test_development_has_the_same_versions(name: str) -> None:
    developed = make_locks.pins(locked_install.lock_file("development").read_text())
    assert make_locks.pins(locked_install.lock_file(name).read_text()) <= developed


@EACH
def test_it_names_no_place_to_get_things_from(lock: Lock) -> None:
    assert "://" not in text_of(lock)
    assert "--index" not in text_of(lock)
    assert str(ROOT) not in text_of(lock)


def test_the_wheel_is_made_with_what_the_project_says() -> None:
    project = make_locks.tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert set(project["build-system"]["requires"]) <= set(project["dependency-groups"]["build"])


def test_a_changed_wish_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in make_locks.LISTS.glob("*.txt"):
        (tmp_path / path.name).write_text(path.read_text())
    monkeypatch.setattr(make_locks, "LISTS", tmp_path)
    (lock,) = (each for each in LOCKS if each.name == "mpi")
    (tmp_path / "mpi.txt").write_text("# another comment\n" + (tmp_path / "mpi.txt").read_text())
    assert lock.is_current
    (tmp_path / "mpi.txt").write_text("mpi4py\nnumpy\n")
    assert not lock.is_current
