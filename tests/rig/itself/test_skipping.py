"""What is not tried is told, with the way to get it; and CI does not let it pass."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rig.needs import GET_IT
from rig.places import TESTS
from rig.skipping import must_have_it

# One test each: skipped by a mark, in a fixture, in the test; and one of a machine that is so.
SAMPLE = f"""
import pytest
from rig.needs import needed

@pytest.mark.skipif(True, reason="there is no frob{GET_IT}apt-get install frob")
def test_mark():
    pass

@pytest.fixture
def frob():
    return needed("frob")

def test_fixture(frob):
    pass

def test_inside():
    needed("no-such-program", "frobnicator")

def test_machine():
    pytest.skip("the machine is so")

def test_fine():
    needed("sh")
"""
# Not of the run that this test is part of.
PLAIN = ("-p", "no:cacheprovider", "-p", "no:xdist", "-p", "rig.skipping", "-c", "/dev/null")


@pytest.fixture
def ran(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """What pytest says of the sample, where CI is what the test's parameter says."""
    (tmp_path / "test_sample.py").write_text(SAMPLE)
    program = f"import os; os.geteuid = lambda: 0; import pytest; pytest.main({[*PLAIN, '-q']})"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={
            "PATH": "/usr/bin:/bin",
            "CI": request.param,
            "PYTHONPATH": str(TESTS),
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("ran", ["", "false"], indirect=True)
def test_the_last_lines_tell_what_was_not_tried_and_how_to_get_it(ran: str) -> None:
    _, _, told = ran.partition(" not tried here ")
    lines = told.splitlines()
    assert lines[1:4] == [
        "2 tests: there is no frob; get it with: apt-get install frob",
        "1 test: the machine is so",
        "1 test: there is no no-such-program; get it with: apt-get install frobnicator",
    ], ran
    assert "1 passed, 4 skipped" in ran


@pytest.mark.parametrize("ran", ["true"], indirect=True)
def test_ci_has_all_that_can_be_got(ran: str) -> None:
    assert "1 failed, 1 passed, 1 skipped, 2 errors" in ran, ran
    assert "CI must not skip this: there is no no-such-program; get it with: apt-get" in ran
    _, _, told = ran.partition(" not tried here ")
    assert told.splitlines()[1] == "1 test: the machine is so"


@pytest.mark.parametrize(
    ("reason", "environment", "uid", "want"),
    [
        (f"no frob{GET_IT}frob", {"CI": "true"}, 0, True),
        (f"no frob{GET_IT}frob", {"CI": "true"}, 1000, False),
        (f"no frob{GET_IT}frob", {}, 0, False),
        ("the machine is so", {"CI": "true"}, 0, False),
    ],
)
def test_who_must_have_it(reason: str, environment: dict[str, str], uid: int, want: bool) -> None:
    assert must_have_it(reason, environment, uid) == want
