"""Pause, debug and elastic: what a change of mode does to pods, counts and clocks."""

from __future__ import annotations

from typing import Any

import pytest
from rig.job_manifests import deepspeed, elastic_pytorch, generic, mpi, pytorch, xgboost

from plan.deciding.job_world import START, World

PAUSED = {"pause": {"enabled": True}}
RESUME_SPECS = [{"type": "worker", "command": ["resume"], "args": ["--from-checkpoint"]}]


def commands(plan_pods: Any) -> list[list[str]]:
    return [
        [*c.get("command", ()), *c.get("args", ())]
        for pod in plan_pods
        for c in pod["spec"]["containers"]
    ]


def paused(world: World) -> World:
    world.pause()
    world.settle()
    return world


def test_a_pause_deletes_gracefully_and_is_reached_once_all_pods_are_on_their_way() -> None:
    world = World(generic()).started()
    world.pause()
    plan = world.step("status")
    assert {(d.name, d.grace_seconds) for d in plan.deletes} == {
        ("job-worker-0", None),
        ("job-worker-1", None),
    }
    assert world.status.phase == "Running", "pods run as long as they were not told to go"
    world.apply(plan)
    plan = world.step()
    assert world.status.phase == "Paused"
    assert world.condition("Paused") == ("True", "-", "The job is paused.")
    assert world.condition("Running") == ("False", "-", "The job is paused.")
    assert [(e.reason, e.message) for e in plan.events] == [
        ("Paused", "The job is paused (pause 1).")
    ]
    assert len(world.pods) == 2, "their grace is theirs"
    assert world.settle() == ()
    assert world.status.pause_count == 1


def test_a_job_resumes_only_once_the_old_pods_are_gone() -> None:
    world = paused(World(generic()).started())
    world.resume()
    world.settle()
    assert (world.status.phase, len(world.made)) == ("Paused", 2)
    world.reap("job-worker-0")
    world.settle()
    assert (world.status.phase, len(world.made)) == ("Paused", 2)
    world.reap()
    told = world.settle()
    assert (world.status.phase, len(world.made)) == ("Resuming", 4)
    assert [e.reason for e in told] == ["Resuming", "CreatedPods"]
    assert world.condition("Paused")[0] == "False"
    world.run("job-worker-0")
    world.settle()
    assert world.status.phase == "Resuming"
    world.run("job-worker-1")
    world.settle()
    assert world.status.phase == "Running"
    assert world.condition("Running") == ("True", "-", "All pods are running normally.")


def test_resume_specs_hold_from_the_first_pause_on_for_restarts_too() -> None:
    mode = {"pause": {"enabled": False, "resumeSpecs": RESUME_SPECS}}
    world = World(xgboost(1, runMode=mode))
    for _ in range(2):
        assert world.step().pods == (), "services and probes first"
    assert commands(world.step().pods) == [["c"], ["c"]]
    world.run()
    world.settle()
    paused(world).reap()
    world.resume()
    plan = world.step()
    assert commands(plan.pods) == [["c"], ["resume", "--from-checkpoint"]]
    world.run()
    world.settle()
    world.end("job-worker-0", 1)
    world.settle()
    world.wait(1)
    world.settle()
    world.reap()
    plan = world.step()
    assert commands(plan.pods) == [["resume", "--from-checkpoint"]]


def test_a_job_created_paused_makes_no_pod_and_starts_with_its_resume_specs() -> None:
    mode = {"pause": {"enabled": True, "resumeSpecs": RESUME_SPECS}}
    world = World(generic({"worker": 1}, runMode=mode))
    world.settle()
    assert (world.status.phase, world.pods) == ("Paused", {})
    world.resume()
    plan = world.step()
    assert commands(plan.pods) == [["resume", "--from-checkpoint"]]
    assert world.status.phase == "Resuming"
    world.run()
    world.settle()
    assert world.status.phase == "Running"


def test_restart_counts_survive_a_pause_and_a_pause_uses_up_none() -> None:
    world = World(xgboost()).started()
    world.end("job-worker-0", 1)
    world.settle()
    paused(world)
    assert world.status.restarts == 1
    for name in list(world.pods):
        world.wait(1)
        world.end(name, 143)
    world.settle()
    world.reap()
    world.settle()
    assert world.status.restarts == 1
    world.resume()
    world.settle()
    world.run()
    world.settle()
    assert (world.status.restarts, world.status.phase) == (1, "Running")
    assert {pod.name: pod.attempt for pod in world.pods.values()} == {
        "job-master-0": 0,
        "job-worker-0": 1,
        "job-worker-1": 0,
    }


