"""Failures that follow from one another: what counts, what doesn't, and who was first."""

from __future__ import annotations

import pytest
from rig.job_manifests import deepspeed, elastic_pytorch, generic, pytorch, xgboost

from plan.deciding.job_world import World

WORKERS = [f"job-worker-{n}" for n in range(8)]


def workers(count: int = 8, policy: str = "OnFailure", limit: int | None = None) -> World:
    policies = {} if limit is None else {"runPolicy": {"backoffLimit": limit}}
    return World(pytorch({"worker": count}, policy=policy, **policies)).started()


@pytest.mark.parametrize("policy", ["OnFailure", "ExitCode", "Never", "Always"])
def test_what_follows_from_a_loss_uses_up_nothing(policy: str) -> None:
    world = workers(policy=policy)
    world.take_away("job-worker-1")
    world.settle()
    for name in WORKERS:
        if name != "job-worker-1":
            world.wait(0.1)
            world.end(name, 1)
            world.settle()
    world.go_on()
    assert (world.status.phase, world.status.restarts) == ("Running", 0)
    assert world.status.ready == "8/8"
    assert world.status.recovery is None


def test_a_loss_that_is_seen_with_its_followers_explains_them() -> None:
    world = workers(limit=0)
    world.take_away("job-worker-1")
    world.wait(1)
    for name in WORKERS[2:]:
        world.end(name, 1)
    world.go_on()
    assert (world.status.phase, world.status.restarts) == ("Running", 0)


def test_a_pod_that_is_gone_without_a_word_explains_what_is_found_with_it() -> None:
    world = workers(limit=0)
    del world.pods["job-worker-3"]
    world.end("job-worker-0", 1)
    world.wait(60)
    world.go_on()
    assert (world.status.phase, world.status.restarts) == ("Running", 0)


def test_what_failed_before_a_loss_counts() -> None:
    world = workers(limit=0)
    world.end("job-worker-2", 1)
    world.wait(60)
    world.take_away("job-worker-1")
    world.settle()
    assert world.status.phase == "Failed"


def test_after_all_run_again_a_loss_explains_nothing_more() -> None:
    world = workers(limit=0)
    world.take_away("job-worker-1")
    world.go_on()
    world.end("job-worker-2", 1)
    world.settle()
    assert world.status.phase == "Failed"


def test_a_drained_worker_of_a_deepspeed_job_without_restarts_is_no_failure() -> None:
    world = World(deepspeed(3, runPolicy={"backoffLimit": 0})).started()
    world.take_away("job-worker-1")
    world.settle()
    world.end("job-worker-0", 1)
    world.go_on()
    assert (world.status.phase, world.status.restarts) == ("Running", 0)


def test_a_burst_uses_up_one_restart() -> None:
    world = workers(limit=1)
    for number, name in enumerate(WORKERS):
        world.end(name, 137 if number == 0 else 1)
        world.settle()
        world.wait(0.1)
    assert (world.status.phase, world.status.restarts) == ("Running", 1)
    world.go_on()
    assert {row.restart_count for row in world.rows.values()} == {1}
    assert [task.restart_count for task in world.status.tasks] == [8]
    assert (world.status.attempt, world.status.recovery) == (1, None)
    world.end("job-worker-5", 1)
    world.settle()
    assert world.status.phase == "Failed"


def test_a_replica_that_fails_again_while_others_come_back_counts_again() -> None:
    world = workers(2, limit=2)
    world.end("job-worker-0", 1)
    for attempt in (1, 2):
        world.settle()
        world.wait(301)
        world.settle()
        world.reap()
        world.settle()
        assert world.status.restarts == attempt
        world.run("job-worker-0")
        world.end("job-worker-0", 1)
    world.settle()
    assert world.status.phase == "Failed"


