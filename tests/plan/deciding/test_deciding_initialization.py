"""Whether a job can have its pods at all, and what stands in the way."""

from __future__ import annotations

import pytest
from rig.job_manifests import generic, mpi, pytorch, xgboost

from jobyard.plan.facts.decision import INVALID_TEMPLATE, NAME_TAKEN, Obstacle
from plan.deciding.job_world import World

TAKEN = Obstacle(NAME_TAKEN, "Pod job-worker-1 belongs to someone else.")
INVALID = Obstacle(INVALID_TEMPLATE, "spec.containers[0].image: Required value")
BAD = "$(service.port[http])"
BAD_TEXT = (
    "container main: $(service.port[http]): the job has no spec.service; add service.ports with"
    " a port named http"
)


def with_command(*words: str) -> dict[str, object]:
    manifest = generic()
    container = manifest["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]
    container["command"] = list(words)
    return manifest


def steps(world: World, count: int = 4) -> None:
    for _ in range(count):
        world.step()


def test_a_bad_variable_makes_no_pod_and_tells_what_to_add() -> None:
    world = World(with_command("serve", BAD))
    told = world.settle()
    assert world.pods == {}
    assert world.status.phase == "Pending"
    assert world.condition("Initialized") == ("False", "BadVariable", BAD_TEXT)
    assert world.condition("Running") == ("False", "-", "The job could not be initialized.")
    assert [(e.type, e.reason, e.message) for e in told] == [("Warning", "BadVariable", BAD_TEXT)]
    assert world.decide().is_empty


def test_a_job_goes_on_once_its_variable_is_put_right() -> None:
    world = World(with_command("serve", BAD))
    world.settle()
    world.set(service={"ports": [{"name": "http", "port": 80}]})
    world.settle()
    assert sorted(world.pods) == ["job-worker-0", "job-worker-1"]
    assert world.condition("Initialized") == (
        "True",
        "-",
        "The job has been initialized successfully.",
    )


def test_a_bad_variable_that_comes_with_a_change_in_a_pause_is_told_too() -> None:
    world = World(generic()).started()
    world.pause()
    world.settle()
    world.reap()
    world.settle()
    specs = with_command("serve", BAD)["spec"]["replicaSpecs"]  # type: ignore[index]
    world.set(replicaSpecs=specs)
    world.resume()
    world.settle()
    assert world.pods == {}
    assert world.condition("Initialized") == ("False", "BadVariable", BAD_TEXT)
    world.set(replicaSpecs=generic()["spec"]["replicaSpecs"])
    world.settle()
    world.run()
    world.settle()
    assert world.status.phase == "Running"
    assert world.condition("Initialized")[0] == "True"


def test_the_api_server_is_asked_before_the_first_pod_is_made() -> None:
    world = World(xgboost())
    first = world.step()
    assert [m["kind"] for m in first.supporting] == ["Service"]
    assert first.pods == first.probes == ()
    assert world.condition("Initialized") == ("Unknown", "-", "The job is being prepared.")
    second = world.step()
    assert [m["metadata"]["name"] for m in second.probes] == ["job-master-0", "job-worker-0"]
    assert second.pods == ()
    third = world.step()
    assert len(third.pods) == 3
    said = ("Unknown", "PodsComing", "0 of 3 pods have been made.")
    assert world.condition("Initialized") == said
    world.step()
    assert world.condition("Initialized")[0] == "True"


def test_a_template_that_the_api_server_refuses_is_told_in_its_words() -> None:
    world = World(generic())
    world.refused["Pod", "job-worker-0"] = INVALID
    steps(world)
    assert world.condition("Initialized") == ("False", "InvalidTemplate", INVALID.message)
    assert world.pods == {}
    told = [(e.reason, e.message) for e in world.events]
    assert told == [("InvalidTemplate", INVALID.message)], "told once"
    world.refused.clear()
    steps(world)
    assert sorted(world.pods) == ["job-worker-0", "job-worker-1"]
    assert world.condition("Initialized")[0] == "True"


def test_a_name_taken_is_found_when_the_pod_is_made_and_the_others_go() -> None:
    """A job is never half made: either all its replicas are coming or the status says why not."""
    world = World(generic())
    world.step()
    world.refused["Pod", "job-worker-1"] = TAKEN
    world.step()
    assert list(world.pods) == ["job-worker-0"]
    steps(world)
    assert world.pods == {}
    assert world.condition("Initialized") == ("False", "NameTaken", TAKEN.message)
    assert world.status.phase == "Pending"
    told = [e.message for e in world.events if e.reason == "NameTaken"]
    assert told == [TAKEN.message]
    world.refused.clear()
    steps(world)
    assert sorted(world.pods) == ["job-worker-0", "job-worker-1"]


@pytest.mark.parametrize("kind", ["Service", "ConfigMap", "Secret"])
def test_a_supporting_object_of_someone_else_keeps_the_job_from_its_pods(kind: str) -> None:
    world = World(mpi())
    (key,) = [key for key in world.wanted if key[0] == kind]
    world.refused[key] = Obstacle(NAME_TAKEN, f"{kind} {key[1]} belongs to someone else.")
    steps(world)
    assert world.pods == {}
    assert world.condition("Initialized") == (
        "False",
        "NameTaken",
        f"{kind} {key[1]} belongs to someone else.",
    )
    world.refused.clear()
    steps(world, 6)
    assert len(world.pods) == 3


def test_a_conflict_after_the_start_keeps_the_job_initialized_and_shows_in_running() -> None:
    world = World(generic()).started()
    del world.pods["job-worker-1"]
    world.refused["Pod", "job-worker-1"] = TAKEN
    steps(world)
    assert world.replicas() == ["job-worker-0"]
    assert world.condition("Initialized")[0] == "True"
    message = f"1 of 2 running; worker-1: NameTaken: {TAKEN.message}"
    assert world.condition("Running") == ("True", "NameTaken", message)
    told = [(str(e.type), e.message) for e in world.events if e.reason == "NameTaken"]
    assert told == [("Warning", message)]
    world.refused.clear()
    steps(world)
    assert sorted(world.replicas()) == ["job-worker-0", "job-worker-1"]


def test_an_invalid_template_after_a_pause_shows_in_running_and_is_told() -> None:
    world = World(generic()).started()
    world.pause()
    world.settle()
    world.reap()
    world.settle()
    world.resume()
    for rank in (0, 1):
        world.refused["Pod", f"job-worker-{rank}"] = INVALID
    steps(world)
    status, reason, message = world.condition("Running")
    assert (status, reason) == ("False", "InvalidTemplate")
    assert f"worker-0: InvalidTemplate: {INVALID.message}" in message
    assert [str(e.type) for e in world.events if e.reason == "InvalidTemplate"] == ["Warning"]


def test_a_tensorboard_that_cannot_be_made_holds_nothing_up() -> None:
    spec = {"image": "tb", "trainingLogFilesets": ["t9k://pvc/logs/run"]}
    world = World(pytorch(tensorboardSpec=spec))
    world.refused["Pod", "job-tensorboard"] = Obstacle(NAME_TAKEN, "taken")
    steps(world)
    assert len(world.replicas()) == 3
    assert world.condition("Initialized")[0] == "True"


def test_warnings_about_a_spec_are_told_once() -> None:
    world = World(mpi())
    world.settle()
    told = [e.message for e in world.events if e.reason == "SpecAdvice"]
    assert told == [
        "spec.worker.template.spec.containers[0].command: has no effect: it is replaced by sshd"
    ]


def test_what_is_told_is_what_stands_in_the_way_now() -> None:
    world = World(mpi())
    (service,) = [key for key in world.wanted if key[0] == "Service"]
    world.refused[service] = Obstacle(NAME_TAKEN, "the service belongs to someone else.")
    steps(world)
    assert world.condition("Initialized")[0] == "False"
    world.refused = {("Pod", "job-worker-0"): Obstacle("StillThere", "an earlier pod is leaving")}
    steps(world, 6)
    assert world.pods == {}
    status, _, message = world.condition("Initialized")
    assert status == "Unknown"
    assert message.endswith("an earlier pod is leaving")
