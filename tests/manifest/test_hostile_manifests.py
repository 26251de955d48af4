"""Manifests with values that nobody thought of: a finding each time, and soon.

The commands are asked in this process, as often as a run allows; a real API server and the
controller get those that such a server takes.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rig.job_manifests import generic, manifest, template
from rig.kube.api import ApiCaller
from rig.kube.jobyard_controller import running_controller
from rig.kube.plane import ControlPlane
from rig.manifests import EXAMPLES, documents, valid_manifests
from rig.selection import all_is_asked_for
from rig.waiting import until

from jobyard.api.kinds import KINDS, kind_of
from jobyard.cli.main import cli
from jobyard.plan.lowering import table as lowering
from jobyard.plan.lowering.table import JOB_KINDS
from jobyard.plan.objects import rendering
from manifest.hostile_manifests import HostileMutator

MUTATIONS = int(os.environ.get("JOBYARD_MUTATIONS", "20000" if all_is_asked_for() else "2000"))
CHUNKS = max(4, MUTATIONS // 1000)
SEED = int(os.environ["JOBYARD_SEED"])
SECONDS_MAX = 2.0
# Jobs that the controller gets.
JOBS = 1_000 if all_is_asked_for() else 48
STATUS_SECONDS = 600
CONCURRENCY = 8
# To write out such a power takes a real API server itself from a second to minutes.
_TOWER = re.compile(r"[eE][+-]?[0-9]{6,19}(?![0-9])")
Json = dict[str, Any]


def answered(*arguments: str, text: str) -> str | None:
    """What is wrong with how a command deals with a file; None if nothing is."""
    begun = time.process_time()
    result = CliRunner().invoke(cli, [*arguments, "-"], input=text)
    seconds = time.process_time() - begun
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return f"{arguments[0]}: {result.exception!r}"
    if result.exit_code not in (0, 1, 2) or "Traceback" in result.output:
        return f"{arguments[0]}: exit code {result.exit_code}"
    if "is not understood" in result.output:
        return f"{arguments[0]}: {result.output[:500]}"
    return f"{arguments[0]}: {seconds:.1f} s" if seconds > SECONDS_MAX else None


@pytest.mark.long
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_commands_find_something_to_say_about_random_mutations(chunk: int, tmp_path: Path) -> None:
    mutator = HostileMutator(valid_manifests(), SEED + chunk)
    for number in range(MUTATIONS // CHUNKS):
        drawn = mutator.draw()
        # What begins with a brace is read as JSON; with a comment before it, as YAML.
        text = drawn if number % 2 else f"# yaml\n{drawn}"
        wrong = answered("validate", text=text) or answered("render", text=text)
        if wrong is not None:
            (tmp_path / "manifest").write_text(text)
            pytest.fail(
                f"{wrong}\n{tmp_path / 'manifest'}: {text[:300]}\n"
                f"repeat with JOBYARD_SEED={SEED} -k 'random_mutations and {chunk}'"
            )


def beam(**task_manager: Any) -> Json:
    """The example with a Flink cluster."""
    (found,) = [
        document.value
        for path in EXAMPLES
        if path.name == "flink.yaml" and path.parent.name == "beamjob"
        for document in documents(path)
        if document.value["kind"] == "BeamJob"
    ]
    changed: Json = json.loads(json.dumps(found))
    changed["spec"]["flinkClusterTemplate"]["spec"].update(task_manager)
    return changed


def with_resources(resources: Json) -> Json:
    job = generic({"worker": 1})
    job["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]["resources"] = resources
    return job


def mpi(arguments: list[str], **limits: str) -> Json:
    pods = template("mpi-worker")
    pods["spec"]["containers"][0]["resources"] = {"limits": limits}
    worker = {"replicas": 2, "cmd": ["walk"], "template": pods, "extraMPIArgs": arguments}
    return manifest("MPIJob", {"worker": worker})


def calling(variable: str) -> Json:
    job = generic({"worker": 1}, service={"ports": [{"name": "p", "port": 80}]})
    job["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]["args"] = [variable]
    return job


HUGE = "9" * 5_000
TOWER = "1e3000000"
BEYOND = "1e99999999999999999999"


@pytest.mark.parametrize(
    ("job", "says"),
    [
        pytest.param(
            beam(taskManager={"replicas": 1, "resources": {"limits": {"cpu": TOWER}}}),
            "",
            id="a Flink cluster with more cores than there are",
        ),
        pytest.param(
            beam(taskManager={"replicas": 1, "resources": {"limits": {"memory": HUGE}}}),
            "",
            id="a Flink cluster with more memory than there is",
        ),
        pytest.param(
            with_resources({"limits": {"cpu": BEYOND}, "requests": {"cpu": BEYOND}}),
            "is not a quantity, such as 500m, 2 or 4Gi: Kubernetes refuses such a pod",
            id="an exponent that no API server takes",
        ),
        pytest.param(
            with_resources({"limits": {"cpu": TOWER}, "requests": {"cpu": HUGE}}),
            "",
            id="a limit and a request beyond all bounds",
        ),
        pytest.param(mpi([], **{"nvidia.com/gpu": HUGE}), "", id="more GPUs than there are"),
        pytest.param(mpi(["-N", HUGE]), "", id="more processes on a node than can be counted"),
        pytest.param(mpi(["-np", "٣"]), "", id="a number of processes in another script"),
        pytest.param(mpi(["--map-by", f"ppr:{HUGE}:node"]), "", id="mapped by a huge number"),
        pytest.param(
            calling(f"$(service.worker[{HUGE}].host)"),
            "worker has the ranks 0 to 0",
            id="the host of a rank that can't be counted to",
        ),
        pytest.param(
            calling("$(service.worker[²].host)"),
            "worker has the ranks 0 to 0, ² is not one",
            id="the host of a rank that is no number",
        ),
        pytest.param(
            beam(flinkProperties={"rest.port": HUGE, "blob.server.port": "٣"}),
            "",
            id="ports of a Flink cluster that are none",
        ),
    ],
)
def test_a_number_in_a_job_that_is_none_is_no_fault_of_the_program(job: Json, says: str) -> None:
    text = json.dumps(job)
    assert answered("validate", text=text) is None
    assert answered("render", text=text) is None
    assert says in CliRunner().invoke(cli, ["validate", "-"], input=text).output


@pytest.mark.parametrize("command", ["validate", "render"])
@pytest.mark.parametrize("broken", ["lowering", "rendering"])
def test_what_nobody_thought_of_is_a_finding_and_no_traceback(
    command: str, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program is broken on purpose; whatever breaks it by itself would be mended."""

    def stumble(*_: object) -> None:
        raise RecursionError("maximum recursion depth exceeded")

    if broken == "lowering":
        monkeypatch.setitem(lowering._LOWERINGS, "GenericJob", stumble)  # type: ignore[index]
    else:
        monkeypatch.setattr(rendering, "replica_pod", stumble)
    text = json.dumps(generic({"worker": 1}))
    result = CliRunner().invoke(cli, [command, "-"], input=text)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    if (command, broken) == ("validate", "rendering"):
        # It makes no pods.
        assert result.exit_code == 0
        return
    assert result.exit_code == 1
    assert "spec: is not understood, though the API server would take it" in result.output
    assert "RecursionError: maximum recursion depth exceeded" in result.output


