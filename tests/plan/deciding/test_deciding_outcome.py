"""What the ends of replicas mean for a job: the rules of every kind."""

from __future__ import annotations

from typing import Any

import pytest
from rig.job_manifests import (
    colossalai,
    deepspeed,
    elastic_deepspeed,
    elastic_pytorch,
    generic,
    mpi,
    pytorch,
    tensorflow,
    xgboost,
)

from plan.deciding.job_world import World

SUCCEEDED = "The job has finished successfully."
FAILED = "The job exited with an error code."


def ended(manifest: dict[str, Any], ends: dict[str, int]) -> World:
    """The job once these replicas have ended, all seen at once."""
    world = World(manifest).started()
    for name, code in ends.items():
        world.end(f"job-{name}", code)
    world.settle()
    return world


def verdict(world: World) -> tuple[str, str]:
    """The phase, and the message of whichever of Completed and Failed holds."""
    phase = str(world.status.phase)
    if phase == "Running":
        assert world.condition("Completed") == ("False", "-", "The job has not ended.")
        assert world.condition("Failed") == ("False", "-", "The job has not ended.")
        return phase, ""
    running, completed, failed = map(world.condition, ("Running", "Completed", "Failed"))
    assert running[:2] == ("False", phase)
    assert completed[:2] == (str(phase == "Succeeded"), phase)
    assert failed[0] == str(phase == "Failed")
    return phase, (completed if phase == "Succeeded" else failed)[2]


TWO_TYPES = {"master": 3, "worker": 2}
PAIR = {"master": [2], "worker": [0, 1]}
PAIR_TEXT = 'The job is failed with rule: { "master": [2], "worker": [0, 1] }'


@pytest.mark.parametrize(
    ("spec", "ends", "want"),
    [
        pytest.param({}, {"worker-0": 0}, ("Running", ""), id="by default one success is too few"),
        pytest.param(
            {},
            {"master-0": 0, "master-1": 0, "master-2": 0, "worker-0": 0, "worker-1": 0},
            ("Succeeded", SUCCEEDED),
            id="by default all must succeed",
        ),
        pytest.param(
            {},
            {"worker-1": 1},
            ("Failed", 'The job is failed with rule: { "worker": [1] }'),
            id="by default any failure fails",
        ),
        pytest.param(
            {},
            {"worker-1": 1, "master-2": 1},
            ("Failed", 'The job is failed with rule: { "master": [2] }'),
            id="by default the first that failed is named",
        ),
        pytest.param(
            {"successRules": [{"worker": [0]}]},
            {"worker-0": 0},
            ("Succeeded", SUCCEEDED),
            id="one success rule that holds is enough",
        ),
        pytest.param(
            {"successRules": [{"worker": [0]}, {"master": [0, 1]}]},
            {"master-0": 0, "master-1": 0},
            ("Succeeded", SUCCEEDED),
            id="the second of two success rules",
        ),
        pytest.param(
            {"successRules": [{"worker": [0], "master": [0]}]},
            {"worker-0": 0},
            ("Running", ""),
            id="half a success rule is nothing",
        ),
        pytest.param(
            {"failureRules": [PAIR]},
            {"worker-0": 1, "worker-1": 1},
            ("Failed", "No rule for success can be met any more: worker-0 failed."),
            id="half a failure rule, but no success can be met any more",
        ),
        pytest.param(
            {"failureRules": [{"worker": [1, 0], "master": [2]}]},
            {"worker-0": 1, "worker-1": 1, "master-2": 1},
            ("Failed", 'The job is failed with rule: { "master": [2], "worker": [1, 0] }'),
            id="keys are sorted and ranks as written",
        ),
        pytest.param(
            {"failureRules": [PAIR]},
            {"worker-0": 1, "worker-1": 1, "master-2": 1},
            ("Failed", PAIR_TEXT),
            id="a whole failure rule",
        ),
        pytest.param(
            {"failureRules": [PAIR], "successRules": [{"worker": [0]}]},
            {"master-0": 1},
            ("Running", ""),
            id="a failure that no rule names goes on",
        ),
        pytest.param(
            {"failureRules": [{"worker": [1]}], "successRules": [{"worker": [0]}]},
            {"worker-0": 0, "worker-1": 1},
            ("Succeeded", SUCCEEDED),
            id="success wins",
        ),
        pytest.param(
            {"failureRules": [PAIR]},
            {"master-0": 1, "master-1": 0, "master-2": 0, "worker-0": 0, "worker-1": 0},
            ("Failed", "Every replica has ended, and no rule of the job says what that means."),
            id="all ended and no rule holds",
        ),
    ],
)
def test_a_generic_job_ends_by_its_rules(
    spec: dict[str, Any], ends: dict[str, int], want: tuple[str, str]
) -> None:
    assert verdict(ended(generic(TWO_TYPES, **spec), ends)) == want


def test_a_rule_that_is_met_before_all_have_started_ends_the_job_at_once() -> None:
    world = World(generic(successRules=[{"worker": [0]}]))
    world.settle()
    world.run("job-worker-0")
    world.settle()
    assert world.status.phase == "Pending"
    world.end("job-worker-0", 0)
    world.settle()
    assert world.status.phase == "Succeeded"


