"""Files in all the ways that programs, charts and people of the platforms write them.

Zero and empty values, nulls, older words, lists of a kind, objects with the status that another
platform wrote, and the oddities of text files. A strict kubectl on a real API server takes each,
`validate` finds no fault in it, and engines show what becomes of those that say something.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from rig.cli_yard import Yard
from rig.engine import JOBS, Room
from rig.kube.kubectl import Kubectl
from rig.person import person
from rig.waiting import until_it_holds

from jobyard.manifest.checking import checked
from jobyard.manifest.reading import decoded, read
from jobyard.plan.lowering.table import described
from jobyard.plan.objects.rendering import children
from jobyard.schema.finding import dotted, is_error

Json = dict[str, Any]
BATCH, QUEUES = "batch.tensorstack.dev/v1beta1", "scheduler.tensorstack.dev/v1beta1"
OCTOPUS = "octopus.openi.pcl.cn/v1alpha1"


def manifest(kind: str, spec: Json, **more: Any) -> Json:
    api = {"TaskSet": OCTOPUS, "Queue": QUEUES, "PodGroup": QUEUES}.get(kind, BATCH)
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "a"}, "spec": spec, **more}


def pod(name: str = "main", **container: Any) -> Json:
    return {"spec": {"containers": [{"name": name, "image": "x", "command": ["true"]} | container]}}


def launched(name: str) -> Json:
    return {"spec": {"containers": [{"name": name, "image": "x"}]}}


def generic(replica: Json | None = None, template: Json | None = None, **spec: Any) -> Json:
    worker = {"type": "worker", "template": template or pod(), **(replica or {})}
    return manifest("GenericJob", {"replicaSpecs": [worker], **spec})


def pytorch(replica: Json | None = None, **spec: Any) -> Json:
    worker = {"type": "worker", "template": pod("pytorch", args=["a.py"]), **(replica or {})}
    return manifest("PyTorchTrainingJob", {"replicaSpecs": [worker], **spec})


def mpi(worker: Json | None = None, **spec: Any) -> Json:
    whole = {"cmd": ["hostname"], "template": launched("mpi-worker"), **(worker or {})}
    return manifest("MPIJob", {"worker": whole, **spec})


def mpi_listed(*more: Json, **spec: Any) -> Json:
    listed = [{"type": "worker", "template": launched("worker")}, *more]
    return manifest("MPIJob", {"mpiConfig": {"script": ["a"]}, "replicaSpecs": listed, **spec})


def deepspeed(config: Json | None, worker: Json | None = None, **spec: Any) -> Json:
    whole = {"template": launched("worker"), **(worker or {})}
    return manifest("DeepSpeedJob", {"worker": whole, "config": config, **spec})


def colossalai(worker: Json | None = None, **spec: Any) -> Json:
    whole = {"command": ["a.py"], "template": launched("worker"), **(worker or {})}
    return manifest("ColossalAIJob", {"worker": whole, **spec})


def beam(job: Json | None = None, **cluster: Any) -> Json:
    flink = {"flinkVersion": "1.19", "image": {"name": "flink"}, **cluster}
    template = pod("submit")
    template["spec"]["restartPolicy"] = "Never"
    submitting = {"spec": {"template": template}}
    return manifest(
        "BeamJob",
        {"flinkClusterTemplate": {"spec": flink}, "jobTemplate": submitting, **(job or {})},
    )


def tasks(role: Json | None = None, **spec: Any) -> Json:
    whole = {"name": "worker", "template": pod(), **(role or {})}
    return manifest("TaskSet", {"roles": [whole], **spec})


def training(kind: str, container: str, *types: str, **spec: Any) -> Json:
    listed = [{"type": type_, "restartPolicy": "", "template": pod(container)} for type_ in types]
    return manifest(kind, {"replicaSpecs": listed, **spec})


EMPTY_WORDS = {
    "imagePullPolicy": "",
    "terminationMessagePolicy": "",
    "ports": [{"containerPort": 80, "protocol": ""}],
    "readinessProbe": {"httpGet": {"port": 80, "scheme": ""}},
}
EMPTY_POD = {
    "metadata": {"creationTimestamp": None, "labels": None, "annotations": None},
    "spec": {
        **pod(**EMPTY_WORDS)["spec"],
        "restartPolicy": "",
        "dnsPolicy": "",
        "tolerations": [{"key": "gpu", "operator": "", "effect": ""}],
        "nodeSelector": None,
        "affinity": {},
        "securityContext": {},
        "imagePullSecrets": None,
    },
}
OFF: Json = {"enabled": False}
# As another platform's later releases and its own pages have it.
THEIR_STATUS = {
    "phase": "",
    "backoffCount": 1,
    "aggregate": {"creating": 0, "lost": 1},
    "tasks": [
        {
            "type": "worker",
            "replicaIndex": 0,
            "replicas": [{"name": "a", "containers": [{"containerPhase": "Running"}]}],
        }
    ],
    "conditions": [{"type": "Initializing", "status": "True", "observedGeneration": 3}],
    "tensorboard": {"name": "board", "dependent": {"uid": "u"}},
}
NOT_ALWAYS = "spec.replicaSpecs[0].template.spec.restartPolicy"
NO_SCRIPT = "spec.replicaSpecs[0].template.spec.containers[0].command"
# A sentence, the manifest, and the paths that are warned of.
FILES: list[tuple[str, Json, list[str]]] = [
    ("no clean-up policy said", generic(cleanUpPolicy=""), []),
    ("a clean-up policy in lower case", generic(cleanUpPolicy="unfinished"), []),
    ("no restart policy said", generic({"restartPolicy": {"policy": "", "limit": 0}}), []),
    ("an empty restart policy", generic({"restartPolicy": {}}), []),
    ("no restart policy", generic({"restartPolicy": None, "replicas": None}), []),
    ("a limit of restarts alone", generic({"restartPolicy": {"limit": 3}}), []),
    ("nulls", generic(successRules=None, failureRules=None, service=None, scheduler=None), []),
    ("empty rules", generic(successRules=[], failureRules=[]), []),
    ("an empty run mode", generic(runMode={}), []),
    ("no modes", generic(runMode={"debug": None, "pause": None}, elastic=None), []),
    (
        "modes that are off",
        generic(
            runMode={"debug": {**OFF, "replicaSpecs": []}, "pause": {**OFF, "resumeSpecs": []}}
        ),
        [],
    ),
    (
        "overrides that say nothing",
        generic(
            runMode={
                "debug": {**OFF, "replicaSpecs": [{"type": "worker", "command": None}]},
                "pause": {**OFF, "resumeSpecs": [{"type": "worker", "command": [], "args": None}]},
            }
        ),
        [],
    ),
    (
        "a port as Go writes it",
        generic(service={"ports": [{"name": "http", "port": 80, "targetPort": 0, "protocol": ""}]}),
        [],
    ),
    ("an empty service", generic(service={}), []),
    ("an empty scheduler", generic(scheduler={}), []),
    ("a queue that isn't said", generic(scheduler={"t9kScheduler": {"priority": None}}), []),
    ("an empty status", generic() | {"status": {}}, []),
    ("a status of theirs", generic() | {"status": THEIR_STATUS}, ["status"]),
    ("a template as charts make it", generic(template=EMPTY_POD), []),
    (
        "a template as an API server shows it",
        generic(
            template={
                "spec": {
                    **pod(terminationMessagePath="/dev/termination-log", resources={})["spec"],
                    "restartPolicy": "Never",
                    "dnsPolicy": "ClusterFirst",
                    "schedulerName": "default-scheduler",
                    "serviceAccount": "default",
                    "serviceAccountName": "default",
                    "priority": 0,
                    "enableServiceLinks": True,
                    "terminationGracePeriodSeconds": 30,
                }
            }
        ),
        [NOT_ALWAYS],
    ),
    (
        "a template that was a pod of a cluster",
        generic(
            template={
                "metadata": {
                    "name": "a-6c54bd5869-x2x8k",
                    "generateName": "a-6c54bd5869-",
                    "namespace": "theirs",
                    "uid": "11111111-2222-3333-4444-555555555555",
                    "resourceVersion": "4711",
                    "generation": 1,
                    "selfLink": "/api/v1/namespaces/theirs/pods/a",
                    "creationTimestamp": "2023-01-01T00:00:00Z",
                    "deletionTimestamp": None,
                    "deletionGracePeriodSeconds": None,
                    "finalizers": None,
                    "ownerReferences": [
                        {
                            "apiVersion": "apps/v1",
                            "kind": "ReplicaSet",
                            "name": "a-6c54bd5869",
                            "uid": "u",
                            "controller": True,
                        }
                    ],
                    "managedFields": [{"manager": "m", "operation": "Update", "fieldsV1": {}}],
                },
                **pod(),
            }
        ),
        [],
    ),
    ("variables without a value", generic(template=pod(env=[{"name": "A", "value": None}])), []),
    ("no resources", generic(template=pod(resources={"limits": None, "requests": {}})), []),
    (
        "an emptyDir that is null",
        generic(template={"spec": {**pod()["spec"], "volumes": [{"name": "v", "emptyDir": None}]}}),
        [],
    ),
    ("no run policy", pytorch(runPolicy=None), []),
    ("a run policy of zeros", pytorch(runPolicy={"backoffLimit": 0, "cleanUpPolicy": ""}), []),
    (
        "a run policy of nulls",
        pytorch(runPolicy={"activeDeadlineSeconds": None, "backoffLimit": None}),
        [],
    ),
    ("lower case in a run policy", pytorch(runPolicy={"cleanUpPolicy": "none"}), []),
    ("a restart policy that isn't said", pytorch({"restartPolicy": "", "scalingWeight": 0}), []),
    (
        "torchrun as Go writes it",
        pytorch(
            torchrunConfig={"enabled": True, "procPerNode": "", "rdzvBackend": "", "minNodes": 0}
        ),
        [NO_SCRIPT],
    ),
    (
        "torchrun that is off, as Go writes it",
        pytorch(torchrunConfig={**OFF, "maxRestarts": 0, "rdzvBackend": "", "extraOptions": None}),
        [],
    ),
    ("empty blocks", pytorch(torchrunConfig={}, elastic={}), []),
    ("absent blocks", pytorch(torchrunConfig=None, elastic=None, tensorboardSpec=None), []),
    ("a training status of theirs", pytorch() | {"status": THEIR_STATUS}, ["status"]),
    (
        "TensorFlow in lower case",
        training(
            "TensorFlowTrainingJob", "tensorflow", "worker", runPolicy={"cleanUpPolicy": "all"}
        ),
        [],
    ),
    ("XGBoost", training("XGBoostTrainingJob", "xgboost", "master", "worker"), []),
    (
        "nulls of the first shape",
        mpi({"extraMPIArgs": None, "replicas": None}, mca=None, ssh=None, mpiConfig=None),
        [],
    ),
    ("an empty parameter", mpi(mca={"btl": ""}, ssh={}, runPolicy={}), []),
    ("nothing of the oldest shape", mpi({"processesPerWorker": None, "processRecovery": None}), []),
    (
        "a restart policy of zeros, of what is launched",
        mpi_listed({"type": "launcher", "restartPolicy": {"policy": "", "limit": 0}}),
        [],
    ),
    ("a launcher without a template", mpi_listed({"type": "launcher", "template": None}), []),
    (
        "a launcher as Go writes it",
        mpi_listed(
            {
                "type": "launcher",
                "template": {"metadata": {"creationTimestamp": None}, "spec": {"containers": None}},
            }
        ),
        [],
    ),
    ("an MPI status of theirs", mpi() | {"status": THEIR_STATUS}, ["status"]),
    (
        "DeepSpeed as Go writes it",
        deepspeed(
            {
                "slotsPerWorker": 0,
                "localRank": False,
                "autotune": "",
                "run": {"python": ["a.py"], "module": None, "exec": []},
                "customCommand": "",
            },
            {"restartPolicy": ""},
        ),
        [],
    ),
    (
        "DeepSpeed with nulls",
        deepspeed({"run": {"python": ["a.py"]}, "localRank": None, "autotune": None}, elastic=None),
        [],
    ),
    ("no config in debug mode", deepspeed(None, runMode={"debug": {"enabled": True}}), []),
    (
        "zeros of elastic",
        deepspeed({"run": {"exec": ["./a"]}}, elastic={**OFF, "minReplicas": 0, "maxReplicas": 0}),
        [],
    ),
    (
        "ColossalAI with nulls",
        colossalai({"torchArgs": None, "procPerWorker": None}, launcher={"env": None}, ssh=None),
        [],
    ),
    ("no launcher", colossalai(launcher=None, worker=colossalai()["spec"]["worker"]), []),
    (
        "two places for keys, one empty",
        colossalai(ssh={"authMountPath": "", "sshAuthMountPath": "/root/.ssh", "sshdPath": ""}),
        [],
    ),
    (
        "ColossalAI's second shape with nulls",
        manifest(
            "ColossalAIJob",
            {
                "worker": None,
                "launcher": None,
                "torchConfig": {"script": ["a.py"], "extraArgs": None},
                "replicaSpecs": [
                    {"type": "launcher", "replicas": None, "template": {"spec": None}},
                    {"type": "worker", "template": launched("worker")},
                ],
            },
        ),
        [],
    ),
    ("managers that are null", beam(jobManager=None, taskManager=None, envVars=None), []),
    ("a scope that isn't said", beam(jobManager={"accessScope": "", "ports": {"ui": 0}}), []),
    ("modes of a BeamJob that are null", beam({"runMode": {"debug": None}, "runPolicy": None}), []),
    (
        "Hadoop and a key",
        beam(
            hadoopConfig={"configMapName": "hadoop"},
            gcpConfig={"serviceAccount": {"secretName": "gcp", "keyFile": "key.json"}},
            recreateOnUpdate=True,
        ),
        ["spec.flinkClusterTemplate.spec.recreateOnUpdate"],
    ),
    ("Hadoop and no key, as Go writes it", beam(hadoopConfig={}, gcpConfig={}), []),
    ("an empty completion", tasks({"completionPolicy": {}, "replicas": None}), []),
    (
        "retries of nulls",
        tasks({"retryPolicy": {"retry": None, "delay": None, "maxRetryCount": None}}),
        [],
    ),
    ("tasks as charts make them", tasks({"template": EMPTY_POD}), []),
    (
        "a TaskSet's status of theirs",
        tasks()
        | {"status": {"phase": "", "transitionTime": None, "roleStatus": None, "priority": 3}},
        ["status"],
    ),
    ("a queue of nulls", manifest("Queue", {"quota": None, "priority": None}), []),
    ("a queue of nothing", manifest("Queue", {}), []),
    ("a quota of numbers", manifest("Queue", {"quota": {"requests": {"cpu": 10}}}), []),
    ("a quota of nothing", manifest("Queue", {"quota": {"requests": None}}), []),
    (
        "a selector as Go writes it",
        manifest(
            "Queue",
            {
                "namespaceSelector": {
                    "matchExpressions": [{"key": "x", "operator": "Exists", "values": []}]
                },
                "nodeSelector": {},
            },
        ),
        [],
    ),
    ("durations", manifest("Queue", {"maxDuration": "1d12h"}), []),
    ("a gang of nulls", manifest("PodGroup", {"minMember": 3, "roles": None}), []),
]


@pytest.mark.parametrize(
    ("job", "warned"), [row[1:] for row in FILES], ids=[row[0] for row in FILES]
)
def test_nothing_is_a_fault(job: Json, warned: list[str]) -> None:
    (document,) = read(yaml.safe_dump(job), "theirs.yaml")
    told = checked(document).findings
    assert not any(map(is_error, told)), told
    assert sorted({dotted(each.path) for each in told}) == warned


def test_a_strict_kubectl_takes_all_of_them(kubectl: Kubectl, crds: None) -> None:
    named = [{**row[1], "metadata": {"name": f"row-{n}"}} for n, row in enumerate(FILES)]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": named})
    words = ("apply", "--dry-run=server", "--validate=strict", "-f", "-")
    done = kubectl(*words, stdin=listed, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(FILES)


# Files as text.

TEXT = """\
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata:
  name: NAME   # 任务名称
