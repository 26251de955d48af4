"""PyTorchTrainingJob on a real cluster: real ranks that sum gradients over the pod network."""

import re
from typing import Any

import pytest

from real_cluster.place import Place

PROVED = re.compile(
    r"rank (\d) of 4 on pytorch-torchrun-node-(\d): loss [^\n]*?, equal on all ranks"
)


@pytest.mark.shows("PyTorchTrainingJob", "ddp.yaml: succeeds")
def test_four_ranks_train_to_equal_weights(jobs: Place) -> None:
    name = jobs.apply("pytorchtrainingjob/ddp.yaml")
    aggregate = jobs.becomes(name, "Succeeded")["status"]["aggregate"]
    # The master's end is the job's: `Unfinished` takes away who is a moment later.
    assert aggregate["failed"] == 0
    assert jobs.logs("pytorch-ddp-worker-0"), jobs.about(name)
    said = [line for line in jobs.all_logs(name) if "equal weights on all ranks" in line]
    # The master has compared all four; each prints the norm of its own: one and the same.
    assert said[0].startswith("rank 0 of 4: "), jobs.about(name)
    assert len({line.rpartition(" ")[2] for line in said}) == 1


@pytest.mark.shows("PyTorchTrainingJob", "torchrun.yaml: succeeds")
def test_torchrun_starts_two_ranks_in_each_of_two_pods(jobs: Place) -> None:
    name = jobs.apply("pytorchtrainingjob/torchrun.yaml")
    jobs.becomes(name, "Succeeded")
    # Two processes share a pod's output, and each writes a line and its end apart: not by lines.
    every = "\n".join(jobs.all_logs(name))
    assert sorted(PROVED.findall(every)) == [(str(rank), str(rank // 2)) for rank in range(4)], (
        every
    )


@pytest.mark.shows("PyTorchTrainingJob", "ps-torch.yaml: succeeds")
def test_the_parameter_server_is_rank_0(jobs: Place) -> None:
    name = jobs.apply("pytorchtrainingjob/ps-torch.yaml")
    jobs.becomes(name, "Succeeded")
    (served,) = jobs.logs("pytorch-ps-torch-ps-0")
    assert served.startswith("rank 0 is the parameter server: weights "), served
    assert served.endswith(" after updates {1: 60, 2: 60, 3: 60}"), served


@pytest.mark.shows("PyTorchTrainingJob", "killed-rank.yaml: one rank comes back, succeeds")
def test_a_killed_rank_comes_back_and_the_others_keep_their_processes(jobs: Place) -> None:
    name = jobs.apply("pytorchtrainingjob/killed-rank.yaml")
    status = jobs.becomes(name, "Succeeded")["status"]
    restarts = [row.get("restartCount", 0) for row in status["tasks"][0]["status"]]
    assert (status["restarts"], restarts) == (1, [0, 0, 1]), jobs.about(name)
    said = jobs.all_logs(name)
    assert any(line.endswith(", the same on all ranks") for line in said), jobs.about(name)


@pytest.mark.shows("PyTorchTrainingJob", "out-of-memory.yaml: fails")
def test_a_rank_out_of_memory_fails_the_job_and_is_named(jobs: Place) -> None:
    name = jobs.apply("pytorchtrainingjob/out-of-memory.yaml")
    jobs.becomes(name, "Failed")

    def failure() -> dict[str, Any] | None:
        """Its partner fails at the same moment, and may be told of first."""
        (task,) = jobs.job(name)["status"]["tasks"]
        failed: dict[str, Any] | None = task["status"][1].get("lastFailure")
        return failed

    found = jobs.until("the rank out of memory is told of", failure, name)
    assert (found["exitCode"], found["reason"]) == (137, "OOMKilled"), jobs.about(name)


@pytest.mark.shows("PyTorchTrainingJob", "elastic.yaml: 1 to 2 replicas, succeeds")
def test_an_elastic_training_grows_and_goes_on(jobs: Place) -> None:
    name, first = jobs.apply("pytorchtrainingjob/elastic.yaml"), "pytorch-elastic-worker-0"

    def said(words: str) -> bool:
        return re.search(words, "\n".join(jobs.logs(first))) is not None

    jobs.until("one rank trains", lambda: said(r"step 1 of 400 with 1 ranks"), name)
    jobs.kubectl("scale", name, "--replicas=2")
    jobs.until("two ranks train", lambda: said(r"step \d+ of 400 with 2 ranks"), name)
    jobs.kubectl("exec", first, "--", "touch", "/checkpoint/stop")
    jobs.becomes(name, "Succeeded")
    groups = re.findall(r"of (\d) goes on after step (\d+)", "\n".join(jobs.logs(first)))
    assert groups[0] == ("1", "0"), groups
    assert groups[-1][0] == "2", groups
    assert int(groups[-1][1]) > 0, groups
    assert said(r"ends after step \d+, weights equal, as of one process"), jobs.about(name)


@pytest.mark.shows("PyTorchTrainingJob", "checkpoint.yaml: paused, resumed, succeeds")
def test_training_goes_on_from_the_checkpoint_after_a_pause(jobs: Place) -> None:
    name = jobs.apply("pytorchtrainingjob/checkpoint.yaml")
    pod = "pytorch-checkpoint-worker-0"

    def has_saved() -> bool:
        return any(line.startswith("step 5 of ") for line in jobs.logs(pod))

    jobs.until("the first checkpoint is there", has_saved, name)
    jobs.set_paused(name, True)
    jobs.becomes(name, "Paused")
    jobs.until("no pod is left", lambda: jobs.pods(name) == [], name)
    jobs.set_paused(name, False)
    jobs.becomes(name, "Succeeded")
    for rank in range(2):
        said = jobs.logs(f"pytorch-checkpoint-worker-{rank}")
        (started,) = (line for line in said if "starting after step" in line)
        assert int(started.rpartition(" ")[2]) >= 5
        assert any(line.startswith(f"rank {rank}: weights ") for line in said)
        assert any(line.endswith("as without a pause") for line in said)
