""".ci/run: its stages, their order, and what its last lines tell.

`make` is a stand-in that writes down what it is asked for: the stages themselves are other tests'.
"""

import shutil
import subprocess
from pathlib import Path

import pytest
from rig.places import ROOT

SCRIPT = ROOT / ".ci" / "run"
STAGES = ["demo", "setup", "lint", "test-quick", "parts", "test"]
AT_ONCE = ["kubelet-test", "test-frameworks"]


def run(folder: Path, fails: str = "none", can: int = 0) -> "subprocess.CompletedProcess[str]":
    place = folder / ".ci" / "run"
    place.parent.mkdir()
    shutil.copy(SCRIPT, place)
    scripts = {
        "bin/make": f'echo "$1 $JOBYARD_SEED $CI" >> {folder}/asked; [ "$1" != {fails} ] || exit 2',
        ".venv/bin/python": f"echo no control groups here; exit {can}",
    }
    for name, text in scripts.items():
        path = folder / name
        path.parent.mkdir(parents=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    path = f"{folder / 'bin'}:/usr/bin:/bin"
    return subprocess.run(
        [str(place)], env={"PATH": path}, capture_output=True, text=True, timeout=60
    )


def asked(folder: Path) -> list[str]:
    return [line.split()[0] for line in (folder / "asked").read_text().splitlines()]


def table(said: str) -> dict[str, list[str]]:
    lines = said.partition("stage            minutes\n")[2].partition("\n\n")[0].splitlines()
    return {line.split()[0]: line.split()[1:] for line in lines}


def test_every_stage_runs_once_and_has_its_time_in_the_table(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert asked(tmp_path)[:-2] == STAGES
    assert sorted(asked(tmp_path)[-2:]) == AT_ONCE
    rows = table(done.stdout)
    assert list(rows) == [
        *("demo", "setup", "lint", "quick", "parts", "test", "frameworks", "kubelet", "together")
    ]
    assert all(len(row) == 1 and row[0].count(":") == 1 for row in rows.values())
    # One run of the random tests is repeated, and tests know where they run.
    assert {line.partition(" ")[2] for line in (tmp_path / "asked").read_text().splitlines()} == {
        "147964388 true"
    }


@pytest.mark.parametrize("stage", STAGES + AT_ONCE)
def test_a_stage_that_fails_ends_it_and_is_told_with_its_command(
    tmp_path: Path, stage: str
) -> None:
    done = run(tmp_path, fails=stage)
    assert done.returncode == 2
    # No second chance, and nothing after it.
    if stage in AT_ONCE:
        assert sorted(asked(tmp_path)[-2:]) == AT_ONCE
    else:
        assert asked(tmp_path) == STAGES[: STAGES.index(stage) + 1]
    assert [row for row in table(done.stdout).values() if "failed" in row]
    last = done.stdout.splitlines()[-1]
    assert last == f"again:  JOBYARD_SEED=147964388 JOBYARD_ROWS=none make {stage}"


def test_where_there_can_be_no_node_it_is_told_and_no_failure(tmp_path: Path) -> None:
    done = run(tmp_path, can=77)
    assert done.returncode == 0
    assert asked(tmp_path) == [*STAGES, "test-frameworks"]
    assert " ".join(table(done.stdout)["kubelet"][1:]) == "left out, for the reason above"
    assert "no control groups here" in done.stdout


def test_a_question_that_fails_is_a_failure(tmp_path: Path) -> None:
    done = run(tmp_path, can=1)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].endswith("make kubelet-test")
