"""TensorBoards, kinds that only the platform has, queues, gangs and Flink clusters, as the
platform's users write them: taken by a strict kubectl, told of where they have no effect, and done.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from controller.controller_stage import Stage, Staging
from rig.cli_yard import STAYS, Yard
from rig.engine import JOBS, Room
from rig.kube.kubectl import Kubectl
from rig.kube.plane import ControlPlane
from rig.waiting import until_it_holds

from jobyard.api.podgroup import GroupRole, PodGroupSpec
from jobyard.manifest.checking import Checked, checked
from jobyard.manifest.reading import read
from jobyard.plan.lowering.table import described
from jobyard.plan.objects.rendering import children
from jobyard.schema.finding import dotted

Json = dict[str, Any]
BATCH, QUEUES = "batch.tensorstack.dev/v1beta1", "scheduler.tensorstack.dev/v1beta1"
NOT_SERVED = "is not served"
NO_EFFECT = "has no effect"


def pytorch(name: str = "train", **board: Any) -> Json:
    container = {"name": "pytorch", "image": "x", "command": ["sleep", "600"]}
    worker = {"type": "worker", "template": {"spec": {"containers": [container]}}}
    spec = {"replicaSpecs": [worker], "tensorboardSpec": board}
    return {
        "apiVersion": BATCH,
        "kind": "PyTorchTrainingJob",
        "metadata": {"name": name},
        "spec": spec,
    }


def tensorflow(**board: Any) -> Json:
    text = (
        json.dumps(pytorch(**board))
        .replace("PyTorch", "TensorFlow")
        .replace("pytorch", "tensorflow")
    )
    job: Json = json.loads(text)
    return job


def queue(**spec: Any) -> Json:
    return {"apiVersion": QUEUES, "kind": "Queue", "metadata": {"name": "team-a"}, "spec": spec}


def gang(**spec: Any) -> Json:
    return {"apiVersion": QUEUES, "kind": "PodGroup", "metadata": {"name": "gang"}, "spec": spec}


def beam(metadata: Json | None = None, pod: Json | None = None, **cluster: Any) -> Json:
    submit = {"name": "submit", "image": "beam", "command": ["python3", "w.py"]}
    template = {"restartPolicy": "Never", "containers": [submit], **(pod or {})}
    flink: Json = {"flinkVersion": "1.19", "image": {"name": "flink"}, **cluster}
    return {
        "apiVersion": BATCH,
        "kind": "BeamJob",
        "metadata": {"name": "words"},
        "spec": {
            "flinkClusterTemplate": {"spec": flink} | ({"metadata": metadata} if metadata else {}),
            "jobTemplate": {"spec": {"template": {"spec": template}}},
        },
    }


CLAIM = "t9k://pvc/logs/run"
MINIO = "t9k://minio/keys/bucket/run"
BOARD = "spec.tensorboardSpec"
FLINK = "spec.flinkClusterTemplate"
# A sentence, the manifest, and what is warned of: the path, and words of the text.
TAKEN: list[tuple[str, Json, list[tuple[str, str]]]] = [
    ("logs in claims", pytorch(logDir={"pvc": [{"name": "logs", "subPath": ["run"]}]}), []),
    ("logs in a whole claim", tensorflow(logDir={"pvc": [{"name": "logs"}]}), []),
    (
        "every kind of logs",
        tensorflow(
            logDir={
                "pvc": [{"name": "logs", "subPath": ["a", "b"]}, {"name": "more", "subPath": []}],
                "s3": {"secretRef": {"name": "keys"}, "uri": ["s3://bucket/run"]},
                "http": {"url": ["http://example.com/run"]},
            },
            trainingLogFilesets=[MINIO, CLAIM],
        ),
        [
            (f"{BOARD}.trainingLogFilesets[0]", NOT_SERVED),
            (f"{BOARD}.logDir.s3", NOT_SERVED),
            (f"{BOARD}.logDir.http", NOT_SERVED),
        ],
    ),
    (
        "only logs that are not served",
        pytorch(trainingLogFilesets=[MINIO]),
        [(f"{BOARD}.trainingLogFilesets[0]", NOT_SERVED), (BOARD, "there is no TensorBoard")],
    ),
    (
        "a TensorBoard as a program writes one",
        pytorch(
            image="",
            trainingLogFilesets=[CLAIM],
            logDir={
                "pvc": [],
                "s3": {"secretRef": {"name": ""}, "uri": []},
                "http": {"url": []},
            },
            suspend=False,
            runMode="",
            scheduler={"t9kScheduler": {"queue": "", "priority": 0}},
            resources={},
        ),
        [],
    ),
    (
        "a TensorBoard with nulls",
        pytorch(
            image=None,
            trainingLogFilesets=None,
            logDir={"pvc": [{"name": "a"}], "s3": None},
            suspend=None,
            scheduler={"t9kScheduler": None},
            resources=None,
        ),
        [],
    ),
    ("nothing said of a TensorBoard", pytorch(), [(BOARD, "there is no TensorBoard")]),
    ("a suspended TensorBoard", pytorch(trainingLogFilesets=[CLAIM], suspend=True), []),
    (
        "a paused TensorBoard",
        pytorch(trainingLogFilesets=[CLAIM], runMode="paused"),
        [(f"{BOARD}.runMode", "old spelling of suspend")],
    ),
    (
        "a TensorBoard in a queue",
        pytorch(
            trainingLogFilesets=[CLAIM], scheduler={"t9kScheduler": {"queue": "q", "priority": 9}}
        ),
        [(f"{BOARD}.scheduler.t9kScheduler.priority", NO_EFFECT)],
    ),
    ("a queue with a duration of zero", queue(maxDuration="0"), []),
    ("a queue with an empty duration", queue(maxDuration=""), []),
    ("a queue with all units", queue(maxDuration="1y2w3d4h5m6s7ms"), []),
    (
        "a queue with a profile",
        queue(resourceShapeProfile="demo", quota={"requests": {}}, preemptible=None),
        [("spec.resourceShapeProfile", NO_EFFECT)],
    ),
    ("a queue with an empty profile", queue(resourceShapeProfile=""), []),
    (
        "a queue as another cluster shows it",
        {
            **queue(closed=False),
            "status": {
                "conditions": [
                    {"type": "QueueClosed", "status": "False", "lastTransitionTime": None},
                    {"type": "ResourcePressure", "status": "True", "reason": "R", "message": "m"},
                ]
            },
        },
        [("status", "is ignored")],
    ),
    ("a gang of nothing said", gang(), []),
    ("a gang as a program writes it", gang(queue="", priority=0, minMember=0, roles=[]), []),
    ("a gang by its roles", gang(roles=[{"name": "a", "minMember": 2}, {"name": "b"}]), []),
    (
        "a gang that is smaller than its roles",
        gang(minMember=2, roles=[{"name": "a", "minMember": 2}, {"name": "b", "minMember": 1}]),
        [("spec.minMember", "is 2, and the roles need 3 together")],
    ),
    (
        "a gang with a topology",
        gang(minMember=1, topologyPolicy="Best"),
        [("spec.topologyPolicy", NO_EFFECT)],
    ),
    ("a gang without a topology", gang(minMember=1, topologyPolicy=""), []),
    (
        "a Flink cluster with metadata",
        beam({"labels": {"a": "b"}, "annotations": {"c": "d"}, "creationTimestamp": None}),
        [],
    ),
    (
        "a Flink cluster with metadata that means nothing",
        beam({"name": "flink", "namespace": "there", "labels": {}, "generateName": ""}),
        [(f"{FLINK}.metadata.{field}", NO_EFFECT) for field in ("name", "namespace")],
    ),
    (
        "a Flink cluster as its operator takes it",
        beam(
            image={"name": "flink", "pullPolicy": "Always", "pullSecrets": [{"name": "reg"}]},
            serviceAccountName="flink",
            envVars=[{"name": "A", "value": "1"}],
            envFrom=[{"configMapRef": {"name": "more"}}],
            jobManager={
                "ports": {"ui": 9000},
                "volumes": [{"name": "v", "emptyDir": {}}],
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                "initContainers": [{"name": "first", "image": "x"}],
                "sidecars": [{"name": "beside", "image": "x"}],
                "nodeSelector": {"disk": "ssd"},
                "tolerations": [{"key": "gpu", "operator": "Exists"}],
                "podLabels": {"a": "b"},
                "podAnnotations": {"a": "b"},
                "securityContext": {"runAsUser": 1000},
                "extraPorts": [{"name": "prom", "containerPort": 9249}],
            },
        ),
        [],
    ),
    (
        "a Flink cluster with what only its operator does",
        beam(
            logConfig={"log4j.properties": "x"},
            batchSchedulerName="volcano",
            revisionHistoryLimit=3,
            jobManager={"ingress": {"hostFormat": "x", "useTls": True}, "memoryOffHeapRatio": 25},
            taskManager={"memoryOffHeapMin": "600M"},
        ),
        [
            (f"{FLINK}.spec.{field}", NO_EFFECT)
            for field in (
                "logConfig",
                "batchSchedulerName",
                "revisionHistoryLimit",
                "jobManager.ingress",
                "jobManager.memoryOffHeapRatio",
                "taskManager.memoryOffHeapMin",
            )
        ],
    ),
    (
        "a Flink cluster with empty and zero values",
        beam(
            image={"name": "flink", "pullPolicy": "", "pullSecrets": []},
            serviceAccountName="",
            envVars=[],
            envFrom=[],
            flinkProperties={},
            jobManager={"volumes": [], "volumeMounts": None, "podLabels": {}, "ports": {}},
            taskManager={"sidecars": [], "tolerations": [], "securityContext": {}},
        ),
        [],
    ),
    ("a job in a queue without a name", {**pytorch(trainingLogFilesets=[CLAIM])}, []),
]
TAKEN[-1][1]["spec"]["scheduler"] = {"t9kScheduler": {"queue": ""}}


def looked_at(manifest: Json) -> Checked:
    (document,) = read(yaml.safe_dump(manifest), "theirs.yaml")
    return checked(document)


def made(manifest: Json) -> dict[str, Json]:
    """What the job is made of, by kind and name."""
    found = looked_at(manifest)
    assert found.kind is not None
    assert not found.has_errors, found.findings
    description = described(found.kind, found.value)
    assert description is not None
    return {f"{c['kind']}/{c['metadata']['name']}": dict(c) for c in children(description)}


def test_a_strict_kubectl_takes_all_of_it(kubectl: Kubectl, crds: None) -> None:
    named = [{**row[1], "metadata": {"name": f"row-{n}"}} for n, row in enumerate(TAKEN)]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": named})
    words = ("apply", "--dry-run=server", "--validate=strict", "-f", "-")
    done = kubectl(*words, stdin=listed, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(TAKEN)


@pytest.mark.parametrize(
    ("manifest", "warned"), [row[1:] for row in TAKEN], ids=[row[0] for row in TAKEN]
)
def test_what_has_no_effect_is_told_and_nothing_is_a_fault(
    manifest: Json, warned: list[tuple[str, str]]
) -> None:
    told = [(dotted(each.path), each.text) for each in looked_at(manifest).findings]
    assert [path for path, _ in told] == [path for path, _ in warned], told
    assert all(words in text for (_, text), (_, words) in zip(told, warned, strict=True)), told


# TensorBoard.


@pytest.mark.parametrize(
    ("board", "flag", "claims"),
    [
        ({"logDir": {"pvc": [{"name": "a"}]}}, "--logdir=/run/jobyard/logs/a", ["a"]),
        (
            {"logDir": {"pvc": [{"name": "a", "subPath": ["/x/", "x", "../y"]}]}},
            "--logdir_spec=0:/run/jobyard/logs/a/x,1:/run/jobyard/logs/a/y",
            ["a"],
        ),
        (
            {
                "trainingLogFilesets": [MINIO, "t9k://pvc/b/run"],
                "logDir": {"pvc": [{"name": "b", "subPath": ["run"]}, {"name": "c"}]},
            },
            "--logdir_spec=0:/run/jobyard/logs/b/run,1:/run/jobyard/logs/c",
            ["b", "c"],
        ),
    ],
    ids=["a whole claim", "folders, however spelled", "filesets and logDir"],
)
def test_a_tensorboard_mounts_each_claim_once_and_shows_each_folder_once(
    board: Json, flag: str, claims: list[str]
) -> None:
    pod = made(pytorch(**board))["Pod/train-tensorboard"]["spec"]
    (container,) = pod["containers"]
    assert container["args"][0] == flag
    assert container["image"].startswith("tensorflow/tensorflow:")
    assert [v["persistentVolumeClaim"]["claimName"] for v in pod["volumes"]] == claims
    places = [mount["mountPath"] for mount in container["volumeMounts"]]
    assert places == [f"/run/jobyard/logs/{claim}" for claim in claims]


def test_without_logs_to_serve_there_is_no_tensorboard() -> None:
    assert list(made(pytorch(trainingLogFilesets=[MINIO]))) == [
        "Service/train",
        "Pod/train-worker-0",
    ]


def test_a_queue_of_its_own_and_no_gang() -> None:
    job = pytorch(trainingLogFilesets=[CLAIM], scheduler={"t9kScheduler": {"queue": "boards"}})
    pod = made(job)["Pod/train-tensorboard"]
    assert pod["spec"]["schedulerName"] == "t9k-scheduler"
    labels = {k: v for k, v in pod["metadata"]["labels"].items() if k.startswith("scheduler.")}
    assert labels == {"scheduler.tensorstack.dev/queue": "boards"}
    job["spec"]["tensorboardSpec"]["scheduler"]["t9kScheduler"]["queue"] = ""
    labels = made(job)["Pod/train-tensorboard"]["metadata"]["labels"]
    assert labels["scheduler.tensorstack.dev/queue"] == "default"


@pytest.fixture
def staging(control_plane: ControlPlane, namespace: str, kubectl: Kubectl, crds: None) -> Staging:
    return Staging(control_plane, namespace, kubectl)


async def until_board(stage: Stage, name: str, reason: str) -> None:
    await stage.until(
        f"the TensorBoard is {reason}",
        lambda: stage.status(name).get("tensorboard", {}).get("reason") == reason,
    )


def test_a_tensorboard_is_suspended_and_resumed_as_often_as_one_likes(staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        name, board = "suspending", "suspending-tensorboard"
        logs = {"pvc": [{"name": "logs"}], "http": {"url": ["http://example.com/run"]}}
        queued = {"t9kScheduler": {"queue": "boards"}}
        await stage.apply(pytorch(name, logDir=logs, suspend=True, scheduler=queued))
        await stage.until_running(name, 1)
        told = await stage.until_told(name, "SpecAdvice", "spec.tensorboardSpec.logDir.http")
        assert NOT_SERVED in told.message
        await stage.until_told(name, "SpecAdvice", "spec.tensorboardSpec.scheduler: has no effect")
        await until_board(stage, name, "Suspended")
        assert board not in stage.all_of("Pod")
        assert board in stage.all_of("Service")
        worker = stage.uids(name)[f"{name}-worker-0"]

        await stage.patch(name, {"tensorboardSpec": {"suspend": False}})
        await until_board(stage, name, "Ready")
        assert stage.all_of("Pod")[board]["spec"]["schedulerName"] == "default-scheduler"
        service = stage.all_of("Service")[board]["metadata"]["uid"]
        await stage.patch(name, {"tensorboardSpec": {"suspend": True}})
        await until_board(stage, name, "Suspended")
        await stage.until_pods(name, "worker-0")
        # The job goes on as if nothing had been.
        assert stage.uids(name) == {f"{name}-worker-0": worker}
        assert stage.status(name)["restarts"] == 0

        await stage.kubelet.finish(f"{name}-worker-0")
        await stage.until_phase(name, "Succeeded")
        assert board not in stage.all_of("Pod")
        await stage.patch(name, {"tensorboardSpec": {"suspend": False}})
        await until_board(stage, name, "Ready")
        await stage.patch(name, {"tensorboardSpec": {"suspend": True}})
        await stage.until_pods(name, "worker-0")
        assert stage.all_of("Service")[board]["metadata"]["uid"] == service

    staging.play(act, "--gang-scheduler=none")


# Kinds that only the platform has.


def theirs(kind: str, name: str = "theirs", api_version: str = BATCH) -> str:
    return f"apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {{}}\n"


PLATFORMS = "---\n".join(
    (
        theirs("WorkflowTemplate", "steps"),
        theirs("WorkflowRun"),
        theirs("CronWorkflowRun"),
        # As the platform's own pages have it.
        theirs("Notebook", '"<made/for-you>"', "tensorstack.dev/v1beta1"),
        theirs("Template", "app", "app.tensorstack.dev/v1beta1"),
    )
)
ENDS = STAYS.replace("exec sleep 600", "true").replace("name: stays", "name: ends")
MIXED = f"{PLATFORMS}---\n{theirs('ConfigMap', 'beside', 'v1').replace('spec', 'data')}---{ENDS}"
NAMED = ("WorkflowTemplate steps", "WorkflowRun theirs", "CronWorkflowRun theirs", "Template app")


@pytest.fixture
def yard(room: Room) -> Yard:
    return Yard(room)


def assert_skipped(said: str, remedy: str = "") -> None:
    notes = [line for line in said.splitlines() if "not a kind of Jobyard, skipped" in line]
    assert len(notes) == 5, said
    assert all(any(name in note for note in notes) for name in NAMED), notes
    assert all(note.endswith(remedy) for note in notes), notes


def test_every_command_leaves_out_what_only_the_platform_has(yard: Yard, room: Room) -> None:
    path = yard.write("mixed", MIXED)
    valid = yard.plain("validate", path)
    assert valid.returncode == 0
    # It has nothing to say of a ConfigMap either.
    assert "6 documents are not of a kind of Jobyard and were skipped: " in valid.stderr
    rendered = yard.plain("render", path)
    assert rendered.returncode == 0
    assert_skipped(rendered.stderr)
    assert "ConfigMap" not in rendered.stderr
    ran = yard("run", path)
    assert ran.returncode == 0, ran.stderr
    assert_skipped(ran.stderr)
    assert room.get("configmaps", "beside")
    applied = yard("apply", "-f", path)
    assert applied.returncode == 0, applied.stderr
    assert_skipped(applied.stderr, "; --all sends it")
    assert [line.split()[0] for line in applied.stdout.splitlines()] == [
        "ConfigMap/beside",
        "GenericJob/ends",
    ]
    gone = yard("delete", "-f", path)
    assert gone.returncode == 0, gone.stderr
    assert_skipped(gone.stderr)


def test_a_file_with_nothing_else_is_no_fault_but_there_is_nothing_to_run(yard: Yard) -> None:
    path = yard.write("theirs", PLATFORMS)
    for words, said in (
        (("validate", path), "nothing to check"),
        (("render", path), "nothing to show"),
        (("apply", "-f", path), "nothing to apply"),
    ):
        done = yard(*words) if words[0] == "apply" else yard.plain(*words)
        assert done.returncode == 0, done.stderr
        assert said in done.stderr
    ran = yard("run", path)
    assert ran.returncode != 0
    assert "there is no job of Jobyard in these files" in ran.stderr


CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: workflowtemplates.batch.tensorstack.dev}
spec:
  group: batch.tensorstack.dev
  scope: Namespaced
  names: {kind: WorkflowTemplate, plural: workflowtemplates, singular: workflowtemplate}
  versions:
  - name: v1beta1
    served: true
    storage: true
    schema:
      openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""


@pytest.fixture
def workflows(yard: Yard, room: Room) -> Iterator[None]:
    """A server that has the platform's workflows."""
    yard.apply("crd", CRD)
    yield
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    room.engine.ask("DELETE", f"{crds}/workflowtemplates.batch.tensorstack.dev")


