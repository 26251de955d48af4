"""Commands about what is over: jobs that have ended, attempts that never were, what was kept."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from rig.cli_yard import AGAIN, STAYS, Yard
from rig.engine import Room
from rig.person import Person, person
from rig.waiting import until_it_holds


@pytest.fixture
def yard(room: Room) -> Yard:
    return Yard(room)


@pytest.fixture
def somebody() -> Iterator[Person]:
    with person(is_ordinary=False) as who:
        yield who


def test_a_job_that_has_ended_has_no_mode_any_more(yard: Yard) -> None:
    yard.apply("again", AGAIN)
    yard.does("wait", "again", "--timeout", "60s")
    for command in ("pause", "resume", "debug"):
        done = yard(command, "again")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == (
            f"Error: GenericJob/again has ended (Succeeded): `jobyard {command}` is for jobs that"
            " haven't ended\n"
        )


@pytest.mark.parametrize("what", ["never-was", "gj/never-was", "pod/never-was"])
def test_what_is_not_there_is_gone(yard: Yard, what: str) -> None:
    assert yard.does("wait", what, "--for", "deleted") == f"{what} deleted\n"
    told = json.loads(yard.does("wait", what, "--for", "delete", "-o", "json"))
    assert told == {"name": "never-was", "phase": "Deleted", "isWanted": True}
    other = yard("wait", what, "--for", "running")
    assert other.returncode == 2
    assert "never-was" in other.stderr


def test_an_attempt_that_never_was_is_one_error(yard: Yard) -> None:
    yard.apply("again", AGAIN)
    yard.does("wait", "again", "--timeout", "60s")
    assert yard.does("logs", "again", "--attempt", "2") == "worker-0 | attempt 2\n"
    done = yard("logs", "again", "--attempt", "5")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "Error: GenericJob/again: there is no log of attempt 5, or none any more; the last is"
        " attempt 2\n"
    )


def test_a_standing_engine_has_the_logs_of_attempts(somebody: Person) -> None:
    """With pods that are there: their own engine is asked for what came before."""
    up = somebody.run("up", "--detach")
    assert up.returncode == 0, up.stderr
    path = str(somebody.write("again.yaml", AGAIN))
    # An engine that stays keeps jobs anyway.
    done = somebody.run("run", "--keep", path)
    assert done.returncode == 0, done.stderr
    assert "kept:" not in done.stderr
    told = somebody.ask("logs", "again", "--attempt", "1", "-o", "json").stdout
    assert json.loads(told) == {"replica": "worker-0", "attempt": 1, "line": "attempt 1"}
    never = somebody.ask("logs", "again", "--attempt", "5")
    assert (never.returncode, never.stdout) == (1, "")
    assert never.stderr.count("\n") == 1
    assert "there is no log of attempt 5" in never.stderr
    both = somebody.run("run", "--keep", "--pvc", "data=.", path)
    assert both.returncode == 2
    assert "--strict and --runtime are said when it starts" in both.stderr
    assert somebody.run("down").returncode == 0


def test_the_logs_of_a_paused_job_are_those_that_its_engine_keeps(somebody: Person) -> None:
    assert somebody.run("up", "--detach", "--relaxed").returncode == 0
    path = str(somebody.write("stays.yaml", STAYS.replace("replicas: 2", "replicas: 1")))
    assert somebody.ask("apply", "-f", path).returncode == 0
    assert somebody.ask("wait", "stays", "--for", "running", "--timeout", "60s").returncode == 0
    until_it_holds(lambda: "up" in somebody.ask("logs", "stays").stdout, "it has said something")
    assert somebody.ask("pause", "stays").returncode == 0
    assert somebody.ask("wait", "stays", "--for", "paused", "--timeout", "60s").returncode == 0
    until_it_holds(
        lambda: somebody.ask("get", "pods", "-o", "name").stdout == "", "the pods are gone"
    )
    assert somebody.ask("logs", "stays").stdout == "worker-0 | up\n"
    other = somebody.ask("logs", "stays", "-c", "mian").stderr
    assert "has no container mian (did you mean main?); it has main" in other
    assert somebody.run("down").returncode == 0


@pytest.mark.parametrize("is_quiet", [False, True])
def test_a_run_on_a_standing_engine_says_so(somebody: Person, *, is_quiet: bool) -> None:
    started = json.loads(somebody.run("up", "-d", "-o", "json").stdout)
    quiet = ("-q",) if is_quiet else ()
    done = somebody.run("run", "--keep", *quiet, str(somebody.write("again.yaml", AGAIN)))
    assert done.returncode == 0, done.stderr
    said = f"on the engine of pid {started['pid']}, which keeps the jobs\n"
    assert done.stderr == ("" if is_quiet else said)
    assert "again" in somebody.ask("get", "gj").stdout
    assert somebody.run("down").returncode == 0


def test_what_was_kept_is_there_when_an_engine_is_started(somebody: Person) -> None:
    done = somebody.run("run", "--keep", str(somebody.write("again.yaml", AGAIN)))
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == (
        "kept: `jobyard up -d` starts the engine again, then `jobyard logs GenericJob/again` and"
        " `jobyard describe GenericJob/again` show what is there"
    )
    assert somebody.processes() == {}
    assert somebody.run("up", "-d").returncode == 0
    assert somebody.ask("logs", "GenericJob/again").stdout == "worker-0 | attempt 2\n"
    assert "Phase:      Succeeded" in somebody.ask("describe", "GenericJob/again").stdout
    assert somebody.run("down").returncode == 0


def test_nothing_is_kept_unless_it_is_asked_for(somebody: Person) -> None:
    done = somebody.run("run", str(somebody.write("again.yaml", AGAIN)))
    assert (done.returncode, done.stderr) == (0, "")
    assert somebody.run("up", "-d").returncode == 0
    assert somebody.ask("get").stdout == ""
    assert somebody.run("down").returncode == 0


def test_a_job_that_is_deleted_under_a_run_has_no_replica_that_runs(yard: Yard) -> None:
    running = yard.start("run", yard.write("stays", STAYS))
    assert running.stdout is not None
    seen: set[str] = set()
    for line in running.stdout:
        seen.add(line.strip())
        if {"worker-0 | up", "worker-1 | up"} <= seen:
            break
    yard.does("delete", "stays")
    told, _ = running.communicate(timeout=60)
    assert running.returncode == 1
    assert "The job was deleted." in told
    assert not re.search(r"^worker-\d +Running", told, re.MULTILINE), told
