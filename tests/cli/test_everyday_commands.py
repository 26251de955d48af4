"""The commands for jobs that are there, against a running engine: what they print and do."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml
from rig.cli_yard import AGAIN, ELASTIC, STAYS, Yard
from rig.engine import JOBS, Room
from rig.person import person
from rig.waiting import until_it_holds

from jobyard.cli.until import until

ROLES = """
apiVersion: octopus.openi.pcl.cn/v1alpha1
kind: TaskSet
metadata: {name: roles}
spec:
  roles:
  - name: w
    retryPolicy: {retry: true, maxRetryCount: 1}
    template:
      spec:
        containers:
        - name: main
          image: x
          command: [sh, -c, "echo I am $HOSTNAME; case $HOSTNAME in *-1-0) ;; *) exit 1; esac"]
"""


@pytest.fixture
def yard(room: Room) -> Yard:
    return Yard(room)


@pytest.mark.long
def test_a_job_is_applied_waited_for_shown_and_deleted(yard: Yard, room: Room) -> None:
    assert yard.apply("again", AGAIN) == "GenericJob/again created\n"
    assert yard.does("wait", "again", "--timeout", "60s") == "GenericJob/again succeeded\n"
    assert yard.apply("again", AGAIN) == "GenericJob/again unchanged\n"
    head, row = yard.does("get", "gj").splitlines()
    assert head.split() == ["NAME", "PHASE", "READY", "RESTARTS", "AGE"]
    assert row.split()[:4] == ["again", "Succeeded", "0/1", "2"]
    for words in (("gj/again",), ("gj", "again")):
        named = json.loads(yard.does("get", *words, "-o", "json"))
        assert (named["kind"], named["status"]["restarts"]) == ("GenericJob", 2)
    (listed,) = json.loads(yard.does("get", "gj", "-o", "json"))["items"]
    assert listed == named
    assert yard.does("get", "pods", "-o", "name") == "pod/again-worker-0\n"
    page = yard.does("describe", "again")
    assert "Phase:      Succeeded" in page
    assert "worker-0   Succeeded   0      2" in page
    # Events come after the status.
    end = "The job has finished successfully."
    until_it_holds(lambda: end in yard.does("events", "again"), "its end is told")
    assert yard.does("logs", "again") == "worker-0 | attempt 2\n"
    assert yard.does("delete", "again") == "GenericJob/again deleted\n"
    assert yard("get", "gj").stderr == f"there are none in namespace {room.name}\n"


def test_logs_of_earlier_attempts_are_kept(yard: Yard, room: Room) -> None:
    yard.apply("again", AGAIN)
    yard.does("wait", "again", "--timeout", "60s")
    path = room.path("pods", "again-worker-0") + "/log?attempt="
    texts = [room.engine.ask("GET", f"{path}{n}").text for n in (0, 1, 2)]
    assert texts == ["attempt 0\n", "attempt 1\n", "attempt 2\n"]
    missing = room.engine.ask("GET", f"{path}7")
    assert missing.status == 404
    assert "attempt 7 of again-worker-0 has no log any more; kept are: 0, 1" in missing.text


@pytest.mark.long
def test_logs_of_pods_that_are_gone_stay_readable() -> None:
    """In an engine of one's own; a cluster isn't asked for what it can't have."""
    with person(is_ordinary=False) as who:

        def does(*words: str) -> str:
            done = who.ask(*words, seconds=90)
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        started = who.run("up", "--detach", "--relaxed")
        assert started.returncode == 0, started.stderr
        again = who.write("again.yaml", AGAIN.replace("Policy: None", "Policy: All"))
        does("apply", "-f", str(again), "-f", str(who.write("roles.yaml", ROLES)))
        for name in ("again", "roles"):
            does("wait", name, "--timeout", "60s")
        until_it_holds(lambda: not does("get", "pods", "-o", "name"), "the pods are gone")
        assert does("logs", "again") == "worker-0 | attempt 2\n"
        assert does("logs", "again", "-f") == "worker-0 | attempt 2\n"
        assert does("logs", "again", "--attempt", "1", "-c", "main") == "worker-0 | attempt 1\n"
        assert does("logs", "roles") == "w-0 | I am roles-w-0-1-0\n"
        assert does("logs", "roles", "--attempt", "0") == "w-0 | I am roles-w-0-0-0\n"
        for words, told in (
            (("again", "--attempt", "4"), "there is no log of attempt 4, or none any more"),
            (("roles", "--replica", "w-1"), "has no replica w-1; it has w-0"),
            (("again", "-c", "mian"), "has no container mian (did you mean main?); it has main"),
        ):
            assert told in who.ask("logs", *words).stderr
        assert who.run("down").returncode == 0


