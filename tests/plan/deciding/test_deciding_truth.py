"""What a status says is true: specs, clocks, delays, rows after the end, scaling."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from rig.job_manifests import elastic_pytorch, generic, mpi, pytorch

from jobyard.api.parts.status import ContainerState, Phase
from jobyard.plan.facts.decision import NAME_TAKEN, Obstacle
from jobyard.plan.facts.pod_facts import Container, Pod, PodObject, PodPhase, facts_of
from jobyard.plan.moments import text_of
from plan.deciding.job_world import START, World


def resumed_with_another_image(world: World) -> None:
    """As if a pause, a change and a resume had come to the controller as one."""
    manifest: dict[str, Any] = copy.deepcopy(world.job) or {}
    for replica in manifest["spec"]["replicaSpecs"]:
        replica["replicas"] = 3
        for container in replica["template"]["spec"]["containers"]:
            container["image"] = "new"
    status, world.status = world.status, None
    world.job = None
    world.change(manifest)
    world.status = status


def test_pods_of_two_specs_never_run_side_by_side() -> None:
    world = World(pytorch({"worker": 2})).started()
    resumed_with_another_image(world)
    plan = world.step()
    assert sorted(d.name for d in plan.deletes) == ["job-worker-0", "job-worker-1"]
    assert plan.pods == ()
    world.reap("job-worker-0")
    assert world.step().pods == (), "one of the old ones is still there"
    assert "waits until all pods from before are gone" in world.condition("Running")[2]
    world.reap()
    world.settle()
    assert world.made[-3:] == ["job-worker-0", "job-worker-1", "job-worker-2"]
    assert world.status.restarts == 0


def test_pods_of_an_earlier_release_are_those_of_the_spec() -> None:
    world = World(pytorch({"worker": 2})).started()
    for name in world.pods:
        world._update(name, revision="")
    world.settle()
    assert len(world.made) == 2


def test_a_spec_is_open_only_once_the_job_is_paused() -> None:
    world = World(pytorch({"worker": 2})).started()
    world.pause()
    with pytest.raises(AssertionError, match=r"status\.phase is Paused"):
        world.set(replicaSpecs=pytorch({"worker": 3})["spec"]["replicaSpecs"])
    world.settle()
    world.set(replicaSpecs=pytorch({"worker": 3})["spec"]["replicaSpecs"])


def test_supporting_objects_of_another_spec_go_after_the_pods_that_use_them() -> None:
    service = {"ports": [{"name": "http", "port": 80}]}
    world = World(generic({"worker": 1}, service=service)).started()
    world.pause()
    world.settle()
    world.set(service={"ports": [{"name": "http", "port": 81}]})
    assert [d.kind for d in world.step().deletes] == []
    world.reap()
    assert [d.kind for d in world.step().deletes] == ["Service"]


def test_services_and_keys_go_after_the_pods_of_a_finished_job() -> None:
    world = World(mpi(runPolicy={"cleanUpWorkers": True})).started()
    world.end("job-launcher", 0)
    plan = world.step()
    assert {d.kind for d in plan.deletes} == {"Pod"}
    world.reap()
    assert {d.kind for d in world.step().deletes} >= {"Service", "Secret", "ConfigMap"}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"runMode__debug__enabled": True}, id="debug turned on"),
        pytest.param({"elastic__expectedReplicas": 5}, id="scaled up"),
        pytest.param({"elastic__expectedReplicas": 1}, id="scaled down"),
        pytest.param({"runMode__pause__enabled": True}, id="paused"),
    ],
)
def test_rows_of_a_finished_job_never_change(change: dict[str, Any]) -> None:
    world = World(elastic_pytorch(1, 3, 5)).started()
    world.end("job-worker-1", 3)
    world.settle()
    world.end("job-worker-0", 0)
    world.settle()
    assert world.status.phase == "Succeeded"
    before = (world.status.tasks, world.status.aggregate, world.status.ready)
    world.set(**change)
    world.settle()
    assert (world.status.tasks, world.status.aggregate, world.status.ready) == before


def scaled_away_and_back(world: World, name: str) -> None:
    """Some time after it failed; its pod takes its time to go."""
    world.wait(10)
    world.set(elastic__expectedReplicas=2)
    world.settle()
    assert world.pods[name].is_terminating
    world.set(elastic__expectedReplicas=3)
    world.settle()
    assert world.pods[name].is_terminating


def test_a_replica_scaled_away_and_back_counts_an_end_once() -> None:
    world = World(elastic_pytorch(1, 3, 5, runPolicy={"backoffLimit": 10})).started()
    for _ in range(5):
        world.end("job-worker-2", 1)
        world.go_on()
    world.end("job-worker-2", 1)
    world.settle()
    assert world.status.restarts == 6
    scaled_away_and_back(world, "job-worker-2")
    world.wait(301)
    world.settle()
    assert world.status.restarts == 6
    world.reap()
    world.settle()
    assert "job-worker-2" in world.replicas(), "it comes back"
    assert len([e for e in world.events if "restart 6 of 10" in e.message]) == 1


def test_a_replica_scaled_away_and_back_starts_anew_although_no_restart_is_left() -> None:
    """As it does if it comes back a moment later, when its pod is gone."""
    world = World(elastic_pytorch(1, 3, 5, runPolicy={"backoffLimit": 0})).started()
    world.end("job-worker-2", 1)
    world.settle()
    assert (world.status.phase, world.rows["job-worker-2"].phase) == ("Running", "Failed")
    scaled_away_and_back(world, "job-worker-2")
    world.reap()
    world.settle()
    assert "job-worker-2" in world.replicas()
    assert (world.status.phase, world.status.restarts) == ("Running", 0)


@pytest.mark.parametrize("ahead", [3600, -3600])
def test_a_restart_is_due_by_the_controllers_clock(ahead: int) -> None:
    world = World(pytorch({"worker": 2})).started()
    world.now += ahead
    world.end("job-worker-1", 1)
    world.now -= ahead
    plan = world.step()
    assert world.rows["job-worker-1"].restart_time == text_of(world.now + 1)
    assert not [d for d in plan.deletes if d.kind == "Pod"]
    world.wait(2)
    assert [d.name for d in world.step().deletes] == ["job-worker-1"]


def test_a_start_that_is_hindered_is_not_delayed_again_by_a_clock_that_is_ahead() -> None:
    world = World(pytorch({"worker": 2})).started()
    world.now += 3600
    world.end("job-worker-1", 1)
    world.now -= 3600
    world.settle()
    world.wait(2)
    world.refused["Pod", "job-worker-1"] = Obstacle(NAME_TAKEN, "Pod x belongs to someone else.")
    world.settle()
    world.reap()
    world.settle()
    assert [pod["metadata"]["name"] for pod in world.decide().pods] == ["job-worker-1"]
    assert world.rows["job-worker-1"].restart_time is None


def test_a_moment_far_ahead_in_the_status_is_no_longer_than_the_delay() -> None:
    """The controller that wrote it may have had a clock that was ahead."""
    world = World(pytorch({"worker": 2})).started()
    world.end("job-worker-1", 1)
    world.now += 86400
    world.settle()
    world.now -= 86400
    world.settle()
    world.wait(2)
    assert [d.name for d in world.step().deletes] == ["job-worker-1"]


def test_a_delay_does_not_outlive_a_pause() -> None:
    world = World(pytorch({"worker": 2}, runPolicy={"backoffLimit": 20})).started()
    for _ in range(9):
        world.end("job-worker-1", 1)
        world.go_on()
    world.end("job-worker-1", 1)
    world.settle()
    world.pause()
    world.settle()
    world.reap()
    world.settle()
    world.resume()
    world.settle()
    assert sorted(world.replicas()) == ["job-worker-0", "job-worker-1"], "at once"


def test_a_restart_that_is_waited_for_is_told_of() -> None:
    world = World(pytorch({"worker": 2}, runPolicy={"backoffLimit": 20})).started()
    world.end("job-worker-1", 1)
    world.settle()
    at = text_of(world.now + 1)
    assert world.condition("Running")[2] == (
        f"1 of 2 running; worker-1: Error (exit code 1), starts again at {at}"
    )
    assert world.rows["job-worker-1"].reason == "BackOff"
    del world.pods["job-worker-1"]
    world.settle()
    assert world.condition("Running")[2] == f"1 of 2 running; worker-1: starts again at {at}"
    row = world.rows["job-worker-1"]
    assert (row.reason, row.restart_time) == ("BackOff", at)


def test_a_container_that_cannot_be_made_says_why_in_condition_and_row() -> None:
    world = World(pytorch({"worker": 1}))
    world.settle()
    said = 'secret "keys" not found'
    world.schedule("job-worker-0")
    waiting = Container(
        name="pytorch",
        state=ContainerState.WAITING,
        reason="CreateContainerConfigError",
        message=said,
    )
    world._update("job-worker-0", containers=(waiting,))
    world.settle()
    assert f"CreateContainerConfigError: {said}" in world.condition("Running")[2]
    assert world.rows["job-worker-0"].reason == "CreateContainerConfigError"


def test_an_image_that_cannot_be_had_says_so_in_condition_and_row() -> None:
    world = World(pytorch({"worker": 1}))
    world.settle()
    world.schedule("job-worker-0")
    waiting = Container(
        name="pytorch", state=ContainerState.WAITING, reason="ImagePullBackOff", message="no i"
    )
    world._update("job-worker-0", containers=(waiting,))
    world.settle()
    for _ in range(3):
        assert world.condition("Running")[2] == "0 of 1 running; worker-0: ImagePullBackOff"
        assert world.rows["job-worker-0"].reason == "ImagePullBackOff"
        world.wait(3600)
        world.settle()
    world.run()
    world.settle()
    assert world.rows["job-worker-0"].reason == ""


def drained(behind: int) -> Pod:
    """A pod that saved its work and ended with 0 when it was drained, as its node tells it."""

    def moment(seconds: float) -> str:
        return text_of(START + seconds - behind)

    ended = {"exitCode": 0, "startedAt": moment(2), "finishedAt": moment(102)}
    status = {
        "phase": "Succeeded",
        "startTime": moment(1),
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "True",
                "lastTransitionTime": text_of(START + 1),
            },
            {
                "type": "DisruptionTarget",
                "status": "True",
                "lastTransitionTime": text_of(START + 100),
            },
        ],
        "containerStatuses": [{"name": "pytorch", "state": {"terminated": ended}}],
    }
    metadata = {
        "name": "job-worker-0",
        "namespace": "default",
        "uid": "uid-2",
        "creationTimestamp": text_of(START),
        "deletionTimestamp": text_of(START + 130),
        "deletionGracePeriodSeconds": 30,
    }
    pod = {"metadata": metadata, "status": status}
    return facts_of(msgspec.convert(pod, PodObject))


@pytest.mark.parametrize("behind", [0, 10, 600, 86400])
def test_a_node_whose_clock_is_behind_makes_no_success_of_a_drain(behind: int) -> None:
    world = World(pytorch({"worker": 1})).started()
    world.wait(106)
    real, seen = world.pods["job-worker-0"], drained(behind)
    facts = {
        name: getattr(seen, name)
        for name in (
            "phase",
            "containers",
            "deletion_asked_at",
            "deletion_due_at",
            "was_taken_away",
            "taken_away_at",
            "clock_behind",
        )
    }
    world.pods["job-worker-0"] = msgspec.structs.replace(real, **facts)
    world.settle()
    assert world.status.phase == "Running"
    world.reap()
    world.settle()
    assert world.made == ["job-worker-0"] * 2
    assert world.status.restarts == 0


def test_a_drain_says_so_before_it_deletes() -> None:
    """A clock that fell behind while the pod ran shows in none of the pod's own moments."""
    world = World(pytorch({"worker": 1})).started()
    world.wait(100)
    world._update("job-worker-0", was_taken_away=True, taken_away_at=world.now)
    world.wait(10)
    world.tell_to_go("job-worker-0")
    world.now -= 8
    world.end("job-worker-0", 0)
    world.now += 8
    assert world.pods["job-worker-0"].phase is PodPhase.SUCCEEDED
    world.settle()
    assert world.status.phase == "Running"
    world.reap()
    world.settle()
    assert world.made == ["job-worker-0"] * 2


