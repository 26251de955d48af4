"""The decision about a TaskSet: its policies as a table, and whole lives in a small world."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import yaml
from rig.manifests import ROOT

from jobyard.api.parts.taskset_status import (
    RolePhase,
    RoleReplicaPhase,
    TaskSetPhase,
    TaskSetState,
    TaskSetStatus,
)
from jobyard.api.taskset import Role
from jobyard.plan.facts.decision import Child, Observed, Obstacle, Plan
from jobyard.plan.facts.ends import SKEW_SECONDS
from jobyard.plan.taskset.decide import decide_taskset
from plan.taskset_world import World, completion, retry, role, started

GOES_ON = (TaskSetState.RUNNING, TaskSetPhase.RUNNING)
SUCCEEDED = (TaskSetState.SUCCEEDED, TaskSetPhase.COMPLETED)
FAILED = (TaskSetState.FAILED, TaskSetPhase.COMPLETED)
RETRIED = (TaskSetState.RUNNING, TaskSetPhase.DELETION_PENDING)

# minSucceeded and maxFailed of three replicas, their exit codes (None: runs on), and the result.
COMPLETIONS = [
    ("enough succeeded", completion(2, 2), (0, 0, None), True),
    ("all have to by default", None, (0, 0, 0), True),
    ("success is looked at first", completion(1, 1), (1, 0, None), True),
    ("too many failed", completion(1, 2), (1, 1, None), False),
    ("one failure by default", None, (1, None, None), False),
    ("two of three are out of reach", completion(2, 3), (0, 1, 1), False),
    ("out of reach while one runs", completion(3, 3), (0, 1, None), False),
    ("more failures allowed than replicas", completion(3, 9), (1, 1, 1), False),
    ("nothing decided yet", completion(2, 2), (0, 1, None), None),
    ("one failure less than allowed", completion(1, 3), (1, 1, None), None),
]
# What is listed, and what it makes of a role's success and failure.
LISTINGS: list[tuple[dict[str, str], Any, Any]] = [
    ({}, GOES_ON, FAILED),
    ({"RoleFailed": "TaskSetFailed"}, GOES_ON, FAILED),
    ({"RoleFailed": "TaskSetSucceeded"}, GOES_ON, SUCCEEDED),
    ({"RoleFailed": "TaskSetCompleted"}, GOES_ON, FAILED),
    ({"RoleFailed": "NoAction"}, GOES_ON, GOES_ON),
    ({"RoleSucceeded": "TaskSetFailed"}, FAILED, FAILED),
    ({"RoleSucceeded": "TaskSetSucceeded"}, SUCCEEDED, FAILED),
    ({"RoleSucceeded": "TaskSetCompleted"}, SUCCEEDED, FAILED),
    ({"RoleSucceeded": "NoAction"}, GOES_ON, FAILED),
    ({"RoleCompleted": "TaskSetFailed"}, FAILED, FAILED),
    ({"RoleCompleted": "TaskSetSucceeded"}, SUCCEEDED, SUCCEEDED),
    ({"RoleCompleted": "TaskSetCompleted"}, SUCCEEDED, FAILED),
    ({"RoleCompleted": "NoAction"}, GOES_ON, GOES_ON),
    ({"RoleCompleted": "TaskSetSucceeded", "RoleFailed": "NoAction"}, SUCCEEDED, GOES_ON),
    ({"RoleCompleted": "NoAction", "RoleFailed": "TaskSetFailed"}, GOES_ON, FAILED),
    ({"RoleCompleted": "TaskSetFailed", "RoleSucceeded": "NoAction"}, GOES_ON, FAILED),
]


def events(listing: dict[str, str]) -> list[dict[str, str]]:
    return [{"event": event, "action": action} for event, action in listing.items()]


@pytest.mark.parametrize("is_retried", [False, True], ids=["no retry", "retry"])
@pytest.mark.parametrize(
    ("listing", "on_success", "on_failure"),
    LISTINGS,
    ids=[", ".join(f"{e} → {a}" for e, a in x[0].items()) or "default" for x in LISTINGS],
)
@pytest.mark.parametrize(
    ("policy", "codes", "result"), [c[1:] for c in COMPLETIONS], ids=[c[0] for c in COMPLETIONS]
)
def test_completion_event_and_retry(
    policy: dict[str, int] | None,
    codes: tuple[int | None, ...],
    result: bool | None,
    listing: dict[str, str],
    on_success: Any,
    on_failure: Any,
    is_retried: bool,
) -> None:
    fields = {"completionPolicy": policy} if policy else {}
    world = World(
        role("first", 3, eventPolicy=events(listing), **fields),
        role("other"),
        **({"retryPolicy": retry(1)} if is_retried else {}),
    )
    started(world)
    for index, code in enumerate(codes):
        if code is not None:
            world.exit(f"t-first-0-0-{index}", code)
    world.carry_out(world.decide())
    want = GOES_ON if result is None else on_success if result else on_failure
    assert world.standing == (RETRIED if is_retried and want == FAILED else want)
    if result is not None:
        ends = (TaskSetState.FAILED, TaskSetState.SUCCEEDED)
        assert world.role("first").state is ends[result]
        assert "of 3 replicas" in world.role("first").state_message
    world.settle()
    assert world.standing[0] in (want[0], TaskSetState.RUNNING, TaskSetState.WAITING)


def test_the_first_example_of_the_original() -> None:
    manifest = yaml.safe_load((ROOT / "tests/originals/taskset.yaml").read_text())
    world = World(*manifest["spec"]["roles"], retryPolicy=manifest["spec"]["retryPolicy"])
    world.settle()
    names = ["t-ps-0-0-0", *(f"t-worker-0-0-{n}" for n in range(3))]
    assert list(world.pods) == names
    for name in names:
        world.pods[name]["spec"] = {"nodeName": "node-1"}
        state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
        world.pods[name]["status"] = {
            "phase": "Running",
            "containerStatuses": [{"name": "worker", "state": state}],
        }
    world.settle()
    assert world.standing == GOES_ON
    for name in names[1:3]:
        ended = {"terminated": {"exitCode": 0, "reason": "Completed"}}
        world.pods[name]["status"] = {
            "phase": "Succeeded",
            "containerStatuses": [{"name": "worker", "state": ended}],
        }
    world.settle()
    world.reap()
    world.settle()
    assert world.standing == SUCCEEDED
    assert world.status is not None
    assert world.status.state_message == (
        "Role worker succeeded: 2 of 3 replicas succeeded (minSucceeded 2), 0 failed."
        " Decided by eventPolicy RoleSucceeded → TaskSetSucceeded."
    )
    assert (world.pods, world.units) == ({}, {})
    assert [row.stopped for row in world.role("worker").replica_status] == [False, False, True]
    assert_nothing_runs(world.status)


def assert_nothing_runs(status: TaskSetStatus) -> None:
    assert status.finish_at
    for each in status.role_status:
        assert each.phase is RolePhase.COMPLETED
        assert each.state in (TaskSetState.SUCCEEDED, TaskSetState.FAILED)
        assert {row.phase for row in each.replica_status} == {RoleReplicaPhase.COMPLETED}


def test_a_taskset_starts_with_its_unit_and_probes_then_all_pods() -> None:
    world = World(role("a", 2), role("b"))
    first = world.decide()
    assert [unit["metadata"]["name"] for unit in first.supporting] == ["c-t-0"]
    assert (first.probes, first.pods) == ((), ())
    world.carry_out(first)
    assert world.standing == (TaskSetState.WAITING, TaskSetPhase.PENDING)
    second = world.decide()
    assert [probe["metadata"]["name"] for probe in second.probes] == ["t-a-0-0-0", "t-b-0-0-0"]
    assert second.pods == ()
    world.carry_out(second)
    third = world.decide()
    assert third.probes == ()
    assert len(third.pods) == 3
    assert third.events[-1].message == "Created 3 pods: t-a-0-0-0, t-a-0-0-1, t-b-0-0-0."
    world.carry_out(third)
    world.settle()
    assert world.standing == (TaskSetState.WAITING, TaskSetPhase.PREPARING)
    assert world.row("a").phase is RoleReplicaPhase.PREPARING
    world.run("t-a-0-0-0")
    world.settle()
    assert world.standing == GOES_ON
    assert (world.role("a").phase, world.role("b").phase) == (RolePhase.RUNNING, RolePhase.WAITING)
    assert world.row("a").pod_ip == "10.0.0.1"
    assert world.status is not None
    assert world.status.control_unit_uid == world.units["c-t-0"].uid


def test_a_replica_is_retried_alone_after_its_delay() -> None:
    world = started(World(role("w", 2, retryPolicy=retry(1, delay=10))))
    world.now += 0.5
    failed_at = world.now
    world.exit("t-w-0-0-1", 3, message="out of luck")
    world.settle()
    row = world.row("w", 1)
    assert (row.phase, row.total_retried_count) == (RoleReplicaPhase.RETRY_PENDING, 1)
    assert row.terminated_info is not None
    assert row.terminated_info.exit_message == "out of luck"
    assert world.told("ReplicaFailed") == [
        "w-1: Error (exit code 3); retry 1 of 1 in 10 s: out of luck"
    ]
    due = world.decide().look_again_at
    assert due is not None
    assert failed_at + 10 <= due < failed_at + 11
    world.now = due - 0.1
    assert world.decide().is_empty
    world.now = due
    world.settle()
    assert list(world.pods) == ["t-w-0-0-0", "t-w-0-0-1", "t-w-0-1-1"]
    assert world.row("w", 0).phase is RoleReplicaPhase.RUNNING
    world.run("t-w-0-1-1")
    world.settle()
    world.exit("t-w-0-1-1", 4)
    world.settle()
    assert world.standing == FAILED
    assert world.row("w", 1).total_retried_count == 1
    assert world.told("RoleFailed") == [
        "Role w failed: 1 of 2 replicas failed (maxFailed 1), 0 succeeded."
    ]


def test_a_retry_is_not_counted_when_the_role_ends_with_it() -> None:
    world = started(World(role("w", 2, completionPolicy=completion(1, 2), retryPolicy=retry(3))))
    world.exit("t-w-0-0-0", 1)
    world.exit("t-w-0-0-1", 0)
    world.settle()
    assert world.standing == SUCCEEDED
    row = world.row("w")
    assert (row.total_retried_count, row.pod_name) == (0, "t-w-0-0-0")
    assert world.told("ReplicaFailed") == ["w-0: Error (exit code 1); not started again"]


def test_sidecars_that_run_on_are_gone_before_the_next_attempt() -> None:
    world = started(World(role("w", retryPolicy=retry(1))))
    world.exit("t-w-0-0-0", 1, sidecar=True)
    world.settle()
    assert world.facts("t-w-0-0-0").is_terminating
    assert world.row("w").total_retried_count == 1
    assert list(world.pods) == ["t-w-0-0-0"]
    world.reap()
    world.settle()
    assert list(world.pods) == ["t-w-0-1-0"]
    world.exit("t-w-0-1-0", 0, sidecar=True)
    world.settle()
    assert world.standing == SUCCEEDED


def test_a_container_that_the_kubelet_restarts_has_not_ended() -> None:
    spec = role("w")
    spec["template"]["spec"]["restartPolicy"] = "OnFailure"
    world = started(World(spec))
    world.exit("t-w-0-0-0", 1, sidecar=True)
    world.settle()
    assert world.standing == GOES_ON
    assert world.row("w").phase is RoleReplicaPhase.RUNNING
    world.exit("t-w-0-0-0", 0)
    world.settle()
    assert world.standing == SUCCEEDED


@pytest.mark.parametrize("how", ["vanishes", "is deleted", "is evicted", "is deleted and ends"])
def test_a_lost_pod_is_made_anew_uncounted(how: str) -> None:
    name = "t-w-0-0-1"
    world = started(World(role("w", 2, retryPolicy=retry(1))))
    uid = world.row("w", 1).pod_uid
    if how == "vanishes":
        del world.pods[name]
    elif how == "is evicted":
        world.evict(name)
    else:
        world.delete(name)
        world.settle()
        assert world.row("w", 1).phase is RoleReplicaPhase.DELETION_REQUESTED
        if how == "is deleted and ends":
            world.now += 1
            world.exit(name, 143)
            world.settle()
        world.reap()
    world.settle()
    if how == "is evicted":
        # A node that refuses pods is no reason to hurry.
        assert world.row("w", 1).phase is RoleReplicaPhase.DELETION_PENDING
        world.now += 5
        world.settle()
    assert world.status is not None
    assert world.status.preempt_count == 1
    row = world.row("w", 1)
    assert (row.pod_name, row.total_retried_count) == (name, 0)
    assert row.pod_uid not in (None, uid)
    assert world.made[name] == 2
    assert len(world.told("ReplicaLost")) == 1
    assert world.standing == GOES_ON


@pytest.mark.parametrize("how", ["is marked", "is told to go", "has ended of it"])
def test_a_replica_that_was_too_old_for_its_queue_has_failed(how: str) -> None:
    """To be made anew uncounted, it would be too old again and again."""
    world = started(World(role("w", retryPolicy=retry(1))))
    for attempt, standing in ((0, GOES_ON), (1, FAILED)):
        name = f"t-w-0-{attempt}-0"
        held = {"type": "MaxDurationExceeded", "status": "True", "message": "older than 60 s"}
        status = world.pods[name]["status"]
        world.exits[name] = 143
        status["conditions"] = [held]
        if how != "is marked":
            world.delete(name)
        if how == "has ended of it":
            # With 0, for it has saved its work.
            world.exit(name, 0)
            world.exits[name] = 143
            world.pods[name]["status"]["conditions"] = [held]
        world.settle()
        world.reap()
        world.settle()
        assert world.standing == standing
        world.run()
        world.settle()
    assert world.row("w").total_retried_count == 1
    info = world.row("w").terminated_info
    assert info is not None
    assert (info.reason, info.exit_message) == ("MaxDurationExceeded", "older than 60 s")
    assert world.status is not None
    assert world.status.preempt_count == 0


def test_an_end_before_somebody_deleted_the_pod_counts() -> None:
    world = started(World(role("w", retryPolicy=retry(1))))
    world.exit("t-w-0-0-0", 0, sidecar=True)
    # Beyond what the clocks of a node and of the API server may differ by.
    world.now += SKEW_SECONDS + 1
    world.delete("t-w-0-0-0")
    world.settle()
    assert world.standing == SUCCEEDED


def test_whoever_was_seen_to_run_on_ended_because_it_was_told_to() -> None:
    """Whatever its node's clock says, which may have fallen behind while the pod ran."""
    world = started(World(role("w", retryPolicy=retry(1))))
    world.now += 600
    world.delete("t-w-0-0-0")
    world.settle()
    world.now -= 300
    world.exit("t-w-0-0-0", 0)
    world.now += 300
    world.settle()
    assert world.standing == GOES_ON
    world.reap()
    world.settle()
    world.run()
    world.settle()
    assert world.standing == GOES_ON
    assert world.row("w").total_retried_count == 0


