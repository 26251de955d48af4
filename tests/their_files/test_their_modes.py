"""Run modes, rules and names as the users of the original platforms have them in their files.

What has no effect there has none here and is a warning with its field; an error is for what can't
run. Each file is taken by a real API server under kubectl's strict validation.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rig.cli_yard import Yard
from rig.engine import Room
from rig.kube.kubectl import Kubectl
from rig.manifests import valid_manifests
from rig.waiting import until_it_holds

from jobyard.api.crd import schema_node
from jobyard.api.kinds import KINDS, Kind, kind_named, kind_of
from jobyard.api.parts.run_mode import Mode
from jobyard.manifest.checking import checked
from jobyard.manifest.reading import read
from jobyard.plan.lowering.table import lowered
from jobyard.plan.objects.rendering import children
from jobyard.schema.admission import admitted
from jobyard.schema.finding import dotted, is_error

Json = dict[str, Any]
OLDER = "is the older spelling of enabled, and means the same: write enabled"


def pod(name: str = "main", *command: str) -> Json:
    containers = [{"name": name, "image": "x", "command": list(command or ("true",))}]
    return {"spec": {"terminationGracePeriodSeconds": 1, "containers": containers}}


def manifest(kind: str, name: str, **spec: Any) -> Json:
    return {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def generic(name: str, *types: str, **spec: Any) -> Json:
    replicas = [{"type": t, "replicas": 2, "template": pod()} for t in types or ("worker",)]
    return manifest("GenericJob", name, **{"replicaSpecs": replicas, **spec})


def pytorch(name: str, **spec: Any) -> Json:
    template = pod("pytorch", "python3", "-c", "pass")
    return manifest(
        "PyTorchTrainingJob", name, replicaSpecs=[{"type": "worker", "template": template}], **spec
    )


def by_go(job: Json) -> Json:
    """As a program in Go writes it: nothing is left out."""
    out = copy.deepcopy(job)
    for replica in out["spec"]["replicaSpecs"]:
        replica["template"]["metadata"] = {"creationTimestamp": None}
        for container in replica["template"]["spec"]["containers"]:
            container |= {"resources": {}, "args": None, "env": None}
    out["metadata"]["creationTimestamp"] = None
    return {**out, "status": {}}


NUMBERS = {"minReplicas": 1, "maxReplicas": 3, "expectedReplicas": 2}
ZEROS = {"minReplicas": 0, "maxReplicas": 0, "expectedReplicas": 0}
NO_TORCHRUN = (
    "has no effect: only torchrun can do with other numbers; set torchrunConfig.enabled to true"
)
# Each file, and what is said of it: field and text.
FILES: tuple[tuple[str, Json, dict[str, str]], ...] = (
    (
        "a debug mode in the older spelling",
        generic("debug", runMode={"debug": {"enable": True}}),
        {"spec.runMode.debug.enable": OLDER},
    ),
    (
        "a pause in the older spelling",
        generic("pause", runMode={"pause": {"enable": True}}),
        {"spec.runMode.pause.enable": OLDER},
    ),
    (
        "torchrun and elastic in the older spelling",
        pytorch(
            "older",
            torchrunConfig={"enable": True},
            elastic={"enable": True, **NUMBERS},
        ),
        {
            "spec.elastic.enable": OLDER,
            "spec.torchrunConfig.enable": OLDER,
            "spec.replicaSpecs[0].template.spec.containers[0].command": (
                "has no effect: it is replaced by torchrun"
            ),
            "spec.replicaSpecs[0].template.spec.containers[0]": (
                "has no args: torchrun takes its script from there"
            ),
        },
    ),
    (
        "both spellings that differ",
        generic("both", runMode={"debug": {"enable": True, "enabled": False}}),
        {
            "spec.runMode.debug.enable": (
                "is true and has no effect: enabled beside it is false, and that counts"
            )
        },
    ),
    (
        "elastic numbers beside enabled false",
        pytorch("off", elastic={"enabled": False, **NUMBERS}),
        {"spec.elastic": "has no effect: elastic.enabled isn't true"},
    ),
    (
        "elastic numbers without order beside enabled false",
        pytorch("odd", elastic={"enabled": False, "minReplicas": 3, "expectedReplicas": 1}),
        {"spec.elastic": "has no effect: elastic.enabled isn't true"},
    ),
    ("elastic zeros", pytorch("zeros", elastic={"enabled": False, **ZEROS}), {}),
    (
        "elastic without torchrun",
        pytorch("alone", elastic={"enabled": True, **NUMBERS}),
        {"spec.elastic": NO_TORCHRUN},
    ),
    (
        "elastic without torchrun and without numbers",
        pytorch("bare", elastic={"enabled": True}, torchrunConfig={"enabled": False}),
        {"spec.elastic": NO_TORCHRUN},
    ),
    (
        "elastic in a kind that lacks it",
        generic("rigid", elastic={"enabled": False, **NUMBERS}),
        {"spec.elastic": "has no effect: GenericJob has no elastic mode"},
    ),
    (
        "torchrun that is off, with all that it would be told",
        pytorch("told", torchrunConfig={"enabled": False, "minNodes": 9, "procPerNode": 4}),
        {"spec.torchrunConfig": "has no effect: torchrun is used only where enabled is true"},
    ),
    (
        "torchrun's zeros",
        pytorch("none", torchrunConfig={"enabled": False, "minNodes": 0, "procPerNode": ""}),
        {"spec.torchrunConfig": "has no effect: torchrun is used only where enabled is true"},
    ),
    (
        "a debug command for a type that isn't there",
        generic(
            "nobody",
            runMode={"debug": {"enabled": True, "replicaSpecs": [{"type": "Worker"}]}},
        ),
        {
            "spec.runMode.debug.replicaSpecs[0].type": (
                "is Worker, and has no effect: the types of this job are worker (did you mean"
                " worker?)"
            )
        },
    ),
    (
        "a resume command for a type that isn't there",
        generic(
            "resume",
            "master",
            "worker",
            runMode={"pause": {"resumeSpecs": [{"type": "ps", "command": ["x"]}]}},
        ),
        {
            "spec.runMode.pause.resumeSpecs[0].type": (
                "is ps, and has no effect: the types of this job are master and worker"
            )
        },
    ),
    (
        "a type twice in a debug mode that is off",
        generic(
            "twice", runMode={"debug": {"enabled": False, "replicaSpecs": [{"type": "worker"}] * 2}}
        ),
        {},
    ),
    (
        "a debug command for no type at all",
        generic("blank", runMode={"debug": {"enabled": True, "replicaSpecs": [{"type": ""}]}}),
        {
            "spec.runMode.debug.replicaSpecs[0].type": (
                "is empty, and has no effect: the types of this job are worker"
            )
        },
    ),
    (
        "variables that mean nothing where nothing has an effect",
        generic(
            "unknown",
            runMode={
                "debug": {
                    "enabled": False,
                    "replicaSpecs": [{"type": "worker", "command": ["$(replicas[ps])"]}],
                },
                "pause": {"resumeSpecs": [{"type": "ps", "args": ["$(service.port[http])"]}]},
            },
        ),
        {
            "spec.runMode.pause.resumeSpecs[0].type": (
                "is ps, and has no effect: the types of this job are worker"
            )
        },
    ),
    (
        "ranks as texts",
        generic("texts", successRules=[{"worker": ["0", 1]}], failureRules=[{"worker": ["1"]}]),
        {},
    ),
    (
        "what Go writes",
        by_go(generic("go")),
        {},
    ),
    ("a service without ports", generic("portless", service={"ports": []}), {}),
)


def file_of(job: Json) -> Iterator[tuple[str, str]]:
    (document,) = read(json.dumps(job), "job.yaml")
    result = checked(document)
    assert not [finding for finding in result.findings if is_error(finding)], result.findings
    for finding in result.findings:
        yield dotted(finding.path), finding.text


@pytest.mark.parametrize(
    ("job", "told"), [pytest.param(job, told, id=title) for title, job, told in FILES]
)
def test_a_file_is_valid_and_what_has_no_effect_is_told(job: Json, told: dict[str, str]) -> None:
    assert dict(file_of(job)) == told


def test_kubectl_takes_the_files_under_strict_validation(kubectl: Kubectl, crds: None) -> None:
    items = [job for _, job, _ in FILES]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    done = kubectl("apply", "--validate=strict", "-f", "-", stdin=text)
    assert done.stdout.count(" created\n") == len(items)
    # The names of the originals, too.
    of_pytorch = sum(job["kind"] == "PyTorchTrainingJob" for job in items)
    for short, wanted in (("pj", of_pytorch), ("tj", 0), ("xj", 0), ("caij", 0)):
        listed = kubectl("get", short, "-o", "name").stdout.splitlines()
        assert len(listed) == wanted, short
    refused = kubectl("scale", "pj/off", "--replicas=3", check=False)
    assert "can't be changed in a job that isn't elastic" in refused.stderr
    kubectl("scale", "pj/older", "--replicas=3")
    # A pause in the older spelling opens the spec, as the other does.
    patch = json.dumps({"spec": {"successRules": [{"worker": [0]}]}})
    kubectl("patch", "gj/pause", "--type=merge", "-p", patch)
    refused = kubectl("patch", "gj/debug", "--type=merge", "-p", patch, check=False)
    assert "only while the job is paused" in refused.stderr


REFUSED: tuple[tuple[str, Json, str], ...] = (
    (
        "elastic with torchrun and without numbers",
        pytorch("a", torchrunConfig={"enable": True}, elastic={"enable": True}),
        "an elastic job needs minReplicas",
    ),
    (
        "elastic with zeros",
        pytorch("a", torchrunConfig={"enabled": True}, elastic={"enabled": True, **ZEROS}),
        "is 0; must be at least 1 in an elastic job",
    ),
    (
        "elastic in a kind that lacks it",
        generic("a", elastic={"enable": True, **NUMBERS}),
        "GenericJob has no elastic mode",
    ),
    (
        "a rank as a text that isn't there",
        generic("a", successRules=[{"worker": ["2"]}]),
        "names a rank that is not there: ranks go from 0, and the replicas are [2 of worker]",
    ),
    (
        "a type twice in a debug mode that is on",
        generic("a", runMode={"debug": {"enable": True, "replicaSpecs": [{"type": "worker"}] * 2}}),
        "type worker is listed more than once; each must be unique",
    ),
    ("a rank that is no number", generic("a", failureRules=[{"worker": ["one"]}]), "four digits"),
    (
        "etcd without its address, torchrun on in the older spelling",
        pytorch("a", torchrunConfig={"enable": True, "rdzvBackend": "etcd"}),
        "need --rdzv_endpoint",
    ),
)


@pytest.mark.parametrize(
    ("job", "words"), [pytest.param(job, words, id=title) for title, job, words in REFUSED]
)
def test_what_cannot_run_is_refused_still(job: Json, words: str) -> None:
    kind = kind_of(job["apiVersion"], job["kind"])
    assert kind is not None
    found = admitted(job, schema_node(kind)).errors
    assert any(words in finding.text for finding in found), found


def stored(job: Json) -> tuple[Kind, Any]:
    kind = kind_of(job["apiVersion"], job["kind"])
    assert kind is not None
    verdict = admitted(copy.deepcopy(job), schema_node(kind))
    assert not verdict.errors, verdict.errors
    return kind, msgspec.convert(verdict.value, kind.type)


def respelled(value: Any) -> Any:
    """With `enable` wherever a switch says `enabled`."""
    if isinstance(value, list):
        return [respelled(each) for each in value]
    if not isinstance(value, dict):
        return value
    switches = ("debug", "pause", "elastic", "torchrunConfig")
    return {
        key: (
            {"enable" if k == "enabled" else k: v for k, v in each.items()}
            if key in switches and isinstance(each, dict)
            else respelled(each)
        )
        for key, each in value.items()
    }


def with_mode(job: Json, mode: Mode) -> Json:
    out = copy.deepcopy(job)
    out["spec"]["runMode"] = {mode.value: {"enabled": True}}
    return out


SWITCHED = [
    *(m for m in valid_manifests() if respelled(m) != m),
    *(
        with_mode(next(m for m in valid_manifests() if m["kind"] == kind.name), mode)
        for kind in KINDS
        for mode in (Mode.DEBUG, Mode.PAUSE)
        if mode in kind.modes
    ),
]


@pytest.mark.parametrize(
    "job", SWITCHED, ids=lambda job: f"{job['kind']}-{job['metadata'].get('name', 'x')}"
)
def test_both_spellings_make_the_same_pods(job: Json) -> None:
    (kind, one), (_, other) = stored(job), stored(respelled(job))
    assert list(children(lowered(kind, one))) == list(children(lowered(kind, other)))


def test_off_and_absent_have_one_digest_in_either_spelling() -> None:
    blocks: tuple[Json, ...] = ({}, {"enabled": False}, {"enable": False})
    jobs = [stored(pytorch("a", torchrunConfig={**b, "maxRestarts": 1}, elastic=b)) for b in blocks]
    assert len({lowered(kind, job).revision for kind, job in jobs}) == 1


@pytest.mark.parametrize(
    ("given", "processes"),
    [("4", "4"), (4, "4"), ("", "1"), ("0", "1"), (0, "1"), ("gpu", "gpu"), (100, "100")],
)
def test_processes_are_a_number_or_a_text(given: str | int, processes: str) -> None:
    kind, job = stored(pytorch("a", torchrunConfig={"enabled": True, "procPerNode": given}))
    (worker,) = [child for child in children(lowered(kind, job)) if child["kind"] == "Pod"]
    command = worker["spec"]["containers"][0]["command"]
    assert command[command.index("--nproc_per_node") + 1] == processes


def test_short_names_of_the_originals_are_known() -> None:
    named = {word: kind_named(word) for word in ("pj", "tj", "xj", "caij", "ptj", "tftj", "caj")}
    assert {word: kind.name for word, kind in named.items() if kind is not None} == {
        "pj": "PyTorchTrainingJob",
        "tj": "TensorFlowTrainingJob",
        "xj": "XGBoostTrainingJob",
        "caij": "ColossalAIJob",
        "ptj": "PyTorchTrainingJob",
        "tftj": "TensorFlowTrainingJob",
        "caj": "ColossalAIJob",
    }
    words = [word for kind in KINDS for word in kind.short_names]
    assert len(words) == len(set(words))


@pytest.mark.parametrize(
    ("kind", "types", "master"),
    [
        ("PyTorchTrainingJob", ("ps", "worker"), "ps"),
        ("TensorFlowTrainingJob", ("ps", "worker"), "worker"),
        ("TensorFlowTrainingJob", ("worker", "chief"), "chief"),
        ("XGBoostTrainingJob", ("worker", "master"), "master"),
        ("GenericJob", ("a", "b"), "a"),
    ],
)
def test_pods_say_which_role_and_replica_they_are(
    kind: str, types: tuple[str, ...], master: str
) -> None:
    container = {"TensorFlowTrainingJob": "tensorflow", "XGBoostTrainingJob": "xgboost"}
    specs = [{"type": t, "template": pod(container.get(kind, "main"))} for t in types]
    row, job = stored(manifest(kind, "a", replicaSpecs=specs))
    for child in children(lowered(row, job)):
        if child["kind"] != "Pod":
            continue
        labels = child["metadata"]["labels"]
        type_ = labels["batch.tensorstack.dev/replica-type"]
        role = "master" if type_ == master else type_
        assert labels["job-role"] == labels["batch.tensorstack.dev/job-role"] == role
        assert labels["replica-index"] == labels["batch.tensorstack.dev/replica-index"] == "0"


# On a running engine.

TRAINS = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: PyTorchTrainingJob
metadata: {{name: tries}}
spec:
  torchrunConfig: {{enable: false, procPerNode: 2}}
  elastic: {{enabled: true, minReplicas: 1, maxReplicas: 2, expectedReplicas: 1}}
  runMode:
    debug: {{enable: true, replicaSpecs: [{{type: nobody}}]}}
    pause: {{enable: false}}
  replicaSpecs:
  - type: worker
    template:
      metadata: {{creationTimestamp: null}}
      spec:
        terminationGracePeriodSeconds: 1
        containers:
        - {{name: pytorch, image: x, command: [sh, -c, "touch {mark}; exec sleep 600"]}}
"""
STRETCHES = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: PyTorchTrainingJob
metadata: {name: stretches}
spec:
  torchrunConfig: {enable: true}
  elastic: {enable: true, minReplicas: 1, maxReplicas: 3, expectedReplicas: 2}
  runMode: {debug: {enable: true}}
  replicaSpecs:
  - type: node
    replicas: 9
    template:
      spec:
        terminationGracePeriodSeconds: 1
        containers: [{name: pytorch, image: x, command: [python3], args: [train.py]}]
