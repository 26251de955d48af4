"""`run` and `apply` with files that are nearly right: what is told, and what is left running."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from rig.cli_yard import STAYS, Yard
from rig.engine import JOBS, Room

from jobyard.cli.commands.accepting import as_written
from jobyard.cli.commands.apply import what_happened
from jobyard.client.errors import ConnectionFailedError
from jobyard.client.request import Answer, Request
from jobyard.jobs.submission import SubmissionError, submit
from jobyard.manifest.checking import checked
from jobyard.manifest.reading import read

ENDS = STAYS.replace("exec sleep 600", "true").replace("name: stays", "name: ends")
UNKNOWN = "spec.cleanupPolicy: is not a field of spec, and is ignored (did you mean cleanUpPolicy?)"


@pytest.fixture
def yard(room: Room) -> Yard:
    return Yard(room)


def misspelt(text: str) -> str:
    return text.replace("spec:\n", "spec:\n  cleanupPolicy: All\n", 1)


def test_a_field_that_nobody_knows_is_told_and_the_job_runs(yard: Yard) -> None:
    path = yard.write("ends", misspelt(ENDS))
    done = yard("run", path)
    assert (done.returncode, done.stderr) == (0, f"{path}:6: warning: {UNKNOWN}\n")


def test_apply_tells_it_as_validate_does_and_takes_the_rest(yard: Yard, room: Room) -> None:
    path = yard.write("stays", misspelt(STAYS))
    done = yard("apply", "-f", path)
    assert (done.returncode, done.stdout) == (0, "GenericJob/stays created\n"), done.stderr
    assert done.stderr == f"{path}:6: warning: {UNKNOWN}\n"
    assert "cleanupPolicy" not in room.get("genericjobs", "stays", JOBS)["spec"]
    assert yard.does("apply", "-f", path) == "GenericJob/stays unchanged\n"


def test_what_is_applied_is_what_was_written_in_the_servers_spelling() -> None:
    text = """\
apiVersion: batch.tensorstack.dev/v1beta1
kind: DeepspeedJob
metadata: {name: train, labels: {of: mine}}
status: {}
spec:
  bogus: 1
  config: {run: {python: train.py}}
  worker: {replicas: null, template: {spec: {containers: [{name: worker, image: i, imag: j}]}}}
"""
    (document,) = read(text, "-")
    assert as_written(checked(document)) == {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "DeepSpeedJob",
        "metadata": {"name": "train", "labels": {"of": "mine"}},
        "spec": {
            "config": {"run": {"python": ["train.py"]}},
            "worker": {
                "replicas": 1,
                "template": {"spec": {"containers": [{"name": "worker", "image": "i"}]}},
            },
        },
    }
    (other,) = read("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndat: {}\n", "-")
    assert as_written(checked(other)) == other.value


def test_no_job_of_a_run_is_left_when_one_has_a_name_that_is_taken(yard: Yard) -> None:
    yard.apply("stays", STAYS)
    first = yard.write("first", STAYS.replace("name: stays", "name: first"))
    done = yard("run", first, yard.write("stays", STAYS))
    assert done.returncode == 2
    assert "GenericJob/stays: there is one with this name already" in done.stderr
    assert yard.does("get", "gj", "-o", "name") == "genericjob/stays\n"


class Full:
    """Takes one job, then refuses, or is gone."""

    def __init__(self, second: Answer | Exception) -> None:
        self.second = second
        self.sent: list[str] = []

    async def send(self, request: Request) -> Answer:
        self.sent.append(str(request).replace("/apis/batch.tensorstack.dev/v1beta1", ""))
        if request.method == "GET":
            return Answer(404, b"{}")
        if request.method == "POST" and sum(s.startswith("POST") for s in self.sent) == 2:
            if isinstance(self.second, Exception):
                raise self.second
            return self.second
        return Answer(201, msgspec.json.encode({"metadata": {"name": "a", "uid": "u"}}))


@pytest.mark.parametrize(
    "second",
    [
        Answer(403, b'{"kind": "Status", "message": "exceeded quota"}'),
        ConnectionFailedError("https://there", "refused", "check that it runs"),
    ],
    ids=["a quota", "no server any more"],
)
def test_what_was_created_is_taken_back_when_the_next_is_refused(
    second: Answer | Exception,
) -> None:
    jobs: list[dict[str, Any]] = [
        {
            "apiVersion": "batch.tensorstack.dev/v1beta1",
            "kind": "GenericJob",
            "metadata": {"name": name},
        }
        for name in ("a", "b")
    ]
    server: Any = Full(second)
    with pytest.raises((SubmissionError, ConnectionFailedError)):
        asyncio.run(submit(server, jobs, "default", makes_namespaces=False))
    place = "/namespaces/default/genericjobs"
    assert server.sent[-3:] == [f"POST {place}", f"POST {place}", f"DELETE {place}/a"]


@pytest.mark.parametrize(
    ("after", "told"),
    [
        pytest.param({}, "unchanged", id="nobody wrote"),
        pytest.param({"status": {"phase": "Running"}}, "unchanged", id="its status was written"),
        pytest.param({"spec": {"replicas": 2}}, "changed", id="the file says something else"),
        pytest.param(
            {"metadata": {"name": "a", "labels": {"of": "mine"}, "resourceVersion": "7"}},
            "changed",
            id="a label came",
        ),
    ],
)
def test_what_apply_did_is_told_by_what_files_say(after: dict[str, Any], told: str) -> None:
    stored = {"metadata": {"name": "a", "resourceVersion": "6"}, "spec": {"replicas": 1}}
    now = {**stored, "metadata": {"name": "a", "resourceVersion": "7"}, **after}
    answers = [Answer(200, msgspec.json.encode(each)) for each in (stored, now)]
    assert what_happened(*answers) == told
