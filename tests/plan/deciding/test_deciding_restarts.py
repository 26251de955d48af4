"""When a replica that ended starts again: policies, limits, delays, and counting that is safe."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from rig.job_manifests import elastic_pytorch, generic, mpi, pytorch, xgboost

from jobyard.api.parts.status import ContainerState
from jobyard.plan.facts.decision import Plan
from jobyard.plan.facts.ends import delay_seconds
from jobyard.plan.facts.pod_facts import Container, PodPhase
from plan.deciding.job_world import STEPS, World

CODES = (0, 1, 2, 126, 127, 128, 130, 137, 138, 139, 143, 255)
RETRYABLE = {130, 137, 138, 143}


def is_restarted(policy: str, code: int) -> bool:
    """The truth table, in the words of the specification."""
    match policy:
        case "Never":
            return False
        case "OnFailure":
            return code != 0
        case "Always":
            return True
        case _:
            return code in RETRYABLE


def fail(world: World, name: str, code: int = 1, **how: Any) -> Plan:
    """The pod fails, and the controller does what it does about it at once."""
    world.end(name, code, **how)
    return world.step()


def restart(world: World, name: str, code: int = 1) -> None:
    """A whole restart: failed, counted, delay waited for, deleted, recreated, running."""
    fail(world, name, code)
    world.wait(301)
    world.settle()
    assert name in world.reap()
    world.settle()
    world.run(name)
    world.settle()


@pytest.mark.parametrize("policy", ["Never", "OnFailure", "Always", "ExitCode"])
@pytest.mark.parametrize("code", CODES)
def test_a_policy_decides_by_exit_code(policy: str, code: int) -> None:
    world = World(xgboost(policy=policy)).started()
    plan = fail(world, "job-worker-0", code)
    want = is_restarted(policy, code)
    if policy == "ExitCode" and code and not want:
        assert world.status.phase == "Running", "another one may have failed before it"
        world.wait(3)
        plan = world.step()
    row = world.rows["job-worker-0"]
    assert (row.restart_count, world.status.restarts) == (int(want), int(want))
    assert world.status.backoff_count == int(want)
    fails = not want and code != 0
    assert world.status.phase == ("Failed" if fails else "Running")
    assert row.phase == ("Succeeded" if code == 0 else "Failed")
    assert not plan.deletes, "the ended pod stays until its delay is over"


@pytest.mark.parametrize("policy", ["Never", "OnFailure", "Always"])
@pytest.mark.parametrize("code", CODES)
def test_a_policy_of_a_generic_job_decides_by_exit_code(policy: str, code: int) -> None:
    world = World(generic({"worker": 2}, {"policy": policy, "limit": 2})).started()
    fail(world, "job-worker-0", code)
    assert world.rows["job-worker-0"].restart_count == int(is_restarted(policy, code))


@pytest.mark.parametrize(
    ("given", "code", "want"),
    [
        pytest.param(None, 1, 0, id="absent is OnFailure without a restart"),
        pytest.param({"policy": "OnFailure"}, 1, 0, id="OnFailure without a limit has none"),
        pytest.param({"policy": "OnFailure", "limit": 1}, 1, 1, id="one restart"),
        pytest.param({"policy": "OnFailure", "limit": 3}, 1, 3, id="three restarts"),
        pytest.param({"policy": "OnFailure", "limit": 3}, 0, 0, id="success needs none"),
        pytest.param({"policy": "Never", "limit": 3}, 1, 0, id="Never has no use for a limit"),
        pytest.param({"policy": "Always", "limit": 2}, 0, 2, id="Always restarts successes"),
        pytest.param({"policy": "Always", "limit": 2}, 1, 2, id="Always restarts failures"),
        pytest.param({"policy": "Always"}, 0, 8, id="Always without a limit goes on"),
    ],
)
def test_the_limit_of_one_replica(given: dict[str, Any] | None, code: int, want: int) -> None:
    world = World(generic({"worker": 2}, given)).started()
    for _ in range(8):
        if world.status.phase != "Running" or not world.pods["job-worker-0"].is_ready:
            break
        world.end("job-worker-0", code)
        world.settle()
        world.wait(301)
        world.settle()
        world.reap()
        world.settle()
        if "job-worker-0" in world.replicas(PodPhase.PENDING):
            world.run("job-worker-0")
            world.settle()
    assert world.rows["job-worker-0"].restart_count == want
    assert world.status.restarts == want
    assert world.status.phase == ("Failed" if code and want != 8 else "Running")


def test_a_limit_is_for_each_replica_alone() -> None:
    world = World(generic({"worker": 2}, {"policy": "OnFailure", "limit": 1})).started()
    for name in ("job-worker-0", "job-worker-1"):
        restart(world, name)
    assert [row.restart_count for row in world.rows.values()] == [1, 1]
    assert world.status.restarts == 2
    assert [task.restart_count for task in world.status.tasks] == [2]
    assert world.status.phase == "Running"


@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (3, "Failed")])
def test_always_counts_as_ended_once_its_limit_is_used_up(code: int, phase: str) -> None:
    world = World(generic({"worker": 1}, {"policy": "Always", "limit": 1})).started()
    restart(world, "job-worker-0", 0)
    assert world.status.phase == "Running"
    fail(world, "job-worker-0", code)
    assert world.status.phase == phase


def test_one_restart_is_enough_for_all_that_fail_together() -> None:
    manifest = pytorch(
        {"worker": 1},
        torchrunConfig={"enabled": True},
        elastic={"enabled": True, "minReplicas": 1, "maxReplicas": 4, "expectedReplicas": 4},
        runPolicy={"backoffLimit": 1},
    )
    world = World(manifest).started()
    for name in ("job-worker-3", "job-worker-1", "job-worker-2"):
        world.end(name, 1)
    world.step()
    assert [row.restart_count for row in world.rows.values()] == [0, 1, 1, 1]
    assert (world.status.restarts, world.status.phase) == (1, "Running")
    assert world.condition("ReplicaFailure") == (
        "True",
        "ReplicaFailed",
        "worker-1: Error (exit code 1); worker-2: Error (exit code 1);"
        " worker-3: Error (exit code 1)",
    )


def test_backoff_limit_is_shared_by_all_replicas() -> None:
    world = World(pytorch({"master": 1, "worker": 2}, runPolicy={"backoffLimit": 2})).started()
    restart(world, "job-worker-0")
    restart(world, "job-master-0")
    assert (world.status.backoff_count, world.status.phase) == (2, "Running")
    fail(world, "job-worker-1")
    assert (world.status.backoff_count, world.status.phase) == (2, "Failed")
    assert world.condition("Failed") == ("True", "Failed", "The job exited with an error code.")


def test_backoff_limit_is_three_by_default() -> None:
    world = World(xgboost()).started()
    for _ in range(3):
        restart(world, "job-worker-0")
    assert world.status.phase == "Running"
    fail(world, "job-worker-0")
    assert world.status.phase == "Failed"


def evicted(world: World) -> None:
    world.take_away("job-worker-0", "Evicted")


def preempted(world: World) -> None:
    world.take_away("job-worker-0", "Preempted")


def disrupted(world: World) -> None:
    world.take_away("job-worker-0", "", code=143)


def node_lost(world: World) -> None:
    world.take_away("job-worker-0", "NodeLost", code=None)


def refused_by_node(world: World) -> None:
    world.take_away("job-worker-0", "OutOfcpu", code=None)


def deleted_by_hand(world: World) -> None:
    world.tell_to_go("job-worker-0")


def deleted_and_ended(world: World) -> None:
    world.tell_to_go("job-worker-0")
    world.wait(2)
    world.end("job-worker-0", 143)


def deleted_and_ended_with_0(world: World) -> None:
    world.tell_to_go("job-worker-0")
    world.wait(2)
    world.end("job-worker-0", 0)


def vanished(world: World) -> None:
    del world.pods["job-worker-0"]


@pytest.mark.parametrize("manifest", [generic(), xgboost()], ids=["GenericJob", "XGBoost"])
@pytest.mark.parametrize(
    "taken",
    [
        evicted,
        preempted,
        disrupted,
        node_lost,
        refused_by_node,
        deleted_by_hand,
        deleted_and_ended,
        deleted_and_ended_with_0,
        vanished,
    ],
    ids=lambda how: how.__name__,
)
def test_a_pod_taken_away_is_made_anew_uncounted(taken: Any, manifest: dict[str, Any]) -> None:
    """With limits 0 and 3 alike: it doesn't matter what is left."""
    world = World(manifest).started()
    made = len(world.made)
    taken(world)
    for _ in range(3):
        world.settle()
        world.wait(5)
        world.reap()
    world.settle()
    assert world.made[made:] == ["job-worker-0"]
    assert world.pods["job-worker-0"].attempt == 0
    assert world.rows["job-worker-0"].restart_count == 0
    assert (world.status.restarts, world.status.phase) == (0, "Running")