def test_what_ended_out_of_sight_before_it_was_told_to_go_counts() -> None:
    """Its node couldn't be reached: that it seemed to run on says nothing."""
    world = started(World(role("w", retryPolicy=retry(1))))
    unheard = {"type": "Ready", "status": "False"}
    world.pods["t-w-0-0-0"]["status"]["conditions"] = [unheard]
    world.now += 300
    world.delete("t-w-0-0-0")
    world.settle()
    world.now -= 200
    world.exit("t-w-0-0-0", 0)
    world.now += 200
    world.settle()
    assert world.standing == SUCCEEDED


def test_pods_follow_a_control_unit_that_was_replaced() -> None:
    world = started(World(role("w")))
    del world.units["c-t-0"]
    world.settle()
    world.reap()
    world.settle()
    assert world.status is not None
    assert world.status.control_unit_uid == world.units["c-t-0"].uid
    assert world.facts("t-w-0-0-0").owner.uid == world.units["c-t-0"].uid
    assert world.status.preempt_count == 1


def test_the_whole_is_retried_once_all_is_gone_and_the_delay_is_over() -> None:
    world = started(
        World(role("w", 2, retryPolicy=retry(1)), role("ps"), retryPolicy=retry(1, delay=20))
    )
    assert world.status is not None
    began = world.status.start_at
    world.exit("t-w-0-0-0", 1)
    world.settle()
    world.exit("t-w-0-1-0", 1)
    world.carry_out(world.decide())
    assert world.standing == RETRIED
    assert world.told("Retrying") == [
        "Attempt 0 failed: Role w failed: 1 of 2 replicas failed (maxFailed 1), 0 succeeded."
        " Decided by RoleFailed → TaskSetFailed, the default."
        " Retry 1 of 1 follows 20 s after its pods are gone."
    ]
    world.settle()
    assert world.status.phase is TaskSetPhase.DELETION_REQUESTED
    assert world.units == {}
    world.now += 100
    world.reap()
    world.settle()
    assert world.standing == (TaskSetState.WAITING, TaskSetPhase.RETRY_PENDING)
    assert world.decide().look_again_at == world.now + 20
    world.now += 19
    assert world.decide().is_empty
    world.now += 1
    world.settle()
    assert sorted(world.pods) == ["t-ps-1-0-0", "t-w-1-0-0", "t-w-1-0-1"]
    assert list(world.units) == ["c-t-1"]
    assert world.status.total_retried_count == 1
    assert world.row("w").total_retried_count == 0
    started(world)
    assert world.standing == GOES_ON
    assert world.status.start_at == began
    world.exit("t-ps-1-0-0", 1)
    world.settle()
    assert world.standing == FAILED
    assert world.status.state_message.endswith("No retry is left (1 of 1 used).")


