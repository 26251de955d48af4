"""The calls of TaskSet's own documentation, with curl, on an engine that really runs TaskSets.

Each in both spellings of the group, with JSON and with YAML.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from rig.engine import Answer, Room
from rig.needs import needed

JSON = dict[str, Any]
SECONDS = 60
JSON_TYPE = "application/json"
YAML_TYPE = "application/yaml"
REAL = "octopus.openi.pcl.cn"
DOCUMENTED = "tasksets.octopus.openi.pcl.cn"


class Curl:
    """curl with the token of the engine, on the paths of one spelling of the group."""

    def __init__(self, room: Room, group: str, type_: str) -> None:
        self.room = room
        self.type = type_
        self.group = f"/apis/{group}/v1alpha1"
        self.tasksets = f"{self.group}/namespaces/{room.name}/tasksets"

    def words(self, method: str, path: str, body: Any = None, type_: str = "") -> list[str]:
        engine = self.room.engine
        words = [needed("curl"), "-sS", "-N", "--cacert", str(engine.ca), "-X", method]
        words += ["-H", f"Authorization: Bearer {engine.token}"]
        if body is not None:
            text = json.dumps(body) if self.type == JSON_TYPE or type_ else yaml.safe_dump(body)
            words += ["-H", f"Content-Type: {type_ or self.type}", "--data-binary", text]
        return [*words, engine.url + path]

    def __call__(self, method: str, path: str, body: Any = None, type_: str = "") -> Answer:
        words = [*self.words(method, path, body, type_), "-w", "\n%{http_code} %{content_type}"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS)
        assert done.returncode == 0, done.stderr
        text, _, last = done.stdout.rpartition("\n")
        code, _, content_type = last.partition(" ")
        return Answer(int(code), text, content_type)

    def events(self, path: str) -> Iterator[JSON]:
        """The events of a watch, until nobody wants more."""
        with subprocess.Popen(
            [*self.words("GET", path), "--max-time", str(SECONDS)],
            stdout=subprocess.PIPE,
            text=True,
        ) as going:
            assert going.stdout is not None
            try:
                for line in going.stdout:
                    yield json.loads(line)
            finally:
                going.kill()

    def until(self, path: str, state: str) -> list[JSON]:
        """All events up to the one in which a TaskSet has come to a state."""
        seen = []
        watching = self.events(path)
        for event in watching:
            seen.append(event)
            if event["object"].get("status", {}).get("state") == state:
                watching.close()
                return seen
        raise AssertionError(f"{path}: never {state}: {seen[-1:]}")


@pytest.fixture(params=[REAL, DOCUMENTED])
def group(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def curl(room: Room, group: str) -> Curl:
    return Curl(room, group, JSON_TYPE)


def taskset(name: str, script: str = "echo hello; exec sleep 1000", group: str = REAL) -> JSON:
    main = {"name": "main", "image": "any", "command": ["sh", "-c", script]}
    spec = {"containers": [main], "terminationGracePeriodSeconds": 1}
    role = {"name": "worker", "replicas": 2, "template": {"spec": spec}}
    return {
        "apiVersion": f"{group}/v1alpha1",
        "kind": "TaskSet",
        "metadata": {"name": name},
        "spec": {"roles": [role]},
    }


@pytest.mark.parametrize("type_", [JSON_TYPE, YAML_TYPE])
def test_a_taskset_is_created_runs_ends_and_is_deleted(room: Room, group: str, type_: str) -> None:
    curl = Curl(room, group, type_)
    gate = room.engine.who.home / f"gate-{room.name}"
    script = f"until [ -e {gate} ]; do sleep 0.1; done"
    created = curl("POST", curl.tasksets, taskset("ts", script, group))
    assert (created.status, created.content_type) == (201, "application/json")
    assert created.json["apiVersion"] == f"{REAL}/v1alpha1"
    again = curl("POST", curl.tasksets, taskset("ts", script, group))
    assert again.status == 409
    assert again.json["message"] == f'tasksets.{REAL} "ts" already exists'
    path = f"{curl.tasksets}?watch=true&fieldSelector=metadata.name%3Dts"
    seen = curl.until(path, "Running")
    pods = room.engine.ask("GET", room.path("pods")).json["items"]
    assert {pod["metadata"]["labels"]["PodTaskRole"] for pod in pods} == {"worker"}
    gate.touch()
    seen += curl.until(path, "Succeeded")
    assert seen[0]["type"] == "ADDED"
    final = curl("GET", f"{curl.tasksets}/ts").json
    [role] = final["status"]["roleStatus"]
    assert [each["terminatedInfo"]["exitCode"] for each in role["replicaStatus"]] == [0, 0]
    assert final["status"]["phase"] == "TaskSetCompleted"
    gone = curl("DELETE", f"{curl.tasksets}/ts", {"propagationPolicy": "Foreground"})
    assert gone.status == 200
    assert gone.json["kind"] in ("TaskSet", "Status")


@pytest.mark.parametrize("type_", [JSON_TYPE, YAML_TYPE])
def test_a_deletion_in_the_foreground_waits_for_the_pods(
    room: Room, group: str, type_: str
) -> None:
    curl = Curl(room, group, type_)
    curl("POST", curl.tasksets, taskset("ts"))
    curl.until(f"{curl.tasksets}?watch=true", "Running")
    going = curl("DELETE", f"{curl.tasksets}/ts", {"propagationPolicy": "Foreground"})
    assert going.status == 200
    assert going.json["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert "deletionTimestamp" in going.json["metadata"]
    version = going.json["metadata"]["resourceVersion"]
    watching = curl.events(f"{curl.tasksets}?watch=true&resourceVersion={version}")
    assert next(event for event in watching if event["type"] == "DELETED")
    watching.close()
    assert room.engine.ask("GET", room.path("pods")).json["items"] == []
    assert curl("GET", f"{curl.tasksets}/ts").status == 404


def test_what_isnt_there_is_not_found(curl: Curl) -> None:
    for method in ("GET", "DELETE"):
        answer = curl(method, f"{curl.tasksets}/nothing")
        assert answer.status == 404
        assert (answer.json["kind"], answer.json["reason"]) == ("Status", "NotFound")
        assert answer.json["message"] == f'tasksets.{REAL} "nothing" not found'


def test_what_is_wrong_is_refused_with_causes(curl: Curl, group: str) -> None:
    wrong = taskset("ts", group=group)
    wrong["spec"]["roles"][0]["replicas"] = 0
    answer = curl("POST", curl.tasksets, wrong)
    assert (answer.status, answer.json["reason"]) == (422, "Invalid")
    causes = answer.json["details"]["causes"]
    assert causes[0]["field"] == "spec.roles[0].replicas"
    broken = curl.room.engine.ask("POST", curl.tasksets, "{not json")
    assert (broken.status, broken.json["reason"]) == (400, "BadRequest")


def test_lists_of_a_namespace_and_of_all(curl: Curl) -> None:
    for name in ("one", "two"):
        assert curl("POST", curl.tasksets, taskset(name)).status == 201
    here = curl("GET", curl.tasksets).json
    assert (here["kind"], here["apiVersion"]) == ("TaskSetList", f"{REAL}/v1alpha1")
    assert [item["metadata"]["name"] for item in here["items"]] == ["one", "two"]
    everywhere = curl("GET", f"{curl.group}/tasksets").json["items"]
    mine = {
        i["metadata"]["name"] for i in everywhere if i["metadata"]["namespace"] == curl.room.name
    }
    assert mine == {"one", "two"}
    first = curl("GET", f"{curl.tasksets}?limit=1").json
    rest = curl("GET", f"{curl.tasksets}?limit=1&continue={first['metadata']['continue']}").json
    assert [item["metadata"]["name"] for item in rest["items"]] == ["two"]


@pytest.mark.parametrize("type_", [JSON_TYPE, YAML_TYPE])
def test_update_and_conflict(room: Room, group: str, type_: str) -> None:
    curl = Curl(room, group, type_)
    found = curl("POST", curl.tasksets, taskset("ts")).json
    found["metadata"]["labels"] = {"changed": "yes"}
    path = f"{curl.tasksets}/ts"
    found["metadata"]["resourceVersion"] = "1"
    refused = curl("PUT", path, found)
    assert (refused.status, refused.json["reason"]) == (409, "Conflict")
    del found["metadata"]["resourceVersion"]
    # Of a custom resource Kubernetes wants to know which version is replaced.
    unversioned = curl("PUT", path, found)
    assert (unversioned.status, unversioned.json["reason"]) == (422, "Invalid")
    curl.until(f"{curl.tasksets}?watch=true", "Running")
    for _ in range(10):
        # The controller writes the status meanwhile: whoever updates has to try again.
        found["metadata"]["resourceVersion"] = curl("GET", path).json["metadata"]["resourceVersion"]
        done = curl("PUT", path, found)
        if done.status != 409:
            break
    assert done.status == 200, done.text
    assert done.json["metadata"]["labels"] == {"changed": "yes"}
    assert done.json["status"]["state"] == "Running"


@pytest.mark.parametrize(
    ("type_", "patch"),
    [
        ("application/merge-patch+json", {"metadata": {"labels": {"a": "1"}}}),
        (
            "application/json-patch+json",
            [{"op": "add", "path": "/metadata/labels", "value": {"a": "1"}}],
        ),
    ],
)
def test_patch(curl: Curl, type_: str, patch: Any) -> None:
    curl("POST", curl.tasksets, taskset("ts"))
    done = curl("PATCH", f"{curl.tasksets}/ts", patch, type_)
    assert done.status == 200, done.text
    assert done.json["metadata"]["labels"] == {"a": "1"}


def test_server_side_apply_in_yaml(curl: Curl, group: str) -> None:
    path = f"{curl.tasksets}/ts?fieldManager=tests"
    made = curl("PATCH", path, taskset("ts", group=group), "application/apply-patch+yaml")
    assert made.status == 201, made.text
    again = curl("PATCH", path, taskset("ts", group=group), "application/apply-patch+yaml")
    assert again.status == 200
    managers = {each["manager"] for each in again.json["metadata"]["managedFields"]}
    assert "tests" in managers


def test_the_status_is_apart(curl: Curl) -> None:
    curl("POST", curl.tasksets, {**taskset("ts"), "status": {"state": "Succeeded"}})
    running = curl.until(f"{curl.tasksets}?watch=true", "Running")[-1]["object"]
    read = curl("GET", f"{curl.tasksets}/ts/status")
    assert read.json["status"]["state"] == "Running"
    patch = {"metadata": {"labels": {"no": "no"}}, "status": {"stateMessage": "said by a test"}}
    done = curl("PATCH", f"{curl.tasksets}/ts/status", patch, "application/merge-patch+json")
    assert done.json["status"]["stateMessage"] == "said by a test"
    assert done.json["metadata"]["generation"] == running["metadata"]["generation"]
    through = curl(
        "PATCH",
        f"{curl.tasksets}/ts",
        {"status": {"state": "Failed"}},
        "application/merge-patch+json",
    )
    assert through.json["status"]["state"] == "Running"


def test_watch_of_a_namespace_and_of_all(curl: Curl) -> None:
    for path in (curl.tasksets, f"{curl.group}/tasksets"):
        version = curl("GET", path).json["metadata"]["resourceVersion"]
        name = "here" if path == curl.tasksets else "there"
        watching = curl.events(f"{path}?watch=true&resourceVersion={version}")
        curl("POST", curl.tasksets, taskset(name))
        first = next(
            event
            for event in watching
            if event["object"]["metadata"]["namespace"] == curl.room.name
            and event["object"]["metadata"]["name"] == name
        )
        assert first["type"] == "ADDED"
        assert first["object"]["apiVersion"] == f"{REAL}/v1alpha1"
        watching.close()


def test_watch_of_one_as_it_is_documented(room: Room) -> None:
    curl = Curl(room, DOCUMENTED, JSON_TYPE)
    curl("POST", curl.tasksets, taskset("ts", "sleep 0.5"))
    curl("POST", curl.tasksets, taskset("other"))
    seen = curl.until(f"{curl.tasksets}/ts?watch=true", "Succeeded")
    assert {event["object"]["metadata"]["name"] for event in seen} == {"ts"}
    assert seen[0]["type"] == "ADDED"
    assert curl("GET", f"{curl.tasksets}/nothing?watch=true").status == 404
    # Without the question it is the object, and in the real group always.
    assert curl("GET", f"{curl.tasksets}/ts").json["kind"] == "TaskSet"
    real = Curl(room, REAL, JSON_TYPE)
    assert real("GET", f"{real.tasksets}/ts?watch=true").json["kind"] == "TaskSet"


def test_answers_in_yaml_for_those_who_want_them(room: Room, group: str) -> None:
    curl = Curl(room, group, YAML_TYPE)
    curl("POST", curl.tasksets, taskset("ts"))
    answer = room.engine.ask("GET", f"{curl.tasksets}/ts", accept=YAML_TYPE)
    assert answer.content_type == YAML_TYPE
    assert yaml.safe_load(answer.text)["metadata"]["name"] == "ts"