def test_a_replica_that_may_start_again_has_not_failed_for_good() -> None:
    world = ended(generic(restart={"policy": "OnFailure", "limit": 1}), {"worker-0": 1})
    assert verdict(world) == ("Running", "")


NEVER = "Never"
CHIEF = {"chief": 1, "worker": 2}
WITH_PS = {"chief": 1, "worker": 2, "ps": 1, "evaluator": 1}
WITHOUT_CHIEF = {"worker": 2, "ps": 1}


@pytest.mark.parametrize(
    ("manifest", "ends", "phase"),
    [
        pytest.param(pytorch(), {"master-0": 0}, "Succeeded", id="PyTorch: the master decides"),
        pytest.param(
            pytorch(), {"worker-0": 0, "worker-1": 0}, "Running", id="PyTorch: workers don't"
        ),
        pytest.param(pytorch(policy=NEVER), {"master-0": 1}, "Failed", id="PyTorch: master failed"),
        pytest.param(pytorch(policy=NEVER), {"worker-1": 1}, "Failed", id="PyTorch: worker failed"),
        pytest.param(
            pytorch(policy=NEVER),
            {"master-0": 0, "worker-1": 1},
            "Succeeded",
            id="PyTorch: the master's success wins",
        ),
        pytest.param(
            pytorch({"ps": 1, "worker": 1}),
            {"ps-0": 0},
            "Succeeded",
            id="PyTorch: rank 0 is the first of the first type",
        ),
        pytest.param(pytorch(policy="OnFailure"), {"master-0": 1}, "Running", id="PyTorch: again"),
        pytest.param(tensorflow(CHIEF), {"chief-0": 0}, "Succeeded", id="TF: the chief decides"),
        pytest.param(tensorflow(CHIEF), {"worker-0": 0}, "Running", id="TF: not worker 0 then"),
        pytest.param(
            tensorflow(WITHOUT_CHIEF), {"worker-0": 0}, "Succeeded", id="TF: else worker 0"
        ),
        pytest.param(tensorflow(WITHOUT_CHIEF), {"worker-1": 0}, "Running", id="TF: not worker 1"),
        pytest.param(
            tensorflow(CHIEF, NEVER), {"chief-0": 1}, "Failed", id="TF: the chief failed for good"
        ),
        pytest.param(
            tensorflow(CHIEF, NEVER), {"worker-1": 1}, "Failed", id="TF: a worker without ps"
        ),
        pytest.param(
            tensorflow(WITH_PS, NEVER), {"worker-1": 1}, "Running", id="TF: a worker with ps"
        ),
        pytest.param(
            tensorflow(WITHOUT_CHIEF, NEVER), {"worker-0": 1}, "Failed", id="TF: the main with ps"
        ),
        pytest.param(
            tensorflow(WITH_PS, NEVER), {"evaluator-0": 1}, "Running", id="TF: an evaluator"
        ),
        pytest.param(
            tensorflow(WITH_PS), {"chief-0": 0}, "Succeeded", id="TF: ps don't hold it up"
        ),
        pytest.param(xgboost(), {"master-0": 0}, "Succeeded", id="XGBoost: the master decides"),
        pytest.param(xgboost(policy=NEVER), {"worker-1": 1}, "Failed", id="XGBoost: a worker"),
        pytest.param(xgboost(policy=NEVER), {"master-0": 1}, "Failed", id="XGBoost: the master"),
        pytest.param(mpi(), {"launcher": 0}, "Succeeded", id="MPI: the launcher decides"),
        pytest.param(mpi(), {"launcher": 1}, "Failed", id="MPI: it failed"),
        pytest.param(mpi(), {"worker-1": 0}, "Failed", id="MPI: sshd ended with 0"),
        pytest.param(mpi(), {"worker-1": 255}, "Failed", id="MPI: sshd ended"),
        pytest.param(
            mpi(), {"worker-1": 0, "launcher": 0}, "Succeeded", id="MPI: success is looked at first"
        ),
        pytest.param(colossalai(), {"launcher": 0}, "Succeeded", id="ColossalAI: the launcher"),
        pytest.param(colossalai(), {"launcher": 137}, "Failed", id="ColossalAI: it failed"),
        pytest.param(colossalai(), {"worker-0": 0}, "Failed", id="ColossalAI: sshd ended with 0"),
        pytest.param(deepspeed(), {"worker-0": 0}, "Succeeded", id="DeepSpeed: worker 0 decides"),
        pytest.param(deepspeed(policy=NEVER), {"worker-0": 1}, "Failed", id="DeepSpeed: it failed"),
        pytest.param(deepspeed(policy=NEVER), {"worker-1": 1}, "Running", id="DeepSpeed: others"),
    ],
)
def test_a_job_ends_as_its_kind_says(
    manifest: dict[str, Any], ends: dict[str, int], phase: str
) -> None:
    world = ended(manifest, ends)
    want = {"Succeeded": SUCCEEDED, "Failed": FAILED, "Running": ""}[phase]
    assert verdict(world) == (phase, want)


