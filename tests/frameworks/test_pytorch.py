"""PyTorchTrainingJob with real PyTorch: DDP by environment, torchrun, elastic, TensorBoard.

What each run must show is a function of the run. The last tests put a fault in what Jobyard tells
the replicas, and the same function must notice.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import yaml
from rig.engine import JOBS, RunningEngine
from rig.places import ROOT

from frameworks.yard import BOUNDED, DEADLINE_SECONDS, FAULTS, Ran, Yard

DDP = "pytorchtrainingjob/ddp.yaml"
TORCHRUN = "pytorchtrainingjob/torchrun.yaml"
PS = "pytorchtrainingjob/ps-torch.yaml"


def assert_ddp_trained(ran: Ran) -> None:
    assert ran.code == 0, ran.text
    told = {
        replica: re.findall(
            r"rank (\d) of 4: loss (\S+) -> (\S+), equal weights on all ranks, norm (\S+)",
            "\n".join(ran.lines(replica)),
        )
        for replica in ("worker-0", "worker-1", "worker-2", "worker-3")
    }
    assert [[row[0] for row in rows] for rows in told.values()] == [["0"], ["1"], ["2"], ["3"]]
    ((first, last, norm),) = {row[1:] for rows in told.values() for row in rows}
    assert float(last) < 0.02 < 0.1 < float(first)
    assert float(norm) > 0
    losses = [float(loss) for loss in re.findall(r"step \d+: loss (\S+) over 4 ranks", ran.out)]
    assert len(losses) == 5
    assert losses == sorted(losses, reverse=True)


def assert_torchrun_trained(ran: Ran) -> None:
    assert ran.code == 0, ran.text
    told = re.findall(
        r"(node-\d) \| rank (\d) of 4 on pytorch-torchrun-(node-\d): loss (\S+) -> (\S+),"
        r" w=(\S+) b=(\S+), equal on all ranks",
        ran.out,
    )
    assert sorted(row[:3] for row in told) == [
        ("node-0", "0", "node-0"),
        ("node-0", "1", "node-0"),
        ("node-1", "2", "node-1"),
        ("node-1", "3", "node-1"),
    ], ran.text
    ((first, last, weight, bias),) = {row[3:] for row in told}
    assert float(last) < 0.001 < 1 < float(first)
    assert (round(float(weight), 1), round(float(bias), 1)) == (3, -1)


def assert_parameters_served(ran: Ran) -> None:
    assert ran.code == 0, ran.text
    (served,) = ran.lines("ps-0")
    weights, updates = served.removeprefix("rank 0 is the parameter server: weights ").split(
        " after updates "
    )
    assert [round(weight) for weight in json.loads(weights)] == [1, -2, 3, -4]
    assert updates == "{1: 60, 2: 60, 3: 60}"
    for rank in (1, 2, 3):
        (worked,) = ran.lines(f"worker-{rank - 1}")
        assert worked.startswith(f"rank {rank} of 4: loss "), ran.text


@pytest.mark.proves("torch", "PyTorchTrainingJob", "DDP by environment")
def test_four_ranks_train_one_model(yard: Yard) -> None:
    assert_ddp_trained(yard.run(DDP))


@pytest.mark.proves("torch", "PyTorchTrainingJob", "DDP by environment, ordinary user")
def test_four_ranks_of_an_ordinary_user_train_one_model(ordinary_yard: Yard) -> None:
    assert_ddp_trained(ordinary_yard.run(DDP))


@pytest.mark.proves("torch", "PyTorchTrainingJob", "torchrun, 2 x 2 processes")
def test_torchrun_trains_over_two_replicas(yard: Yard) -> None:
    assert_torchrun_trained(yard.run(TORCHRUN))


@pytest.mark.proves("torch", "PyTorchTrainingJob", "torchrun, in the older spelling")
def test_torchrun_in_the_older_spelling_with_zeros_as_go_writes_them(yard: Yard) -> None:
    program, job = yaml.safe_load_all((ROOT / "examples" / TORCHRUN).read_text())
    config = job["spec"]["torchrunConfig"]
    del config["enabled"]
    config |= {"enable": True, "rdzvBackend": "", "minNodes": 0, "maxRestarts": None}
    job["spec"]["elastic"] = {"enable": False, "minReplicas": 0, "expectedReplicas": 0}
    path = yard.person.write("older.yaml", yaml.safe_dump_all([program, job]))
    assert_torchrun_trained(yard.run(str(path)))


@pytest.mark.proves("torch", "PyTorchTrainingJob", "a parameter server as rank 0")
def test_the_parameter_server_is_rank_0(yard: Yard) -> None:
    assert_parameters_served(yard.run(PS))


# Elastic.

ELASTIC = "ptj/pytorch-elastic"
SCALE = f"{JOBS}/namespaces/default/pytorchtrainingjobs/pytorch-elastic/scale"


@contextmanager
def following(yard: Yard, job: str) -> Iterator[Iterator[str]]:
    """The lines of a job's log as they come, until it ends or the deadline has passed."""
    process = yard.person.start("logs", "-f", job)
    assert process.stdout is not None
    ends = threading.Timer(DEADLINE_SECONDS, process.terminate)
    ends.start()
    try:
        yield iter(process.stdout)
    finally:
        ends.cancel()
        process.terminate()
        process.communicate(timeout=30)


