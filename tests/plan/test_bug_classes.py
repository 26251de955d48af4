"""Bugs that systems like this one have had, one test each, as far as the decision can have them.

References are to public issue trackers. What needs an API server, a network or a container to
go wrong is tested where those are.
"""

from __future__ import annotations

import json

import msgspec
import pytest
from rig.job_manifests import beam, elastic_pytorch, generic, mpi, pytorch, xgboost
from rig.manifests import valid_manifests

from jobyard.api.crd import schema_node
from jobyard.api.kinds import kind_of
from jobyard.controller.ssh_keys import fresh_keys
from jobyard.plan.facts.decision import INVALID_TEMPLATE, Obstacle, Plan
from jobyard.plan.lowering.ssh import KEY_FILES
from jobyard.plan.lowering.table import JOB_KINDS, described
from jobyard.plan.objects.rendering import children
from jobyard.plan.objects.supporting import HIDDEN
from jobyard.schema.admission import admitted
from plan.deciding.job_world import START, World


def restarted(world: World, name: str) -> None:
    """Fails, and is recreated as far as the pod object goes."""
    world.end(name, 1)
    world.settle()
    world.wait(301)
    world.settle()
    world.reap()
    world.settle()


# kuberay 715
def test_there_are_never_two_pods_for_one_rank() -> None:
    """From a stale view the same names are made again, which the API server refuses."""
    world = World(generic())
    world.step()
    plan, again = world.decide(), world.decide()
    names = [pod["metadata"]["name"] for pod in plan.pods]
    assert names == ["job-worker-0", "job-worker-1"]
    assert [pod["metadata"]["name"] for pod in again.pods] == names
    world.apply(plan)
    assert world.decide().pods == ()


# kubeflow trainer 1306
def test_a_pod_that_is_gone_again_before_it_was_seen_is_made_anew() -> None:
    """What is there decides, not what was expected to be."""
    world = World(generic())
    world.settle()
    world.pods.clear()
    world.settle()
    assert len(world.pods) == 2


# kubernetes 115844, mpi-operator PR 810
def test_a_terminating_pod_is_neither_ready_nor_gone() -> None:
    world = World(generic()).started()
    world.tell_to_go("job-worker-0")
    world._update("job-worker-0", is_ready=True)
    world.settle()
    assert world.status.ready == "1/2"
    assert world.made.count("job-worker-0") == 1


# mpi-operator PR 819
def test_what_was_observed_is_not_changed_by_deciding() -> None:
    world = World(mpi()).started()
    world.end("job-launcher", 0)
    seen = world.seen
    before = (seen.status, seen.pods, dict(seen.children), dict(seen.obstacles))
    world.decide()
    assert (seen.status, seen.pods, seen.children, seen.obstacles) == before
    with pytest.raises(AttributeError):
        seen.is_probed = False  # type: ignore[misc]


# mpi-operator PR 787, trainer 3666
def test_running_is_not_reported_again_after_the_end() -> None:
    world = World(generic({"worker": 2}, successRules=[{"worker": [0]}])).started()
    world.end("job-worker-0", 0)
    world.settle()
    conditions = world.status.conditions
    # worker-1 goes on, is restarted by hand, runs again: none of that is the job's any more.
    del world.pods["job-worker-1"]
    world.settle()
    assert world.status.conditions == conditions
    assert world.condition("Running")[:2] == ("False", "Succeeded")
    assert world.status.phase == "Succeeded"


# mpi-operator PR 787, trainer 3666
def test_the_order_of_stored_conditions_says_nothing() -> None:
    world = World(generic()).started()
    turned = tuple(reversed(world.status.conditions))
    world.status = msgspec.structs.replace(world.status, conditions=turned)
    world.settle()
    assert world.status.phase == "Running"
    assert world.status.conditions == tuple(reversed(turned))


# trainer 3737
@pytest.mark.parametrize("clean_up", ["None", "All"])
def test_a_finished_job_does_not_run_again_when_a_child_is_deleted(clean_up: str) -> None:
    service = {"ports": [{"name": "http", "port": 80}]}
    world = World(generic({"worker": 1}, cleanUpPolicy=clean_up, service=service)).started()
    world.end("job-worker-0", 0)
    world.settle()
    world.pods.clear()
    world.children.clear()
    assert world.settle() == ()
    assert (world.pods, world.children) == ({}, {})
    assert world.status.phase == "Succeeded"


# jobset 561
def test_nothing_is_made_for_a_job_that_is_being_deleted() -> None:
    for manifest in (generic(), mpi(), beam()):
        world = World(manifest).started()
        world.is_deleting = True
        world.pods.clear()
        world.children.clear()
        assert world.decide() == Plan()