def test_a_retry_that_is_pending_ends_with_its_policy() -> None:
    world = started(World(role("w"), retryPolicy=retry(1, delay=3600)))
    world.exit("t-w-0-0-0", 1)
    world.settle()
    assert world.standing == (TaskSetState.WAITING, TaskSetPhase.RETRY_PENDING)
    world.spec = msgspec.structs.replace(world.spec, retry_policy=None)
    world.settle()
    assert world.standing == FAILED


@pytest.mark.parametrize("removes_all", [False, True])
def test_a_role_that_ended_frees_its_pods(removes_all: bool) -> None:
    listing = {"RoleCompleted": "NoAction"} if removes_all else {"RoleSucceeded": "NoAction"}
    world = started(
        World(
            role("w", 2, completionPolicy=completion(1, 2), eventPolicy=events(listing)),
            role("other"),
        )
    )
    world.exit("t-w-0-0-0", 0)
    world.settle()
    assert world.role("w").state is TaskSetState.SUCCEEDED
    assert world.role("w").phase is RolePhase.CLEANING_PENDING
    assert world.row("w", 1).phase is RoleReplicaPhase.DELETION_REQUESTED
    world.exit("t-w-0-0-1", 143, sidecar=True)
    world.settle()
    world.reap()
    world.settle()
    kept = [] if removes_all else ["t-w-0-0-0"]
    assert list(world.pods) == [*kept, "t-other-0-0-0"]
    assert world.role("w").phase is RolePhase.COMPLETED
    stopped = world.row("w", 1)
    assert stopped.stopped
    assert stopped.terminated_info is not None
    assert stopped.terminated_info.exit_code == 143
    assert world.standing == GOES_ON
    world.exit("t-other-0-0-0", 0)
    world.settle()
    assert world.standing == SUCCEEDED
    assert world.pods == {}