def until_said(lines: Iterator[str], pattern: str) -> list[str]:
    """Reads on to a line with the pattern; what was read."""
    seen = []
    for line in lines:
        seen.append(line)
        if re.search(pattern, line):
            return seen
    raise AssertionError(f"nobody said {pattern}:\n{''.join(seen)}")


def pods(yard: Yard, job: str) -> dict[str, str]:
    """The uid of each pod by the replica's name."""
    found = json.loads(yard.said("get", "pods", "-o", "json"))["items"]
    prefix = f"{job}-"
    return {
        each["metadata"]["name"].removeprefix(prefix): each["metadata"]["uid"] for each in found
    }


def groups(lines: list[str], rank: int) -> list[tuple[int, int]]:
    """The groups that a rank was in: how many ranks there were, and after which step."""
    pattern = rf"rank {rank} of (\d) goes on after step (\d+)"
    return [(int(size), int(step)) for size, step in re.findall(pattern, "".join(lines))]


@pytest.mark.proves("torch", "PyTorchTrainingJob", "elastic, 1 to 3 to 2 replicas")
def test_an_elastic_training_grows_and_shrinks_and_goes_on(yard: Yard) -> None:
    with yard.engine():
        yard.apply("pytorchtrainingjob/elastic.yaml")
        engine = RunningEngine(yard.person, yard.person.home / "jobyard" / "engine")
        with following(yard, ELASTIC) as lines:
            alone = until_said(lines, r"step 1 of 400 with 1 ranks")
            one = pods(yard, "pytorch-elastic")
            yard.said("scale", ELASTIC, "3")
            grown = until_said(lines, r"step \d+ of 400 with 3 ranks")
            three = pods(yard, "pytorch-elastic")
            # The way that `kubectl scale` takes.
            merge = "application/merge-patch+json"
            answer = engine.ask("PATCH", SCALE, {"spec": {"replicas": 2}}, content_type=merge)
            assert answer.status == 200, answer.text
            shrunk = until_said(lines, r"step \d+ of 400 with 2 ranks")
            two = yard.until(
                "worker-2 is gone",
                lambda: "worker-2" not in (left := pods(yard, "pytorch-elastic")) and left,
            )
            yard.said("exec", ELASTIC, "worker-0", "--", "touch", "/checkpoint/stop")
            rest = list(lines)
        yard.said("wait", ELASTIC, "--timeout", "60s")
        status = yard.job(ELASTIC)["status"]

    log = alone + grown + shrunk + rest
    # Of the newcomers one may be in a group of two before the other comes.
    sizes = [size for size, _ in groups(log, 0)]
    assert (sizes[0], sizes[-1]) == (1, 2), sizes
    assert 3 in sizes
    steps = [step for _, step in groups(log, 0)]
    assert steps[0] == 0
    # Two in a row may go on from the same step, if the first of them was joined before it did one.
    assert steps == sorted(steps), f"a group did not go on from the one before: {steps}"
    told = re.findall(r"\| step (\d+) of 400 with (\d) ranks", "".join(log))
    worked = {(int(size), int(step) - 1) for step, size in told} & set(groups(log, 0))
    assert {1, 2, 3} == {size for size, _ in worked}
    for size, step in worked:
        # Where a step was done, all were there, and newcomers with the state of those who stayed.
        assert all((size, step) in groups(log, rank) for rank in range(size)), (size, step)
    done = [int(step) for step, _ in told]
    assert done == sorted(set(done)), f"a step was done twice: {done}"
    # Each has compared its weights with those of one process that did as many steps in one go.
    equal = r"rank (\d) of 2 ends after step (\d+), weights equal, as of one process"
    ends = re.findall(equal, "".join(rest))
    assert {rank for rank, _ in ends} == {"0", "1"}
    assert len({step for _, step in ends}) == 1
    # Nobody who stayed was replaced or started again.
    assert one["worker-0"] == three["worker-0"] == two["worker-0"]
    assert set(three) == {"worker-0", "worker-1", "worker-2"}
    assert {name: three[name] for name in ("worker-0", "worker-1")} == two
    assert (status["phase"], status["restarts"]) == ("Succeeded", 0)


# TensorBoard.


