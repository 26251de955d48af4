"""`jobyard run` on this machine, as root and as an ordinary user: ends, signals, what is left."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engine.runs.crash_stage import inside
from rig.person import MARK, Person, person
from rig.script_job import script_job
from rig.waiting import run, until_it_holds

from jobyard.cli.ending import INTERRUPTED, Ends, until_ended
from jobyard.cli.output.screen import Screen
from jobyard.cli.output.showing import Show
from jobyard.cli.output.style import Palette
from jobyard.jobs.view import JobView

# Who runs it differs in few lines: one of the two, another time the other.
pytestmark = pytest.mark.sample(2)


@pytest.fixture(params=["as whoever runs the tests", "as an ordinary user"])
def somebody(request: pytest.FixtureRequest) -> Iterator[Person]:
    is_ordinary = request.param == "as an ordinary user"
    with person(is_ordinary=is_ordinary) as who:
        yield who


def job(who: Person, script: str, name: str = "job") -> str:
    text = script_job(
        name,
        ["sh", "-c", script],
        replicas=2,
        container={"image": "busybox", "env": [{"name": MARK, "value": who.mark}]},
        pod={"terminationGracePeriodSeconds": 5},
    )
    return str(who.write(f"{name}.yaml", text))


def nothing_is_left(who: Person) -> None:
    assert who.processes() == {}
    runs = who.home / "jobyard" / "runs"
    assert not runs.is_dir() or not list(runs.iterdir())


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_an_engine_that_is_told_nothing_ends_with_its_command(
    somebody: Person, end: signal.Signals
) -> None:
    """It is prepared while the command still reads its files."""
    running = subprocess.Popen(
        somebody.jobyard("run", "-"),
        cwd=somebody.work,
        env=somebody.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with running:
        until_it_holds(lambda: len(somebody.processes()) == 2, "an engine is prepared")
        running.send_signal(end)
    until_it_holds(lambda: not somebody.processes(), "both have ended")
    nothing_is_left(somebody)


def test_a_file_with_a_mistake_leaves_no_engine(somebody: Person) -> None:
    done = somebody.run("run", str(somebody.write("job.yaml", "kind: Nothing\n")))
    assert done.returncode == 2, done.stderr
    nothing_is_left(somebody)


def test_success_is_0_and_logs_have_the_names_of_replicas(somebody: Person) -> None:
    done = somebody.run("run", job(somebody, "echo hello from $HOSTNAME"))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "worker-0 | hello from job-worker-0" in lines
    assert "worker-1 | hello from job-worker-1" in lines
    assert any(line.startswith("GenericJob/job succeeded") for line in lines)
    nothing_is_left(somebody)


def test_failure_is_1_and_tells_why(somebody: Person) -> None:
    done = somebody.run("run", job(somebody, "echo I give up; exit 3"))
    assert done.returncode == 1, done.stderr
    # Whichever was first; the other may have been stopped before its end.
    rule = re.search(r'The job is failed with rule: { "worker": \[([01])\] }', done.stdout)
    assert rule is not None, done.stdout
    row = rf"^worker-{rule[1]}   Failed +3      0          I give up$"
    assert re.search(row, done.stdout, re.MULTILINE), done.stdout
    nothing_is_left(somebody)


class LastWords:
    """Jobs that are gone as soon as they are told to, and whose logs are read to the end later."""

    def __init__(self) -> None:
        self._is_gone = asyncio.Event()
        self.was_read = False

    def views(self) -> list[JobView]:
        return []

    async def until_over(self) -> None:
        await self._is_gone.wait()
        for _ in range(10):
            await asyncio.sleep(0)
        self.was_read = True

    async def stop_jobs(self, _hurry: asyncio.Event) -> set[str]:
        self._is_gone.set()
        return set()


def test_what_jobs_say_last_is_read_when_they_are_gone() -> None:
    screen = Screen(io.StringIO(), is_live=False, clock=time.monotonic)

    async def talk() -> None:
        jobs: Any = LastWords()
        show = Show(screen, Palette(is_coloured=False), is_quiet=False)
        ends = Ends()
        ends.stopped.set()
        code, _ = await until_ended(jobs, ends, show)
        assert code == INTERRUPTED
        assert jobs.was_read
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(talk())


def test_a_bad_file_is_2_and_nothing_runs(somebody: Person) -> None:
    path = job(somebody, "true")
    Path(path).write_text(Path(path).read_text().replace("replicas: 2", "replicas: two"))
    done = somebody.run("run", path)
    assert done.returncode == 2
    assert f"{path}:8: spec.replicaSpecs[0].replicas:" in done.stderr
    assert somebody.run("run", "/there/is/no/such.yaml").returncode == 2
    assert somebody.run("run", path, "--no-such-option").returncode == 2
    nothing_is_left(somebody)


@pytest.mark.long
def test_a_timeout_is_124_and_pods_may_say_goodbye(somebody: Person) -> None:
    script = 'trap "echo goodbye; exit 0" TERM; echo up; sleep 1000 & wait'
    # Long enough for both to set their traps on a machine that is busy with other tests.
    done = somebody.run("run", "--timeout", "20s", job(somebody, script), seconds=120)
    assert done.returncode == 124, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert {"worker-0 | up", "worker-1 | up"} <= set(lines), "they ran in time"
    assert "worker-0 | goodbye" in lines
    nothing_is_left(somebody)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_is_130_with_no_process_left(somebody: Person, number: signal.Signals) -> None:
    # A grandchild in a session of its own would outlive anything but its PID namespace.
    script = "setsid sleep 1000 & echo up; wait"
    running = somebody.start("run", job(somebody, script))
    assert running.stdout is not None
    try:
        seen = set()
        for line in running.stdout:
            seen.add(line.strip())
            if {"worker-0 | up", "worker-1 | up"} <= seen:
                break
        spaces = {os.readlink(f"/proc/{pid}/ns/pid") for pid in sleepers(somebody, 2)}
        assert len(spaces) == 2, "each replica has a PID namespace"
        residents = inside(spaces)
        os.killpg(running.pid, number)
        running.communicate(timeout=60)
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
            running.communicate()
    assert running.returncode == 130
    nothing_is_left(somebody)
    # Only those that were there before: the kernel uses the numbers of namespaces again.
    assert not residents.keys() & inside(spaces).keys(), "their namespaces are empty"


def sleepers(who: Person, count: int) -> list[int]:
    """The sleeping programs, once all of them are what they are about to be."""

    def found() -> list[int]:
        pids = [pid for pid, words in who.processes().items() if words.strip() == "sleep 1000"]
        return pids if len(pids) == count else []

    return until_it_holds(found, f"{count} programs sleep")


def test_the_final_status_as_json(somebody: Person) -> None:
    # Alone: of two the other may be stopped before it has said anything.
    alone = "spec.replicaSpecs[0].replicas=1"
    path = job(somebody, "echo to the log; exit 4")
    done = somebody.run("run", "-o", "json", "--set", alone, path)
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert told["exitCode"] == 1
    (one,) = told["jobs"]
    assert (one["phase"], one["name"]) == ("Failed", "job")
    (row,) = one["replicas"]
    assert (row["name"], row["phase"], row["exitCode"]) == ("worker-0", "Failed", 4)
    assert {"startedAt", "endedAt"} <= set(one), "camel case, as in the status"
    assert "worker-0 | to the log" in done.stderr.splitlines()


def test_quiet_shows_the_end_alone(somebody: Person) -> None:
    done = somebody.run("run", "-q", job(somebody, "echo not shown"))
    assert done.returncode == 0
    assert "not shown" not in done.stdout
    assert "succeeded" in done.stdout


def test_a_field_is_set_on_the_command_line(somebody: Person) -> None:
    path = job(somebody, "echo $HOSTNAME")
    done = somebody.run("run", "--set", "spec.replicaSpecs[0].replicas=3", path)
    assert done.returncode == 0, done.stderr
    assert "worker-2 | job-worker-2" in done.stdout.splitlines()
    done = somebody.run("run", "--set", "spec.replicaSpecs[4].replicas=3", path)
    assert done.returncode == 2
    assert "--set spec.replicaSpecs[4]: what stands there is a list of 1" in done.stderr


def test_two_runs_at_once_do_not_meet(somebody: Person) -> None:
    # The other replica may be up a moment later, and has its name only as long as it is there.
    script = (
        "[ $JOBYARD_REPLICA_RANK = 0 ] || exec sleep 1000;"
        " echo {0}; until getent hosts {0}-worker-1; do sleep 0.1; done"
    )
    first_ends_it = "spec.successRules=[{worker: [0]}]"
    running = [
        somebody.start("run", "--set", first_ends_it, job(somebody, script.format(name), name))
        for name in ("one", "two")
    ]
    for name, each in zip(("one", "two"), running, strict=True):
        out, err = each.communicate(timeout=60)
        assert each.returncode == 0, out + err
        assert f"worker-0 | {name}" in out.splitlines()
    nothing_is_left(somebody)


def test_a_command_that_is_not_there_says_so(somebody: Person) -> None:
    path = somebody.write("job.yaml", script_job("job", ["no-such-program"]))
    done = somebody.run("run", str(path))
    assert done.returncode == 1
    assert "no-such-program" in done.stdout
    nothing_is_left(somebody)


def test_help_names_every_exit_code() -> None:
    with person(is_ordinary=False) as who:
        told = who.run("run", "--help").stdout
    for code in ("0", "1", "2", "75", "124", "129", "130"):
        assert re.search(rf"\b{code}:", told), code


def test_images_can_be_told_once_for_all(somebody: Person) -> None:
    """A virtualenv of their own, by a variable; the command line goes first."""
    for name in ("first", "second"):
        bin_folder = somebody.work / name / "bin"
        bin_folder.mkdir(parents=True)
        (somebody.work / name / "pyvenv.cfg").touch()
        (bin_folder / "who-am-i").write_text(f"#!/bin/sh\necho the {name} one\n")
        (bin_folder / "who-am-i").chmod(0o755)
    file = job(somebody, "who-am-i")
    told = "nothing=./first 'busy*=./first'"
    done = somebody.run("run", file, JOBYARD_IMAGES=told)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("the first one") == 2
    done = somebody.run("run", file, "--image", "busybox=./second", JOBYARD_IMAGES=told)
    assert done.stdout.count("the second one") == 2
    done = somebody.run("run", file, JOBYARD_IMAGES="busybox=./nowhere")
    assert done.returncode == 2
    assert "$JOBYARD_IMAGES: 'busybox=./nowhere': there is no folder" in done.stderr