@pytest.mark.parametrize(("code", "want"), [(0, SUCCEEDED), (1, FAILED)])
def test_all_have_ended_and_nothing_was_decided(code: int, want: Any) -> None:
    ignored = events({"RoleFailed": "NoAction"})
    world = started(World(role("a", eventPolicy=ignored), role("b", eventPolicy=ignored)))
    world.exit("t-a-0-0-0", code)
    world.settle()
    assert world.standing == GOES_ON
    world.exit("t-b-0-0-0", 0)
    world.settle()
    assert world.standing == want
    assert world.status is not None
    assert world.status.state_message.startswith("Every role has ended. Role a ")
    assert_nothing_runs(world.status)


def test_of_several_roles_that_decide_the_first_in_the_spec_does() -> None:
    world = started(
        World(
            role("a", eventPolicy=events({"RoleSucceeded": "TaskSetSucceeded"})),
            role("b"),
        )
    )
    world.exit("t-b-0-0-0", 1)
    world.exit("t-a-0-0-0", 0)
    world.settle()
    assert world.standing == SUCCEEDED


def test_ends_outlive_their_pods() -> None:
    world = started(World(role("w", 3, completionPolicy=completion(3, 3))))
    world.exit("t-w-0-0-0", 0, message="done")
    world.settle()
    del world.pods["t-w-0-0-0"]
    world.settle()
    assert world.made["t-w-0-0-0"] == 1
    row = world.row("w")
    assert row.terminated_info is not None
    assert (row.phase, row.terminated_info.exit_message) == (RoleReplicaPhase.COMPLETED, "done")
    for n in (1, 2):
        world.exit(f"t-w-0-0-{n}", 0)
    world.settle()
    assert world.standing == SUCCEEDED