def test_apply_all_sends_them(yard: Yard, room: Room, workflows: None) -> None:
    path = yard.write("workflow", theirs("WorkflowTemplate", "steps"))
    assert yard.does("apply", "-f", path) == ""
    assert yard.does("apply", "--all", "-f", path) == "WorkflowTemplate/steps created\n"
    assert room.get("workflowtemplates", "steps", JOBS)


@pytest.mark.parametrize(
    ("api_version", "kind", "said"),
    [
        (BATCH, "GenericJobs", "kind: is GenericJobs; the kinds of batch.tensorstack.dev are "),
        (BATCH, "GenericJobs", "(did you mean GenericJob?)"),
        (BATCH, "PytorchTrainingJob", "(did you mean PyTorchTrainingJob?)"),
        (BATCH, "TrainingJob", "kind: is TrainingJob; the kinds of batch.tensorstack.dev are "),
        (BATCH, "WorkflowTemplates", "(did you mean WorkflowTemplate?)"),
        (BATCH, "Notebook", "kind: is Notebook; the kinds of batch.tensorstack.dev are "),
        (BATCH, "PodGroup", f"PodGroup is in {QUEUES}"),
        (QUEUES, "WorkflowRun", "kind: is WorkflowRun; the kinds of scheduler."),
        (QUEUES, "Queues", "(did you mean Queue?)"),
        ("batch.tensorstack.dev/v1", "MPIJob", f"MPIJob is in {BATCH}"),
        ("tensorstack.dev/v1beta1", "MPIJob", f"MPIJob is in {BATCH}"),
        ("x.tensorstack.dev/v1", "DeepspeedJob", f"DeepspeedJob is in {BATCH}"),
    ],
)
def test_a_kind_of_ours_with_a_letter_wrong_is_still_a_fault(
    api_version: str, kind: str, said: str
) -> None:
    (document,) = read(theirs(kind, api_version=api_version), "theirs.yaml")
    found = checked(document)
    assert found.has_errors
    (fault,) = found.findings
    assert said in f"{dotted(fault.path)}: {fault.text}"


