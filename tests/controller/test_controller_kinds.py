"""Every kind under the running controller: its children, and its status scene by scene.

The API server is real, nodes are not: a fake kubelet plays the lives of pods. Children are
compared with what `jobyard render` says (which has golden files of its own), statuses and
events with the golden files in `golden/status`. `JOBYARD_WRITE_GOLDEN=1` writes those anew.
"""

from __future__ import annotations

import base64
import copy
import difflib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from plan.test_rendering import rendered
from rig.kube.api import ApiCaller
from rig.kube.kubectl import Kubectl
from rig.kube.plane import ControlPlane
from rig.manifests import EXAMPLES, ORIGINALS, ROOT, documents

from controller.controller_stage import (
    CHILDREN,
    GOLDEN,
    UID,
    Json,
    Stage,
    Staging,
    Story,
    condition,
)
from jobyard.api.kinds import kind_of
from jobyard.cli.output.printing import as_yaml

# What only a cluster adds to an object, or what a test has a check of its own for.
ADDED = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "namespace")
DIGEST = "batch.tensorstack.dev/digest"


@pytest.fixture
def staging(control_plane: ControlPlane, namespace: str, kubectl: Kubectl, crds: None) -> Staging:
    return Staging(control_plane, namespace, kubectl)


def original(name: str) -> Path:
    return ROOT / "tests" / "originals" / f"{name}.yaml"


def example(name: str) -> Path:
    return ROOT / "examples" / f"{name}.yaml"


def value_of(path: Path) -> Json:
    """The job in a file, as a value to change."""
    (job,) = [
        document.value
        for document in documents(path)
        if kind_of(document.value["apiVersion"], document.value["kind"])
    ]
    return copy.deepcopy(job)


# Children: exactly what `jobyard render` says


async def as_admitted(api: ApiCaller, namespace: str, child: Json) -> Json:
    """The child as this API server would store it, defaults and all."""
    path = CHILDREN[child["kind"]].format(namespace)
    answer = await api.request("POST", path, body=child, query={"dryRun": "All"})
    assert answer.status == 201, answer.text
    return answer.body


def without_additions(child: Json) -> Json:
    """What can be compared. Scripts and keys have checks of their own."""
    out: Json = json.loads(UID.sub("<uid>", json.dumps(child)))
    metadata = {k: v for k, v in out["metadata"].items() if k not in ADDED}
    metadata.pop("ownerReferences", None)
    metadata.get("annotations", {}).pop(DIGEST, None)
    if not metadata.get("annotations"):
        metadata.pop("annotations", None)
    out["metadata"] = metadata
    out.pop("status", None)
    out.get("spec", {}).pop("nodeName", None)
    if out.get("spec", {}).get("clusterIP", "None") != "None":
        out["spec"] |= {"clusterIP": "(any)", "clusterIPs": ["(any)"]}
    if child["kind"] == "Secret":
        out["data"] = sorted(out["data"])
        out.pop("stringData", None)
    if child["kind"] == "ConfigMap":
        data = out.get("data", {}).items()
        out["data"] = {k: f"(plan/ssh/{k})" if k.endswith(".sh") else v for k, v in data}
    return _without_account(out)


def _without_account(out: Json) -> Json:
    """The service account's volume has a random name, the same in all containers of a pod."""
    spec = out.get("spec", {})
    if out["kind"] != "Pod":
        return out
    spec["volumes"] = [v for v in spec.get("volumes", ()) if not _is_account(v)]
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        mounts = container.get("volumeMounts", ())
        container["volumeMounts"] = [m for m in mounts if not _is_account(m)]
    return out


def _is_account(named: Json) -> bool:
    return str(named["name"]).startswith("kube-api-access-")


def difference(wanted: Json, found: Json) -> str:
    """As text that a person can read; whole pods are too much for that."""
    texts = [as_yaml(dict(sorted(each.items()))).splitlines() for each in (wanted, found)]
    return "\n".join(difflib.unified_diff(*texts, "rendered", "found", lineterm=""))