def test_nothing_is_done_for_a_taskset_that_is_being_deleted() -> None:
    world = World(role("w"))
    world.is_deleting = True
    assert world.decide() == Plan()
    started(world)
    assert world.decide() == Plan()


def test_a_finished_taskset_only_removes_what_turns_up() -> None:
    world = started(World(role("w"), role("ps")))
    stray = world.pods["t-ps-0-0-0"]
    world.exit("t-w-0-0-0", 1)
    world.settle()
    assert world.standing == FAILED
    before = world.status
    world.reap()
    world.settle()
    assert (world.pods, world.status) == ({}, before)
    stray["metadata"].pop("deletionTimestamp")
    world.pods["t-ps-0-0-0"] = stray
    world.units["c-t-0"] = Child(kind="ConfigMap", name="c-t-0", uid="again")
    world.settle()
    assert world.facts("t-ps-0-0-0").is_terminating
    assert world.units == {}


def test_a_template_that_is_refused_ends_it_without_a_retry() -> None:
    world = World(role("w", 2), retryPolicy=retry(3))
    world.carry_out(world.decide())
    said = "spec.containers[0].image: Required value"
    world.obstacles["Pod", "t-w-0-0-0"] = Obstacle("InvalidTemplate", said)
    world.settle()
    assert world.standing == FAILED
    assert world.status is not None
    assert said in world.status.state_message
    assert (sum(world.made.values()), world.units) == (0, {})
    assert_nothing_runs(world.status)


