"""TF_CONFIG, judged by TensorFlow itself: TensorFlowTrainingJob, and GenericJob's variables."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from rig.places import ROOT

from frameworks.yard import BOUNDED, DEADLINE_SECONDS, FAULTS, Ran, Yard

MIRRORED = "tensorflowtrainingjob/mirrored.yaml"
SINGLE = "tensorflowtrainingjob/single.yaml"
PARAMETER_SERVER = "tensorflowtrainingjob/parameter-server-strategy.yaml"
TF_CONFIG = "genericjob/tf-config.yaml"


def assert_mirrored(ran: Ran) -> None:
    """Two workers with half of the rows each end with the weights of one that has them all."""
    assert ran.code == 0, ran.text
    weights = set()
    for index in range(2):
        said = "\n".join(ran.lines(f"worker-{index}"))
        loss = re.search(rf"worker {index} of 2: 32 of 64 rows, loss (\S+) to (\S+)", said)
        assert loss is not None, ran.text
        assert float(loss[2]) < float(loss[1]) / 100
        held = re.search(rf"worker {index} of 2: all hold the weights (.+), as one process", said)
        assert held is not None, ran.text
        weights.add(held[1])
    (learnt,) = weights
    assert [round(float(weight), 1) for weight in learnt.split(",")] == [2, -3, 0.5, 1]


def assert_settled(ran: Ran) -> None:
    """Four workers, each with a number of its own, agree on the mean."""
    assert ran.code == 0, ran.text
    for index in range(4):
        (said,) = (line for line in ran.lines(f"worker-{index}") if line.startswith("worker "))
        words = rf"worker {index} of 4: loss 3\.500 to 1\.250, all hold 1\.5000"
        assert re.fullmatch(words, said), ran.text


@pytest.mark.proves("tensorflow-cpu", "TensorFlowTrainingJob", "MultiWorkerMirroredStrategy")
def test_workers_mirror_their_weights(yard: Yard) -> None:
    assert_mirrored(yard.run(MIRRORED))


@pytest.mark.proves("tensorflow-cpu", "TensorFlowTrainingJob", "debug, started by hand")
def test_workers_are_started_by_hand(yard: Yard) -> None:
    text = (ROOT / "examples" / MIRRORED).read_text()
    debug = "spec:\n  runMode:\n    debug: {enabled: true}\n  runPolicy:\n"
    assert text.count("spec:\n  runPolicy:\n") == 1
    path = yard.person.write("debug.yaml", text.replace("spec:\n  runPolicy:\n", debug))
    job, train = "tftj/tf-mirrored", ("python3", "/program/train.py")

    def started(replica: str) -> str:
        said = yard.said("exec", job, replica, "--", *train, seconds=DEADLINE_SECONDS)
        return "".join(f"{replica} | {line}\n" for line in said.splitlines())

    with yard.engine():
        yard.said("apply", "-f", str(path))
        yard.said("wait", job, "--for", "running", "--timeout", "60s", seconds=90)
        with ThreadPoolExecutor() as both:
            told = both.map(started, ("worker-0", "worker-1"))
        assert_mirrored(Ran(0, "".join(told), ""))
        assert yard.said("logs", job) == "", "the program itself has not been started"
        standing = yard.job(job)["status"]
        assert (standing["phase"], standing["ready"]) == ("Running", "2/2")


@pytest.mark.sample(*FAULTS)
def test_workers_that_take_themselves_for_the_same_are_found_out(yard: Yard) -> None:
    ran = yard.run(MIRRORED, *BOUNDED, broken={"replace": {'"index": 1': '"index": 0'}})
    with pytest.raises(AssertionError):
        assert_mirrored(ran)
    assert "Failed    1" in ran.out, f"a worker ended by itself, before the time was up\n{ran.text}"


@pytest.mark.proves("tensorflow-cpu", "TensorFlowTrainingJob", "ParameterServerStrategy")
def test_a_coordinator_trains_on_workers_with_weights_on_a_parameter_server(yard: Yard) -> None:
    with yard.engine():
        yard.apply(PARAMETER_SERVER)
        yard.said("wait", "tftj/tf-ps", "--timeout", "180s", seconds=200)
        said = yard.said("logs", "tftj/tf-ps")
        assert "the weights live on /job:ps/replica:0/task:0/" in said, said
        taken = dict(re.findall(r"(tf-ps-worker-\d): (\d+)", said))
        assert set(taken) == {"tf-ps-worker-0", "tf-ps-worker-1"}, said
        assert sum(map(int, taken.values())) >= 200
        assert re.search(r"y = (2\.9\d|3\.0\d) x (-1\.0\d|-0\.9\d), loss ", said), said

        # The servers never return: the job has ended them.
        yard.until("servers are deleted", lambda: phases(yard, "ps", "worker") == {"Deleted"})
        assert phases(yard, "chief") == {"Succeeded"}
        assert yard.job("tftj/tf-ps")["status"]["restarts"] == 0
        assert yard.said("get", "pods", "-o", "name").split() == ["pod/tf-ps-chief-0"]


def phases(yard: Yard, *types: str) -> set[str]:
    tasks = yard.job("tftj/tf-ps")["status"]["tasks"]
    return {row["phase"] for task in tasks if task["type"] in types for row in task["status"]}


@pytest.mark.proves("tensorflow-cpu", "TensorFlowTrainingJob", "one replica; paused, resumed")
def test_one_replica_is_plain_tensorflow_also_after_a_pause(yard: Yard) -> None:
    text = (ROOT / "examples" / SINGLE).read_text()
    paused = "spec:\n  runMode:\n    pause: {enabled: true}\n  runPolicy:\n"
    assert text.count("spec:\n  runPolicy:\n") == 1
    path = yard.person.write("paused.yaml", text.replace("spec:\n  runPolicy:\n", paused))
    with yard.engine():
        yard.said("apply", "-f", str(path))
        yard.said("wait", "tftj/tf-single", "--for", "paused", "--timeout", "60s", seconds=90)
        assert yard.said("get", "pods", "-o", "name") == ""
        yard.said("resume", "tftj/tf-single")
        yard.said("wait", "tftj/tf-single", "--timeout", "180s", seconds=200)
        said = yard.said("logs", "tftj/tf-single")
    (line,) = Ran(0, said, "").lines("worker-0")
    told = r"alone: loss \S+ to \S+, at x = 2 it is (4\.[89]|5\.[01])\d"
    assert re.fullmatch(told, line), said


def test_the_tf_config_that_is_tried_is_the_originals() -> None:
    """Word for word; the original says nothing of the service that its variables speak of."""
    original = ROOT / "tests" / "originals" / "genericjob-tf-config.yaml"
    ours, theirs = (tf_config(path) for path in (ROOT / "examples" / TF_CONFIG, original))
    assert ours == theirs
    assert "$(service.worker[3].host):$(service.port[http])" in ours


def tf_config(path: Path) -> str:
    documents = yaml.safe_load_all(path.read_text())
    (job,) = (each for each in documents if each["kind"] == "GenericJob")
    (role,) = job["spec"]["replicaSpecs"]
    (container,) = role["template"]["spec"]["containers"]
    (value,) = (each["value"] for each in container["env"] if each["name"] == "TF_CONFIG")
    assert role["replicas"] == 4
    return str(value)


@pytest.mark.proves("tensorflow-cpu", "GenericJob", "TF_CONFIG by variables")
def test_variables_make_a_tf_config(yard: Yard) -> None:
    assert_settled(yard.run(TF_CONFIG))


@pytest.mark.sample(*FAULTS)
def test_a_rank_outside_of_the_cluster_is_found_out(yard: Yard) -> None:
    ran = yard.run(TF_CONFIG, *BOUNDED, broken={"replace": {'"index":3': '"index":4'}})
    with pytest.raises(AssertionError):
        assert_settled(ran)
    assert "`task_id` 4 exceeds the maximum id of worker" in ran.out, ran.text
