"""MPIJob on a real cluster: mpirun over ssh from pod to pod."""

import re
from collections import Counter

import pytest

from real_cluster.place import Place

WALKED = re.compile(r"rank (\d+) of 15 on mpi-random-walk-worker-(\d):")


@pytest.mark.shows("MPIJob", "random-walk.yaml: succeeds")
def test_no_walker_is_lost_between_fifteen_ranks_on_five_workers(jobs: Place) -> None:
    name = jobs.apply("mpijob/random-walk.yaml")
    jobs.becomes(name, "Succeeded")
    said = "\n".join(jobs.logs("mpi-random-walk-launcher"))
    ranks = [tuple(map(int, found)) for found in WALKED.findall(said)]
    assert sorted(rank for rank, _ in ranks) == list(range(15)), said
    assert Counter(worker for _, worker in ranks) == dict.fromkeys(range(5), 3), said
    assert "all 30 walkers have arrived, none was lost" in said
    jobs.until(
        "the workers are cleaned up",
        lambda: jobs.pods(name) == ["mpi-random-walk-launcher"],
        name,
    )


@pytest.mark.shows("MPIJob", "hostname.yaml: succeeds")
def test_each_worker_says_its_name_twice(jobs: Place) -> None:
    name = jobs.apply("mpijob/hostname.yaml")
    jobs.becomes(name, "Succeeded")
    said = sorted(line for line in jobs.logs("mpi-hostname-launcher") if "worker" in line)
    assert [line for line in said if line.startswith("mpi-hostname-worker-")] == [
        *["mpi-hostname-worker-0"] * 2,
        *["mpi-hostname-worker-1"] * 2,
    ]


@pytest.mark.shows("MPIJob", "mpi4py.yaml: succeeds")
def test_mpi4py_sums_up_over_all_ranks(jobs: Place) -> None:
    name = jobs.apply("mpijob/mpi4py.yaml")
    jobs.becomes(name, "Succeeded")
    assert "pi = 3.1415926536 by 4 ranks on 2 hosts" in jobs.logs("mpi-mpi4py-launcher")


@pytest.mark.shows("MPIJob", "environment.yaml: succeeds")
def test_environment_and_mca_parameters_reach_every_rank(jobs: Place) -> None:
    name = jobs.apply("mpijob/environment.yaml")
    jobs.becomes(name, "Succeeded")
    said = jobs.logs("mpi-environment-launcher")
    for rank in range(2):
        assert f"rank {rank} of 2 sees NCCL_DEBUG=INFO, btl ^openib, pml ob1" in said


@pytest.mark.shows("MPIJob", "failure.yaml: fails")
def test_a_rank_that_gives_up_fails_the_job(jobs: Place) -> None:
    name = jobs.apply("mpijob/failure.yaml")
    status = jobs.becomes(name, "Failed")["status"]
    (launcher,) = (task["status"][0] for task in status["tasks"] if task["type"] == "launcher")
    assert launcher["containers"][0]["exitCode"] == 3


@pytest.mark.shows("MPIJob", "pause.yaml: paused, resumed, succeeds")
def test_a_paused_job_has_no_pods_and_resumes_with_other_arguments(jobs: Place) -> None:
    name = jobs.apply("mpijob/pause.yaml")
    jobs.becomes(name, "Paused")
    assert jobs.pods(name) == []
    jobs.set_paused(name, False)
    jobs.becomes(name, "Succeeded")
    assert jobs.logs("mpi-pause-launcher").count("resumed") == 2


@pytest.mark.shows("MPIJob", "checkpoint.yaml: paused while it runs, resumed, succeeds")
def test_a_running_job_goes_on_after_a_pause_where_it_was(jobs: Place) -> None:
    name, pod = jobs.apply("mpijob/checkpoint.yaml"), "mpi-checkpoint-launcher"
    jobs.until("three steps are done", lambda: len(steps(jobs.logs(pod))) >= 3, name)
    jobs.set_paused(name, True)
    jobs.becomes(name, "Paused")
    jobs.until("no pod is left", lambda: jobs.pods(name) == [], name)
    jobs.set_paused(name, False)
    assert jobs.becomes(name, "Succeeded")["status"]["pauseCount"] == 1
    said = jobs.logs(pod)
    done = {int(found) for found in re.findall(r"starting after step (\d+)", "\n".join(said))}
    assert len(done) == 1, said
    assert 3 <= min(done) < 80, said
    assert steps(said) == list(range(min(done) + 1, 81))
    assert sum("the total is 9720, as without a pause" in line for line in said) == 2


def steps(said: list[str]) -> list[int]:
    return [int(step) for step in re.findall(r"step (\d+) of 80", "\n".join(said))]