def test_what_is_only_forbidden_now_is_waited_for() -> None:
    """A service account that isn't there yet: whoever makes it need not touch the TaskSet."""
    world = World(role("w", 2))
    world.carry_out(world.decide())
    said = 'error looking up service account default/robot: serviceaccount "robot" not found'
    world.is_probed = False
    world.obstacles["Pod", "t-w-0-0-0"] = Obstacle("InvalidTemplate", said, may_pass=True)
    plan = world.decide()
    assert plan.probes
    world.carry_out(plan)
    assert world.standing == (TaskSetState.WAITING, TaskSetPhase.PENDING)
    assert world.status is not None
    assert world.status.phase_message == f"InvalidTemplate: {said}"
    world.obstacles.clear()
    world.is_probed = True
    world.settle()
    assert sum(world.made.values()) == 2


def test_a_label_of_the_other_family_says_nothing_of_a_tasksets_pod() -> None:
    labels = {
        "batch.tensorstack.dev/replica-type": "worker",
        "batch.tensorstack.dev/replica-rank": "7",
    }
    one = role("w", 1)
    one["template"].setdefault("metadata", {})["labels"] = labels
    world = World(one)
    world.settle()
    world.settle()
    assert sum(world.made.values()) == 1


@pytest.mark.parametrize("key", [("Pod", "t-w-0-0-1"), ("ConfigMap", "c-t-0")])
def test_a_name_that_is_taken_is_waited_for(key: tuple[str, str]) -> None:
    world = World(role("w", 2))
    world.obstacles[key] = Obstacle("NameTaken", f"{key[0]} {key[1]} belongs to somebody else")
    if key[0] == "Pod":
        world.carry_out(world.decide())
        probed = [probe["metadata"]["name"] for probe in world.decide().probes]
        assert probed == ["t-w-0-0-0", "t-w-0-0-1"]
    plan = world.decide()
    assert plan.pods == ()
    world.status = plan.status or world.status  # type: ignore[assignment]
    assert world.status is not None
    assert world.standing == (TaskSetState.WAITING, TaskSetPhase.PENDING)
    assert world.status.phase_message.startswith(f"NameTaken: {key[0]} {key[1]}")
    assert any(event.reason == "NameTaken" for event in plan.events)
    world.obstacles.clear()
    world.settle()
    assert len(world.pods) == 2


