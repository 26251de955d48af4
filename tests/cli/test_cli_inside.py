"""`exec`, `shell`, `debug` and `delete` with replicas that really run, in an engine."""

from __future__ import annotations

import json
import subprocess

import pytest
from rig.cli_yard import STAYS, Yard
from rig.engine import Room
from rig.waiting import until_it_holds

DEAF = STAYS.replace("PeriodSeconds: 1", "PeriodSeconds: 500").replace(
    "echo up; exec sleep 600", "trap '' TERM; echo up; while :; do sleep 1; done"
)


@pytest.fixture
def yard(room: Room) -> Yard:
    return Yard(room)


def running(yard: Yard, text: str = STAYS) -> None:
    yard.apply("stays", text)
    yard.does("wait", "stays", "--for", "running", "--timeout", "60s")
    # A process that has started may not have come as far as its first line, or its trap.
    until_it_holds(lambda: yard.does("logs", "stays").count("| up") == 2, "both are up")


def test_a_command_runs_in_a_replica(yard: Yard) -> None:
    running(yard)
    script = "echo I am $(hostname); echo err >&2; exit 42"
    done = yard.plain("exec", *yard.options, "stays", "worker-1", "--", "sh", "-c", script)
    assert (done.returncode, done.stdout, done.stderr) == (42, "I am stays-worker-1\n", "err\n")


def test_a_shell_takes_commands_from_a_pipe(yard: Yard, room: Room) -> None:
    running(yard)
    who = room.engine.who
    done = subprocess.run(
        who.jobyard("shell", "gj/stays", "worker-0", *yard.options),
        input="cd /; echo here is $(hostname); exit 3\n",
        env=who.environment,
        cwd=who.work,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (3, "here is stays-worker-0\n"), done.stderr


def test_debug_makes_replicas_anew_without_their_program(yard: Yard) -> None:
    running(yard)
    assert yard.does("debug", "stays") == "GenericJob/stays is in debug mode now\n"

    def is_idle() -> bool:
        inside = ("exec", *yard.options, "stays", "worker-0", "--")
        found = yard.plain(*inside, "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
        return found.returncode == 0 and "sleep 600" not in found.stdout

    until_it_holds(is_idle, "a replica without its program that can be entered")
    assert "| up" not in yard("logs", "stays", "--replica", "worker-0").stdout
    assert yard.does("debug", "stays", "--off") == "GenericJob/stays leaves debug mode\n"
    until_it_holds(
        lambda: "worker-0 | up" in yard("logs", "stays").stdout.splitlines(), "the program runs"
    )


def test_what_a_job_owns_may_be_left(yard: Yard, room: Room) -> None:
    running(yard)
    assert yard.does("delete", "stays", "--cascade", "orphan") == "GenericJob/stays deleted\n"
    left = json.loads(yard.does("get", "pods", "-o", "json"))["items"]
    assert [pod["metadata"]["name"] for pod in left] == ["stays-worker-0", "stays-worker-1"]
    assert all(not pod["metadata"].get("ownerReferences") for pod in left)


def test_a_job_in_the_background_goes_before_its_pods(yard: Yard) -> None:
    running(yard, DEAF)
    yard.does("delete", "stays", "--cascade", "background")
    assert yard("get", "gj").stdout == ""
    assert yard.does("get", "pods", "-o", "name").split(), "deaf, and with all the time they want"
    yard.does("delete", "pod", "stays-worker-0", "stays-worker-1", "--grace-period", "0")
    assert yard("get", "pods").stdout == ""


def test_a_pod_that_is_deaf_gets_the_time_that_is_said(yard: Yard) -> None:
    running(yard, DEAF)
    held = yard("delete", "stays", "--timeout", "0.5s")
    assert held.returncode == 2
    assert "still there after 0.5 s" in held.stderr
    pods = ("stays-worker-0", "stays-worker-1")
    yard.does("delete", "pod", *pods, "--grace-period", "1", "--timeout", "60s")
    until_it_holds(lambda: not yard("get", "gj").stdout, "nothing holds the job any more")