def test_a_worker_failed_for_good_beside_ps_shows_as_replica_failure() -> None:
    world = ended(tensorflow(WITH_PS, NEVER), {"worker-1": 1})
    assert world.condition("ReplicaFailure") == (
        "True",
        "ReplicaFailed",
        "worker-1: Error (exit code 1)",
    )


@pytest.mark.parametrize(
    ("failed", "phase"),
    [((1,), "Running"), ((1, 2), "Running"), ((1, 2, 3), "Failed"), ((0,), "Failed")],
    ids=["one of four", "two of four", "fewer than minReplicas left", "the master"],
)
def test_an_elastic_job_goes_on_with_min_replicas(failed: tuple[int, ...], phase: str) -> None:
    manifest = elastic_pytorch(2, 4, 4, runPolicy={"backoffLimit": 0})
    world = ended(manifest, {f"worker-{rank}": 1 for rank in failed})
    assert world.status.phase == phase
    assert world.condition("ReplicaFailure")[0] == "True"


# Launchers: a pod that is lost can't be taken back in.


@pytest.mark.parametrize("manifest", [mpi(3), colossalai(3)], ids=["MPIJob", "ColossalAIJob"])
@pytest.mark.parametrize("how", ["evicted", "deleted", "vanished"])
def test_a_lost_worker_remakes_the_whole_gang(manifest: dict[str, Any], how: str) -> None:
    world = World(manifest).started()
    names = list(world.made)
    if how == "evicted":
        world.take_away("job-worker-1")
    elif how == "deleted":
        world.tell_to_go("job-worker-1")
    else:
        del world.pods["job-worker-1"]
    told = world.settle()
    world.wait(2)
    told += world.settle()
    assert not world.replicas(), "all are told to go"
    assert world.made == names, "no new pod before all old ones are gone"
    world.reap("job-launcher", "job-worker-0", "job-worker-1")
    told += world.settle()
    assert world.made == names
    world.reap()
    told += world.settle()
    assert sorted(world.made[len(names) :]) == sorted(names)
    assert [e.message for e in told if e.reason == "GangRecreated"] == [
        "worker-1 was taken away: all pods are recreated together, without using up restarts."
    ]
    world.run()
    world.settle()
    assert (world.status.phase, world.status.restarts) == ("Running", 0)
    assert {pod.attempt for pod in world.pods.values()} == {0}


def test_a_gang_whose_pods_vanish_all_at_once_is_told_of_too() -> None:
    world = World(mpi()).started()
    world.pods.clear()
    told = world.settle()
    assert [e.reason for e in told] == ["GangRecreated", "CreatedPods"]
    assert sorted(world.pods) == ["job-launcher", "job-worker-0", "job-worker-1"]


def test_a_launcher_that_failed_because_a_worker_was_taken_away_is_no_failure() -> None:
    """Seen together: mpirun fails within a second of losing a worker."""
    world = World(mpi()).started()
    world.take_away("job-worker-1")
    world.wait(1)
    world.end("job-launcher", 1)
    world.settle()
    assert world.status.phase == "Running"
    world.wait(2)
    world.settle()
    world.reap()
    world.settle()
    assert len(world.replicas()) == 3


def test_a_launcher_that_failed_before_a_worker_was_taken_away_is_a_failure() -> None:
    world = World(mpi()).started()
    world.end("job-launcher", 1)
    world.wait(10)
    world.tell_to_go("job-worker-1")
    world.settle()
    assert world.status.phase == "Failed"


# DeepSpeed: the first worker learns the hosts at its start.


def test_an_elastic_change_remakes_worker_0_and_the_host_file_only() -> None:
    world = World(elastic_deepspeed(1, 2, 4)).started()
    before = {pod.name: pod.uid for pod in world.pods.values()}
    kept = {key: child.uid for key, child in world.children.items() if key[0] != "ConfigMap"}
    world.set(elastic__expectedReplicas=3)
    world.settle()
    assert [pod.name for pod in world.pods.values() if pod.is_terminating] == ["job-worker-0"]
    world.reap()
    world.settle()
    after = {pod.name: pod.uid for pod in world.pods.values()}
    assert after["job-worker-1"] == before["job-worker-1"]
    assert after["job-worker-0"] != before["job-worker-0"]
    assert sorted(after) == ["job-worker-0", "job-worker-1", "job-worker-2"]
    assert {k: c.uid for k, c in world.children.items() if k[0] != "ConfigMap"} == kept
    assert (world.status.restarts, world.status.backoff_count) == (0, 0)
    assert "CreatedPods" in [event.reason for event in world.events[-2:]]


def test_a_success_that_comes_with_an_elastic_change_counts() -> None:
    world = World(elastic_deepspeed(1, 2, 4)).started()
    world.end("job-worker-0", 0)
    world.set(elastic__expectedReplicas=3)
    world.settle()
    assert world.status.phase == "Succeeded"


def test_a_failure_that_comes_with_an_elastic_change_is_counted() -> None:
    world = World(elastic_deepspeed(1, 2, 4)).started()
    world.end("job-worker-0", 1)
    world.set(elastic__expectedReplicas=3)
    world.settle()
    assert world.status.restarts == 1