@pytest.mark.parametrize("code", [0, 1])
def test_whoever_was_seen_to_run_on_ended_because_it_was_told_to(code: int) -> None:
    """Whatever its node's clock says, which may have fallen behind while the pod ran."""
    world = World(pytorch({"worker": 1}, runPolicy={"backoffLimit": 0})).started()
    world.wait(100)
    world.tell_to_go("job-worker-0")
    world.settle()
    world.wait(3)
    world.now -= 600
    world.end("job-worker-0", code)
    world.now += 600
    world.settle()
    assert world.status.phase == "Running"
    world.reap()
    world.settle()
    assert world.made == ["job-worker-0"] * 2
    assert world.status.restarts == 0


def test_what_ended_out_of_sight_before_it_was_told_to_go_counts() -> None:
    """Its node couldn't be reached: that it seemed to run on says nothing."""
    world = World(pytorch({"worker": 1})).started()
    world.wait(100)
    ended_at = world.now
    world.lose_sight_of("job-worker-0")
    world.wait(300)
    world.tell_to_go("job-worker-0")
    world.settle()
    assert world.rows["job-worker-0"].reason == "NodeUnreachable"
    now, world.now = world.now, ended_at
    world.end("job-worker-0", 0)
    world.now = now + 10
    world.see_again("job-worker-0")
    world.settle()
    assert world.status.phase == "Succeeded"