def test_a_pod_that_is_stuck_on_a_lost_node_is_removed_by_force() -> None:
    world = started(World(role("w")))
    world.delete("t-w-0-0-0")
    world.settle()
    world.now += 61
    assert world.decide().nodes_to_ask == ("node-1",)
    world.lost_nodes = frozenset({"node-1"})
    world.settle()
    assert world.made["t-w-0-0-0"] == 2


def test_a_status_older_than_the_pods_is_refused_before_anything_goes() -> None:
    world = started(World(role("w", retryPolicy=retry(1)), retryPolicy=retry(1)))
    old = world.status
    for name in ("t-w-0-0-0", "t-w-0-1-0"):
        world.exit(name, 1)
        world.settle()
    assert list(world.pods) == ["t-w-1-0-0"]
    stale = decide_taskset(msgspec.structs.replace(world.seen(), status=old), world.now, world.spec)
    # A write on the version that was read: that is what stops the rest of such a plan.
    assert isinstance(stale.status, TaskSetStatus)
    assert stale.status.total_retried_count == 1
    world.status = None
    world.settle()
    assert list(world.pods) == ["t-w-1-0-0"]


def views(world: World, chance: random.Random, *, lag_max: int) -> Iterator[Observed]:
    """What a controller sees: pods and units as they were up to so many steps ago."""
    history: list[Observed] = []
    pods = units = 0
    for _ in range(400):
        history.append(world.seen())
        pods = max(pods, len(history) - 1 - chance.randint(0, lag_max))
        units = max(units, len(history) - 1 - chance.randint(0, lag_max))
        yield msgspec.structs.replace(
            history[-1], pods=history[pods].pods, children=history[units].children
        )


