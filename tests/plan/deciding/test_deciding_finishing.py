"""After the end: what is cleaned up, what stays, when the job itself goes, deadlines."""

from __future__ import annotations

from typing import Any

import pytest
from rig.job_manifests import colossalai, generic, mpi, pytorch, tensorflow, xgboost

from jobyard.plan.moments import text_of
from plan.deciding.job_world import START, World

TENSORBOARD = {"image": "tb", "trainingLogFilesets": ["t9k://pvc/logs/run"]}


def finished(manifest: dict[str, Any], ends: dict[str, int]) -> World:
    world = World(manifest).started()
    for name, code in ends.items():
        world.end(f"job-{name}", code)
    world.settle()
    assert world.status.phase in ("Succeeded", "Failed")
    return world


@pytest.mark.parametrize(
    ("policy", "left"),
    [
        ("None", ["job-master-0", "job-worker-0", "job-worker-1"]),
        ("Unfinished", ["job-master-0", "job-worker-1"]),
        ("All", []),
    ],
)
@pytest.mark.parametrize("code", [0, 1], ids=["success", "failure"])
def test_clean_up_by_policy(policy: str, left: list[str], code: int) -> None:
    manifest = pytorch(policy="Never", runPolicy={"cleanUpPolicy": policy})
    world = finished(manifest, {"master-0": code, "worker-1": 0})
    assert sorted(world.replicas()) == left
    told = [e.message for e in world.events if e.reason == "CleanedUp"]
    assert len(told) == (policy != "None")
    # Services go after the last pod that could use them.
    assert ("Service", "job") in world.children
    world.reap()
    world.settle()
    assert (("Service", "job") in world.children) == (policy == "None")
    assert sorted(world.pods) == left
    assert world.rows["job-worker-0"].phase == ("Running" if policy == "None" else "Deleted")
    assert world.rows["job-worker-1"].phase == "Succeeded"


@pytest.mark.parametrize("policy", ["None", "Unfinished", "All"])
def test_clean_up_of_a_generic_job(policy: str) -> None:
    service = {"ports": [{"name": "http", "port": 80}]}
    manifest = generic(cleanUpPolicy=policy, service=service)
    world = finished(manifest, {"worker-1": 1})
    left = {"None": ["job-worker-0", "job-worker-1"], "Unfinished": ["job-worker-1"], "All": []}
    assert sorted(world.replicas()) == left[policy]
    assert len(world.children) == 2
    world.reap()
    world.settle()
    assert len(world.children) == (2 if policy == "None" else 0)


def test_parameter_servers_go_as_unfinished() -> None:
    policy = {"cleanUpPolicy": "Unfinished"}
    manifest = tensorflow({"worker": 1, "ps": 2}, runPolicy=policy)
    world = finished(manifest, {"worker-0": 0})
    assert world.replicas() == ["job-worker-0"]


@pytest.mark.parametrize("make", [mpi, colossalai])
@pytest.mark.parametrize("is_wanted", [True, False])
def test_clean_up_of_workers_leaves_the_launcher(make: Any, is_wanted: bool) -> None:
    world = finished(make(runPolicy={"cleanUpWorkers": is_wanted}), {"launcher": 0})
    workers = [] if is_wanted else ["job-worker-0", "job-worker-1"]
    assert sorted(world.replicas()) == ["job-launcher", *workers]
    world.reap()
    world.settle()
    assert bool(world.children) == (not is_wanted)


def test_tensorboard_stays_and_is_kept_up_after_the_end() -> None:
    manifest = pytorch(runPolicy={"cleanUpPolicy": "All"}, tensorboardSpec=TENSORBOARD)
    world = finished(manifest, {"master-0": 0})
    world.reap()
    world.settle()
    assert sorted(world.children) == [("Pod", "job-tensorboard"), ("Service", "job-tensorboard")]
    del world.children["Pod", "job-tensorboard"]
    del world.pods["job-tensorboard"]
    world.settle()
    assert ("Pod", "job-tensorboard") in world.children
    assert world.status.phase == "Succeeded"


def test_tensorboard_holds_nothing_up_and_fails_nothing() -> None:
    world = World(pytorch(tensorboardSpec=TENSORBOARD)).started()
    assert world.status.phase == "Running"
    assert world.status.replicas == 3
    assert not world.status.tensorboard.ready
    world._update("job-tensorboard", is_ready=True)
    world.settle()
    assert world.status.tensorboard.ready
    world.end("job-tensorboard", 1)
    world.settle()
    assert world.status.phase == "Running"