def test_a_port_that_nobody_can_listen_on_is_not_given_to_a_pod() -> None:
    job = beam(flinkProperties={"rest.port": "99999", "jobmanager.rpc.port": "7000-7005"})
    shown = CliRunner().invoke(cli, ["render", "-"], input=json.dumps(job)).output
    assert "containerPort: 99999" not in shown
    assert "containerPort: 8081" in shown
    assert "containerPort: 7000" in shown


# Numbers as YAML has them, each more than Python reads or writes as digits.
YAML_NUMBERS = {
    "hexadecimal": "0x" + "f" * 5_000,
    "below zero": "-0x" + "f" * 5_000,
    "octal": "0o" + "7" * 6_000,
    "octal as of old": "0" + "7" * 6_000,
    "binary": "0b" + "1" * 20_000,
    "in minutes and seconds": ":".join(["59"] * 3_000),
    "with underscores": "1" + "_000" * 3_000,
    "infinite": ".inf",
    "no number": ".nan",
    "of a type that is said": f"!!float '{HUGE}'",
    "of a type that it isn't": "!!int 'many'",
}
# A replica count, a word of a command, and a name.
YAML_PLACES = {
    "replicas": "{replicas: NUMBER}",
    "a word": "{template: {spec: {containers: [{name: m, image: i, args: [NUMBER]}]}}}",
    "a field": "{? NUMBER : 1}",
}


@pytest.mark.parametrize("place", YAML_PLACES)
@pytest.mark.parametrize("number", YAML_NUMBERS)
def test_a_number_that_only_yaml_has_is_no_fault_of_the_program(number: str, place: str) -> None:
    role = YAML_PLACES[place].replace("NUMBER", YAML_NUMBERS[number])
    text = f"""
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata: {{name: job}}
spec:
  replicaSpecs:
  - {role}
"""
    assert answered("validate", text=text) is None
    assert answered("render", text=text) is None


# Moments and counts that nobody can add anything to.
STATUSES: list[Json] = [
    *(
        {"phase": phase, "startTime": moment, "completionTime": moment}
        for phase in ("Pending", "Running", "Succeeded", "Failed", "Paused")
        for moment in ("9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z")
    ),
    {"phase": "Running", "conditions": [{"type": "Running", "status": "True"}] * 500},
    {"phase": "Nothing", "tasks": [{"type": "worker", "restartCount": 2**31 - 1}] * 50},
]


