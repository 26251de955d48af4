"""Pods that the cluster takes away, nodes that fall silent, namespaces that are full."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from rig.job_manifests import elastic_pytorch, generic, mpi, pytorch

from jobyard.plan.facts.decision import NAME_TAKEN, QUOTA_EXCEEDED, Obstacle
from jobyard.plan.facts.pod_facts import Pod, PodObject, facts_of
from jobyard.plan.moments import text_of
from plan.deciding.job_world import START, World

SIDECAR = {"name": "sidecar", "image": "i"}
FULL = Obstacle(QUOTA_EXCEEDED, 'pods "job-worker-1" is forbidden: exceeded quota: small')


def with_sidecar() -> dict[str, Any]:
    manifest = pytorch({"worker": 2})
    manifest["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"].append(SIDECAR)
    return manifest


def test_a_program_that_saves_its_work_when_thrown_out_has_not_succeeded() -> None:
    world = World(pytorch({"worker": 2})).started()
    world.take_away("job-worker-0", code=0)
    world.settle()
    assert world.status.phase == "Running"
    world.wait(2)
    world.settle()
    world.reap()
    world.settle()
    assert world.made.count("job-worker-0") == 2
    assert world.status.restarts == 0


def test_what_had_succeeded_before_its_pod_was_thrown_out_has() -> None:
    world = World(with_sidecar()).started()
    world.end("job-worker-0", 0, sidecars_run=True)
    world.wait(60)
    world.take_away("job-worker-0", code=None)
    world.settle()
    assert world.status.phase == "Succeeded"


def test_what_had_failed_before_its_pod_was_thrown_out_counts() -> None:
    world = World(with_sidecar()).started()
    world.end("job-worker-0", 1, sidecars_run=True)
    world.wait(60)
    world.take_away("job-worker-0", code=None)
    world.settle()
    assert world.status.restarts == 1


def test_in_debug_mode_too_a_node_that_takes_no_pods_gets_one_after_a_while() -> None:
    manifest = pytorch({"worker": 1})
    manifest["spec"]["runMode"] = {"debug": {"enabled": True}}
    world = World(manifest).started()
    world.take_away("job-worker-0", code=None)
    for seconds, made in ((0, 1), (2, 2)):
        world.wait(seconds)
        world.settle()
        world.reap()
        world.settle()
        assert world.made.count("job-worker-0") == made
    assert not world.status.restarts


def test_annotations_copied_from_a_pod_of_ours_do_not_make_pods_outdated() -> None:
    manifest = generic({"worker": 1})
    template = manifest["spec"]["replicaSpecs"][0]["template"]
    copied = {"revision": "debug", "pods-before": "3", "attempt": "2", "theirs": "stays"}
    template["metadata"] = {
        "annotations": {f"batch.tensorstack.dev/{name}": value for name, value in copied.items()}
    }
    world = World(manifest).started()
    assert world.made == ["job-worker-0"]
    pod = world.pods["job-worker-0"]
    assert (pod.revision.startswith("spec1-"), pod.pods_before) == (True, 0)


def facts(status: dict[str, Any]) -> Pod:
    pod = {"metadata": {"name": "p", "creationTimestamp": text_of(START)}, "status": status}
    return facts_of(msgspec.convert(pod, PodObject))


@pytest.mark.parametrize(
    "reason",
    [
        "Evicted",
        "Preempting",
        "Terminated",
        "OutOfcpu",
        "OutOfnvidia.com/gpu",
        "OutOfephemeral-storage",
        "TopologyAffinityError",
        "UnexpectedAdmissionError",
    ],
)
def test_reasons_of_a_pod_that_was_taken_away(reason: str) -> None:
    assert facts({"phase": "Failed", "reason": reason}).was_taken_away
    assert not facts({"phase": "Running", "reason": reason}).was_taken_away


@pytest.mark.parametrize("reason", ["", "DeadlineExceeded", "Error", "AppArmor"])
def test_reasons_that_are_the_pods_own(reason: str) -> None:
    assert not facts({"phase": "Failed", "reason": reason}).was_taken_away


def test_when_a_pod_was_taken_away() -> None:
    target = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": text_of(START)}
    assert facts({"conditions": [target]}).taken_away_at == START
    ends = [
        {"name": name, "state": {"terminated": {"exitCode": 0, "finishedAt": text_of(at)}}}
        for name, at in (("a", START + 5), ("b", START + 9))
    ]
    thrown_out = {"phase": "Failed", "reason": "Evicted", "containerStatuses": ends}
    assert facts(thrown_out).taken_away_at == START + 9
    # A node that was down tells of it only when it is back.
    late = {**target, "lastTransitionTime": text_of(START + 600)}
    assert facts({**thrown_out, "conditions": [late]}).taken_away_at == START + 9


@pytest.mark.parametrize(
    ("reason", "is_out"), [("", True), ("ContainersNotReady", False), ("PodCompleted", False)]
)
def test_readiness_without_a_reason_is_a_silent_node(reason: str, is_out: bool) -> None:
    ready = {"type": "Ready", "status": "False", "reason": reason}
    assert facts({"phase": "Running", "conditions": [ready]}).is_out_of_reach is is_out


def test_a_job_whose_nodes_all_fall_silent_is_unknown_until_they_are_heard_of() -> None:
    world = World(pytorch({"worker": 2})).started()
    world.lose_sight_of("job-worker-0")
    world.settle()
    assert world.status.phase == "Running"
    world.lose_sight_of("job-worker-1")
    world.settle()
    assert world.status.phase == "Unknown"
    assert "worker-0: its node can't be reached" in world.condition("Running")[2]
    world.see_again("job-worker-0", "job-worker-1")
    world.settle()
    assert world.status.phase == "Running"
    assert len(world.made) == 2


def test_a_job_whose_node_falls_silent_before_all_have_started_is_still_pending() -> None:
    world = World(pytorch({"worker": 2}))
    world.settle()
    world.run("job-worker-0")
    world.settle()
    assert world.status.phase == "Pending"
    world.lose_sight_of("job-worker-0")
    del world.pods["job-worker-1"]
    world.obstacles[("Pod", "job-worker-1")] = FULL
    world.refused[("Pod", "job-worker-1")] = FULL
    world.settle()
    assert world.status.phase == "Pending"
    world.see_again("job-worker-0")
    world.settle()
    assert world.status.phase == "Pending"


def test_a_gang_whose_nodes_have_other_clocks_is_remade_all_the_same() -> None:
    """The launcher's node is some seconds behind that of the worker which was evicted."""
    world = World(mpi()).started()
    world.wait(60)
    world.end("job-launcher", 1)
    world.wait(3)
    world.take_away("job-worker-1")
    world.settle()
    assert world.status.phase == "Running"
    assert "GangRecreated" in [event.reason for event in world.events]


