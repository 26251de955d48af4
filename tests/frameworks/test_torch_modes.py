"""Run modes with real PyTorch: debug, pause, a killed rank, a rank out of memory."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from typing import Any

import pytest
from rig.places import ROOT

from frameworks.yard import DEADLINE_SECONDS, Yard

CHECKPOINT = "pytorchtrainingjob/checkpoint.yaml"
JOB = "ptj/pytorch-checkpoint"
TRAIN = "python3 /program/train.py --save by-hand.pt"
STEPS = 80


def started_after(log: str) -> dict[str, int]:
    """By replica, the step that it said it started after."""
    found = re.findall(r"(worker-\d) +\| rank \d of 2: starting after step (\d+)", log)
    return {replica: int(step) for replica, step in found}


def assert_trained(said: str) -> None:
    """Both ranks have the weights that one process has which saw all batches in one go."""
    learnt = dict(re.findall(r"rank (\d): weights ([-\d., ]+), as without a pause", said))
    assert set(learnt) == {"0", "1"}, said
    assert learnt["0"] == learnt["1"]


def in_debug_mode() -> str:
    """The example with debug switched on, and no waiting between its steps."""
    text = (ROOT / "examples" / CHECKPOINT).read_text()
    for old, new in (
        ("  runMode:\n", "  runMode:\n    debug: {enabled: true}\n"),
        ('value: "0.25"', 'value: "0"'),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


@pytest.mark.proves("torch", "PyTorchTrainingJob", "debug")
def test_debug_each_rank_is_started_by_hand(yard: Yard) -> None:
    path = yard.person.write("debug.yaml", in_debug_mode())
    with yard.engine():
        yard.said("apply", "-f", str(path))
        yard.said("wait", JOB, "--for", "running", "--timeout", "120s", seconds=150)

        # As a person would with two terminals: a shell in one, a single command in the other.
        shell = subprocess.Popen(
            yard.person.jobyard("shell", JOB, "worker-1"),
            cwd=yard.person.work,
            env=yard.person.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert shell.stdin is not None
        shell.stdin.write(f'echo "I am $RANK of $WORLD_SIZE"\n{TRAIN}\n')
        shell.stdin.close()
        shell.stdin = None
        by_command = yard.said("exec", JOB, "worker-0", "--", *TRAIN.split(), seconds=240)
        by_shell, _ = shell.communicate(timeout=120)
        assert shell.returncode == 0, by_shell
        assert by_shell.startswith("I am 1 of 2\n")
        assert_trained(by_command + by_shell)

        standing = yard.job(JOB)["status"]
        assert (standing["phase"], standing["ready"], standing["restarts"]) == ("Running", "2/2", 0)
        assert yard.said("logs", JOB) == "", "the program itself has not been started"

        yard.said("debug", JOB, "--off")
        yard.said("wait", JOB, "--timeout", "240s", seconds=270)
        assert_trained(yard.said("logs", JOB))
        assert yard.job(JOB)["status"]["restarts"] == 0


@pytest.mark.proves("torch", "PyTorchTrainingJob", "pause, resume from a checkpoint")
def test_a_paused_training_goes_on_after_the_saved_step(yard: Yard) -> None:
    with yard.engine():
        yard.apply(CHECKPOINT)
        before = yard.until("a checkpoint", lambda: last_saved(yard))
        yard.said("pause", JOB)
        yard.said("wait", JOB, "--for", "paused", "--timeout", "120s", seconds=150)
        assert yard.job(JOB)["status"]["readyReplicas"] == 0

        yard.said("resume", JOB)
        yard.said("wait", JOB, "--timeout", "240s", seconds=270)
        log = yard.said("logs", JOB)
        done = started_after(log)
        assert set(done) == {"worker-0", "worker-1"}, log
        assert before <= done["worker-0"] == done["worker-1"] < STEPS
        assert saves(log) == list(range(done["worker-0"] + 5, STEPS + 1, 5)), log
        assert_trained(log)
        status = yard.job(JOB)["status"]
        assert (status["pauseCount"], status["restarts"]) == (1, 0)


def saves(log: str) -> list[int]:
    return [int(step) for step in re.findall(rf"step (\d+) of {STEPS}: loss [\d.]+, saved", log)]


def last_saved(yard: Yard) -> int:
    return max(saves(yard.person.ask("logs", JOB).stdout), default=0)


@pytest.mark.proves("torch", "PyTorchTrainingJob", "a killed rank and its restart")
def test_a_killed_rank_comes_back_and_the_others_keep_their_processes(yard: Yard) -> None:
    ran = yard.proved("pytorchtrainingjob/killed-rank.yaml", "-o", "json")
    (job,) = json.loads(ran.out)["jobs"]
    restarts = {row["name"]: row["restarts"] for row in job["replicas"]}
    assert restarts == {"worker-0": 0, "worker-1": 0, "worker-2": 1}
    log = ran.errors
    assert log.count("worker-2 | rank 2: killed after step 10") == 1
    assert "worker-2: Error (exit code 137); restart 1 of 3 in 1 s" in log
    joined = set(re.findall(r"rank (\d): in group (\d), process \d+, attempt (\d)", log))
    assert joined == {
        *(("0", "0", "0"), ("1", "0", "0"), ("2", "0", "0")),
        *(("0", "1", "0"), ("1", "1", "0"), ("2", "1", "1")),
    }
    steps = Counter(map(int, re.findall(r"rank \d: going on after step (\d+)", log)))
    # The last step before the kill may be lost with the connection, then for all of them.
    assert set(steps) in ({0, 9}, {0, 10}), steps
    assert set(steps.values()) == {3}, steps
    weights = re.findall(r"rank \d: step 20, weights (.+), the same on all ranks", log)
    assert len(weights) == 3
    assert len(set(weights)) == 1


@pytest.mark.proves("torch", "PyTorchTrainingJob", "a rank out of memory")
def test_a_rank_out_of_memory_is_named(yard: Yard) -> None:
    path = ROOT / "examples" / "pytorchtrainingjob" / "out-of-memory.yaml"
    name = "ptj/pytorch-out-of-memory"
    with yard.engine():
        # In an engine that is up the job stays, to be looked at.
        yard.said("apply", "-f", str(path))
        told = yard.said("attach", name, code=1, seconds=DEADLINE_SECONDS)
        # What somebody sees who looks at the last lines alone.
        cause, _head, *rows = told.splitlines()[-4:]
        assert "worker-1: OOMKilled (exit code 137)" in cause, told
        row = r"worker-1   Failed +137 +0 +OOMKilled, out of memory: rank 1: step \d+, \d+ MiB"
        assert re.match(row, rows[1]), told

        # Events are told after the status.
        event = r"ReplicaFailed .*worker-1: OOMKilled \(exit code 137\); not started again: .* MiB"
        described = yard.until(
            "the event",
            lambda: re.search(event, said := yard.said("describe", name)) and said,
        )
        failure = r"ReplicaFailure +True +ReplicaFailed .*worker-1: OOMKilled \(exit code 137\)"
        assert re.search(failure, described), described
        assert failure_of(yard.job(name), "worker-1") == (137, "OOMKilled")


def failure_of(job: dict[str, Any], replica: str) -> tuple[int, str]:
    name = f"{job['metadata']['name']}-{replica}"
    rows = [row for task in job["status"]["tasks"] for row in task["status"]]
    (failure,) = (row["lastFailure"] for row in rows if row["name"] == name)
    return failure["exitCode"], failure["reason"]