"""
RESUMES = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata: {name: resumes}
spec:
  runMode:
    debug:
      enable: false
      replicaSpecs: [{type: worker, command: ["$(service.port[none])"]}]
    pause:
      enable: true
      resumeSpecs:
      - {type: Worker, command: [sh, -c, exit 1, "$(replicas[none])"]}
      - {type: ps, command: [sh, -c, "echo resumed"]}
  replicaSpecs:
  - type: worker
    template: {spec: {containers: [{name: main, image: x, command: [sh, -c, "echo as ever"]}]}}
  - type: ps
    template: {spec: {containers: [{name: main, image: x, command: [sh, -c, exit 1]}]}}
"""
HOPELESS = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata: {name: hopeless}
spec:
  successRules: [{worker: ["0", "1"]}, {ps: ["0"], worker: [1]}]
  failureRules: [{ps: ["0"]}]
  cleanUpPolicy: All
  replicaSpecs:
  - type: ps
    template:
      spec:
        terminationGracePeriodSeconds: 1
        containers: [{name: main, image: x, command: [sleep, "600"]}]
  - type: worker
    replicas: 2
    restartPolicy: {policy: OnFailure, limit: 1}
    template:
      spec: {containers: [{name: main, image: x, command: [sh, -c, "exit $JOBYARD_REPLICA_RANK"]}]}
