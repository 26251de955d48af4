"""Objects that nobody thought of, on a running engine: one of them costs only itself."""

from __future__ import annotations

from typing import Any

import pytest
from rig.engine import JOBS, JSON, Room

PREFIX = "batch.tensorstack.dev"
HUGE = "9" * 4_400
MANAGED = {"app.kubernetes.io/managed-by": "jobyard", f"{PREFIX}/replica-type": "worker"}
TASKSETS = "/apis/octopus.openi.pcl.cn/v1alpha1"
SUCCEEDED = ("Succeeded",)


def odd_pod(name: str, annotations: dict[str, str], **resources: Any) -> JSON:
    main = {"name": "main", "image": "any", "command": ["true"], "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": MANAGED, "annotations": annotations},
        "spec": {"containers": [main], "restartPolicy": "Never"},
    }


def job(name: str, *command: str) -> JSON:
    main = {"name": "main", "image": "any", "command": list(command)}
    spec = {
        "replicaSpecs": [
            {"type": "worker", "replicas": 1, "template": {"spec": {"containers": [main]}}}
        ]
    }
    about = {"apiVersion": f"{PREFIX}/v1beta1", "kind": "GenericJob"}
    return {**about, "metadata": {"name": name}, "spec": spec}


def taskset(name: str) -> JSON:
    words = ("attempt", "pods-before", "revision", "digest")
    metadata = {"annotations": {f"{PREFIX}/{word}": HUGE for word in words}}
    main = {"name": "main", "image": "any", "command": ["true"]}
    template = {"metadata": metadata, "spec": {"containers": [main], "restartPolicy": "Never"}}
    role = {
        "name": "worker",
        "replicas": 1,
        "template": template,
        "completionPolicy": {"minSucceeded": 1},
    }
    about = {"apiVersion": "octopus.openi.pcl.cn/v1alpha1", "kind": "TaskSet"}
    return {**about, "metadata": {"name": name}, "spec": {"roles": [role]}}


def still_works(room: Room, name: str) -> None:
    """A pod and a job come to their end."""
    room.pod(f"{name}-pod", "true")
    room.until("pods", f"{name}-pod", lambda pod: pod["status"].get("phase") in SUCCEEDED)
    room.create("genericjobs", job(name, "true"), JOBS)
    done = "Succeeded"
    room.until("genericjobs", name, lambda o: o.get("status", {}).get("phase") == done, JOBS)


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param({f"{PREFIX}/attempt": HUGE}, id="an attempt"),
        pytest.param({f"{PREFIX}/pods-before": HUGE}, id="pods before it"),
        pytest.param({f"{PREFIX}/attempt": "²"}, id="a raised digit"),
        pytest.param({"jobyard.dev/gpu-devices": f"{HUGE},²,-1,0"}, id="devices"),
    ],
)
def test_a_number_in_an_annotation_stops_neither_engine_nor_scheduler(
    room: Room, annotations: dict[str, str]
) -> None:
    room.create("pods", odd_pod("odd", annotations))
    still_works(room, "after")


@pytest.mark.parametrize("amount", ["1e300", "9" * 900, "1e-3000000", "0." + "0" * 900 + "1"])
def test_a_pod_that_asks_for_any_amount_costs_only_itself(room: Room, amount: str) -> None:
    limits = {"cpu": amount, "memory": amount}
    room.create("pods", odd_pod("odd", {}, limits=limits, requests=limits))
    still_works(room, "after")


def test_a_phase_that_nobody_knows_stops_neither_engine_nor_controller(room: Room) -> None:
    room.pod("odd", "sleep", "1000")
    room.until("pods", "odd", lambda pod: pod["status"].get("phase") == "Running")
    answer = room.engine.ask(
        "PATCH",
        f"{room.path('pods', 'odd')}/status",
        {"metadata": {"labels": MANAGED}, "status": {"phase": "Weird"}},
        content_type="application/merge-patch+json",
    )
    assert answer.status == 200, answer.text
    still_works(room, "after")
    answer = room.engine.ask("DELETE", room.path("pods", "odd"))
    assert answer.status == 200, answer.text


def test_a_taskset_cannot_tell_its_pods_how_they_came_to_be_on_one_machine(room: Room) -> None:
    room.create("tasksets", taskset("odd"), TASKSETS)
    done = "Succeeded"
    room.until("tasksets", "odd", lambda o: o.get("status", {}).get("state") == done, TASKSETS)
    still_works(room, "after")


@pytest.mark.parametrize(
    ("what", "code"),
    [
        ("log?sinceSeconds=9223372036854775807", 200),
        (f"log?sinceSeconds={HUGE}", 400),
        ("log?sinceTime=0001-01-01T00:00:00Z", 200),
        ("log?sinceTime=9999-12-31T23:59:59Z", 200),
        ("log?tailLines=9223372036854775807&limitBytes=9223372036854775807", 200),
        ("log?run=9223372036854775807", 200),
        (f"log?run={HUGE}", 400),
        ("log?attempt=9223372036854775807", 404),
        (f"log?attempt={HUGE}", 400),
        ("log?attempt=%C2%B2", 400),
    ],
)
def test_a_log_is_asked_for_with_any_number(room: Room, what: str, code: int) -> None:
    room.pod("talks", "sh", "-c", "echo hello; sleep 1000")
    room.running("talks")
    answer = room.engine.ask("GET", f"{room.path('pods', 'talks')}/{what}")
    assert answer.status == code, answer.text
    assert "Internal error" not in answer.text


@pytest.mark.parametrize("port", ["0000199999", "000001999999999", HUGE, "%C2%B2", "0", "65536"])
def test_a_pod_is_asked_at_any_port_and_lives(room: Room, port: str) -> None:
    room.pod("lives", "sleep", "1000")
    before = room.running("lives")
    answer = room.engine.ask("GET", f"{room.path('pods', f'lives:{port}')}/proxy/")
    assert answer.status == 400, answer.text
    after = room.get("pods", "lives")
    assert after["status"]["phase"] == "Running"
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