def test_a_status_that_somebody_else_wrote_is_only_its_own_jobs_trouble(
    control_plane: ControlPlane, namespace: str, crds: None
) -> None:
    async def act() -> None:
        async with ApiCaller(control_plane) as api:

            async def make(name: str) -> str:
                longest = 2**31 - 1
                limits = {"activeDeadlineSeconds": longest, "ttlSecondsAfterFinished": longest}
                job = {**generic({"worker": 1}, **limits), "metadata": {"name": name}}
                path = str(_path(job, namespace))
                answer = await api.request("POST", path, body=job)
                assert answer.status == 201, answer.text
                return f"{path}/{name}"

            taken = 0
            for number, status in enumerate(STATUSES):
                path = f"{await make(f'job-{number}')}/status"
                merge = "application/merge-patch+json"
                answer = await api.request(
                    "PATCH", path, body={"status": status}, content_type=merge
                )
                taken += answer.status == 200
            assert taken >= 10
            async with running_controller(control_plane.kubeconfig, namespace) as controller:
                await make("last")
                async with asyncio.timeout(STATUS_SECONDS):
                    await until(lambda: _all_say_something(api, namespace, {"last": ""}))
                assert controller.process.returncode is None
            assert not [each for each in controller.lines if "Traceback" in str(each)]

    asyncio.run(act())


def test_every_job_that_an_api_server_takes_gets_a_status(
    control_plane: ControlPlane, namespace: str, crds: None
) -> None:
    """Whatever is written in it."""
    mutator = HostileMutator(_jobs(), SEED)

    async def act() -> None:
        async with ApiCaller(control_plane) as api:
            made = await _made(api, mutator, namespace)
            async with running_controller(control_plane.kubeconfig, namespace) as controller:
                async with asyncio.timeout(STATUS_SECONDS):
                    await until(lambda: _all_say_something(api, namespace, made))
                assert controller.process.returncode is None
            raised = [each for each in controller.lines if "Traceback" in str(each)]
            assert not raised, f"repeat with JOBYARD_SEED={SEED}: {raised[:3]}"

    asyncio.run(act())


def test_a_refusal_of_any_length_fits_into_a_status(
    control_plane: ControlPlane, namespace: str, crds: None
) -> None:
    """An API server quotes what it refuses; here more than an object may have."""
    long = "9" * 200_000
    variable = {"name": f"{long}=", "value": "a"}
    jobs = [generic({"worker": 1}), calling(f"$(service.worker[{long}].host)")]
    jobs[0]["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]["env"] = [variable] * 4
    reasons = ["InvalidTemplate", "BadVariable"]

    async def act() -> None:
        async with ApiCaller(control_plane) as api:
            for number, job in enumerate(jobs):
                job["metadata"] = {"name": f"job-{number}"}
                answer = await api.request("POST", f"{_path(job, namespace)}", body=job)
                assert answer.status == 201, answer.text[:500]
            async with running_controller(control_plane.kubeconfig, namespace):
                for number, reason in enumerate(reasons):
                    path = f"{_path(jobs[0], namespace)}/job-{number}"

                    async def said(path: str = path, reason: str = reason) -> Json | None:
                        answer = await api.request("GET", path)
                        found = (answer.body.get("status") or {}).get("conditions") or [{}]
                        return found[0] if found[0].get("reason") == reason else None

                    async with asyncio.timeout(STATUS_SECONDS):
                        told = await until(said)
                    assert told is not None
                    assert len(told["message"]) <= 2_100

    asyncio.run(act())


def _jobs() -> list[Json]:
    found = [each for each in valid_manifests() if _path(each, "n") is not None]
    assert found
    return found


def _path(job: Json, namespace: str) -> str | None:
    kind = kind_of(job["apiVersion"], job["kind"])
    if kind is None or kind not in JOB_KINDS:
        return None
    return f"/apis/{kind.api_version}/namespaces/{namespace}/{kind.plural}"


async def _made(api: ApiCaller, mutator: HostileMutator, namespace: str) -> dict[str, str]:
    """As many jobs as are wanted, by the paths of their kinds and their names."""
    made: dict[str, str] = {}

    async def make() -> None:
        while len(made) < JOBS:
            job = mutator.taken()
            metadata, path = job.get("metadata"), _path(job, namespace)
            if not isinstance(metadata, dict) or path is None or _TOWER.search(json.dumps(job)):
                continue
            name = f"job-{len(made)}-{mutator.count}"
            metadata["name"] = name
            answer = await api.request("POST", path, body=job)
            assert answer.status in (201, 400, 422), answer.text
            if answer.status == 201:
                made[name] = path

    async with asyncio.TaskGroup() as group:
        for _ in range(CONCURRENCY):
            group.create_task(make())
    return made


async def _all_say_something(api: ApiCaller, namespace: str, made: dict[str, str]) -> bool:
    silent = set(made)
    for path in {_path({"apiVersion": k.api_version, "kind": k.name}, namespace) for k in KINDS}:
        if path is None:
            continue
        answer = await api.request("GET", path)
        for item in answer.body["items"]:
            status = item.get("status") or {}
            if status.get("phase") and (status.get("conditions") or status.get("phaseMessage")):
                silent.discard(item["metadata"]["name"])
    return not silent