def test_a_replica_that_had_succeeded_starts_again_after_a_pause() -> None:
    world = World(generic()).started()
    world.end("job-worker-0", 0)
    world.settle()
    paused(world).reap()
    world.settle()
    world.resume()
    world.settle()
    assert sorted(world.replicas()) == ["job-worker-0", "job-worker-1"]


def test_a_replica_whose_ended_pod_was_gone_starts_again_after_a_pause_too() -> None:
    world = World(generic()).started()
    world.end("job-worker-0", 0)
    world.settle()
    del world.pods["job-worker-0"]
    world.settle()
    paused(world).reap()
    world.settle()
    world.resume()
    world.settle()
    assert sorted(world.replicas()) == ["job-worker-0", "job-worker-1"]


def test_pausing_a_finished_job_does_nothing() -> None:
    world = World(generic({"worker": 1})).started()
    world.end("job-worker-0", 0)
    world.settle()
    before = world.status
    # No API server takes that change of a finished job; should one, it has no effect.
    world.description = World(generic({"worker": 1}, runMode=PAUSED)).description
    assert world.settle() == ()
    assert world.status == before


def test_time_spent_paused_does_not_count_towards_the_deadline() -> None:
    world = World(xgboost(runPolicy={"activeDeadlineSeconds": 100})).started()
    assert world.decide().look_again_at == START + 100
    world.wait(40)
    paused(world)
    assert world.status.active_seconds == 40
    world.reap()
    world.settle()
    assert world.decide().look_again_at is None, "a paused job has no deadline"
    world.wait(5000)
    assert world.settle() == ()
    assert world.status.phase == "Paused"
    world.resume()
    world.settle()
    world.run()
    world.settle()
    assert world.decide().look_again_at == world.now + 60
    world.wait(59)
    world.settle()
    assert world.status.phase == "Running"
    paused(world).reap()
    assert world.status.active_seconds == 99
    world.resume()
    world.settle()
    world.run()
    world.settle()
    world.wait(1)
    world.settle()
    assert world.status.phase == "Failed"
    assert world.condition("Failed")[2] == (
        "The job ran longer than its activeDeadlineSeconds of 100 s."
    )
    assert world.events[-1].reason == "DeadlineExceeded"


def test_a_pause_taken_back_before_it_was_reached_makes_the_pods_anew_uncounted() -> None:
    world = World(generic()).started()
    world.pause()
    world.step()
    world.resume()
    world.settle()
    assert world.status.pause_count == 0
    world.reap()
    world.settle()
    world.run()
    world.settle()
    assert (world.status.phase, world.status.restarts, len(world.made)) == ("Running", 0, 4)


def test_a_rigid_gang_pauses_and_resumes_without_words_about_losses() -> None:
    world = World(mpi()).started()
    paused(world).reap("job-worker-0")
    world.settle()
    world.reap()
    world.settle()
    world.resume()
    world.settle()
    assert [e.reason for e in world.events if e.reason == "GangRecreated"] == []
    assert len(world.replicas()) == 3


# Debug.


@pytest.mark.parametrize(
    "manifest", [generic(), pytorch(), mpi(), deepspeed()], ids=lambda m: m["kind"]
)
def test_debug_on_and_off_replaces_the_pods_uncounted(manifest: dict[str, Any]) -> None:
    world = World(manifest).started()
    names = sorted(world.replicas())
    for is_on in (True, False):
        world.set(runMode__debug__enabled=is_on)
        world.settle()
        assert not world.replicas()
        world.reap()
        world.settle()
        world.run()
        world.settle()
        assert sorted(world.replicas()) == names
        assert (world.status.phase, world.status.restarts) == ("Running", 0)
        assert {pod.attempt for pod in world.pods.values()} == {0}
    assert len(world.made) == 3 * len(names)


def test_a_rigid_gang_that_leaves_debug_waits_until_all_debug_pods_are_gone() -> None:
    world = World(mpi(runMode={"debug": {"enabled": True}})).started()
    world.set(runMode__debug__enabled=False)
    del world.pods["job-worker-1"]
    world.settle()
    assert world.replicas() == []
    world.reap()
    world.settle()
    assert len(world.replicas()) == 3


@pytest.mark.parametrize("code", [0, 1, 137])
def test_a_debug_command_that_ends_neither_ends_nor_restarts(code: int) -> None:
    world = World(xgboost(runMode={"debug": {"enabled": True}})).started()
    for name in world.replicas():
        world.end(name, code)
    told = world.settle()
    world.wait(1000)
    told += world.settle()
    assert (world.status.phase, world.status.restarts) == ("Running", 0)
    assert len(world.made) == 3
    assert told == ()