def test_an_engine_that_ends_while_its_last_job_goes_is_no_fault_of_delete() -> None:
    """It is asked what it waits for, and isn't there any more."""
    with person(is_ordinary=False) as who:
        assert who.run("up", "--detach", "--runtime", "host").returncode == 0
        folder = who.home / "jobyard" / "engine"
        kept = yaml.safe_load(STAYS)
        kept["metadata"]["finalizers"] = ["example.com/kept"]
        # Without pods, which would outlive the engine.
        kept["spec"]["runMode"] = {"pause": {"enabled": True}}
        assert who.ask("apply", "-f", str(who.write("job.yaml", json.dumps(kept)))).returncode == 0
        deleting = who.start("delete", "stays", "--timeout", "5s")
        assert deleting.stdout is not None
        assert deleting.stdout.readline() == "GenericJob/stays deleted\n"
        os.kill(json.loads((folder / "engine.json").read_text())["pid"], signal.SIGKILL)
        _, told = deleting.communicate(timeout=60)
        assert "fault of jobyard" not in told
        assert "still there after 5 s" in told
        assert deleting.returncode == 2


@pytest.mark.parametrize(
    ("pod", "container"),
    [("gone", "main"), ("gone", "..%2F..%2Fmain"), ("gone", ""), ("..", "main"), ("a%2Fb", "main")],
)
def test_a_log_of_a_pod_that_never_was_is_refused(room: Room, pod: str, container: str) -> None:
    """The node makes paths of these names, which no object vouches for."""
    path = f"{room.path('pods')}/{pod}/log?attempt=0&container={container}"
    assert room.engine.ask("GET", path).status == 404


@pytest.mark.long
def test_pause_and_resume(yard: Yard, room: Room) -> None:
    yard.apply("stays", STAYS)
    yard.does("wait", "stays", "--for", "running", "--timeout", "60s")
    assert yard.does("resume", "stays") == "GenericJob/stays is not paused\n"
    assert yard.does("debug", "stays", "--off") == "GenericJob/stays is not in debug mode\n"
    assert yard.does("pause", "stays") == "GenericJob/stays is pausing\n"
    assert yard.does("pause", "stays") == "GenericJob/stays is already set to pause\n"
    yard.does("wait", "stays", "--for", "paused", "--timeout", "60s")
    until_it_holds(lambda: not yard.does("get", "pods", "-o", "name"), "the pods are gone")
    assert yard.does("resume", "gj/stays") == "GenericJob/stays is resuming\n"
    yard.does("wait", "stays", "--for", "running", "--timeout", "60s")
    timed_out = yard("wait", "stays", "--timeout", "0.2s")
    assert timed_out.returncode == 124
    assert timed_out.stderr == "stays: not succeeded after 0.2 s\n"
    assert timed_out.stdout == ""
    for_programs = yard("wait", "stays", "--timeout", "0.01s", "-o", "json")
    assert for_programs.returncode == 124
    told = {"kind": "GenericJob", "namespace": room.name, "name": "stays"}
    assert json.loads(for_programs.stdout) == {**told, "phase": "Running", "isWanted": False}


def test_scale_and_debug(yard: Yard, room: Room) -> None:
    yard.apply("stretch", ELASTIC)
    assert yard.does("scale", "stretch", "3") == (
        "PyTorchTrainingJob/stretch is set to 3 replicas\n"
    )
    room.until(
        "pytorchtrainingjobs",
        "stretch",
        lambda job: job.get("status", {}).get("readyReplicas") == 3,
        JOBS,
    )
    refused = yard("scale", "stretch", "4")
    assert refused.returncode == 2
    assert "must be from 1 to 3" in refused.stderr
    assert yard.does("scale", "stretch", "3").endswith("is already set to 3 replicas\n")
    assert yard.does("debug", "stretch").endswith("is already in debug mode\n")
    assert yard.does("debug", "stretch", "--off").endswith("leaves debug mode\n")


