"""The status that a decision writes: conditions, rows, numbers, phases, and its size."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from rig.job_manifests import elastic_pytorch, generic, manifest, mpi, pytorch, template, xgboost

from jobyard.api.parts.status import ContainerState
from jobyard.plan.facts.pod_facts import Container, PodPhase
from jobyard.plan.moments import text_of
from plan.deciding.job_world import START, World

SIZE_MAX_BYTES = 1_200_000


def json_of(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def conditions(world: World) -> list[tuple[str, str, str, str]]:
    return [(str(c.type), str(c.status), c.reason, c.message) for c in world.status.conditions]


def test_the_whole_status_of_a_running_job() -> None:
    world = World(generic({"worker": 2}))
    world.settle()
    world.wait(5)
    world.run("job-worker-0")
    world.settle()
    uids = [world.pods[f"job-worker-{rank}"].uid for rank in (0, 1)]
    begun = "2027-01-15T08:00:00Z"

    def said(type_: str, status: str, message: str) -> dict[str, str]:
        return {
            "type": type_,
            "status": status,
            "reason": "-",
            "message": message,
            "lastTransitionTime": begun,
        }

    assert json_of(world.status) == {
        "observedGeneration": 1,
        "phase": "Pending",
        "startTime": "2027-01-15T08:00:05Z",
        "activeSeconds": 0,
        "pauseCount": 0,
        "replicas": 2,
        "readyReplicas": 1,
        "ready": "1/2",
        "restarts": 0,
        "selector": "genericjob=job",
        "conditions": [
            said("Initialized", "True", "The job has been initialized successfully."),
            said("Running", "False", "1 of 2 running"),
            said("ReplicaFailure", "False", "No replica is in error."),
            said("Completed", "False", "The job has not ended."),
            said("Failed", "False", "The job has not ended."),
            said("Paused", "False", "The job is not paused."),
        ],
        "tasks": [
            {
                "type": "worker",
                "restartCount": 0,
                "status": [
                    {
                        "name": "job-worker-0",
                        "uid": uids[0],
                        "phase": "Running",
                        "containers": [{"name": "main", "state": "Running"}],
                    },
                    {"name": "job-worker-1", "uid": uids[1], "phase": "Creating"},
                ],
            }
        ],
        "aggregate": {
            "creating": 1,
            "pending": 0,
            "running": 1,
            "succeeded": 0,
            "failed": 0,
            "unknown": 0,
            "deleted": 0,
        },
    }


def test_the_conditions_of_a_success() -> None:
    world = World(generic({"worker": 1})).started()
    world.end("job-worker-0", 0)
    world.settle()
    done = "The job has finished successfully."
    assert conditions(world) == [
        ("Initialized", "True", "-", "The job has been initialized successfully."),
        ("Running", "False", "Succeeded", done),
        ("ReplicaFailure", "False", "-", "All pods are running normally."),
        ("Completed", "True", "Succeeded", done),
        ("Failed", "False", "Succeeded", done),
        ("Paused", "False", "-", "The job is not paused."),
    ]
    assert world.status.completion_time == text_of(world.now)


def test_the_conditions_of_a_failure() -> None:
    world = World(generic({"worker": 2})).started()
    world.end("job-worker-0", 7)
    world.settle()
    rule = 'The job is failed with rule: { "worker": [0] }'
    assert conditions(world) == [
        ("Initialized", "True", "-", "The job has been initialized successfully."),
        ("Running", "False", "Failed", rule),
        ("ReplicaFailure", "True", "ReplicaFailed", "worker-0: Error (exit code 7)"),
        ("Completed", "False", "Failed", rule),
        ("Failed", "True", "Failed", rule),
        ("Paused", "False", "-", "The job is not paused."),
    ]


def test_a_deadline_alone_is_no_failure_of_a_replica() -> None:
    world = World(xgboost(runPolicy={"activeDeadlineSeconds": 10})).started()
    world.wait(10)
    world.settle()
    assert world.status.phase == "Failed"
    assert world.condition("ReplicaFailure")[0] == "False"


def test_a_transition_time_changes_only_with_the_status_of_its_condition() -> None:
    world = World(xgboost())
    world.settle()
    world.wait(10)
    world.run()
    world.settle()
    world.wait(10)
    world.end("job-worker-0", 1)
    world.settle()
    times = {str(c.type): c.last_transition_time for c in world.status.conditions}
    assert times == {
        "Initialized": text_of(START),
        "Running": text_of(START + 10),
        "ReplicaFailure": text_of(START + 20),
        "Completed": text_of(START),
        "Failed": text_of(START),
        "Paused": text_of(START),
    }
    assert world.condition("Running")[::2] == (
        "True",
        f"2 of 3 running; worker-0: Error (exit code 1), starts again at {text_of(START + 21)}",
    )


def test_what_finds_nothing_new_writes_nothing() -> None:
    world = World(pytorch()).started()
    for _ in range(3):
        world.wait(1000)
        plan = world.decide()
        assert plan.is_empty
        assert plan.status is None


def test_running_says_why_not_with_numbers_and_reasons() -> None:
    world = World(generic({"worker": 4}))
    world.settle()
    world.run("job-worker-0", "job-worker-1")
    world.schedule("job-worker-2")
    waiting = Container(name="main", state=ContainerState.WAITING, reason="ImagePullBackOff")
    world._update("job-worker-2", containers=(waiting,))
    world._update("job-worker-3", unschedulable="Insufficient nvidia.com/gpu")
    world.settle()
    assert world.condition("Running") == (
        "False",
        "-",
        "2 of 4 running; worker-2: ImagePullBackOff;"
        " worker-3: Unschedulable: Insufficient nvidia.com/gpu",
    )
    phases = [str(row.phase) for row in world.rows.values()]
    assert phases == ["Running", "Running", "Pending", "Creating"]


def test_a_container_that_takes_its_time_is_no_reason() -> None:
    world = World(generic({"worker": 1}))
    world.settle()
    world.schedule("job-worker-0")
    waiting = Container(name="main", state=ContainerState.WAITING, reason="ContainerCreating")
    world._update("job-worker-0", containers=(waiting,))
    world.settle()
    assert world.condition("Running")[2] == "0 of 1 running"


def test_of_many_reasons_the_first_five_are_told() -> None:
    world = World(generic({"worker": 9}))
    world.settle()
    for name in world.replicas():
        world._update(name, unschedulable="no room")
    world.settle()
    told = "; ".join(f"worker-{rank}: Unschedulable: no room" for rank in range(5))
    assert world.condition("Running")[2] == f"0 of 9 running; {told}; and 4 more"


def test_pods_that_nobody_has_scheduled_for_60_s_are_told_of_once() -> None:
    world = World(generic({"worker": 2}))
    world.settle()
    for name in world.replicas():
        world._update(name, scheduler="t9k-scheduler")
    world.settle()
    assert world.decide().look_again_at == START + 60
    world.wait(59)
    assert world.settle() == ()
    world.wait(1)
    (event,) = world.settle()
    message = "0 of 2 running; no scheduler named t9k-scheduler has looked at them: is it running?"
    assert (event.type, event.reason, event.message) == ("Warning", "Unscheduled", message)
    assert world.condition("Running") == ("False", "Unscheduled", message)
    world.wait(600)
    assert world.settle() == ()


def test_unscheduled_pods_of_a_running_job_are_told_of_too() -> None:
    world = World(elastic_pytorch(1, 1, 3)).started()
    world.set(elastic__expectedReplicas=2)
    world.settle()
    world._update("job-worker-1", unschedulable="no room")
    world.settle()
    world.wait(60)
    (event,) = world.settle()
    assert (event.reason, event.message) == (
        "Unscheduled",
        "1 of 2 running; worker-1: Unschedulable: no room",
    )
    assert world.status.phase == "Running"
    world.wait(100)
    assert world.settle() == ()


def test_a_job_is_pending_until_every_replica_has_started_once() -> None:
    world = World(generic({"worker": 3}))
    world.settle()
    world.run("job-worker-0")
    world.settle()
    assert world.status.phase == "Pending"
    world.end("job-worker-0", 0)
    world.run("job-worker-1")
    world.settle()
    assert world.status.phase == "Pending"
    world.run("job-worker-2")
    world.settle()
    assert world.status.phase == "Running"
    world.take_away("job-worker-1")
    world.settle()
    assert world.status.phase == "Running"


def test_a_launcher_counts_for_running() -> None:
    world = World(mpi(1))
    world.settle()
    world.run("job-worker-0")
    world.settle()
    assert world.status.phase == "Pending"
    world.run("job-launcher")
    world.settle()
    assert world.status.phase == "Running"
    assert [task.type for task in world.status.tasks] == ["launcher", "worker"]


def test_a_job_whose_pods_are_all_on_lost_nodes_is_unknown_until_they_are_back() -> None:
    world = World(generic()).started()
    world._update("job-worker-0", phase=PodPhase.UNKNOWN)
    world.settle()
    assert world.status.phase == "Running"
    world._update("job-worker-1", phase=PodPhase.UNKNOWN)
    world.settle()
    assert world.status.phase == "Unknown"
    assert world.status.aggregate.unknown == 2
    assert world.condition("Running")[::2] == (
        "False",
        "0 of 2 running; worker-0: its node can't be reached; worker-1: its node can't be reached",
    )
    world._update("job-worker-0", phase=PodPhase.RUNNING)
    world.settle()
    assert world.status.phase == "Running"


def test_a_row_keeps_its_result_when_its_pod_is_gone() -> None:
    world = World(generic({"worker": 2})).started()
    world.end("job-worker-0", 0)
    world.settle()
    before = world.rows["job-worker-0"]
    del world.pods["job-worker-0"]
    assert world.settle() == ()
    assert world.rows["job-worker-0"] == before
    assert before.phase == "Succeeded"
    assert json_of(before.containers) == [
        {"name": "main", "state": "Terminated", "exitCode": 0, "reason": "Completed"}
    ]
    world.end("job-worker-1", 0)
    world.settle()
    assert world.status.phase == "Succeeded"


@pytest.mark.parametrize("clean_up", ["None", "Unfinished", "All"])
@pytest.mark.parametrize("replicas", [1, 2])
def test_sidecars_go_with_the_pod_whose_main_container_has_ended(
    replicas: int, clean_up: str
) -> None:
    spec = {"type": "worker", "replicas": replicas, "template": template("main", "sidecar")}
    job = manifest("GenericJob", {"replicaSpecs": [spec], "cleanUpPolicy": clean_up})
    world = World(job).started()
    world.end("job-worker-0", 0, sidecars_run=True)
    world.settle()
    assert world.pods["job-worker-0"].is_terminating
    assert world.status.phase == ("Succeeded" if replicas == 1 else "Running")
    world.reap()
    world.settle()
    row = world.rows["job-worker-0"]
    assert row.phase == "Succeeded"
    assert [c.exit_code for c in row.containers] == [0, None]
    assert world.made.count("job-worker-0") == 1


@pytest.mark.parametrize("clean_up", ["None", "Unfinished"])
@pytest.mark.parametrize("replicas", [1, 2])
def test_a_pod_whose_phase_is_told_after_the_end_of_its_containers_stays_for_its_log(
    replicas: int, clean_up: str
) -> None:
    spec = {"type": "worker", "replicas": replicas, "template": template("main")}
    job = manifest("GenericJob", {"replicaSpecs": [spec], "cleanUpPolicy": clean_up})
    world = World(job).started()
    # There are no others that could run on: a kubelet is only late with the phase.
    world.end("job-worker-0", 0, sidecars_run=True)
    world.settle()
    assert world.status.phase == ("Succeeded" if replicas == 1 else "Running")
    assert not world.pods["job-worker-0"].is_terminating
    world.end("job-worker-0", 0)
    world.settle()
    assert not world.pods["job-worker-0"].is_terminating


def test_sidecars_beside_a_failed_main_container_go_when_it_starts_again() -> None:
    spec = {
        "type": "worker",
        "template": template("main", "sidecar"),
        "restartPolicy": {"policy": "OnFailure", "limit": 1},
    }
    world = World(manifest("GenericJob", {"replicaSpecs": [spec]})).started()
    world.end("job-worker-0", 1, sidecars_run=True)
    world.settle()
    world.wait(1)
    world.settle()
    world.reap()
    world.settle()
    assert world.pods["job-worker-0"].attempt == 1
    assert world.status.restarts == 1


def test_rows_are_in_order_of_rank() -> None:
    world = World(generic({"worker": 12})).started()
    world.pods = dict(sorted(world.pods.items()))
    world.settle()
    assert list(world.rows) == [f"job-worker-{rank}" for rank in range(12)]


def test_types_are_in_the_order_of_the_spec() -> None:
    world = World(generic({"zebra": 1, "ant": 1}))
    world.settle()
    assert [task.type for task in world.status.tasks] == ["zebra", "ant"]


def test_a_message_of_a_row_is_at_most_256_characters_and_the_end_of_what_was_said() -> None:
    world = World(generic()).started()
    world.end("job-worker-0", 1, message="x" * 1000 + "the end")
    world.settle()
    failure = world.rows["job-worker-0"].last_failure
    assert failure is not None
    assert len(failure.message) == 256
    assert failure.message.endswith("the end")


def test_events_of_many_failures_name_the_first_five() -> None:
    world = World(generic({"worker": 9}, {"policy": "OnFailure", "limit": 1})).started()
    for name in world.replicas():
        world.end(name, 1)
    told = world.settle()
    assert len(told) == 6
    assert told[-1].message == "Also failed: worker-5, worker-6, worker-7, worker-8."


def test_a_terminating_pod_is_not_ready() -> None:
    world = World(generic()).started()
    world.tell_to_go("job-worker-0")
    world._update("job-worker-0", is_ready=True)
    world.settle()
    assert (world.status.ready, world.status.ready_replicas) == ("1/2", 1)


def test_the_largest_status_stays_below_what_can_be_stored() -> None:
    """5000 replicas, each with the longest name and all it can say about a failure."""
    job = "j" * 40
    containers = [f"sidecar-{n:02}-{'c' * 50}" for n in range(8)]
    spec = {
        "type": "worker-" + "w" * 5,
        "replicas": 5000,
        "template": template("m" * 63, *containers),
        "restartPolicy": {"policy": "OnFailure", "limit": 9},
    }
    world = World(manifest("GenericJob", {"replicaSpecs": [spec]}, job))
    world.settle()
    world.run()
    for name in world.replicas():
        world._update(name, uid=f"00000000-0000-4000-8000-{len(name):012}")
        world.end(name, 137, message="“" * 300)
        world._update(name, reason="R" * 200)
    world.settle()
    assert len(world.rows) == 5000
    assert world.status.aggregate.failed == 5000
    assert len(msgspec.json.encode(world.status)) < SIZE_MAX_BYTES
    assert world.settle() == (), "nothing is told twice for want of room"