# jobset 665, 392, 576
def test_attempts_do_not_overlap() -> None:
    world = World(xgboost()).started()
    world.end("job-worker-0", 1)
    world.settle()
    world.wait(1)
    world.settle()
    assert world.pods["job-worker-0"].is_terminating
    world.wait(20)
    assert world.decide().pods == ()
    world.reap()
    world.settle()
    assert world.pods["job-worker-0"].attempt == 1


# jobset 665, 392, 576
def test_a_pod_stuck_in_terminating_is_forced_once_its_node_is_lost() -> None:
    world = World(generic()).started()
    world.tell_to_go("job-worker-0")
    world.settle()
    assert world.decide().look_again_at == START + 60, "its grace, and a while"
    world.wait(60)
    plan = world.decide()
    assert plan.nodes_to_ask == ("node-1",)
    assert plan.deletes == (), "a node that answers still has it"
    world.lost_nodes = frozenset({"node-1"})
    (delete,) = world.decide().deletes
    assert (delete.name, delete.grace_seconds) == ("job-worker-0", 0)
    world.settle()
    assert world.made.count("job-worker-0") == 2
    assert world.status.restarts == 0


# kubernetes 117819, mpi-operator 386, 481, 443
def test_the_launcher_itself_waits_for_its_workers() -> None:
    world = World(mpi())
    world.settle()
    (files,) = [w.build() for key, w in world.wanted.items() if key[0] == "ConfigMap"]
    hosts = [line.split()[0] for line in files["data"]["hostfile"].splitlines()]
    assert hosts == ["job-worker-0.job", "job-worker-1.job"]


# mpi-operator 608
def test_all_pods_of_a_gang_are_made_at_once() -> None:
    world = World(mpi(3, scheduler={"t9kScheduler": {"queue": "default"}}))
    plans = [world.step() for _ in range(4)]
    assert [len(plan.pods) for plan in plans if plan.pods] == [4]
    assert ("PodGroup", "job") in world.children, "the gang is there before its pods"


# trainer 1191, 1989
def test_no_supporting_object_is_left_behind() -> None:
    world = World(mpi(runPolicy={"cleanUpWorkers": True})).started()
    assert len(world.children) == 3
    world.end("job-launcher", 0)
    world.settle()
    world.reap("job-worker-0", "job-worker-1")
    world.settle()
    assert world.children == {}


# trainer 1191, 1989
def test_supporting_objects_that_are_no_longer_wanted_go() -> None:
    service = {"ports": [{"name": "http", "port": 80}]}
    world = World(generic(service=service, runMode={"pause": {"enabled": True}}))
    world.settle()
    assert len(world.children) == 2
    manifest = msgspec.json.decode(msgspec.json.encode(world.job))
    del manifest["spec"]["service"]
    world.change(manifest)
    world.settle()
    assert world.children == {}


# kuberay 4416, training-operator v1
@pytest.mark.parametrize("manifest", [generic(), pytorch(), mpi(), beam()], ids=lambda m: m["kind"])
def test_a_status_write_does_not_trigger_another(manifest: dict[str, object]) -> None:
    world = World(manifest).started()
    world.job_url = "http://ui/#/job/1"
    world.run()
    world.settle()
    for _ in range(5):
        world.wait(3600)
        assert world.decide() == Plan()


# trainer 1533, 2239
def test_a_time_to_live_is_looked_after_to_the_second_and_does_not_fight_a_pause() -> None:
    world = World(xgboost(runPolicy={"ttlSecondsAfterFinished": 60})).started()
    world.pause()
    world.settle()
    world.reap()
    world.wait(10_000)
    assert world.settle() == ()
    assert not world.is_gone
    world.resume()
    world.settle()
    world.run()
    world.end("job-master-0", 0)
    world.settle()
    plan = world.decide()
    assert plan.look_again_at == world.now + 60
    world.wait(60)
    assert world.decide().ends_job


# training-operator v1
def test_retry_counts_outlive_the_controller_and_the_status() -> None:
    world = World(xgboost()).started()
    restarted(world, "job-worker-0")
    assert world.status.backoff_count == 1
    world.status = None
    world.settle()
    assert world.status.backoff_count == 1


# volcano 1029
def test_no_job_is_dropped_however_often_it_is_looked_at() -> None:
    world = World(generic())
    world.step()
    refused = Obstacle(INVALID_TEMPLATE, "quota exceeded")
    for rank in (0, 1):
        world.refused["Pod", f"job-worker-{rank}"] = refused
    for _ in range(100):
        plan = world.step()
        assert plan.pods or plan.probes or plan.status is not None, "it is tried again"
    assert world.condition("Initialized") == ("False", "InvalidTemplate", "quota exceeded")
    world.refused.clear()
    for _ in range(4):
        world.step()
    assert len(world.pods) == 2