spec:
  runMode:
    debug:
      enabled: False
  replicaSpecs:
    - type: worker
      replicas: 1   # 副本数
      template:
        spec:
          containers:
            - name: main
              image: busybox
              command: ['sh', '-c', 'echo 你好']
"""


def named(name: str) -> str:
    return TEXT.replace("NAME", name)


ONE, TWO = named("one"), named("two")
ANCHORS = """\
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata: {name: anchors}
spec:
  replicaSpecs:
    - type: master
      template: &template
        spec:
          containers:
            - &container {name: main, image: busybox, command: ["true"]}
    - {type: worker, template: *template}
    - type: ps
      template:
        spec:
          containers:
            - <<: *container
              command: ["sh"]
"""
AS_JSON = [json.dumps(generic() | {"metadata": {"name": name}}) for name in ("one", "two")]
OF_A_KIND = {
    "apiVersion": BATCH,
    "kind": "GenericJobList",
    "metadata": {"continue": "", "resourceVersion": "7"},
    # The second says nothing of its kind: an API server leaves that out in some answers.
    "items": [json.loads(AS_JSON[0]), {"metadata": {"name": "two"}, "spec": generic()["spec"]}],
}
TEXTS: dict[str, tuple[str | bytes, int]] = {
    "Windows line ends": ((ONE + "---\n" + TWO).replace("\n", "\r\n"), 2),
    "a byte order mark": ("\ufeff" + ONE, 1),
    "UTF-16 as Windows' shells write it": (("\ufeff" + ONE).encode("utf-16-le"), 1),
    "UTF-16 the other way round": (("\ufeff" + ONE).encode("utf-16-be"), 1),
    "empty documents and comments": (
        "---\n# 第一个\n---\n" + ONE + "---\n---\n" + TWO + "...\n",
        2,
    ),
    "comments after separators": ("--- # 一\n" + ONE + "---   \n" + TWO + "\n---\n\n", 2),
    "a tab in a string": (ONE.replace("echo 你好", "echo\ta"), 1),
    "a tab before a comment": (ONE.replace("spec:\n  runMode", "spec:\t# 规约\n  runMode"), 1),
    "anchors and merges": (ANCHORS, 1),
    "truth as YAML 1.1 has it": (ONE.replace("False", "no"), 1),
    "JSON with tabs": (json.dumps(json.loads(AS_JSON[0]), indent="\t"), 1),
    "JSON in a row": ("\n".join(AS_JSON), 2),
    "JSON between separators": ("\n---\n".join(AS_JSON), 2),
    "a list of a kind": (json.dumps(OF_A_KIND), 2),
}


@pytest.mark.parametrize("title", TEXTS)
def test_kubectl_and_validate_see_the_same_in_a_file(
    title: str, kubectl: Kubectl, crds: None, tmp_path: Path
) -> None:
    text, count = TEXTS[title]
    file = tmp_path / "theirs.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    applied = kubectl("apply", "--dry-run=server", "--validate=strict", "-f", str(file))
    assert len(applied.stdout.splitlines()) == count
    documents = read(decoded(file.read_bytes()), "theirs.yaml")
    assert len(documents) == count
    assert [checked(each).findings for each in documents] == [()] * count


# What it does.


def made(job: Json) -> dict[str, Json]:
    (document,) = read(json.dumps(job), "theirs.yaml")
    found = checked(document)
    assert found.kind is not None
    assert not found.has_errors, found.findings
    description = described(found.kind, found.value)
    assert description is not None
    return {f"{c['kind']}/{c['metadata']['name']}": dict(c) for c in children(description)}


def test_an_empty_rendezvous_is_the_default_one() -> None:
    config = {"enabled": True, "rdzvBackend": ""}
    command = made(pytorch(torchrunConfig=config))["Pod/a-worker-0"]["spec"]["containers"][0][
        "command"
    ]
    assert command[command.index("--rdzv_backend") + 1] == "c10d"


def test_an_api_server_takes_the_pods_and_services_of_empty_words(kubectl: Kubectl) -> None:
    port = {"name": "http", "port": 80, "targetPort": 0, "protocol": ""}
    of_job = made(generic(template=EMPTY_POD, service={"ports": [port]}))
    of_tasks = made(tasks({"template": EMPTY_POD}))
    for title, child in (of_job | of_tasks).items():
        done = kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(child))
        assert done.returncode == 0, title
    assert {"Service/a-worker-0", "Pod/a-worker-0", "Pod/a-worker-0-0-0"} <= {*of_job, *of_tasks}
    # A pod's own API takes an empty one for Always, and such a replica would never end.
    for made_of in (of_job["Pod/a-worker-0"], of_tasks["Pod/a-worker-0-0-0"]):
        assert made_of["spec"]["restartPolicy"] == "Never"


def test_a_pod_has_nothing_of_the_pod_that_its_template_was() -> None:
    (job,) = (job for title, job, _ in FILES if title == "a template that was a pod of a cluster")
    metadata = made(job)["Pod/a-worker-0"]["metadata"]
    assert set(metadata) == {"name", "labels", "annotations"}
    assert metadata["name"] == "a-worker-0"


def test_both_managers_have_hadoops_configuration_and_the_key() -> None:
    key = {"secretName": "gcp", "keyFile": "key.json", "mountPath": "/keys/"}
    found = made(beam(hadoopConfig={"configMapName": "hadoop"}, gcpConfig={"serviceAccount": key}))
    for name in ("jobmanager-0", "taskmanager-0"):
        spec = found[f"Pod/a-flinkcluster-{name}"]["spec"]
        main = spec["containers"][0]
        env = {each["name"]: each.get("value") for each in main["env"]}
        assert env["HADOOP_CONF_DIR"] == "/etc/hadoop/conf"
        assert env["GOOGLE_APPLICATION_CREDENTIALS"] == "/keys/key.json"
        volumes = {each["name"]: each for each in spec["volumes"]}
        sources = {m["mountPath"]: volumes[m["name"]] for m in main["volumeMounts"]}
        assert sources["/etc/hadoop/conf"]["configMap"] == {"name": "hadoop"}
        assert sources["/keys/"]["secret"] == {"secretName": "gcp"}


@pytest.fixture
def yard(room: Room) -> Yard:
    return Yard(room)


def test_lower_case_cleans_up_and_an_empty_policy_restarts(yard: Yard, room: Room) -> None:
    """One that nobody has said is OnFailure; with a limit it takes effect."""
    script = 'test "$JOBYARD_ATTEMPT" != 0'
    job = generic(
        {"restartPolicy": {"policy": "", "limit": 2}},
        pod(command=["sh", "-c", script]),
        cleanUpPolicy="all",
    )
    yard.apply("lower", json.dumps(job))
    status = room.until(
        "genericjobs", "a", lambda it: it.get("status", {}).get("phase") == "Succeeded", JOBS
    )["status"]
    assert status["restarts"] == 1
    until_it_holds(
        lambda: json.loads(yard.does("get", "pods", "-o", "json"))["items"] == [],
        "all pods are cleaned up",
    )


def test_an_object_read_from_their_cluster_runs_as_it_is() -> None:
    """With what its server and its controllers wrote, and a template of empty words."""
    template = json.loads(json.dumps(EMPTY_POD))
    container = template["spec"]["containers"][0]
    container["command"] = ["sh", "-c", "echo here $(rank)"]
    del container["readinessProbe"]
    job = generic({"replicas": 2}, template, service={"ports": [{"port": 80, "targetPort": 0}]})
    job["metadata"] |= {
        "namespace": "their-project",
        "uid": "11111111-2222-3333-4444-555555555555",
        "generation": 3,
        "creationTimestamp": "2023-01-01T00:00:00Z",
        "finalizers": ["tensorstack.dev/protect"],
        "managedFields": [{"manager": "kubectl", "operation": "Update", "apiVersion": BATCH}],
    }
    listed = {"apiVersion": BATCH, "kind": "GenericJobList", "items": [job]}
    listed["items"] = [job | {"status": THEIR_STATUS}]
    with person(is_ordinary=False) as somebody:
        somebody.write("theirs.yaml", yaml.safe_dump(listed))
        done = somebody.run("run", "theirs.yaml", seconds=90)
    assert done.returncode == 0, done.stdout + done.stderr
    for n in range(2):
        assert f"worker-{n} | here {n}" in done.stdout


# Whoever reads a file is told of the same things, at the same lines.

TOLD = """\
apiVersion: batch.tensorstack.dev/v1beta1
kind: PyTorchTrainingJob
metadata: {name: told-torch}
spec:
  runMode:
    pause:
      enable: true
      resumeSpecs:
      - {type: nobody, command: [x]}
  torchrunConfig:
    enabled: false
    maxRestarts: 2
  elastic: {enabled: true, minReplicas: 1}
  tensorboardSpec:
    logDir: {s3: {uri: ["s3://a/b"]}}
  replicaSpecs:
  - type: worker
    template: {spec: {containers: [{name: pytorch, image: x, command: ["true"]}]}}