def test_exit_code_looks_at_the_first_failure() -> None:
    world = workers(policy="ExitCode", limit=1)
    world.end("job-worker-4", 137)
    world.wait(0.5)
    for name in WORKERS[:4]:
        world.end(name, 1)
    world.go_on()
    assert (world.status.phase, world.status.restarts) == ("Running", 1)


def test_exit_code_waits_a_moment_for_news_of_an_earlier_failure() -> None:
    """Another node tells of it later."""
    world = workers(3, policy="ExitCode", limit=1)
    world.wait(10)
    world.end("job-worker-0", 1)
    world.settle()
    assert world.status.phase == "Running"
    assert world.events[-1].reason != "ReplicaFailed", "what becomes of it isn't known yet"
    world.now -= 1
    world.end("job-worker-2", 137)
    world.now += 1
    world.settle()
    assert (world.status.phase, world.status.restarts) == ("Running", 1)
    assert world.rows["job-worker-0"].last_failure.follows == "worker-2"
    world.go_on()
    assert world.status.ready == "3/3"


@pytest.mark.parametrize("codes", [(1, 137), (134, 1), (143, 139), (1, 139)])
def test_of_ends_close_together_the_likely_cause_is_the_first(codes: tuple[int, int]) -> None:
    world = workers(2, limit=3)
    for name, code in zip(WORKERS, codes, strict=False):
        world.end(name, code)
        world.wait(2)
    world.settle()
    assert world.rows["job-worker-0"].last_failure.follows == "worker-1"
    assert world.rows["job-worker-1"].last_failure.follows == ""
    (first, second) = [e.message for e in world.events if e.reason == "ReplicaFailed"]
    assert first.startswith("worker-1: ")
    assert "restart 1 of 3" in first
    assert "after worker-1; starts again in 1 s without using up restarts" in second


def test_of_ends_far_apart_the_earlier_is_the_first() -> None:
    """However likely a cause the later one is: no clock is so wrong."""
    world = workers(2, limit=3)
    world.end("job-worker-1", 1)
    world.wait(10)
    world.end("job-worker-0", 137)
    world.settle()
    assert world.rows["job-worker-0"].last_failure.follows == "worker-1"
    assert world.rows["job-worker-1"].last_failure.follows == ""


def test_of_ends_that_are_alike_the_lowest_rank_is_the_first() -> None:
    world = workers(3, limit=3)
    for name in ("job-worker-2", "job-worker-1"):
        world.end(name, 1)
    world.settle()
    assert world.rows["job-worker-1"].last_failure.follows == ""
    assert world.rows["job-worker-2"].last_failure.follows == "worker-1"


def test_followers_of_a_failure_that_is_final_are_not_started_later() -> None:
    """By itself the one that a launcher ended would be restarted; the first says that none is."""
    manifest = elastic_pytorch(1, 3, 5)
    manifest["spec"]["replicaSpecs"][0]["restartPolicy"] = "ExitCode"
    world = World(manifest).started()
    world.end("job-worker-1", 1)
    world.wait(1)
    world.end("job-worker-2", 143)
    world.settle()
    for _ in range(3):
        world.wait(10)
        world.settle()
        assert (world.status.phase, world.status.restarts) == ("Running", 0)
        assert world.rows["job-worker-2"].last_failure.follows == "worker-1"
        assert {world.rows[name].restart_count for name in WORKERS[1:3]} == {0}


def test_replicas_of_a_generic_job_are_strangers() -> None:
    world = World(generic({"worker": 3}, {"policy": "OnFailure", "limit": 0})).started()
    world.take_away("job-worker-1")
    world.settle()
    world.end("job-worker-0", 1)
    world.settle()
    assert world.status.phase == "Failed"


def test_a_restart_is_not_forgotten_when_the_status_is() -> None:
    world = World(xgboost(3)).started()
    world.end("job-worker-0", 1)
    world.go_on()
    world.status = None
    world.settle()
    assert (world.status.restarts, world.status.attempt) == (1, 1)