@pytest.mark.proves("tensorboard", "PyTorchTrainingJob", "TensorBoard beside the job")
def test_tensorboard_serves_the_scalars_of_the_run(yard: Yard) -> None:
    job, board = "ptj/pytorch-scalars", "pytorch-scalars-tensorboard"

    def served(tag: str) -> list[list[float]]:
        """Time, step and value of each point, by the service's name; nothing yet: none."""
        url = f"http://{board}:6006/data/plugin/scalars/scalars?run=.&tag={tag}"
        script = f"import urllib.request as u; print(u.urlopen('{url}').read().decode())"
        said = yard.person.ask("exec", job, board, "--", "python3", "-c", script)
        points: list[list[float]] = json.loads(said.stdout) if said.returncode == 0 else []
        return points

    with yard.engine():
        yard.apply("pytorchtrainingjob/tensorboard-torch.yaml")
        yard.said("wait", job, "--timeout", "240s", seconds=270)
        (trained,) = re.findall(
            r"the loss went from (\S+) to (\S+)", yard.said("logs", job, "--replica", "worker-0")
        )
        yard.until("a page", lambda: yard.job(job)["status"]["tensorboard"]["ready"])
        # What has been read of the file is served while the rest is being read.
        losses = yard.until("50 losses", lambda: len(p := served("loss")) == 50 and p)
        rates = yard.until("50 rates", lambda: len(p := served("learning%20rate")) == 50 and p)
    assert [step for _, step, _ in losses] == list(range(1, 51))
    assert [losses[0][2], losses[-1][2]] == pytest.approx([float(x) for x in trained], abs=1e-6)
    assert [value for _, _, value in rates] == pytest.approx([0.2] * 25 + [0.1] * 25)


# Modes that need torchrun; the others are in test_torch_modes.py.


@pytest.mark.proves("torch", "PyTorchTrainingJob", "torchrun, paused and resumed")
def test_torchrun_resumes_with_the_args_for_it(yard: Yard) -> None:
    job = "ptj/pytorch-torchrun-pause"
    with yard.engine():
        yard.apply("pytorchtrainingjob/torchrun-pause.yaml")
        yard.said("wait", job, "--for", "paused", "--timeout", "60s")
        assert pods(yard, "pytorch-torchrun-pause") == {}
        yard.said("resume", job)
        yard.said("wait", job, "--timeout", "240s", seconds=270)
        said = re.findall(r"rank (\d) of 2: (\w+)", yard.said("logs", job))
    assert sorted(said) == [("0", "resumed"), ("1", "resumed")]


def by_hand() -> str:
    """The command that debug.yaml tells to try."""
    comment = (ROOT / "examples/pytorchtrainingjob/debug.yaml").read_text()
    found = re.search(r"^#   (torchrun (?:.*\\\n)*.*)$", comment, re.MULTILINE)
    assert found is not None
    return re.sub(r"\\\n#", "", found[1])


@pytest.mark.proves("torch", "PyTorchTrainingJob", "debug, torchrun by hand")
def test_torchrun_is_started_by_hand(yard: Yard) -> None:
    job = "ptj/pytorch-debug"

    def started(replica: str) -> str:
        words = ("exec", job, replica, "--", "sh", "-c", by_hand())
        return yard.said(*words, seconds=DEADLINE_SECONDS)

    with yard.engine():
        yard.apply("pytorchtrainingjob/debug.yaml")
        yard.said("wait", job, "--for", "running", "--timeout", "60s")
        with ThreadPoolExecutor() as both:
            told = list(both.map(started, ("worker-0", "worker-1")))
        assert sorted(told) == ["this is rank 0 of 2\n", "this is rank 1 of 2\n"]
        assert yard.job(job)["status"]["ready"] == "2/2"


# With something wrong in what the replicas are told, none of the above may hold.


@pytest.mark.sample(*FAULTS)
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        pytest.param(
            {"env": {"RANK": "0", "WORLD_SIZE": "1"}}, "1 ranks, not 4", id="each is a world alone"
        ),
        pytest.param({"env": {"MASTER_ADDR": None}}, "MASTER_ADDR expected", id="no master"),
    ],
)
def test_a_wrong_environment_is_noticed(yard: Yard, fault: dict[str, Any], words: str) -> None:
    ran = yard.run(DDP, *BOUNDED, broken=fault)
    assert words in ran.out
    with pytest.raises(AssertionError):
        assert_ddp_trained(ran)


@pytest.mark.sample(*FAULTS)
def test_a_wrong_meeting_point_of_torchrun_is_noticed(yard: Yard) -> None:
    """Each replica waits for the other at a place of its own."""
    right = "pytorch-torchrun-node-0.pytorch-torchrun:23456"
    soon = 'spec.torchrunConfig.extraOptions=["--rdzv_conf", "join_timeout=4"]'
    flags = ("--set", soon, "--set", "spec.runPolicy.backoffLimit=0", *BOUNDED)
    ran = yard.run(TORCHRUN, *flags, broken={"replace": {right: "localhost:23456"}})
    assert "RendezvousTimeoutError" in ran.out
    with pytest.raises(AssertionError):
        assert_torchrun_trained(ran)
