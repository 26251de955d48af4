"""What fields of the platforms' files do on a running engine, or with a controller on a real API
server, where the other tests of their files only look at what would be made of them.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from controller.controller_stage import Stage, Staging
from rig.cli_yard import Yard
from rig.engine import EngineKubectl, Room
from rig.kube.kubectl import Kubectl
from rig.kube.plane import ControlPlane
from rig.manifests import ROOT, documents

Json = dict[str, Any]
OCTOPUS = "octopus.openi.pcl.cn/v1alpha1"
QUEUES = "scheduler.tensorstack.dev/v1beta1"


@pytest.fixture
def yard(room: Room) -> Yard:
    return Yard(room)


@pytest.fixture
def staging(control_plane: ControlPlane, namespace: str, kubectl: Kubectl, crds: None) -> Staging:
    return Staging(control_plane, namespace, kubectl)


def role(name: str, script: str, **more: Any) -> Json:
    container = {"name": "main", "image": "x", "command": ["sh", "-c", script]}
    template = {"spec": {"terminationGracePeriodSeconds": 0, "containers": [container]}}
    return {"name": name, "template": template, **more}


def ended(yard: Yard, room: Room, name: str, *roles: Json) -> Json:
    """The status of a TaskSet that has come to an end."""
    spec = {"roles": [*roles]}
    manifest = {"apiVersion": OCTOPUS, "kind": "TaskSet", "metadata": {"name": name}, "spec": spec}
    yard.apply(name, json.dumps(manifest))
    found = room.until(
        "tasksets",
        name,
        lambda it: (it.get("status") or {}).get("phase") == "TaskSetCompleted",
        f"/apis/{OCTOPUS}",
    )
    status: Json = found["status"]
    return status


def test_a_declared_no_action_decides_and_of_two_entries_the_first(yard: Yard, room: Room) -> None:
    """The failed role is passed over: neither RoleCompleted nor the entry after it counts."""
    policy = [
        {"event": "RoleFailed", "action": "NoAction"},
        {"event": "RoleFailed", "action": "TaskSetFailed"},
        {"event": "RoleCompleted", "action": "TaskSetFailed"},
    ]
    decisive = [{"event": "RoleSucceeded", "action": "TaskSetSucceeded"}]
    status = ended(
        yard,
        room,
        "0passed",
        role("fails", "exit 1", eventPolicy=policy),
        role("ends", "sleep 2", eventPolicy=decisive),
    )
    assert status["state"] == "Succeeded", status
    assert {each["name"]: each["state"] for each in status["roleStatus"]} == {
        "fails": "Failed",
        "ends": "Succeeded",
    }


def test_maxfailed_0_fails_a_role_with_the_first_failure_and_not_before(
    yard: Yard, room: Room
) -> None:
    zero = {"maxFailed": 0, "minSucceeded": 2}
    good = ended(yard, room, "0good", role("r", "true", replicas=2, completionPolicy=zero))
    assert good["state"] == "Succeeded", good
    script = 'test "$TASKROLE_REPLICA_INDEX" = 0 && exit 1; exec sleep 600'
    bad = ended(yard, room, "0bad", role("r", script, replicas=2, completionPolicy=zero))
    assert bad["state"] == "Failed", bad
    assert "maxFailed 0" in bad["stateMessage"]


def test_more_failures_than_replicas_are_never_reached(yard: Yard, room: Room) -> None:
    """The role that can't succeed any more ends all the same."""
    policy = {"maxFailed": 9, "minSucceeded": 1}
    status = ended(yard, room, "0many", role("r", "exit 1", replicas=2, completionPolicy=policy))
    assert status["state"] == "Failed", status


def test_a_restart_policy_that_nobody_has_said_lets_a_replica_end(yard: Yard, room: Room) -> None:
    """In a pod an empty one means Always."""
    unsaid = role("r", "exit 3")
    unsaid["template"]["spec"]["restartPolicy"] = ""
    status = ended(yard, room, "0unsaid", unsaid)
    assert status["state"] == "Failed", status
    (row,) = status["roleStatus"][0]["replicaStatus"]
    assert row["terminatedInfo"]["exitCode"] == 3


JOB = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata: {name: queued}
spec:
  scheduler: {t9kScheduler: {queue: QUEUE, priority: 0}}
  replicaSpecs:
  - type: worker
    replicas: 2
    template: {spec: {containers: [{name: main, image: x, command: [sh, -c, "true"]}]}}
"""


def test_a_job_runs_in_a_queue_without_a_limit_and_with_the_platforms_fields(
    yard: Yard, room: Room, kubectl_binary: Any
) -> None:
    kubectl = EngineKubectl(kubectl_binary, room)
    name = f"q-{room.name}"[:63].rstrip("-")
    spec = {"maxDuration": "0", "resourceShapeProfile": "demo", "priority": 0}
    queue = {"apiVersion": QUEUES, "kind": "Queue", "metadata": {"name": name}, "spec": spec}
    kubectl("apply", "--validate=strict", "-f", "-", stdin=queue)
    gang = {"topologyPolicy": "Best", "roles": [{"name": "worker", "minMember": 1}]}
    group = {"apiVersion": QUEUES, "kind": "PodGroup", "metadata": {"name": "gang"}, "spec": gang}
    kubectl("apply", "--validate=strict", "-f", "-", stdin=group)
    stored = json.loads(kubectl("get", "podgroup", "gang", "-o", "json"))
    assert "minMember" not in stored["spec"]
    yard.apply("queued", JOB.replace("QUEUE", name))
    yard.does("wait", "queued", "--timeout", "60s")
    kubectl("delete", "queue", name)


def test_a_launchers_own_template_reaches_the_cluster_with_its_devices(staging: Staging) -> None:
    found = documents(ROOT / "tests" / "their_files" / "mpijob.yaml")
    (job,) = [each.value for each in found if each.value["metadata"]["name"] == "own-launcher"]

    async def act(stage: Stage) -> None:
        await stage.apply(job)
        await stage.until_pods("own-launcher", "launcher", "worker-0", "worker-1")
        pods = stage.pods("own-launcher")
        (launcher,) = pods["own-launcher-launcher"]["spec"]["containers"]
        assert launcher["resources"]["limits"] == {"cpu": "1", "nvidia.com/gpu": "1"}
        # What it lacks is the workers'.
        assert launcher["image"] == "mpi:4.1"
        for n in range(2):
            labels = pods[f"own-launcher-worker-{n}"]["metadata"]["labels"]
            assert (labels["job-role"], labels["replica-index"]) == ("worker", str(n))
        labels = pods["own-launcher-launcher"]["metadata"]["labels"]
        assert (labels["job-role"], labels["replica-index"]) == ("master", "0")

    staging.play(act)