"""


@pytest.fixture
def yard(room: Room) -> Yard:
    return Yard(room)


def shown(yard: Yard, name: str) -> Json:
    found: Json = json.loads(yard.does("get", name, "-o", "json"))
    return found


def test_a_debug_job_in_the_older_spelling_does_not_train(yard: Yard, tmp_path: Path) -> None:
    """Until it is told to: by the field that the job has, which a second apply can turn back."""
    tmp_path.chmod(0o777)
    mark = tmp_path / "trained"
    text = TRAINS.format(mark=mark)
    done = yard("apply", "-f", yard.write("tries", text))
    assert f":9: warning: spec.runMode.debug.enable: {OLDER}" in done.stdout + done.stderr
    yard.does("wait", "tries", "--for", "running", "--timeout", "60s")
    (worker,) = json.loads(yard.does("get", "pods", "-o", "json"))["items"]
    assert worker["spec"]["containers"][0]["command"] == ["sleep", "inf"]
    assert worker["metadata"]["labels"]["job-role"] == "master"
    assert not mark.exists()
    until_it_holds(
        lambda: (
            "spec.runMode.debug.replicaSpecs[0].type: is nobody" in yard.does("events", "tries")
        ),
        "the warnings are told as events",
    )
    refused = yard("scale", "tries", "2")
    assert "spec.elastic has no effect without spec.torchrunConfig" in refused.stderr
    assert yard.does("debug", "tries").endswith("is already in debug mode\n")
    yard.does("debug", "tries", "--off")
    assert shown(yard, "tries")["spec"]["runMode"]["debug"]["enable"] is False
    until_it_holds(mark.exists, "the program is started")
    yard.does("pause", "pj/tries")
    assert shown(yard, "tries")["spec"]["runMode"]["pause"] == {"enable": True}
    yard.does("wait", "tries", "--for", "paused", "--timeout", "60s")
    yard.apply("again", text)
    assert not shown(yard, "tries")["spec"]["runMode"]["pause"]["enable"]
    yard.does("wait", "tries", "--for", "running", "--timeout", "60s")
    assert yard.does("get", "pj", "-o", "name") == "pytorchtrainingjob/tries\n"
    yard.does("delete", "tries")


def test_an_elastic_job_in_the_older_spelling_is_scaled(yard: Yard) -> None:
    """By `expectedReplicas`, not by `replicas`; without torchrun neither would count."""

    def nodes() -> list[str]:
        return sorted(yard.does("get", "pods", "-o", "name").split())

    def named(count: int) -> list[str]:
        return [f"pod/stretches-node-{n}" for n in range(count)]

    yard.apply("stretches", STRETCHES)
    yard.does("wait", "stretches", "--for", "running", "--timeout", "60s")
    assert nodes() == named(2)
    yard.does("scale", "stretches", "3")
    until_it_holds(lambda: nodes() == named(3), "there are three")
    yard.does("delete", "stretches")


def test_after_a_pause_in_the_older_spelling_types_that_are_not_there_change_nothing(
    yard: Yard,
) -> None:
    yard.apply("resumes", RESUMES)
    yard.does("wait", "resumes", "--for", "paused", "--timeout", "60s")
    yard.does("resume", "resumes")
    yard.does("wait", "resumes", "--timeout", "60s")
    said = yard.does("logs", "resumes")
    assert "worker-0 | as ever" in said
    assert "resumed" in said
    yard.does("delete", "resumes")


def test_a_job_that_can_no_longer_succeed_fails_at_once_and_names_who_failed(yard: Yard) -> None:
    """The failure rule waits for a replica that never ends."""
    yard.apply("hopeless", HOPELESS)
    done = yard("wait", "hopeless", "--timeout", "60s")
    assert done.returncode != 0
    status = shown(yard, "hopeless")["status"]
    assert status["phase"] == "Failed"
    said = {each["type"]: each for each in status["conditions"]}
    assert said["Failed"]["message"] == (
        "No rule for success can be met any more: worker-1 failed."
    )
    assert said["Initialized"]["status"] == "True"
    assert status["restarts"] == 1
    yard.does("delete", "hopeless")
