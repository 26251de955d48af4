"""`-o json`: what commands tell programs, with keys written as Kubernetes writes them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner
from rig.cli_yard import AGAIN, ELASTIC, STAYS, Yard
from rig.engine import Room
from rig.person import Person, person
from rig.waiting import until_it_holds

from jobyard.cli.main import cli
from jobyard.cli.output.json_lines import JsonShow
from jobyard.cli.output.screen import Screen
from jobyard.jobs.log_lines import Line

CAMEL = re.compile(r"[a-z][a-zA-Z0-9]*")


@pytest.fixture
def yard(room: Room) -> Yard:
    return Yard(room)


@pytest.fixture
def somebody() -> Iterator[Person]:
    with person(is_ordinary=False) as who:
        yield who


def keys_of(value: Any) -> set[str]:
    match value:
        case dict():
            return {*value, *(key for each in value.values() for key in keys_of(each))}
        case list():
            return {key for each in value for key in keys_of(each)}
        case _:
            return set()


def assert_camel(value: Any) -> None:
    keys = keys_of(value)
    assert keys, "there is something to look at"
    assert {key for key in keys if not CAMEL.fullmatch(key)} == set()


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_keys_of_run_up_status_down_and_doctor_are_in_camel_case(somebody: Person) -> None:
    done = somebody.run("run", "-o", "json", str(somebody.write("again.yaml", AGAIN)))
    told = json.loads(done.stdout)
    assert_camel(told)
    (row,) = told["jobs"][0]["replicas"]
    assert (row["exitCode"], row["restarts"]) == (0, 2)
    started = json.loads(somebody.run("up", "-d", "-o", "json").stdout)
    (engine,) = json.loads(somebody.run("status", "-o", "json").stdout)
    assert_camel(engine)
    disk = engine.pop("disk")
    assert disk.keys() > {"storeBytes", "logsBytes", "scratchBytes", "budgetBytes", "claimsBytes"}
    assert {**started, "troubles": []} == engine
    assert_camel(engine)
    assert engine["startedAt"]
    stopped = json.loads(somebody.run("down", "-o", "json").stdout)
    assert stopped == {"folder": engine["folder"], "pid": engine["pid"], "podsStopped": 0}
    again = json.loads(somebody.run("down", "-o", "json").stdout)
    assert again == {**stopped, "pid": None}
    checks = json.loads(CliRunner().invoke(cli, ["doctor", "-o", "json"]).stdout)
    assert_camel(checks)
    assert all(isinstance(each["isThere"], bool) for each in checks)


@pytest.mark.long
def test_what_is_done_to_a_job_is_an_object_per_line(yard: Yard, room: Room) -> None:
    def did(*words: str) -> Any:
        return lines(yard.does(*words, "-o", "json"))

    stays = {"kind": "GenericJob", "namespace": room.name, "name": "stays"}
    path = yard.write("stays", STAYS)
    assert did("apply", "-f", path) == [{**stays, "action": "created"}]
    assert did("apply", "-f", path) == [{**stays, "action": "unchanged"}]
    (waited,) = did("wait", "stays", "--for", "running", "--timeout", "60s")
    assert waited == {**stays, "phase": "Running", "isWanted": True}
    assert did("pause", "stays") == [{**stays, "action": "pause"}]
    assert did("pause", "stays") == [{**stays, "action": "unchanged"}]
    did("wait", "stays", "--for", "paused", "--timeout", "60s")
    assert did("resume", "stays") == [{**stays, "action": "resume"}]
    yard.apply("other", STAYS.replace("name: stays", "name: other"))
    assert did("delete", "stays", "other") == [
        {**stays, "action": "deleted"},
        {**stays, "name": "other", "action": "deleted"},
    ]
    stretch = {"kind": "PyTorchTrainingJob", "namespace": room.name, "name": "stretch"}
    yard.apply("stretch", ELASTIC)
    assert did("scale", "stretch", "2") == [{**stretch, "action": "scale", "replicas": 2}]
    assert did("debug", "stretch") == [{**stretch, "action": "unchanged", "enabled": True}]
    assert did("debug", "stretch", "--off") == [{**stretch, "action": "debug", "enabled": False}]


def test_a_description_and_logs_for_programs(yard: Yard) -> None:
    yard.apply("again", AGAIN)
    yard.does("wait", "again", "--timeout", "60s")
    end = "The job has finished successfully."
    # Events come after the status.
    until_it_holds(lambda: end in yard.does("events", "again"), "its end is told")
    told = json.loads(yard.does("describe", "again", "-o", "json"))
    assert (told["kind"], told["phase"], told["object"]["kind"]) == (
        "GenericJob",
        "Succeeded",
        "GenericJob",
    )
    assert [(row["name"], row["exitCode"]) for row in told["replicas"]] == [("worker-0", 0)]
    assert end in {each["message"] for each in told["events"]}
    line = {"replica": "worker-0", "attempt": 2, "line": "attempt 2"}
    assert lines(yard.does("logs", "again", "-o", "json")) == [line]
    # Only the last pod is sure to be seen.
    assert lines(yard.does("logs", "again", "-f", "-o", "json"))[-1] == line
    (timed,) = lines(yard.does("logs", "again", "-o", "json", "--timestamps"))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", timed.pop("time"))
    assert timed == line


def test_a_line_that_is_no_text_is_still_an_object(capsys: pytest.CaptureFixture[str]) -> None:
    show = JsonShow(Screen(None, is_live=False, clock=lambda: 0.0), has_timestamps=False)  # type: ignore[arg-type]
    show.lines_of("GenericJob/a")(Line("w-0", "side", b'caf\xc3\xa9 \xff "', 1))
    show.warn("something else")
    told = capsys.readouterr()
    assert json.loads(told.out) == {
        "replica": "w-0",
        "attempt": 1,
        "container": "side",
        "line": 'café � "',
    }
    assert told.err == "something else\n"