@pytest.mark.parametrize("api_version", ["nottensorstack.dev/v1", "v1", "tensorstack.dev.org/v1"])
def test_kinds_of_others_are_not_the_platforms(api_version: str) -> None:
    (document,) = read(theirs("Notebook", api_version=api_version), "theirs.yaml")
    found = checked(document)
    assert (found.findings, found.is_platforms) == ((), False)


def test_what_says_no_kind_is_a_fault_in_the_platforms_groups_too() -> None:
    found = looked_at({"apiVersion": "tensorstack.dev/v1beta1", "metadata": {"name": "a"}})
    assert (found.has_errors, found.is_platforms) == (True, False)


def test_a_kind_as_a_page_of_the_platform_spells_it() -> None:
    found = looked_at({**tensorflow(trainingLogFilesets=[CLAIM]), "kind": "TensorFlowJob"})
    assert found.value["kind"] == "TensorFlowTrainingJob"
    (told,) = found.findings
    assert (told.path, found.has_errors) == (("kind",), False)


# Gangs.


@pytest.mark.parametrize(
    ("member", "roles", "needed"),
    [(None, (), 1), (0, (), 1), (3, (), 3), (None, (2, 1), 3), (2, (2, 1), 3), (5, (2, 0), 5)],
)
def test_how_many_pods_a_gang_needs(
    member: int | None, roles: tuple[int, ...], needed: int
) -> None:
    listed = tuple(GroupRole(name=f"r{n}", min_member=count) for n, count in enumerate(roles))
    assert PodGroupSpec(min_member=member, roles=listed).needed == needed