def test_a_pod_told_to_go_that_is_still_there_is_not_replaced() -> None:
    world = World(generic()).started()
    world.tell_to_go("job-worker-0")
    world.settle()
    assert (world.status.ready, world.made.count("job-worker-0")) == ("1/2", 1)
    world.wait(29)
    assert world.decide().pods == ()


def test_delays_double_from_one_second_to_five_minutes() -> None:
    assert [delay_seconds(n) for n in range(1, 12)] == [
        1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300,
    ]  # fmt: skip
    assert delay_seconds(10_000) == 300


def delay_of(world: World, seconds: float, name: str = "job-worker-0") -> float:
    """Runs for a while and fails; when its pod is deleted then."""
    world.wait(seconds)
    plan = fail(world, name)
    assert not plan.deletes
    assert plan.look_again_at is not None
    due = plan.look_again_at - world.now
    world.wait(due - 0.5)
    assert not world.decide().deletes
    world.wait(0.5)
    assert [delete.name for delete in world.step().deletes] == [name]
    world.reap()
    world.settle()
    world.run(name)
    world.settle()
    return due


def test_the_delay_of_a_replica_grows_with_short_attempts_and_resets_after_ten_minutes() -> None:
    world = World(generic({"worker": 2}, {"policy": "Always"})).started()
    delays = [delay_of(world, 5) for _ in range(4)]
    assert delays == [1, 2, 4, 8]
    assert delay_of(world, 5, "job-worker-1") == 1, "each replica has its own"
    assert delay_of(world, 590) == 16
    assert delay_of(world, 600) == 1
    assert delay_of(world, 5) == 2