@pytest.mark.parametrize("ahead", [3600, -3600])
def test_a_deadline_is_counted_by_the_controllers_clock(ahead: int) -> None:
    world = World(pytorch({"worker": 1}, runPolicy={"activeDeadlineSeconds": 60}))
    world.settle()
    began = text_of(world.now)
    world.now += ahead
    world.run()
    world.now -= ahead
    # As the pod's own moments show it.
    world._update("job-worker-0", clock_behind=max(0, -ahead))
    world.settle()
    assert (world.status.phase, world.status.start_time) == ("Running", began)
    world.wait(59)
    world.settle()
    assert world.status.phase == "Running"
    world.wait(1)
    world.settle()
    assert world.status.phase == "Failed"


@pytest.mark.parametrize("phase", ["Pending", "Resuming"])
def test_a_job_whose_nodes_are_all_lost_is_unknown(phase: str) -> None:
    """Also one that never ran whole."""
    world = World(pytorch({"worker": 2}))
    world.settle()
    world.run("job-worker-0")
    world.schedule("job-worker-1")
    world.settle()
    world.status = msgspec.structs.replace(world.status, phase=Phase(phase))
    world.settle()
    assert world.status.phase == phase
    world.lose_sight_of("job-worker-0")
    world._update("job-worker-1", phase=PodPhase.UNKNOWN, reason="NodeLost")
    world.settle()
    assert world.status.phase == "Unknown"


