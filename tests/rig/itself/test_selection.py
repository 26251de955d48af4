"""Which tests a run leaves out and how it orders them, as pytest itself tells it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from rig.places import TESTS
from rig.selection import dealt

TABLE = """
import pytest

@pytest.mark.sample(4)
@pytest.mark.parametrize("row", range(10))
def test_table(row): pass

@pytest.mark.parametrize("row", range(3))
def test_whole(row): pass

@pytest.mark.long
def test_slow(): pass
"""
NAMED = """
import pytest

@pytest.mark.sample(3, "faults")
def test_{0}_one(): pass

@pytest.mark.sample(3, "faults")
@pytest.mark.parametrize("row", range(2))
def test_{0}_two(row): pass
"""
MARKS = "[pytest]\nmarkers =\n  sample\n  long\n"


def environment(seed: int = 1) -> dict[str, str]:
    """Without the plugins that happen to be installed: most of the time would go into them."""
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(TESTS),
        "JOBYARD_SEED": str(seed),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }


def collected(folder: Path, *words: str, seed: int = 1, **variables: str) -> list[str]:
    """The tests that would run, in their order."""
    (folder / "test_a.py").write_text(TABLE)
    (folder / "test_b.py").write_text("def test_one(): pass\ndef test_two(): pass\n")
    (folder / "pytest.ini").write_text(MARKS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "rig.selection", "--collect-only", "-q", *words],
        cwd=folder,
        env=environment(seed) | variables,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return re.findall(r"^test_.*::(\S+)$", done.stdout, re.MULTILINE)


def rows(names: list[str]) -> set[str]:
    return {name for name in names if name.startswith("test_table")}


def test_one_row_in_four_runs_and_everything_else(tmp_path: Path) -> None:
    names = collected(tmp_path)
    assert len(rows(names)) == 3
    assert set(names) - rows(names) == {
        *("test_whole[0]", "test_whole[1]", "test_whole[2]"),
        *("test_slow", "test_one", "test_two"),
    }
    assert names[0] == "test_slow", "the long ones come first"


def test_a_table_with_a_name_is_one_across_functions_and_files(tmp_path: Path) -> None:
    for name in ("c", "d"):
        (tmp_path / f"test_{name}.py").write_text(NAMED.format(name))
    ours = re.compile("test_[cd]_")
    drawn = [frozenset(filter(ours.match, collected(tmp_path, seed=seed))) for seed in range(4)]
    assert {len(each) for each in drawn} == {2}
    assert len(set(drawn)) > 1


def test_another_seed_takes_other_rows_and_the_same_seed_the_same(tmp_path: Path) -> None:
    drawn = [frozenset(rows(collected(tmp_path, seed=seed))) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) == 2


def test_all_rows_run_on_request_and_for_who_asks_by_name(tmp_path: Path) -> None:
    everything = {f"test_table[{row}]" for row in range(10)}
    assert rows(collected(tmp_path, JOBYARD_ALL_ROWS="1")) == everything
    assert rows(collected(tmp_path, "-k", "table")) == everything
    assert rows(collected(tmp_path, "test_a.py::test_table")) == everything


def test_a_random_order_keeps_files_together_and_follows_the_seed(tmp_path: Path) -> None:
    orders = [collected(tmp_path, seed=seed, JOBYARD_ORDER="random") for seed in (1, 1, 2)]
    assert orders[0] == orders[1]
    assert len({tuple(order) for order in orders}) == 2
    for order in orders:
        places = [number for number, name in enumerate(order) if name in ("test_one", "test_two")]
        assert places[1] - places[0] == 1


def test_the_last_lines_tell_how_many_rows_were_left_out(tmp_path: Path) -> None:
    collected(tmp_path)
    words = ("-p", "rig.selection", "-p", "xdist", "-n", "2", "-q")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "7 rows of tables were left out of this run" in done.stdout
    assert "9 passed" in done.stdout


def test_every_worker_begins_with_its_share_of_the_long_ones() -> None:
    assert dealt(["A", "B", "C"], list("abcdefg"), 2) == [*"AC", *"abcd", *"B", *"efg"]
    assert dealt(["A"], [], 4) == ["A"]
    assert dealt([], list("abc"), 2) == ["a", "b", "c"]