def test_a_delay_stays_when_somebody_deletes_the_failed_pod() -> None:
    world = World(generic({"worker": 2}, {"policy": "Always"})).started()
    for _ in range(3):
        delay_of(world, 5)
    world.wait(5)
    fail(world, "job-worker-0")
    world.wait(1)
    del world.pods["job-worker-0"]
    assert world.settle() == ()
    assert world.decide().look_again_at == world.now + 7
    world.wait(7)
    world.settle()
    assert world.pods["job-worker-0"].attempt == 4


def test_a_restart_is_numbered_as_its_limit_is() -> None:
    shared = World(xgboost()).started()
    restart(shared, "job-worker-0")
    plan = fail(shared, "job-worker-1")
    assert plan.events[0].message == "worker-1: Error (exit code 1); restart 2 of 3 in 1 s"
    own = World(generic({"worker": 2}, {"policy": "OnFailure", "limit": 5})).started()
    restart(own, "job-worker-0")
    plan = fail(own, "job-worker-1")
    assert plan.events[0].message == "worker-1: Error (exit code 1); restart 1 of 5 in 1 s"


def test_a_node_that_refuses_pods_is_no_hot_loop() -> None:
    world = World(generic()).started()
    waits = []
    for _ in range(4):
        world.take_away("job-worker-0", "UnexpectedAdmissionError", code=None)
        world._update("job-worker-0", created_at=world.now, containers=())
        plan = world.step()
        assert plan.look_again_at is not None
        waits.append(plan.look_again_at - world.now)
        world.wait(waits[-1])
        world.settle()
        world.reap()
        world.settle()
        world.schedule("job-worker-0")
    assert waits == [1, 2, 4, 8]
    assert world.status.restarts == 0


def test_a_restart_is_in_the_status_before_the_pod_goes() -> None:
    world = World(xgboost()).started()
    plan = fail(world, "job-worker-0", 137, message="Killed")
    assert world.status.restarts == 1
    assert (plan.deletes, plan.pods) == ((), ())
    failure = world.rows["job-worker-0"].last_failure
    assert msgspec.to_builtins(failure) == {
        "attempt": 0,
        "exitCode": 137,
        "reason": "Error",
        "message": "killed by signal 9, not by its memory limit",
        "time": "2027-01-15T08:00:00Z",
    }
    (event,) = plan.events
    assert event.type == "Warning"
    assert event.reason == "ReplicaFailed"
    assert event.message == (
        "worker-0: Error (exit code 137); restart 1 of 3 in 1 s:"
        " killed by signal 9, not by its memory limit"
    )
    world.wait(1)
    (delete,) = world.step().deletes
    assert (delete.name, delete.grace_seconds) == ("job-worker-0", None)
    world.settle()
    assert "job-worker-0" not in world.replicas()
    world.reap()
    plan = world.step()
    (pod,) = plan.pods
    assert pod["metadata"]["name"] == "job-worker-0"
    assert pod["metadata"]["annotations"]["batch.tensorstack.dev/attempt"] == "1"
    attempts = [e["value"] for c in pod["spec"]["containers"] for e in c["env"]
                if e["name"] == "JOBYARD_ATTEMPT"]  # fmt: skip
    assert attempts == ["1"]
    assert [e.message for e in plan.events] == ["Created 1 pod: job-worker-0."]