def test_the_deadline_does_not_end_a_debug_session() -> None:
    manifest = pytorch({"worker": 1}, runPolicy={"activeDeadlineSeconds": 60})
    manifest["spec"]["runMode"] = {"debug": {"enabled": True}}
    world = World(manifest).started()
    world.wait(3600)
    world.settle()
    assert world.status.phase == "Running"


def test_many_lost_replicas_are_told_of_as_lost() -> None:
    world = World(pytorch({"worker": 9})).started()
    for name in world.replicas():
        world.take_away(name)
    told = world.settle()
    assert {e.reason for e in told if e.type == "Warning"} == {"ReplicaLost"}
    assert "Also taken away: worker-5, worker-6, worker-7, worker-8." in [e.message for e in told]


def test_a_generic_job_that_cannot_meet_a_success_rule_any_more_fails_at_once() -> None:
    rules = [{"worker": [0, 1]}, {"worker": [1, 2]}]
    failure = [{"worker": [0, 1, 2]}]
    world = World(generic({"worker": 3}, successRules=rules, failureRules=failure)).started()
    world.end("job-worker-1", 1)
    world.settle()
    assert world.status.phase == "Failed"
    assert world.condition("Failed")[2] == (
        "No rule for success can be met any more: worker-1 failed."
    )


def test_a_launcher_template_that_was_given_keeps_its_devices() -> None:
    manifest = mpi()
    worker = manifest["spec"].pop("worker")
    template = worker["template"]
    own = copy.deepcopy(template)
    own["spec"]["containers"][0] |= {
        "name": "launcher",
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    }
    manifest["spec"]["replicaSpecs"] = [
        {"type": "launcher", "template": own},
        {"type": "worker", "replicas": 2, "template": template},
    ]
    manifest["spec"]["mpiConfig"] = {"script": ["p"]}
    world = World(manifest)
    launcher = world.description.roles[0]
    assert launcher.containers[0]["resources"]["limits"] == {"nvidia.com/gpu": 1}
