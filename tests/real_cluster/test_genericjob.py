"""GenericJob on a real cluster: success, failure, pause and resume in the middle."""

import pytest

from real_cluster.place import Place


@pytest.mark.shows("GenericJob", "allreduce.yaml: succeeds")
def test_four_ranks_add_up_around_a_ring(jobs: Place) -> None:
    name = jobs.apply("genericjob/allreduce.yaml")
    status = jobs.becomes(name, "Succeeded")["status"]
    assert status["aggregate"]["succeeded"] == 4
    for rank in range(4):
        said = jobs.logs(f"generic-allreduce-worker-{rank}")
        assert f"rank {rank}: the sum is right, checked against all 4 vectors" in said


@pytest.mark.shows("GenericJob", "ring.yaml: succeeds")
def test_a_token_goes_round_over_services(jobs: Place) -> None:
    name = jobs.apply("genericjob/ring.yaml")
    jobs.becomes(name, "Succeeded")
    said = jobs.logs("generic-ring-worker-0")
    assert said[0] == "the token made 12 hops, sum 18: the ring holds", said


@pytest.mark.shows("GenericJob", "master-worker.yaml: a worker dies, succeeds")
def test_a_master_gets_its_work_done_without_one_of_its_workers(jobs: Place) -> None:
    name = jobs.apply("genericjob/master-worker.yaml")
    status = jobs.becomes(name, "Succeeded")["status"]
    assert "17984 primes below 200000" in jobs.logs("generic-master-worker-master-0")[-1]
    (workers,) = (task["status"] for task in status["tasks"] if task["type"] == "worker")
    assert workers[2]["containers"][0]["exitCode"] == 9, jobs.about(name)


@pytest.mark.shows("GenericJob", "failure.yaml: fails by a rule")
def test_a_rule_fails_the_job_and_the_other_worker_is_cleaned_up(jobs: Place) -> None:
    name = jobs.apply("genericjob/failure.yaml")
    status = jobs.becomes(name, "Failed")["status"]
    (failed,) = (each for each in status["conditions"] if each["type"] == "Failed")
    assert failed["status"] == "True"
    assert failed["message"] == 'The job is failed with rule: { "worker": [0] }'
    rows = status["tasks"][0]["status"]
    assert rows[0]["containers"][0]["exitCode"] == 5
    jobs.until(
        "only the failed worker is kept",
        lambda: jobs.pods(name) == ["generic-failure-worker-0"],
        name,
    )


@pytest.mark.shows("GenericJob", "checkpoint.yaml: paused, resumed, succeeds")
def test_a_job_goes_on_after_a_pause_where_it_was(jobs: Place) -> None:
    name, pod = jobs.apply("genericjob/checkpoint.yaml"), "generic-checkpoint-trainer-0"
    jobs.until("step 3 is done", lambda: "step 3 of 20" in jobs.logs(pod), name)
    jobs.set_paused(name, True)
    jobs.becomes(name, "Paused")
    jobs.until("no pod is left", lambda: jobs.pods(name) == [], name)
    jobs.set_paused(name, False)
    status = jobs.becomes(name, "Succeeded")["status"]
    assert status["pauseCount"] == 1
    said = jobs.logs(pod)
    started = int(said[0].removeprefix("starting after step "))
    assert 3 <= started < 20
    assert said[1:] == [f"step {step} of 20" for step in range(started + 1, 21)]