def test_an_elastic_job_in_which_others_have_done_their_work_goes_on() -> None:
    manifest = elastic_pytorch(2, 3, 3)
    manifest["spec"]["replicaSpecs"][0]["restartPolicy"] = "Never"
    world = World(manifest).started()
    world.end("job-worker-2", 1)
    world.settle()
    assert world.status.phase == "Running"
    world.end("job-worker-1", 0)
    world.settle()
    assert world.status.phase == "Running"
    world.end("job-worker-0", 0)
    world.settle()
    assert world.status.phase == "Succeeded"


def test_a_namespace_that_is_full_takes_no_pod_away() -> None:
    world = World(generic({"worker": 2}))
    world.refused[("Pod", "job-worker-1")] = FULL
    world.settle()
    assert world.made == ["job-worker-0"]
    assert world.condition("Initialized") == ("False", "QuotaExceeded", FULL.message)
    status, reason, message = world.condition("Running")
    assert (status, reason) == ("False", "QuotaExceeded")
    assert "exceeded quota: small" in message
    assert [e.message for e in world.events if e.reason == "QuotaExceeded"] == [message]
    world.refused.clear()
    world.settle()
    assert world.made == ["job-worker-0", "job-worker-1"]
    assert world.condition("Initialized")[0] == "True"
    assert not [pod for pod in world.pods.values() if pod.is_terminating]


def test_in_debug_mode_a_name_that_is_taken_is_told_of_too() -> None:
    world = World(generic({"worker": 2}, runMode={"debug": {"enabled": True}})).started()
    taken = Obstacle(NAME_TAKEN, "Pod default/job-worker-1 is there already")
    del world.pods["job-worker-1"]
    world.refused[("Pod", "job-worker-1")] = taken
    world.settle()
    assert world.condition("Running")[1] == "NameTaken"
    assert "NameTaken" in [event.reason for event in world.events]
    assert world.condition("Completed")[1] == "Debug"