def test_what_is_not_there_and_what_is_not_possible(yard: Yard) -> None:
    yard.apply("stays", STAYS)
    missing = yard("describe", "stay")
    assert missing.returncode == 2
    assert "stay: there is no such job in namespace" in missing.stderr
    assert "did you mean stays?" in missing.stderr
    rigid = yard("scale", "stays", "3")
    assert (
        "GenericJob has no mode elastic; only PyTorchTrainingJob and DeepSpeedJob" in rigid.stderr
    )
    unknown = yard("get", "genericjbo")
    assert "there is no such kind here" in unknown.stderr
    assert "did you mean genericjob?" in unknown.stderr
    assert "nor a job with this name in namespace" in unknown.stderr
    misspelt = yard("wait", "stays", "--for", "runing")
    assert misspelt.returncode == 2
    assert "there is no phase runing (did you mean running?)" in misspelt.stderr


@pytest.mark.long
def test_jobs_are_shown_and_deleted_by_their_names_alone(yard: Yard) -> None:
    yard.apply("stays", STAYS)
    yard.apply("other", STAYS.replace("name: stays", "name: other"))
    assert yard.does("get", "stays", "-o", "name") == "genericjob/stays\n"
    assert yard.does("delete", "stays", "other") == (
        "GenericJob/stays deleted\nGenericJob/other deleted\n"
    )
    assert yard("get").stdout == ""
    kind = yard("delete", "pods")
    assert kind.returncode == 2
    assert "pods is a kind: say which, such as pods/NAME" in kind.stderr


def test_what_is_gone_already_does_not_keep_the_others(yard: Yard) -> None:
    yard.apply("stays", STAYS)
    done = yard("delete", "gj", "gone", "stays")
    assert (done.returncode, done.stdout) == (2, "GenericJob/stays deleted\n")
    assert '"gone" not found' in done.stderr
    assert yard("get").stdout == ""


def test_events_are_those_of_the_job_and_not_of_others(yard: Yard, room: Room) -> None:
    """Neither of a job whose name begins alike, nor of an earlier one of the same name."""
    yard.apply("stays", STAYS)
    yard.does("wait", "stays", "--for", "running", "--timeout", "60s")
    earlier = room.get("genericjobs", "stays", JOBS)["metadata"]["uid"]
    yard.does("delete", "stays")
    # Timestamps are whole seconds: the next job is to be of another one.
    now = datetime.now(UTC)
    asyncio.run(until(lambda: datetime.now(UTC) >= now + timedelta(seconds=1) or None, 10))
    yard.apply("stays", STAYS)
    yard.apply("longer", STAYS.replace("name: stays", "name: stays-longer"))
    for name in ("stays", "stays-longer"):
        yard.does("wait", name, "--for", "running", "--timeout", "60s")

    def started() -> list[Any]:
        events = json.loads(yard.does("events", "stays", "-o", "json"))
        pods = [event for event in events if event["involvedObject"]["kind"] == "Pod"]
        return [event for event in pods if event["reason"] == "Started"]

    # Events come after the status.
    until_it_holds(lambda: len(started()) >= 2, "both starts are told")
    assert len(started()) == 2, "those of this run alone"
    told = json.loads(yard.does("events", "stays", "-o", "json"))
    about = [event["involvedObject"] for event in told]
    assert {each["name"] for each in about} == {"stays", "stays-worker-0", "stays-worker-1"}
    assert earlier not in {each["uid"] for each in about}
    assert "stays-longer" not in yard.does("describe", "stays")


def test_a_file_with_faults_changes_nothing(yard: Yard, room: Room) -> None:
    path = room.engine.who.write(
        "bad.yaml", STAYS + "---" + AGAIN.replace("replicas: 1", "replicas: one")
    )
    done = yard("apply", "-f", str(path))
    assert done.returncode == 2
    assert "spec.replicaSpecs[0].replicas: is a string; must be a whole number" in done.stderr
    assert yard("get", "gj").stdout == ""


@pytest.mark.long
def test_logs_of_all_replicas_are_merged_and_followed(yard: Yard) -> None:
    yard.apply("again", AGAIN)
    done = yard("logs", "again", "-f")
    assert done.returncode == 0
    assert "worker-0 | attempt 2" in done.stdout.splitlines()
    assert yard.does("logs", "again", "--replica", "worker-0", "--tail", "1")
    nobody = yard("logs", "again", "--replica", "worker-7")
    assert "GenericJob/again has no replica worker-7" in nobody.stderr
