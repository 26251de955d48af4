"""Replicas that say more than anybody reads: the last line is shown, what is missing is told.

Lines are numbers, so a reader knows after each what has to follow.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from rig.person import Person, person
from rig.script_job import script_job
from rig.selection import all_is_asked_for
from rig.waiting import until_it_holds

REPLICAS = 4
LINES = 1_000_000 if all_is_asked_for() else 30_000
# Less than the lines need, which with the moment and stream of each are some fifty bytes.
SMALL_LOG = "8Mi" if all_is_asked_for() else "256Ki"
RUN_SECONDS = 600
_GAP = re.compile(r"jobyard: ([0-9]+) lines are missing here, up to \S+: ")


@pytest.fixture(params=["as whoever runs the tests", "as an ordinary user"])
def somebody(request: pytest.FixtureRequest) -> Iterator[Person]:
    with person(is_ordinary=request.param == "as an ordinary user") as who:
        yield who


def flooding(who: Person) -> str:
    text = script_job("flood", ["seq", str(LINES)], replicas=REPLICAS)
    return str(who.write("flood.yaml", text))


def gaps_of(shown: Path) -> dict[str, int]:
    """How many lines of each replica are said to be missing; all others are there, in order."""
    at = {f"worker-{n}": 0 for n in range(REPLICAS)}
    missing = dict.fromkeys(at, 0)
    with shown.open() as lines:
        for line in lines:
            replica, bar, said = line.rstrip("\n").partition(" | ")
            if not bar or replica not in at:
                continue
            gap = _GAP.match(said)
            lost = int(gap[1]) if gap else 0
            missing[replica] += lost
            at[replica] += lost or 1
            assert gap or said == str(at[replica]), f"{line!r} instead of {at[replica]}"
    assert at == dict.fromkeys(at, LINES), "the last line of each is there"
    return missing


def run_into(who: Person, shown: Path, *options: str) -> None:
    with shown.open("wb") as out:
        done = subprocess.run(
            who.jobyard("run", flooding(who), *options),
            cwd=who.work,
            env=who.environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            timeout=RUN_SECONDS,
        )
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_of_lines_as_fast_as_they_can_none_is_missing_that_is_not_told(somebody: Person) -> None:
    shown = somebody.work / "shown"
    run_into(somebody, shown)
    missing = gaps_of(shown)
    print(f"{REPLICAS} times {LINES} lines; missing, and told: {missing}")
    # The log has room for all of them where there are few.
    assert all_is_asked_for() or not any(missing.values())


@pytest.mark.long
def test_who_reads_only_when_all_is_over_is_told_what_has_gone(somebody: Person) -> None:
    shown = somebody.work / "shown"
    with somebody.start("run", flooding(somebody), "--log-size", SMALL_LOG) as running:
        until_it_holds(
            lambda: "Succeeded" in somebody.run("get", "jobs").stdout, "all is over", RUN_SECONDS
        )
        told, errors = running.communicate(timeout=RUN_SECONDS)
    assert running.returncode == 0, errors
    shown.write_text(told)
    assert all(gaps_of(shown).values())