def test_a_job_without_a_queues_name_is_in_the_default_one() -> None:
    job = pytorch(trainingLogFilesets=[CLAIM])
    job["spec"]["scheduler"] = {"t9kScheduler": {"queue": ""}}
    found = made(job)
    assert found["PodGroup/train"]["spec"]["queue"] == "default"
    labels = found["Pod/train-worker-0"]["metadata"]["labels"]
    assert labels["scheduler.tensorstack.dev/queue"] == "default"


# Flink, as its operator's users describe it.

MANAGER, WORKER = "Pod/words-flinkcluster-jobmanager-0", "Pod/words-flinkcluster-taskmanager-0"


def variables(container: Json) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in container["env"]}


def test_what_is_said_of_all_pods_of_the_cluster() -> None:
    found = made(
        beam(
            {"labels": {"team": "a", "beamjob": "not mine"}, "annotations": {"note": "b"}},
            pod={
                "imagePullSecrets": [{"name": "reg"}, {"name": "more"}],
                "serviceAccountName": "s",
            },
            image={"name": "flink", "pullPolicy": "Never", "pullSecrets": [{"name": "reg"}]},
            serviceAccountName="flink",
            envVars=[{"name": "A", "value": "1"}],
            envFrom=[{"secretRef": {"name": "secret"}}],
        )
    )
    for name in (MANAGER, WORKER):
        pod = found[name]
        assert pod["metadata"]["labels"]["team"] == "a"
        # The controller finds its pods by these.
        assert pod["metadata"]["labels"]["beamjob"] == "words"
        assert pod["metadata"]["annotations"]["note"] == "b"
        assert pod["spec"]["imagePullSecrets"] == [{"name": "reg"}, {"name": "more"}]
        assert pod["spec"]["serviceAccountName"] == "flink"
        main = pod["spec"]["containers"][0]
        assert (main["imagePullPolicy"], main["envFrom"]) == (
            "Never",
            [{"secretRef": {"name": "secret"}}],
        )
        assert variables(main)["A"] == "1"
    # The submitting pod is the batch Job's.
    submitting = found["Pod/words-batchjob-0"]
    assert "team" not in submitting["metadata"]["labels"]
    assert submitting["spec"]["serviceAccountName"] == "s"