def test_the_status_says_that_a_job_has_ended_before_anything_goes() -> None:
    world = World(generic({"worker": 2}, cleanUpPolicy="All")).started()
    world.end("job-worker-0", 1)
    world.step("status")
    assert (world.status.phase, len(world.replicas())) == ("Failed", 2)
    world.settle()
    assert world.replicas() == []


def test_a_clean_up_policy_changed_after_the_end_is_carried_out() -> None:
    world = finished(generic({"worker": 1}), {"worker-0": 0})
    world.description = World(generic({"worker": 1}, cleanUpPolicy="All")).description
    world.settle()
    assert world.replicas() == []
    assert world.status.phase == "Succeeded"


# Time to live.


def test_a_job_goes_when_its_time_to_live_is_over() -> None:
    world = World(generic({"worker": 1}, ttlSecondsAfterFinished=100)).started()
    world.wait(7.5)
    world.end("job-worker-0", 0)
    plan = world.step()
    assert world.status.completion_time == text_of(START + 7)
    assert plan.look_again_at == START + 107
    world.settle()
    assert world.decide().look_again_at == START + 107
    world.now = START + 106.9
    assert not world.decide().ends_job
    world.now = START + 107
    plan = world.decide()
    assert plan.ends_job
    assert plan.events == ()


def test_a_time_to_live_of_0_is_over_at_once() -> None:
    world = World(generic({"worker": 1}, ttlSecondsAfterFinished=0)).started()
    world.end("job-worker-0", 0)
    assert not world.step().ends_job, "the status is written first"
    assert world.decide().ends_job


def test_a_time_to_live_that_is_changed_later_counts_from_the_end() -> None:
    world = World(xgboost(runPolicy={"ttlSecondsAfterFinished": 10})).started()
    world.end("job-master-0", 0)
    world.settle()
    for seconds in (1000, 50):
        policy = {"ttlSecondsAfterFinished": seconds}
        world.description = World(xgboost(runPolicy=policy)).description
        assert world.decide().look_again_at == START + seconds
    world.wait(49)
    assert not world.decide().ends_job
    world.wait(1)
    assert world.decide().ends_job


def test_a_job_without_a_time_to_live_stays() -> None:
    world = finished(generic({"worker": 1}), {"worker-0": 0})
    world.wait(10**8)
    assert world.decide().is_empty


# Deadlines.


def test_a_deadline_is_counted_from_the_first_start() -> None:
    world = World(xgboost(runPolicy={"activeDeadlineSeconds": 100}))
    world.settle()
    world.wait(500)
    world.settle()
    assert world.status.phase == "Pending"
    world.run("job-worker-1")
    world.settle()
    assert world.decide().look_again_at == START + 600
    world.now = START + 600
    world.settle()
    assert world.status.phase == "Failed"
    message = "The job ran longer than its activeDeadlineSeconds of 100 s."
    assert world.condition("Failed") == ("True", "Failed", message)
    assert [(e.reason, e.message) for e in world.events[-1:]] == [("DeadlineExceeded", message)]


def test_success_wins_over_a_deadline_seen_at_the_same_time() -> None:
    world = World(xgboost(runPolicy={"activeDeadlineSeconds": 100})).started()
    world.wait(99)
    world.end("job-master-0", 0)
    world.wait(10)
    world.settle()
    assert world.status.phase == "Succeeded"


def test_a_deadline_given_later_counts_from_the_start_too() -> None:
    world = World(xgboost()).started()
    world.wait(50)
    world.set(runPolicy__activeDeadlineSeconds=60)
    world.settle()
    assert world.decide().look_again_at == START + 60


# Final.


@pytest.mark.parametrize("code", [0, 1])
def test_nothing_that_happens_to_its_pods_changes_a_finished_job(code: int) -> None:
    world = finished(generic({"worker": 3}, successRules=[{"worker": [0]}]), {"worker-0": code})
    before = world.status
    world.end("job-worker-1", 1 - code)
    world.settle()
    world.pods.clear()
    world.settle()
    after = world.status
    assert (after.phase, after.conditions, after.completion_time, after.restarts) == (
        before.phase,
        before.conditions,
        before.completion_time,
        before.restarts,
    )
    assert [str(row.phase) for row in world.rows.values()] == [
        "Succeeded" if code == 0 else "Failed",
        "Failed" if code == 0 else "Succeeded",
        "Deleted",
    ]
