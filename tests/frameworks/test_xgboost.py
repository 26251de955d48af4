"""XGBoostTrainingJob with xgboost's own tracker and collective."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest
from rig.places import ROOT

from frameworks.yard import BOUNDED, FAULTS, Ran, Yard

COLLECTIVE = "xgboosttrainingjob/collective.yaml"
RESTART = "xgboosttrainingjob/restart.yaml"
JOB = "xgbj/xgboost-collective"
TRAIN = ("python3", "/program/train.py")
REPLICAS = ("master-0", "worker-0", "worker-1")


def assert_one_model(said: str) -> None:
    """Three ranks, each with its rows, grow the trees that one process grows on all rows."""
    tasks = re.findall(r"Task (\S+) got rank (\d)", said)
    assert sorted(tasks) == [("0", "0"), ("1", "1"), ("2", "2")], said
    for rank in range(3):
        assert f"rank {rank} of 3: 200 of 600 rows, the trees of rank 0" in said, said
    assert "the 10 trees are those of one process on all 600 rows" in said, said


def assert_trained(ran: Ran) -> None:
    assert ran.code == 0, ran.text
    assert_one_model(ran.out)


def changed(example: str, **words: str) -> str:
    """The text of an example with one thing in it that is different."""
    text = (ROOT / "examples" / example).read_text()
    assert text.count(words["old"]) == 1, text
    return text.replace(words["old"], words["new"])


@pytest.mark.proves("xgboost-cpu", "XGBoostTrainingJob", "tracker and two workers")
def test_three_ranks_train_the_model_of_one(yard: Yard) -> None:
    assert_trained(yard.run(COLLECTIVE))


@pytest.mark.sample(*FAULTS)
@pytest.mark.parametrize(
    ("env", "sign"),
    [
        pytest.param({"RANK": "0"}, "of 3 is not mine", id="everybody is the master"),
        pytest.param(
            {"DMLC_TASK_ID": "7"}, "Task 7 got rank", id="everybody takes itself for the same task"
        ),
        pytest.param(
            {"DMLC_TRACKER_URI": "localhost"},
            "no tracker at localhost:",
            id="the tracker is somewhere else",
        ),
    ],
)
def test_a_wrong_environment_is_found_out(yard: Yard, env: dict[str, str], sign: str) -> None:
    """The replicas themselves say so; nobody waits until the time is up."""
    # Long enough for a tracker that starts late, if it is the right one that they look for.
    patience = 5 if "DMLC_TRACKER_URI" in env else 180
    text = changed(COLLECTIVE, old="monotonic() + 180", new=f"monotonic() + {patience}")
    ran = yard.run(str(yard.person.write("patient.yaml", text)), *BOUNDED, broken={"env": env})
    with pytest.raises(AssertionError):
        assert_trained(ran)
    assert sign in ran.out, ran.text
    assert "have passed: stopping" not in ran.text, ran.text


def test_the_engine_that_gets_things_wrong_gets_all_right_without_a_fault(yard: Yard) -> None:
    """Or it would be the engine for faults itself that the tests above notice."""
    assert_trained(yard.run(COLLECTIVE, broken={}))


@pytest.mark.proves("xgboost-cpu", "XGBoostTrainingJob", "a worker that fails for good")
def test_a_worker_that_fails_for_good_fails_the_job(yard: Yard) -> None:
    """It leaves in the middle of the collective, and is named as the cause."""
    train = "        trees = train(rows[mine], labels[mine])\n"
    # After a round of all: before it the others might still be on their way in.
    together = "        collective.allreduce(np.zeros(1), collective.Op.SUM)\n"
    leaves = f"{together}        if rank == 2:\n            os._exit(3)\n{train}"
    path = yard.person.write("leaves.yaml", changed(COLLECTIVE, old=train, new=leaves))
    ran = yard.run(str(path))
    assert ran.code == 1, ran.text
    assert "Ring allreduce small failed" in ran.out, "the others were in the same collective"
    # What somebody sees who looks at the last lines alone.
    cause, _head, *rows = ran.out.splitlines()[-5:]
    assert cause == "worker-1: Error (exit code 3)", ran.text
    phases = dict(row.split()[:2] for row in rows)
    assert phases.pop("worker-1") == "Failed"
    assert phases.keys() == {"master-0", "worker-0"}
    # They end by the error that they got, or are stopped before that: who is first is open.
    assert set(phases.values()) <= {"Stopped", "Failed"}


@pytest.mark.proves("xgboost-cpu", "XGBoostTrainingJob", "restart, going on with a saved model")
def test_all_start_again_and_go_on_with_the_saved_model(yard: Yard) -> None:
    ran = yard.proved(RESTART)
    assert ran.lines("worker-1").count("rank 2 dies in round 5") == 1
    for rank, replica in enumerate(REPLICAS):
        starts = [
            int(line.rsplit(" ", 1)[1])
            for line in ran.lines(replica)
            if line.startswith(f"rank {rank} of 3: starts after round ")
        ]
        # The last round may have been saved or not when the others noticed.
        assert starts[0] == 0, ran.text
        assert starts[-1] in (4, 5), ran.text
    said = "10 rounds, predictions as of one process on all rows in one go"
    assert said in ran.lines("master-0"), ran.text


@pytest.mark.proves("xgboost-cpu", "XGBoostTrainingJob", "pause, debug")
def test_a_paused_job_is_resumed_into_debug_mode_and_trained_by_hand(yard: Yard) -> None:
    mode = (
        "spec:\n  runMode:\n    pause: {enabled: true}\n    debug: {enabled: true}\n  runPolicy:\n"
    )
    path = yard.person.write(
        "waits.yaml", changed(COLLECTIVE, old="spec:\n  runPolicy:\n", new=mode)
    )
    with yard.engine():
        yard.said("apply", "-f", str(path))
        yard.said("wait", JOB, "--for", "paused", "--timeout", "60s", seconds=90)
        assert yard.job(JOB)["status"]["readyReplicas"] == 0
        yard.said("resume", JOB)
        yard.said("wait", JOB, "--for", "running", "--timeout", "60s", seconds=90)

        workers = [by_hand(yard, replica) for replica in REPLICAS[1:]]
        said = yard.said("exec", JOB, REPLICAS[0], "--", *TRAIN, seconds=120)
        for worker in workers:
            answer, _ = worker.communicate(timeout=60)
            assert worker.returncode == 0, answer
            said += answer
        assert_one_model(said)
        standing = yard.job(JOB)["status"]
        assert (standing["phase"], standing["ready"], standing["restarts"]) == ("Running", "3/3", 0)


def by_hand(yard: Yard, replica: str) -> subprocess.Popen[Any]:
    """The program, started in a replica as from a terminal of one's own."""
    return subprocess.Popen(
        yard.person.jobyard("exec", JOB, replica, "--", *TRAIN),
        cwd=yard.person.work,
        env=yard.person.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