@pytest.mark.parametrize("lag_max", [0, 3], ids=["fresh", "stale"])
@pytest.mark.parametrize("seed", range(40))
def test_whole_lives_with_crashes(seed: int, lag_max: int) -> None:
    """After any call of any plan the next decision finds its way, and nothing counts twice."""
    chance = random.Random(seed)
    world = World(
        role("w", 3, completionPolicy=completion(2, 2), retryPolicy=retry(2, delay=3)),
        role("ps", 2, eventPolicy=events({"RoleCompleted": "NoAction"}), retryPolicy=retry(1)),
        retryPolicy=retry(2, delay=5),
    )
    lost = 0
    for seen in views(world, chance, lag_max=lag_max):
        plan = world.decide(seen)
        world.carry_out(plan, chance.choice([0, 1, 2, 3, 10**6]))
        if world.standing[1] is TaskSetPhase.COMPLETED and not world.pods:
            break
        world.now += chance.choice([0, 0.3, 1, 4])
        lost += happens(world, chance)
    world.settle()
    world.reap()
    world.settle()
    assert world.status is not None
    assert world.standing in (SUCCEEDED, FAILED)
    assert_nothing_runs(world.status)
    assert (world.pods, world.units) == ({}, {})
    # A view that lags may take a pod for lost that it doesn't show yet.
    assert lag_max or (world.status.preempt_count or 0) <= lost
    assert all(count <= 1 + lost for count in world.made.values())


def happens(world: World, chance: random.Random) -> bool:
    """One thing that pods go through; whether it was a loss."""
    if chance.random() < 0.3:
        world.reap()
    live = [n for n in world.pods if not world.facts(n).has_finished]
    if not live:
        return False
    name, roll = chance.choice(live), chance.random()
    if "terminated" in str(world.pods[name]["status"]):
        # Its sidecar ends too; the main container's exit code stays as it is.
        world.pods[name]["status"]["phase"] = "Failed"
    elif roll < 0.4:
        world.run(name)
    elif roll < 0.8:
        world.exit(name, chance.choice([0, 1, 1]), sidecar=chance.random() < 0.3)
    elif roll < 0.9:
        is_ours = world.facts(name).is_terminating
        world.delete(name)
        return not is_ours
    return False


def test_the_largest_status_fits() -> None:
    """2000 replicas with the longest of everything, in every phase, stay below 1.2 MB."""
    spec = role("r" * 50, 2000, completionPolicy=completion(2000, 5000), retryPolicy=retry(9999))
    spec["template"]["spec"]["containers"][0]["name"] = "m" * 63
    world = World(spec)
    world.settle()
    noise = "<é\x01" * 1365
    for name, pod in world.pods.items():
        pod["metadata"]["uid"] = f"{name:x>36}"[-36:]
        pod["spec"] = {"nodeName": "node-1"}
        ended = {
            "exitCode": 137,
            "signal": 9,
            "reason": "R" * 200,
            "message": noise,
            "startedAt": "2026-01-01T00:00:00Z",
            "finishedAt": "2026-01-01T00:00:00Z",
        }
        address = "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255"
        pod["status"] = {
            "phase": "Failed",
            "podIP": address,
            "hostIP": address,
            "containerStatuses": [
                {
                    "name": "m" * 63,
                    "state": {"terminated": ended},
                    "containerID": f"containerd://{'c' * 64}",
                }
            ],
        }
    for policy in (retry(9999, delay=9), {"retry": False}):
        roles = (msgspec.convert({**spec, "retryPolicy": policy}, Role),)
        world.spec = msgspec.structs.replace(world.spec, roles=roles)
        plan = world.decide()
        assert isinstance(plan.status, TaskSetStatus)
        size = len(msgspec.json.encode(plan.status))
        assert 500_000 < size < 1_200_000
        row = plan.status.role_status[0].replica_status[0]
        assert row.terminated_info is not None
        assert row.terminated_info.exit_code == 137