def owner_of(job: Json) -> Json:
    return {
        "apiVersion": job.get("apiVersion", "v1"),
        "kind": job.get("kind", "ConfigMap"),
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def group_of(path: Path) -> str:
    """Jobs that are applied together, so none of one name with another."""
    return "taskset" if path.stem == "taskset-kube-batch" else path.parent.name


# The original without its service has no children; queues and groups aren't jobs.
NO_CHILDREN = ("podgroup", "queue", "genericjob-tf-config")
JOB_FILES = [path for path in (*ORIGINALS, *EXAMPLES) if path.stem not in NO_CHILDREN]
JOB_FILES += [example("genericjob/queue")]
GROUPS = sorted({group_of(path) for path in JOB_FILES})


async def has_its_children(stage: Stage, path: Path, wanted: list[Json]) -> None:
    (name,) = (value_of(path)["metadata"]["name"],)
    names = {(child["kind"], child["metadata"]["name"]) for child in wanted}

    def found() -> dict[tuple[str, str], Json]:
        kinds = [(kind, stage.children(kind, name)) for kind in CHILDREN]
        return {(kind, each): child for kind, some in kinds for each, child in some.items()}

    await stage.until(f"children of {name}: {sorted(names)}", lambda: set(found()) == names)
    job = stage.job(name)
    assert job is not None
    for child in wanted:
        made = found()[child["kind"], child["metadata"]["name"]]
        is_task = child["kind"] == "Pod" and job["kind"] == "TaskSet"
        owner = stage.all_of("ConfigMap")[f"c-{name}-0"] if is_task else job
        assert made["metadata"]["ownerReferences"] == [owner_of(owner)]
        # A TaskSet's pods are told their namespace, which offline is the default one.
        local = json.loads(json.dumps(made).replace(stage.namespace, "default"))
        kept = without_additions({"kind": child["kind"], **local})
        assert not difference(without_additions(child), kept)
        if child["kind"] == "Secret":
            assert "PRIVATE KEY" in decoded(made["data"]["identity"])
            assert made["data"]["identity"] != made["data"]["host_key"]


def decoded(text: str) -> str:
    return base64.b64decode(text).decode()


@pytest.mark.long
@pytest.mark.sample(3)
@pytest.mark.parametrize("group", GROUPS)
def test_children_are_as_rendered(group: str, staging: Staging) -> None:
    paths = [path for path in JOB_FILES if group_of(path) == group]

    async def act(stage: Stage) -> None:
        # Before there are any: a dry run refuses names that are taken.
        wanted = {
            path: [await as_admitted(stage.api, stage.namespace, c) for c in rendered(path)]
            for path in paths
        }
        await stage.apply(*paths)
        for path in paths:
            await has_its_children(stage, path, wanted[path])

    staging.play(act)


# Variables


def variables_job() -> Json:
    env = [
        {"name": "WHO", "value": "$(type)-$(rank) of $(replicas[worker])"},
        {"name": "PEER", "value": "$(service.ps[0].host):$(service.port[http])"},
        {"name": "LATER", "value": "$$(rank) $(WHO) $(HOME)"},
    ]
    container = {"image": "example.com/none", "env": env, "args": ["$(rank)", "$(JOBYARD_JOB)"]}
    template = {
        "spec": {
            "initContainers": [{"name": "fetch", "command": ["get", "$(type)"], **container}],
            "containers": [{"name": "main", "command": ["run", "$(rank)"], **container}],
        }
    }
    return {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "GenericJob",
        "metadata": {"name": "variables"},
        "spec": {
            "service": {"ports": [{"name": "http", "port": 8080}]},
            "replicaSpecs": [
                {"type": "worker", "replicas": 2, "template": template},
                {"type": "ps", "template": template},
            ],
        },
    }


def test_variables_are_replaced_in_all_containers(staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        await stage.apply(variables_job())
        await stage.until_pods("variables", "worker-0", "worker-1", "ps-0")
        spec = stage.pods("variables")["variables-worker-1"]["spec"]
        for container in (*spec["initContainers"], *spec["containers"]):
            env = [(each["name"], each["value"]) for each in container["env"]]
            assert env == [
                ("JOBYARD_JOB", "variables"),
                ("JOBYARD_REPLICA_TYPE", "worker"),
                ("JOBYARD_REPLICA_RANK", "1"),
                ("JOBYARD_ATTEMPT", "0"),
                ("PYTHONUNBUFFERED", "1"),
                ("WHO", "worker-1 of 2"),
                ("PEER", "variables-ps-0:8080"),
                ("LATER", "$$(rank) $(WHO) $(HOME)"),
            ]
            assert container["args"] == ["1", "$(JOBYARD_JOB)"]
        assert spec["initContainers"][0]["command"] == ["get", "worker"]
        assert spec["containers"][0]["command"] == ["run", "1"]

    staging.play(act)


# Stories: the whole status at each stage, and the events


def counts(**wanted: int) -> Callable[[Json], bool]:
    """Statuses with so many replicas in these phases."""
    return lambda status: all(status["aggregate"][k] == v for k, v in wanted.items())


def all_made(status: Json) -> bool:
    """Each replica has a pod; that of a BeamJob's program comes later."""
    tasks = [task for task in status["tasks"] if task["type"] != "batchjob"]
    return all(row.get("uid") for task in tasks for row in task["status"])


def phase(word: str) -> Callable[[Json], bool]:
    return lambda status: bool(status["phase"] == word)


def both(*all_of: Callable[[Json], bool]) -> Callable[[Json], bool]:
    return lambda status: all(each(status) for each in all_of)


def test_the_original_fails_with_the_rule_by_name(staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        kubelet = stage.kubelet
        (job,) = await stage.apply(original("genericjob-rules"))
        story = Story(stage, job, "genericjob-rules")
        await stage.until_pods(job, *(f"worker-{rank}" for rank in range(4)))
        await story.scene("all pods made", all_made)
        await kubelet.unschedulable(f"{job}-worker-3", "0/2 nodes: Insufficient nvidia.com/gpu")
        await kubelet.image_pull_backoff(f"{job}-worker-2")
        await kubelet.running(f"{job}-worker-0")
        await kubelet.running(f"{job}-worker-1")
        said = "Insufficient nvidia.com/gpu; "
        await story.scene(
            "two of four run",
            both(counts(running=2, pending=1), lambda s: said not in str(s["conditions"])),
        )
        await kubelet.running(f"{job}-worker-2")
        await kubelet.running(f"{job}-worker-3")
        await story.scene("running", both(phase("Running"), counts(running=4)))
        await kubelet.finish(f"{job}-worker-2", 3, message="no such file")
        await story.scene("worker 2 failed, which no rule names", counts(failed=1))
        await kubelet.finish(f"{job}-worker-0", 137, "OOMKilled")
        failed = await story.scene("failed", phase("Failed"))
        rule = 'The job is failed with rule: { "worker": [0] }'
        assert condition(failed, "Failed")["message"] == rule
        assert condition(failed, "Completed")["message"] == rule
        await story.told("Failed")

    staging.play(act, start=False)


def test_the_original_succeeds_and_unfinished_pods_go(staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        manifest = value_of(original("genericjob-rules"))
        manifest["spec"]["cleanUpPolicy"] = "Unfinished"
        (job,) = await stage.apply(manifest)
        story = Story(stage, job, "genericjob-rules-succeeded")
        await story.scene("running", both(phase("Running"), counts(running=4)))
        await stage.kubelet.finish(f"{job}-worker-0")
        await story.scene("succeeded", phase("Succeeded"))
        await stage.until_pods(job, "worker-0")
        await story.scene("cleaned up", counts(deleted=3))
        await story.told("CleanedUp")

    staging.play(act)


def test_the_original_without_a_service_says_what_to_add(staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        (job,) = await stage.apply(original("genericjob-tf-config"))
        story = Story(stage, job, "genericjob-tf-config")
        bad = await story.scene(
            "a bad variable", lambda s: condition(s, "Initialized")["reason"] == "BadVariable"
        )
        assert "service.ports" in condition(bad, "Initialized")["message"]
        assert bad["phase"] == "Pending"
        assert not stage.pods(job)
        assert not stage.children("Service", job)
        await stage.patch(job, {"service": {"ports": [{"name": "http", "port": 2222}]}})
        await story.scene("running", both(phase("Running"), counts(running=4)))
        await stage.until_running(job, 4)
        hosts = [f"generic-example-worker-{rank}:2222" for rank in range(4)]
        for rank in range(4):
            (container,) = stage.pods(job)[f"{job}-worker-{rank}"]["spec"]["containers"]
            config = {each["name"]: each["value"] for each in container["env"]}["TF_CONFIG"]
            task = {"type": "worker", "index": rank}
            assert json.loads(config) == {"task": task, "cluster": {"worker": hosts}}
        ranks = range(4)
        await stage.all_at_once(*(stage.kubelet.finish(f"{job}-worker-{rank}") for rank in ranks))
        await story.scene("succeeded", both(phase("Succeeded"), counts(succeeded=4)))
        await story.told("Succeeded")

    staging.play(act)


def test_the_original_mpi_job_keeps_its_launcher_alone(staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        (job,) = await stage.apply(original("mpijob"))
        story = Story(stage, job, "mpijob")
        await stage.until_pods(job, "launcher", *(f"worker-{rank}" for rank in range(5)))
        await story.scene(
            "all pods made",
            all_made,
        )
        for name in list(stage.pods(job)):
            await stage.kubelet.running(name)
        await story.scene("running", both(phase("Running"), counts(running=6)))
        await stage.kubelet.finish(f"{job}-launcher")
        await story.scene("succeeded", phase("Succeeded"))
        await stage.until_pods(job, "launcher")
        await story.scene("workers cleaned up", counts(deleted=5))
        kinds = ("Secret", "Service", "ConfigMap")
        await stage.until(
            "nothing is left to serve pods",
            lambda: not any(stage.children(kind, job) for kind in kinds),
        )
        await story.told("CleanedUp")

    staging.play(act, start=False)


def test_the_original_colossalai_job_fails_with_its_worker(staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        (job,) = await stage.apply(original("colossalaijob"))
        story = Story(stage, job, "colossalaijob")
        await story.scene("running", both(phase("Running"), counts(running=3)))
        # Even with 0: a worker serves the launcher, and isn't the one to end.
        await stage.kubelet.finish(f"{job}-worker-1", 0)
        failed = await story.scene("failed", phase("Failed"))
        assert condition(failed, "Failed")["message"] == "The job exited with an error code."
        await story.told("Failed")

    staging.play(act)


def test_a_pytorch_job_restarts_a_replica(staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        (job,) = await stage.apply(example("pytorchtrainingjob/env"))
        story = Story(stage, job, "pytorchtrainingjob-env")
        await story.scene("running", both(phase("Running"), counts(running=4)))
        await stage.kubelet.finish(f"{job}-worker-2", 1, message="connection reset")
        await story.scene("worker 2 failed", lambda s: s["restarts"] == 1)
        await story.scene("worker 2 is recreated", counts(creating=1, running=3))
        await story.scene("worker 2 runs again", counts(running=4))
        await stage.kubelet.finish(f"{job}-worker-0")
        await story.scene("succeeded", phase("Succeeded"))
        await story.scene("cleaned up", counts(deleted=3))
        await story.told("CleanedUp")

    staging.play(act)


def test_a_tensorflow_job_ends_with_its_chief(staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        (job,) = await stage.apply(example("tensorflowtrainingjob/parameter-server"))
        story = Story(stage, job, "tensorflowtrainingjob-parameter-server")
        names = [
            f"{each['type']}-{rank}"
            for each in value_of(example("tensorflowtrainingjob/parameter-server"))["spec"][
                "replicaSpecs"
            ]
            for rank in range(each.get("replicas", 1))
        ]
        await stage.until_pods(job, *names)
        await story.scene("running", both(phase("Running"), counts(running=len(names))))
        configs = {
            name: json.loads(
                next(
                    e["value"]
                    for e in pod["spec"]["containers"][0]["env"]
                    if e["name"] == "TF_CONFIG"
                )
            )
            for name, pod in stage.pods(job).items()
        }
        for name, config in configs.items():
            task = config["task"]
            assert name == f"{job}-{task['type']}-{task['index']}"
        first = names[0].rpartition("-")[0]
        assert first == "chief"
        await stage.kubelet.finish(f"{job}-chief-0")
        await story.scene("succeeded", phase("Succeeded"))
        await story.scene("cleaned up", counts(deleted=len(names) - 1))
        await story.told("CleanedUp")

    staging.play(act)


def test_an_xgboost_job_fails_when_its_restarts_are_used_up(staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        manifest = value_of(example("xgboosttrainingjob/immediate"))
        manifest["spec"].setdefault("runPolicy", {}).update(backoffLimit=1, cleanUpPolicy="All")
        for each in manifest["spec"]["replicaSpecs"]:
            each["restartPolicy"] = "OnFailure"
        (job,) = await stage.apply(manifest)
        story = Story(stage, job, "xgboosttrainingjob-immediate")
        running = await story.scene("running", phase("Running"))
        total = running["replicas"]
        first = running["tasks"][0]["status"][0]["name"]
        await stage.kubelet.finish(first, 2)
        await story.scene("restarting", lambda s: s["restarts"] == 1)
        await story.scene("running again", counts(running=total))
        await stage.kubelet.finish(first, 2)
        await story.scene("failed", phase("Failed"))
        await stage.until("all pods are gone", lambda: not stage.pods(job))
        await story.scene("cleaned up", lambda s: s["aggregate"]["running"] == 0)
        await story.told("CleanedUp")

    staging.play(act)


def test_a_deepspeed_job_ends_with_worker_0(staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        (job,) = await stage.apply(example("deepspeedjob/python"))
        story = Story(stage, job, "deepspeedjob-python")
        running = await story.scene("running", phase("Running"))
        assert running["replicas"] == running["aggregate"]["running"]
        await stage.kubelet.finish(f"{job}-worker-0", 0, container="worker")
        await story.scene("succeeded", phase("Succeeded"))
        await story.scene("cleaned up", counts(running=0))
        await story.told("CleanedUp")

    staging.play(act)


@pytest.mark.parametrize(("runner", "is_cleaned_up"), [("flink", True), ("spark", False)])
def test_a_beam_job_submits_once_its_cluster_runs(
    runner: str, is_cleaned_up: bool, staging: Staging
) -> None:
    async def act(stage: Stage) -> None:
        (job,) = await stage.apply(example(f"beamjob/{runner}"))
        story = Story(stage, job, f"beamjob-{runner}")
        await stage.until_told(job, "CreatedPods")
        # All but the program's own.
        cluster = await stage.until("a status", lambda: stage.status(job).get("replicas", 1) - 1)
        await stage.until("the cluster is made", lambda: len(stage.pods(job)) == cluster)
        made = sorted(stage.pods(job))
        assert not [name for name in made if "batchjob" in name]
        await story.scene("cluster made", all_made)
        for name in made:
            await stage.kubelet.running(name)
        (submitting,) = await stage.until(
            "the program is submitted", lambda: [n for n in stage.pods(job) if n not in made]
        )
        await story.scene("cluster running", lambda s: s["aggregate"]["running"] == len(made))
        await stage.kubelet.running(submitting)
        await story.scene("running", phase("Running"))
        await story.scene("its page is known", lambda s: "jobURL" in s)
        await stage.kubelet.finish(submitting)
        await story.scene("succeeded", phase("Succeeded"))
        if is_cleaned_up:
            await story.scene("cleaned up", counts(running=0))
            await stage.until("only the program's pod stays", lambda: len(stage.pods(job)) == 1)
        await story.told("CleanedUp" if is_cleaned_up else "Succeeded")

    staging.play(act, start=False)


# TaskSets


def states(**wanted: str) -> Callable[[Json], bool]:
    """Statuses of a TaskSet whose roles are in these states."""

    def holds(status: Json) -> bool:
        found = {role["name"]: role["state"] for role in status["roleStatus"]}
        return all(found[name] == state for name, state in wanted.items())

    return holds


def rows(count: int, phase: str) -> Callable[[Json], bool]:
    """Statuses of a TaskSet with so many replicas in a phase."""

    def holds(status: Json) -> bool:
        found = [row["phase"] for role in status["roleStatus"] for row in role["replicaStatus"]]
        return found.count(f"TaskRoleReplica{phase}") == count

    return holds


def test_the_original_taskset_succeeds_with_its_workers(staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        (job,) = await stage.apply(original("taskset"))
        story = Story(stage, job, "taskset")
        await stage.until_pods(job, "ps-0-0-0", *(f"worker-0-0-{n}" for n in range(3)))
        await story.scene("all pods made", rows(4, "AttemptPreparing"))
        for name in sorted(stage.pods(job)):
            await stage.kubelet.running(name)
        await story.scene("running", rows(4, "AttemptRunning"))
        await stage.kubelet.finish(f"{job}-worker-0-0-2")
        await story.scene("one worker succeeded", rows(1, "Completed"))
        await stage.kubelet.finish(f"{job}-worker-0-0-0")
        await story.scene("succeeded", lambda s: bool(s["phase"] == "TaskSetCompleted"))
        await stage.until("all pods are gone", lambda: not stage.pods(job))
        await story.told("Succeeded")

    staging.play(act, start=False)


def test_the_original_taskset_for_kube_batch_ends_when_success_is_impossible(
    staging: Staging,
) -> None:
    async def act(stage: Stage) -> None:
        (job,) = await stage.apply(original("taskset-kube-batch"))
        story = Story(stage, job, "taskset-kube-batch")
        await story.scene("running", rows(4, "AttemptRunning"))
        await stage.until_pods(job, "ps-0-0-0", *(f"worker-0-0-{n}" for n in range(3)))
        pod = stage.pods(job)[f"{job}-worker-0-0-0"]
        assert pod["spec"]["schedulerName"] == "kube-batch"
        assert pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "pg-1"
        await stage.kubelet.finish(f"{job}-worker-0-0-0")
        await story.scene("one succeeded", rows(1, "Completed"))
        await stage.kubelet.finish(f"{job}-worker-0-0-1", 3, message="no data")
        retried = "worker-0-1-1"
        await story.scene(
            "one retried", both(rows(3, "AttemptRunning"), lambda s: retried in json.dumps(s))
        )
        for retry in (1, 2):
            await stage.kubelet.finish(f"{job}-worker-0-{retry}-1", 3)
        await story.scene("one failed for good", rows(2, "Completed"))
        for retry in (0, 1, 2):
            await stage.kubelet.finish(f"{job}-worker-0-{retry}-2", 137, "OOMKilled")
        await story.scene("failed", lambda s: bool(s["phase"] == "TaskSetCompleted"))
        await stage.until("all pods are gone", lambda: not stage.pods(job))
        await story.told("Failed")

    staging.play(act)


def test_columns_and_describe_show_what_happened(staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        (job,) = await stage.apply(example("pytorchtrainingjob/env"))
        await stage.until_running(job, 4)
        await stage.kubelet.finish(f"{job}-worker-1", 3)
        await stage.until_told(job, "CreatedPods", "Created 1 pod")
        await stage.until(
            "all are ready again",
            lambda: (stage.status(job)["ready"], stage.status(job)["restarts"]) == ("4/4", 1),
        )
        head, row = (await stage.kubectl("get", "ptj", job)).splitlines()
        assert head.split() == ["NAME", "PHASE", "READY", "RESTARTS", "AGE"]
        assert row.split()[:4] == [job, "Running", "4/4", "1"]
        described = await stage.kubectl("describe", "ptj", job)
        for said in (
            "Created 4 pods: pytorch-env-worker-0, pytorch-env-worker-1",
            "The job has started.",
            "worker-1: Error (exit code 3); restart 1 of 2 in 1 s",
            "Created 1 pod: pytorch-env-worker-1.",
        ):
            assert said in described, described

    staging.play(act)


def test_there_is_no_golden_status_without_a_story() -> None:
    here = Path(__file__)
    source = here.read_text() + here.with_name("test_controller_stories.py").read_text()
    for path in GOLDEN.iterdir():
        stem = path.stem
        first, _, rest = stem.partition("-")
        told = (f'"{stem}"', f'"{first}-{{runner}}"', f'"{{kind}}-{rest}"')
        assert any(title in source for title in told), path