def test_what_is_said_of_the_pods_of_one_manager() -> None:
    said = {
        "volumes": [{"name": "data", "emptyDir": {}}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "initContainers": [
            {"name": "first", "image": "x"},
            {"name": "own", "image": "x", "volumeMounts": [{"name": "o", "mountPath": "/data"}]},
        ],
        "sidecars": [{"name": "beside", "image": "x"}],
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "podLabels": {"team": "b"},
        "podAnnotations": {"note": "c"},
        "securityContext": {"runAsUser": 7, "fsGroup": 8},
        "extraPorts": [{"name": "prom", "containerPort": 9249}],
    }
    pod = {"securityContext": {"fsGroup": 1, "supplementalGroups": [2]}}
    found = made(beam({"labels": {"team": "a"}}, pod=pod, taskManager=said))
    worker, manager = found[WORKER]["spec"], found[MANAGER]["spec"]
    assert [c["name"] for c in worker["containers"]] == ["taskmanager", "beside", "sdk-worker"]
    assert worker["containers"][0]["volumeMounts"][0] == said["volumeMounts"][0]
    assert worker["containers"][0]["ports"][-1] == {"name": "prom", "containerPort": 9249}
    mounts = [each.get("volumeMounts") for each in worker["initContainers"]]
    assert mounts == [said["volumeMounts"], [{"name": "o", "mountPath": "/data"}]]
    assert worker["nodeSelector"] == {"disk": "ssd"}
    assert worker["tolerations"] == said["tolerations"]
    assert worker["securityContext"] == {"fsGroup": 8, "supplementalGroups": [2], "runAsUser": 7}
    assert found[WORKER]["metadata"]["labels"]["team"] == "b"
    assert found[WORKER]["metadata"]["annotations"]["note"] == "c"
    assert found[MANAGER]["metadata"]["labels"]["team"] == "a"
    assert [volume["name"] for volume in manager["volumes"]] == ["jobyard-scratch"]
    assert "nodeSelector" not in manager


@pytest.mark.parametrize(
    ("own", "names"),
    [
        ({"name": "data", "emptyDir": {}}, ["data", "jobyard-program-0", "jobyard-scratch"]),
        ({"name": "data", "hostPath": {"path": "/d"}}, ["data", "jobyard-scratch"]),
        ({"name": "other", "emptyDir": {}}, ["other", "data", "jobyard-scratch"]),
    ],
    ids=["another volume of that name", "the same volume", "another name"],
)
def test_volumes_of_the_cluster_and_of_the_program_do_not_meet(own: Json, names: list[str]) -> None:
    data = {"name": "data", "hostPath": {"path": "/d"}}
    submit = {"name": "submit", "image": "beam", "command": ["python3", "w.py"]}
    mount = {"name": "data", "mountPath": "/program"}
    pod = {"volumes": [data], "containers": [{**submit, "volumeMounts": [mount]}]}
    spec = made(beam(pod=pod, taskManager={"volumes": [own]}))[WORKER]["spec"]
    assert [volume["name"] for volume in spec["volumes"]] == names
    (seen,) = spec["containers"][-1]["volumeMounts"]
    volume = next(each for each in spec["volumes"] if each["name"] == seen["name"])
    assert (seen["mountPath"], volume["hostPath"]) == ("/program", {"path": "/d"})


def test_ports_and_variables_of_flinks_own_become_settings() -> None:
    found = made(
        beam(
            envVars=[
                {"name": "FLINK_PROPERTIES", "value": "state.backend: rocksdb\nrest.port: 1\n"},
                {"name": "FLINK_ENV_JAVA_OPTS_TM", "value": "-Dtheirs=1"},
            ],
            flinkProperties={"parallelism.default": "2"},
            jobManager={"ports": {"rpc": 7123, "ui": 9000}},
            taskManager={"ports": {"rpc": 7122, "data": 7121}},
        )
    )
    main = found[WORKER]["spec"]["containers"][0]
    assert len([each for each in main["env"] if each["name"] == "FLINK_PROPERTIES"]) == 1
    lines = variables(main)["FLINK_PROPERTIES"].splitlines()
    assert {
        "state.backend: rocksdb",
        # What a variable says of Flink's configuration counts more than the ports.
        "rest.port: 1",
        "parallelism.default: 2",
        "jobmanager.rpc.port: 7123",
        "taskmanager.data.port: 7121",
    } <= set(lines)
    assert variables(main)["FLINK_ENV_JAVA_OPTS_TM"].endswith(" -Dtheirs=1")
    assert main["ports"][0]["containerPort"] == 7122
    assert main["readinessProbe"]["tcpSocket"]["port"] == 7122
    (submit,) = found["Pod/words-batchjob-0"]["spec"]["containers"]
    assert any(word.endswith(":1") for word in submit["args"] if word.startswith("--flink_master"))


def test_a_setting_from_elsewhere_is_told_to_have_no_effect() -> None:
    source = {"configMapKeyRef": {"name": "c", "key": "k"}}
    job = beam(envVars=[{"name": "FLINK_PROPERTIES", "valueFrom": source}])
    (told,) = looked_at(job).findings
    assert (dotted(told.path), NO_EFFECT in told.text) == (
        f"{FLINK}.spec.envVars[0].valueFrom",
        True,
    )


TOOLS = """\
mkdir /opt/tools/bin
cat > /opt/tools/bin/jobmanager.sh <<'END'
#!/bin/sh
echo "a manager with $LETTERS and $NUMBERS"
exec sleep 600
END
chmod +x /opt/tools/bin/jobmanager.sh
"""


def test_a_manager_runs_with_its_variables_and_volumes(yard: Yard, room: Room) -> None:
    """A Flink that an init container brings into a volume: it starts by what the file says."""
    numbers = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "numbers"}}
    job = beam(
        {"labels": {"team": "a"}, "annotations": {"note": "b"}},
        envVars=[
            {"name": "LETTERS", "value": "abc"},
            {"name": "FLINK_HOME", "value": "/opt/tools"},
        ],
        envFrom=[{"configMapRef": {"name": "numbers"}}],
        jobManager={
            "volumes": [{"name": "tools", "emptyDir": {}}],
            "volumeMounts": [{"name": "tools", "mountPath": "/opt/tools"}],
            "initContainers": [{"name": "tools", "image": "x", "command": ["sh", "-c", TOOLS]}],
        },
    )
    both = [{**numbers, "data": {"NUMBERS": "123"}}, job]
    yard.apply("words", "---\n".join(map(json.dumps, both)).replace("}---", "}\n---"))
    name = "words-flinkcluster-jobmanager-0"
    pod = room.until("pods", name, lambda pod: pod["status"].get("phase") == "Running")
    assert pod["metadata"]["labels"]["team"] == "a"
    assert pod["metadata"]["annotations"]["note"] == "b"
    said = until_it_holds(
        lambda: room.engine.ask("GET", f"{room.path('pods', name)}/log?container=jobmanager").text,
        "the manager says something",
    )
    assert said == "a manager with abc and 123\n"
    yard.does("delete", "bj/words", "--grace-period", "1")