@pytest.mark.parametrize("killed_after", STEPS)
@pytest.mark.parametrize("late", [0, 400], ids=["at once", "after the delay"])
def test_a_controller_killed_at_any_step_neither_loses_nor_counts_twice(
    killed_after: str, late: int
) -> None:
    """Every pass of a restart is cut short once, and then done again."""
    world = World(xgboost()).started()
    world.end("job-worker-0", 1)
    world.wait(late)
    for _ in range(6):
        world.step(killed_after)
        world.step()
        world.step("status")
        world.wait(2)
        world.reap()
    world.settle()
    world.run("job-worker-0")
    world.settle()
    assert world.pods["job-worker-0"].attempt == 1
    assert (world.status.restarts, world.rows["job-worker-0"].restart_count) == (1, 1)
    assert world.made.count("job-worker-0") == 2


def test_deciding_again_before_the_status_is_stored_counts_once() -> None:
    world = World(xgboost()).started()
    world.end("job-worker-0", 1)
    first, second = world.decide(), world.decide()
    assert first == second
    world.apply(first)
    assert world.status.restarts == 1


def test_counts_are_found_again_in_the_pods_should_the_status_be_lost() -> None:
    world = World(xgboost()).started()
    restart(world, "job-worker-0")
    restart(world, "job-worker-1")
    world.status = None
    world.settle()
    assert world.status.restarts == 2
    assert [row.restart_count for row in world.rows.values()] == [0, 1, 1]
    assert len(world.made) == 5, "no pod was recreated"


def test_a_failure_after_an_eviction_is_told_although_it_is_the_same_attempt() -> None:
    world = World(generic()).started()
    world.take_away("job-worker-0")
    world.settle()
    world.wait(2)
    world.settle()
    world.reap()
    world.settle()
    world.run("job-worker-0")
    world.settle()
    plan = fail(world, "job-worker-0", 3, message="out of luck")
    assert world.status.phase == "Failed"
    assert [(e.reason, e.message) for e in plan.events] == [
        ("ReplicaFailed", "worker-0: Error (exit code 3); not started again: out of luck"),
        ("Failed", 'The job is failed with rule: { "worker": [0] }'),
    ]


def test_a_failure_that_was_decided_about_is_no_eviction_afterwards() -> None:
    """A drained node marks its finished pods too."""
    world = World(elastic_pytorch(1, 2, 2, runPolicy={"backoffLimit": 0})).started()
    fail(world, "job-worker-1")
    world.take_away("job-worker-1", "", code=None)
    assert world.settle() == ()
    world.wait(400)
    assert world.settle() == ()
    assert world.rows["job-worker-1"].phase == "Failed"


def test_a_failed_init_container_is_a_failure_of_the_replica() -> None:
    world = World(generic())
    world.settle()
    broken = Container(
        name="fetch", state=ContainerState.TERMINATED, exit_code=9, reason="Error",
        message="no such host", finished_at=world.now,
    )  # fmt: skip
    world._update("job-worker-0", phase=PodPhase.FAILED, node="node-1", init_containers=(broken,))
    world.step()
    assert world.status.phase == "Failed"
    failure = world.rows["job-worker-0"].last_failure
    assert failure is not None
    assert (failure.exit_code, failure.message) == (9, "init container fetch: no such host")


def test_pods_that_are_known_to_be_gone_say_nothing_although_they_are_seen() -> None:
    """Who has just taken over may hear of the job's status before it hears of its pods."""
    world = World(mpi()).started()
    launcher, *workers = world.replicas()
    # Refused by its node: nothing of it says when that was.
    world.take_away(launcher, "OutOfcpu", code=None)
    world._update(launcher, phase=PodPhase.FAILED, containers=())
    for worker in workers:
        world.end(worker, 137)
    world.settle()
    world.wait(60)
    world.settle()
    before = dict(world.pods)
    world.reap()
    world.settle()
    assert [row.pods_before for row in world.rows.values()] == [1] * len(before)
    assert not set(before.values()) & set(world.pods.values())
    world.pods = before
    plan = world.step("status")
    assert world.status.phase != "Failed"
    assert not plan.pods
    world.pods = {}
    world.settle()
    assert {pod.pods_before for pod in world.pods.values()} == {2}
