"""A pod that doesn't start and doesn't say why: its events are asked for, and told of."""

from __future__ import annotations

import json

import pytest
from rig.job_manifests import pytorch

from jobyard.controller.warnings import last_warning
from jobyard.plan.facts.decision import PodWarning
from plan.deciding.job_world import World

LONG = "new\n line " + "x" * 5000
SAID = 'MountVolume.SetUp failed for volume "data" : secret "keys" not found'


def waiting() -> World:
    """Ten seconds after its pods were given to a node, nothing of them runs."""
    world = World(pytorch({"worker": 8}))
    world.settle()
    world.schedule(*world.pods)
    world.settle()
    assert world.decide().pods_to_ask == ()
    world.wait(10)
    return world


def test_pods_that_are_slow_to_start_are_asked_about() -> None:
    world = waiting()
    plan = world.decide()
    assert len(plan.pods_to_ask) == 5, "some of them tell as much as all"
    assert plan.look_again_at is not None
    world.run()
    assert world.decide().pods_to_ask == ()


def test_what_their_events_say_is_in_condition_and_row() -> None:
    world = waiting()
    pod = world.pods["job-worker-0"]
    world.pod_warnings[pod.uid] = PodWarning("FailedMount", SAID)
    world.settle()
    assert f"0 of 8 running; worker-0: FailedMount: {SAID}" in world.condition("Running")[2]
    assert world.rows["job-worker-0"].reason == "FailedMount"
    world.run()
    world.settle()
    assert world.rows["job-worker-0"].reason == ""


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b'{"items":[]}', id="no events"),
        pytest.param(b'{"items":[{"reason":7}]}', id="a reason that is none"),
        pytest.param(b'{"items":' + b"[" * 5000 + b"]" * 5000 + b"}", id="deep"),
        pytest.param(b'{"items":[{"message":"\xff"}]}', id="no text"),
    ],
)
def test_events_that_cannot_be_read_say_nothing(body: bytes) -> None:
    assert last_warning(body) is None


def test_the_latest_event_tells_in_one_line_of_bounded_length() -> None:
    events = [
        {
            "reason": "FailedMount",
            "message": "new\n line " + "x" * 5000,
            "lastTimestamp": "2026-02",
        },
        {"reason": "Old", "message": "old", "lastTimestamp": "2026-01"},
    ]
    told = last_warning(json.dumps({"items": events}).encode())
    assert told is not None
    assert told.reason == "FailedMount"
    assert told.message.startswith("new line xxx")
    assert len(told.message) == 300