# mpi-operator 604, trainer 2351
def test_an_invalid_template_leaves_a_status_with_the_servers_own_words() -> None:
    world = World(mpi())
    said = 'Pod "job-launcher" is invalid: spec.containers[0].image: Required value'
    world.refused["Pod", "job-launcher"] = Obstacle(INVALID_TEMPLATE, said)
    for _ in range(4):
        world.step()
    assert world.condition("Initialized") == ("False", "InvalidTemplate", said)
    assert [row.phase for row in world.rows.values()] == ["Creating"] * 3


# training-operator v1, mpi-operator
def test_there_is_one_service_however_many_replicas_there_are() -> None:
    for manifest in (pytorch({"master": 1, "worker": 50}), mpi(50)):
        world = World(manifest)
        assert sum(kind == "Service" for kind, _ in world.wanted) == 1
        plans = [world.step() for _ in range(4)]
        assert [len(plan.pods) for plan in plans if plan.pods] == [51], "all in one plan"


# mpi-operator
def test_worker_10_comes_after_worker_2() -> None:
    world = World(mpi(12))
    world.settle()
    assert [name for name in world.rows if "worker" in name] == [
        f"job-worker-{rank}" for rank in range(12)
    ]
    assert world.made == list(world.rows)


# mpi-operator 461, 354
def test_how_a_pod_failed_stays_known_when_it_is_cleaned_up() -> None:
    world = World(generic({"worker": 1}, cleanUpPolicy="All")).started()
    world.end("job-worker-0", 139, message="Segmentation fault at step 7")
    world.settle()
    world.reap()
    world.settle()
    assert world.pods == {}
    failure = world.rows["job-worker-0"].last_failure
    assert failure is not None
    words = "killed by signal 11 (SIGSEGV); last line: Segmentation fault at step 7"
    assert (failure.exit_code, failure.message) == (139, words)
    assert any("Segmentation fault at step 7" in event.message for event in world.events)


# training-operator
def test_a_pause_is_graceful_and_the_deadline_does_not_start_over() -> None:
    world = World(xgboost(runPolicy={"activeDeadlineSeconds": 100})).started()
    world.wait(30)
    world.pause()
    plan = world.step()
    assert {delete.grace_seconds for delete in plan.deletes} == {None}
    world.settle()
    world.reap()
    world.wait(1000)
    world.resume()
    world.settle()
    assert world.decide().look_again_at == world.now + 60, "first of all: unscheduled pods"
    world.run()
    world.settle()
    assert world.decide().look_again_at == world.now + 70


# kueue 2833
def test_why_it_is_pending_has_an_answer_with_numbers() -> None:
    world = World(elastic_pytorch(2, 2, 2))
    world.settle()
    world.run("job-worker-0")
    world._update("job-worker-1", unschedulable="0/4 nodes: Insufficient nvidia.com/gpu")
    world.settle()
    world.wait(60)
    world.settle()
    assert world.condition("Running") == (
        "False",
        "Unscheduled",
        "1 of 2 running; worker-1: Unschedulable: 0/4 nodes: Insufficient nvidia.com/gpu",
    )


# trainer 1101
def test_a_name_that_would_be_too_long_is_refused_at_admission() -> None:
    for manifest in valid_manifests():
        kind = kind_of(manifest["apiVersion"], manifest["kind"])
        assert kind is not None
        if kind not in JOB_KINDS:
            continue
        # A TaskSet has no service to be named after it.
        longest = 253 if kind.name == "TaskSet" else 63
        manifest["metadata"]["name"] = "a" * longest
        errors = admitted(manifest, schema_node(kind)).errors
        assert any(str(longest) in each.text for each in errors), manifest["kind"]


# mpi-operator: the cluster's domain hard-coded
def test_no_child_names_a_cluster_domain() -> None:
    for manifest in valid_manifests():
        kind = kind_of(manifest["apiVersion"], manifest["kind"])
        assert kind is not None
        description = described(kind, admitted(manifest, schema_node(kind)).value)
        if description is None or description.faults:
            continue
        for child in children(description):
            text = json.dumps(child)
            assert ".svc" not in text
            assert "cluster.local" not in text


# mpi-operator 429, 472, 580
def test_keys_are_made_for_each_job_and_never_shown() -> None:
    first, second = fresh_keys(), fresh_keys()
    assert first.keys() == second.keys() == set(KEY_FILES)
    assert not set(first.values()) & set(second.values())
    assert first["host_key"] != first["identity"]
    manifest = next(m for m in valid_manifests() if m["kind"] == "MPIJob")
    kind = kind_of(manifest["apiVersion"], manifest["kind"])
    assert kind is not None
    description = described(kind, admitted(manifest, schema_node(kind)).value)
    assert description is not None
    (secret,) = (child for child in children(description) if child["kind"] == "Secret")
    assert set(secret["stringData"].values()) == {HIDDEN}