---
apiVersion: batch.tensorstack.dev/v1beta1
kind: MPIJob
metadata: {name: told-mpi}
spec:
  runMode: {pause: {enabled: true}}
  mpiHome: /usr
  mpiConfig: {home: /opt, script: [hostname]}
  replicaSpecs:
  - type: worker
    restartPolicy: {policy: Always}
    template: {spec: {containers: [{name: worker, image: x, command: [x]}]}}
---
apiVersion: batch.tensorstack.dev/v1beta1
kind: DeepSpeedJob
metadata: {name: told-deepspeed}
spec:
  runMode: {pause: {enabled: true}}
  config:
    customCommand: hostname
    otherArgs: [x]
  worker: {template: {spec: {containers: [{name: worker, image: x}]}}}
---
apiVersion: octopus.openi.pcl.cn/v1alpha1
kind: TaskSet
metadata: {name: 0told}
spec:
  queue: research
  roles:
  - name: r
    eventPolicy:
    - {event: RoleFailed, action: NoAction}
    - {event: RoleFailed, action: TaskSetFailed}
    template: {spec: {containers: [{name: main, image: x, command: ["true"]}]}}
username: admin
"""
WARNED = {
    "told-torch": [
        (7, "spec.runMode.pause.enable"),
        (9, "spec.runMode.pause.resumeSpecs[0].type"),
        (10, "spec.torchrunConfig"),
        (13, "spec.elastic"),
        (14, "spec.tensorboardSpec"),
        (15, "spec.tensorboardSpec.logDir.s3"),
    ],
    "told-mpi": [
        (25, "spec.mpiHome"),
        (29, "spec.replicaSpecs[0].restartPolicy"),
        (30, "spec.replicaSpecs[0].template.spec.containers[0].command"),
    ],
    "told-deepspeed": [(39, "spec.config.otherArgs")],
    "0told": [(46, "spec.queue"), (51, "spec.roles[0].eventPolicy[1]"), (53, "username")],
}


def warnings_in(said: str, file: str) -> list[tuple[int, str]]:
    lines = [line.partition(f"{file}:")[2] for line in said.splitlines() if "warning: " in line]
    found = [line.split(": ")[:3] for line in lines if line]
    return sorted((int(number), path) for number, _, path in found)


def test_every_command_tells_of_the_same_at_the_same_lines_and_so_do_events(
    yard: Yard, room: Room
) -> None:
    path = yard.write("told", TOLD)
    want = sorted(each for told in WARNED.values() for each in told)
    validated = yard.plain("validate", path)
    assert validated.returncode == 0, validated.stderr
    assert warnings_in(validated.stdout + validated.stderr, path) == want
    applied = yard("apply", "-f", path)
    assert applied.returncode == 0, applied.stderr
    assert warnings_in(applied.stdout + applied.stderr, path) == want

    def messages() -> set[tuple[str, str]]:
        events = room.engine.ask("GET", room.path("events")).json["items"]
        return {
            (each["involvedObject"]["name"], each["message"].partition(": ")[0])
            for each in events
            if each["type"] == "Warning"
        }

    wanted = {(name, field) for name, told in WARNED.items() for _, field in told}
    until_it_holds(lambda: wanted <= messages(), "all of it is told as events")
    # What waits for ever in a pause is nothing to run.
    short = TOLD.rpartition("---\n")[2].replace("0told", "1told")
    ran = yard("run", yard.write("short", short))
    assert ran.returncode == 0, ran.stderr
    before = TOLD[: TOLD.rindex("---\n") + 4].count("\n")
    said = warnings_in(ran.stdout + ran.stderr, "short.yaml")
    assert said == [(line - before, field) for line, field in WARNED["0told"]]