def test_what_ended_in_debug_starts_when_debug_is_turned_off() -> None:
    world = World(xgboost(runMode={"debug": {"enabled": True}})).started()
    for name in world.replicas():
        world.end(name, 0)
    world.settle()
    del world.pods["job-worker-1"]
    world.settle()
    world.set(runMode__debug__enabled=False)
    world.settle()
    world.reap()
    world.settle()
    world.run()
    world.settle()
    assert sorted(world.replicas()) == ["job-master-0", "job-worker-0", "job-worker-1"]
    assert (world.status.phase, world.status.restarts) == ("Running", 0)


def test_pause_wins_over_debug() -> None:
    world = World(generic(runMode={"debug": {"enabled": True}, "pause": {"enabled": True}}))
    world.settle()
    assert (world.status.phase, world.pods) == ("Paused", {})
    world.resume()
    plan = world.step()
    assert commands(plan.pods) == [["sleep", "inf"], ["sleep", "inf"]]


def test_a_restart_counted_before_debug_is_not_forgotten() -> None:
    world = World(xgboost()).started()
    world.end("job-worker-0", 1)
    world.settle()
    world.wait(2)
    for is_on in (True, False):
        world.set(runMode__debug__enabled=is_on)
        world.settle()
        world.reap()
        world.settle()
        world.run()
        world.settle()
    assert world.status.restarts == 1
    assert world.pods["job-worker-0"].attempt == 1


# Elastic.


def test_an_elastic_job_grows_and_shrinks_without_touching_the_others() -> None:
    world = World(elastic_pytorch(1, 2, 5)).started()
    world.end("job-worker-1", 1)
    world.settle()
    world.wait(1)
    world.settle()
    world.reap()
    world.settle()
    world.run()
    world.settle()
    assert world.status.restarts == 1
    uids = {pod.name: pod.uid for pod in world.pods.values()}

    world.set(elastic__expectedReplicas=5)
    told = world.settle()
    assert [e.message for e in told] == [
        "From 2 to 5 replicas.",
        "Created 3 pods: job-worker-2, job-worker-3, job-worker-4.",
    ]
    world.run()
    world.settle()
    assert uids.items() <= {pod.name: pod.uid for pod in world.pods.values()}.items()
    assert (world.status.ready, world.status.phase) == ("5/5", "Running")

    world.set(elastic__expectedReplicas=1)
    plan = world.step()
    assert [d.name for d in plan.deletes] == [f"job-worker-{n}" for n in range(1, 5)]
    leaving = {row.phase for name, row in world.rows.items() if name != "job-worker-0"}
    assert leaving == {"Deleted"}, "known to be going until they are gone"
    told = world.settle()
    assert world.replicas() == ["job-worker-0"]
    world.reap()
    assert world.settle() == ()
    assert list(world.rows) == ["job-worker-0"]
    assert world.pods["job-worker-0"].uid == uids["job-worker-0"]
    assert (world.status.replicas, world.status.ready) == (1, "1/1")
    assert (world.status.restarts, world.status.backoff_count) == (1, 1)
    assert [task.restart_count for task in world.status.tasks] == [1]


def test_a_gang_that_grows_keeps_its_pod_group() -> None:
    scheduler = {"t9kScheduler": {"queue": "default", "priority": 50}}
    world = World(elastic_pytorch(1, 2, 5, scheduler=scheduler)).started()
    before = world.children["PodGroup", "job"].uid
    world.set(elastic__expectedReplicas=4)
    world.settle()
    assert world.children["PodGroup", "job"].uid == before


def test_a_rank_that_is_removed_and_wanted_again_waits_for_its_old_pod() -> None:
    world = World(elastic_pytorch(1, 2, 5)).started()
    world.set(elastic__expectedReplicas=1)
    world.settle()
    world.set(elastic__expectedReplicas=2)
    world.settle()
    assert world.made.count("job-worker-1") == 1
    world.reap()
    world.settle()
    world.run()
    world.settle()
    assert (world.made.count("job-worker-1"), world.status.ready) == (2, "2/2")


def test_an_elastic_job_runs_as_soon_as_min_replicas_do() -> None:
    world = World(elastic_pytorch(2, 4, 5))
    world.settle()
    world.run("job-worker-0")
    world.settle()
    assert world.status.phase == "Pending"
    world.run("job-worker-3")
    world.settle()
    assert world.status.phase == "Running"
