"""Modes, restarts, obstacles and ends under the running controller, on a real API server.

What the pure tests show of decisions, these show of the whole: patches by kubectl, pods that
come and go, conditions and events as a user finds them. Nodes are played by a fake kubelet.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rig.kube.kubectl import Kubectl
from rig.kube.plane import ControlPlane
from rig.manifests import ROOT

from controller.controller_stage import COLLECTED_SECONDS, Json, Stage, Staging, condition
from controller.test_controller_stories import are_as_resumed
from jobyard.api.parts.status import (
    MESSAGE_LENGTH_MAX,
)
from jobyard.api.parts.taskset_status import (
    ROW_BYTES,
    ROWS_BYTES_MAX,
    RolePhase,
    RoleReplicaPhase,
    RoleReplicaStatus,
    RoleStatus,
    TaskSetPhase,
    TaskSetState,
    TaskSetStatus,
    TerminatedInfo,
)
from jobyard.plan.taskset.rows import fitted

API_VERSION = "batch.tensorstack.dev/v1beta1"
IMAGE = "example.com/none"
OCTOPUS = "octopus.openi.pcl.cn/v1alpha1"
STATUS_BYTES_MAX = 1_200_000
MOMENT = "2026-01-01T00:00:00Z"
NUMBER = 2**31 - 1
CONTAINERS = 32


@pytest.fixture
def staging(control_plane: ControlPlane, namespace: str, kubectl: Kubectl, crds: None) -> Staging:
    return Staging(control_plane, namespace, kubectl)


def example(name: str) -> Path:
    return ROOT / "examples" / f"{name}.yaml"


def template(name: str = "main", **container: Any) -> Json:
    given = {"name": name, "image": IMAGE, "command": ["train"], **container}
    return {"spec": {"containers": [given]}}


def job(kind: str, name: str, **spec: Any) -> Json:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def generic(name: str, replicas: int = 2, restart: Json | None = None, **spec: Any) -> Json:
    workers: Json = {"type": "worker", "replicas": replicas, "template": template()}
    if restart is not None:
        workers["restartPolicy"] = restart
    return job("GenericJob", name, replicaSpecs=[workers], **spec)


def pytorch(name: str, replicas: int = 2, policy: str = "OnFailure", **spec: Any) -> Json:
    workers = {
        "type": "worker",
        "replicas": replicas,
        "restartPolicy": policy,
        "template": template("pytorch"),
    }
    return job("PyTorchTrainingJob", name, replicaSpecs=[workers], **spec)


def elastic_pytorch(name: str, expected: int) -> Json:
    elastic = {"enabled": True, "minReplicas": 1, "maxReplicas": 5, "expectedReplicas": expected}
    workers = {"type": "worker", "template": template("pytorch", args=["train.py"])}
    spec = {"elastic": elastic, "torchrunConfig": {"enabled": True}, "replicaSpecs": [workers]}
    return job("PyTorchTrainingJob", name, **spec)


def mpi(name: str, **spec: Any) -> Json:
    workers = {"replicas": 2, "cmd": ["./walk"], "template": template("mpi-worker")}
    return job("MPIJob", name, worker=workers, **spec)


def colossalai(name: str, **spec: Any) -> Json:
    workers = {"replicas": 2, "command": ["train.py"], "template": template("worker")}
    return job("ColossalAIJob", name, launcher={"image": IMAGE}, worker=workers, **spec)


def taskset(name: str) -> Json:
    role = {"name": "worker", "replicas": 3, "template": template()}
    return {**job("TaskSet", name, roles=[role]), "apiVersion": OCTOPUS}


def main_of(stage: Stage, name: str, pod: str) -> Json:
    container: Json = stage.pods(name)[f"{name}-{pod}"]["spec"]["containers"][0]
    return container


def started_with(stage: Stage, name: str, pod: str) -> list[str]:
    """The whole command line of a replica's main container."""
    container = main_of(stage, name, pod)
    return [*container.get("command", ()), *container.get("args", ())]


# Pause


# The folder of the example, and its pods once resumed.
RESUMED: list[tuple[str, tuple[str, ...]]] = [
    ("genericjob", ("loader-0", "trainer-0", "trainer-1")),
    ("mpijob", ("launcher", "worker-0", "worker-1")),
    ("colossalaijob", ("launcher", "worker-0", "worker-1")),
    ("deepspeedjob", ("worker-0", "worker-1")),
    ("pytorchtrainingjob", ("worker-0", "worker-1")),
    ("tensorflowtrainingjob", ("worker-0", "worker-1")),
    ("xgboosttrainingjob", ("master-0", "worker-0")),
]


@pytest.mark.long
def test_jobs_made_paused_start_with_their_resume_specs(staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        names = await stage.apply(*(example(f"{path}/pause") for path, _ in RESUMED))
        for name, (_, pods) in zip(names, RESUMED, strict=True):
            paused = await stage.until_phase(name, "Paused")
            assert condition(paused, "Paused")["status"] == "True"
            assert paused["aggregate"]["deleted"] == paused["replicas"] == len(pods)
            assert not stage.pods(name)
        for name, (kind, pods) in zip(names, RESUMED, strict=True):
            await stage.pause(name, enabled=False)
            await stage.until_pods(name, *pods)
            running = await stage.until_running(name, len(pods))
            assert "Resuming" in {status["phase"] for status in stage.statuses(name)}
            assert condition(running, "Paused")["status"] == "False"
            await stage.until_told(name, "Paused", "pause 1")
            await stage.until_told(name, "Resuming", "pause 1")
            # To the last word like those of a job that ran before its pause.
            are_as_resumed(stage, name, kind)

    staging.play(act)


def test_a_pause_is_graceful_and_resumes_once_the_old_pods_are_gone(staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        name = "pausing"
        resume = [{"type": "worker", "command": ["train", "--resume"]}]
        manifest = pytorch(name, runMode={"pause": {"enabled": False, "resumeSpecs": resume}})
        await stage.apply(manifest)
        await stage.until_running(name, 2)
        assert started_with(stage, name, "worker-0") == ["train"]
        old = stage.uids(name)
        stage.kubelet.hold_terminating = True
        await stage.pause(name)
        # The pods are told to go, and that is enough for Paused; none is forced.
        paused = await stage.until_phase(name, "Paused")
        assert paused["aggregate"]["deleted"] == 2
        await stage.until("both are told to go", lambda: None not in graces(stage, name))
        assert stage.uids(name) == old
        assert graces(stage, name) == [30, 30]
        await stage.pause(name, enabled=False)
        await stage.until(
            "the new spec was seen", lambda: stage.status(name)["observedGeneration"] == 3
        )
        assert stage.status(name)["phase"] == "Paused"
        assert stage.uids(name) == old
        stage.kubelet.hold_terminating = False
        for pod in ("worker-0", "worker-1"):
            await stage.kubelet.release(f"{name}-{pod}")
        running = await stage.until_running(name, 2)
        assert not set(stage.uids(name).values()) & set(old.values())
        assert (running["restarts"], running["pauseCount"]) == (0, 1)
        assert started_with(stage, name, "worker-0") == ["train", "--resume"]
        # A restart later on starts the same way.
        await stage.kubelet.finish(f"{name}-worker-1", 1)
        await stage.until("attempt 1 is there", lambda: attempt_of(stage, name, "worker-1") == "1")
        assert started_with(stage, name, "worker-1") == ["train", "--resume"]

    staging.play(act)


def graces(stage: Stage, name: str) -> list[int | None]:
    """How long each pod has to go; None while nobody has told it to."""
    pods = stage.pods(name).values()
    return [pod["metadata"].get("deletionGracePeriodSeconds") for pod in pods]


async def until_attempt(stage: Stage, name: str, pod: str, attempt: int) -> Json:
    """That attempt of the replica is there, and all of the job's two run."""
    await stage.until(
        f"attempt {attempt} is there", lambda: attempt_of(stage, name, pod) == str(attempt)
    )
    return await stage.until_running(name, 2)


def attempt_of(stage: Stage, name: str, pod: str) -> str:
    found = stage.pods(name).get(f"{name}-{pod}")
    annotations = found["metadata"]["annotations"] if found else {}
    return str(annotations.get("batch.tensorstack.dev/attempt", ""))


def test_a_pause_while_a_replica_waits_for_its_restart_keeps_the_count(staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        name = "restarting"
        await stage.apply(pytorch(name, runMode={"pause": {"enabled": False}}))
        await stage.until_running(name, 2)
        # The third try comes after 4 seconds: enough for a pause in between.
        for tries in (1, 2):
            await stage.kubelet.finish(f"{name}-worker-1", 1)
            await until_attempt(stage, name, "worker-1", tries)
        await stage.kubelet.finish(f"{name}-worker-1", 1)
        await stage.until("a restart is counted", lambda: stage.status(name)["restarts"] == 3)
        await stage.pause(name)
        await stage.until_phase(name, "Paused")
        await stage.until("no pods", lambda: not stage.pods(name))
        await stage.pause(name, enabled=False)
        running = await stage.until_running(name, 2)
        assert running["restarts"] == running["backoffCount"] == 3
        assert attempt_of(stage, name, "worker-1") == "3"
        # All are used up: the next failure is the last.
        await stage.kubelet.finish(f"{name}-worker-1", 1)
        await stage.until_phase(name, "Failed")

    staging.play(act)


def test_pausing_a_finished_job_does_nothing(staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        name = "over"
        await stage.apply(generic(name, 1, runMode={"pause": {"enabled": False}}))
        await stage.until_running(name, 1)
        await stage.kubelet.finish(f"{name}-worker-0")
        await stage.until_phase(name, "Succeeded")
        pods = stage.uids(name)
        refused = await stage.kubectl(
            *("patch", "gj", name, "--type=merge"),
            '--patch={"spec":{"runMode":{"pause":{"enabled":true}}}}',
            check=False,
        )
        assert stage.status(name)["phase"] == "Succeeded", refused
        # Another job goes all its way meanwhile, so the controller had its time.
        await stage.apply(generic("witness", 1))
        await stage.until_running("witness", 1)
        assert stage.status(name)["phase"] == "Succeeded"
        assert condition(stage.status(name), "Paused")["status"] == "False"
        assert stage.uids(name) == pods

    staging.play(act)


# Debug


def test_debug_off_replaces_the_pods_uncounted(staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        name = "debugging"
        debug = {"enabled": True, "replicaSpecs": [{"type": "worker", "command": ["shell", "x"]}]}
        await stage.apply(pytorch(name, runMode={"debug": debug}))
        await stage.until_running(name, 2)
        assert started_with(stage, name, "worker-0") == ["shell", "x"]
        old = set(stage.uids(name).values())
        # An end in debug mode neither ends the job nor counts.
        await stage.kubelet.finish(f"{name}-worker-1", 1)
        await stage.until(
            "it is seen", lambda: stage.status(name).get("aggregate", {}).get("running") == 1
        )
        assert stage.status(name)["restarts"] == 0
        assert stage.status(name)["phase"] == "Running"
        await stage.patch(name, {"runMode": {"debug": {"enabled": False}}})
        await stage.until(
            "all pods are others",
            lambda: len(stage.uids(name)) == 2 and not set(stage.uids(name).values()) & old,
        )
        running = await stage.until_running(name, 2)
        assert running["restarts"] == 0
        assert started_with(stage, name, "worker-0") == ["train"]
        await stage.kubelet.finish(f"{name}-worker-0")
        await stage.until_phase(name, "Succeeded")

    staging.play(act)


# Elastic


def test_an_elastic_job_grows_and_shrinks_around_its_survivors(staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        name = "elastic"
        await stage.apply(elastic_pytorch(name, 2))
        await stage.until_running(name, 2)
        two = stage.uids(name)
        await stage.patch(name, {"elastic": {"expectedReplicas": 5}})
        await stage.until_running(name, 5)
        assert two.items() <= stage.uids(name).items()
        await stage.until_told(name, "Scaled", "From 2 to 5 replicas.")
        await stage.kubectl("scale", "ptj", name, "--replicas=1")
        await stage.until_running(name, 1)
        await stage.until_pods(name, "worker-0")
        await stage.until("one row", lambda: len(stage.status(name)["tasks"][0]["status"]) == 1)
        one = stage.status(name)
        assert stage.uids(name) == {f"{name}-worker-0": two[f"{name}-worker-0"]}
        assert [row["name"] for row in one["tasks"][0]["status"]] == [f"{name}-worker-0"]
        assert (one["replicas"], one["restarts"]) == (1, 0)
        await stage.until_told(name, "Scaled", "From 5 to 1 replicas.")
        refused = await stage.kubectl("scale", "ptj", name, "--replicas=6", check=False)
        assert "maxReplicas" in refused, refused

    staging.play(act)


def test_an_elastic_deepspeed_job_remakes_worker_0_only(staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        (name,) = await stage.apply(example("deepspeedjob/elastic"))
        await stage.until_running(name, 2)
        old = stage.uids(name)
        await stage.patch(name, {"elastic": {"expectedReplicas": 3}})
        first, second, third = (f"{name}-worker-{rank}" for rank in range(3))
        await stage.until(
            "worker 0 is another, and there are three",
            lambda: stage.uids(name).get(first) != old[first] and len(stage.uids(name)) == 3,
        )
        running = await stage.until_running(name, 3)
        assert stage.uids(name)[second] == old[second]
        assert third in stage.uids(name)
        assert running["restarts"] == running["backoffCount"] == 0

    staging.play(act)


# Restarts


def test_the_backoff_limit_is_shared_by_all_replicas(staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        name = "shared"
        await stage.apply(pytorch(name, runPolicy={"backoffLimit": 2}))
        await stage.until_running(name, 2)
        for count, rank in ((1, 0), (2, 1)):
            await stage.kubelet.finish(f"{name}-worker-{rank}", 7)
            told = await stage.until_told(name, "ReplicaFailed", f"worker-{rank}: ")
            wanted = f"worker-{rank}: Error (exit code 7); restart {count} of 2 in 1 s"
            assert told.message == wanted
            running = await until_attempt(stage, name, f"worker-{rank}", 1)
            assert running["restarts"] == running["backoffCount"] == count
        await stage.kubelet.finish(f"{name}-worker-1", 7)
        failed = await stage.until_phase(name, "Failed")
        assert failed["restarts"] == 2
        assert condition(failed, "Failed")["message"] == "The job exited with an error code."
        await stage.until_told(name, "ReplicaFailed", "not started again")

    staging.play(act)


@pytest.mark.long
def test_exit_code_restarts_on_signals_alone(staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        name = "codes"
        await stage.apply(pytorch(name, policy="ExitCode"))
        await stage.until_running(name, 2)
        await stage.kubelet.finish(f"{name}-worker-1", 137, "OOMKilled")
        running = await until_attempt(stage, name, "worker-1", 1)
        (row,) = running["tasks"][0]["status"][1:]
        failure = {key: row["lastFailure"][key] for key in ("attempt", "exitCode", "reason")}
        assert failure == {"attempt": 0, "exitCode": 137, "reason": "OOMKilled"}
        await stage.kubelet.finish(f"{name}-worker-1", 1)
        failed = await stage.until_phase(name, "Failed")
        assert failed["restarts"] == 1

    staging.play(act)


def test_always_restarts_successes_up_to_its_limit(staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        name = "always"
        await stage.apply(generic(name, 1, {"policy": "Always", "limit": 2}))
        for tries in ("0", "1", "2"):
            await stage.until(
                f"attempt {tries} runs",
                lambda tries=tries: (
                    attempt_of(stage, name, "worker-0") == tries
                    and stage.status(name).get("aggregate", {}).get("running") == 1
                ),
            )
            assert stage.status(name)["phase"] == "Running"
            await stage.kubelet.finish(f"{name}-worker-0")
        done = await stage.until_phase(name, "Succeeded")
        assert done["restarts"] == 2
        await stage.until_told(name, "Restarting", "worker-0")

    staging.play(act)


def test_an_evicted_replica_is_made_anew_uncounted(staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        name = "evicted"
        await stage.apply(pytorch(name, policy="Never", runPolicy={"backoffLimit": 0}))
        await stage.until_running(name, 2)
        old = stage.uids(name)
        gone, stays = f"{name}-worker-1", f"{name}-worker-0"
        await stage.kubelet.evict(gone)
        await stage.until(
            "another pod", lambda: stage.uids(name).get(gone) not in (None, old[gone])
        )
        # So is one that somebody deletes.
        evicted_then = stage.uids(name)[gone]
        await stage.until_running(name, 2)
        await stage.remove("Pod", gone)
        await stage.until(
            "yet another", lambda: stage.uids(name).get(gone) not in (None, evicted_then)
        )
        running = await stage.until_running(name, 2)
        assert running["restarts"] == running["backoffCount"] == 0
        assert stage.uids(name)[stays] == old[stays]
        await stage.until_told(name, "ReplicaLost", "without using up restarts")

    staging.play(act)


@pytest.mark.parametrize("make", [mpi, colossalai], ids=["MPIJob", "ColossalAIJob"])
def test_an_evicted_worker_remakes_the_gang(make: Callable[[str], Json], staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        name = "gang"
        await stage.apply(make(name))
        await stage.until_running(name, 3)
        old = set(stage.uids(name).values())
        await stage.kubelet.evict(f"{name}-worker-1")
        await stage.until(
            "all pods are others",
            lambda: len(stage.uids(name)) == 3 and not set(stage.uids(name).values()) & old,
        )
        running = await stage.until_running(name, 3)
        assert running["restarts"] == 0
        await stage.until_told(name, "GangRecreated", "worker-1 was taken away")
        assert stage.reasons(name).count("GangRecreated") == 1
        assert "ReplicaFailed" not in stage.reasons(name)
        await stage.kubelet.finish(f"{name}-launcher")
        await stage.until_phase(name, "Succeeded")

    staging.play(act)


# Obstacles


def stranger(kind: str, name: str) -> Json:
    made: Json = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}
    match kind:
        case "Pod":
            made["spec"] = {"containers": [{"name": "mine", "image": IMAGE}]}
        case "Service":
            made["spec"] = {"ports": [{"port": 1}]}
        case "Secret":
            made["stringData"] = {"mine": "yes"}
        case "ConfigMap":
            made["data"] = {"mine": "yes"}
        case "PodGroup":
            made |= {"apiVersion": "scheduler.tensorstack.dev/v1beta1"}
            made["spec"] = {"queue": "mine", "minMember": 1}
    return made


async def until_its_own(stage: Stage, kind: str, job: str, name: str) -> None:
    """The job has made what a stranger's object had the name of."""
    await stage.until(f"the {kind} {name} of {job}", lambda: name in stage.children(kind, job))


def is_untouched(stage: Stage, found: Json) -> bool:
    """A stranger's object is to the last word as it was made; but for its pod's life."""
    now = stage.all_of(found["kind"])[found["metadata"]["name"]]
    parts = ("data", "spec") if found["kind"] != "Pod" else ()
    fields = ("uid", "labels", "annotations", "ownerReferences", "deletionTimestamp")
    return all(now.get(part) == found.get(part) for part in parts) and all(
        now["metadata"].get(field) == found["metadata"].get(field) for field in fields
    )


QUEUED = {"t9kScheduler": {"queue": "default", "priority": 50}}


@pytest.mark.parametrize(
    ("kind", "taken", "manifest"),
    [
        ("Pod", "wanting-worker-1", pytorch("wanting", 3)),
        ("Service", "wanting", pytorch("wanting", 3)),
        ("Service", "wanting-worker-2", generic("wanting", 3, service={"ports": [{"port": 80}]})),
        ("Secret", "wanting-ssh", mpi("wanting")),
        ("ConfigMap", "wanting-launch", mpi("wanting")),
        ("PodGroup", "wanting", pytorch("wanting", 3, scheduler=QUEUED)),
    ],
    ids=["a pod", "the job's service", "a replica's service", "the keys", "the scripts", "a gang"],
)
def test_a_strangers_object_is_left_alone(
    kind: str, taken: str, manifest: Json, staging: Staging
) -> None:
    async def act(stage: Stage) -> None:
        name = "wanting"
        found = await stage.make(kind, stranger(kind, taken))
        await stage.apply(manifest)
        told = await stage.until_told(name, "NameTaken", f"/{taken} exists already")
        assert told.type == "Warning"
        assert f"{kind} {stage.namespace}/{taken}" in told.message

        def is_said() -> bool:
            said = [condition(stage.status(name), each) for each in ("Initialized", "Running")]
            return any(c.get("reason") == "NameTaken" and c["status"] == "False" for c in said)

        await stage.until("a condition says so", is_said)
        assert stage.status(name)["phase"] == "Pending"
        assert is_untouched(stage, found)
        await stage.remove(kind, taken)
        await stage.until_running(name, 3)
        assert condition(stage.status(name), "Initialized")["status"] == "True"
        await until_its_own(stage, kind, name, taken)

    staging.play(act)


@pytest.mark.parametrize(
    ("kind", "taken"), [("ConfigMap", "c-wanting-0"), ("Pod", "wanting-worker-0-0-1")]
)
def test_a_strangers_object_is_left_alone_by_a_taskset(
    kind: str, taken: str, staging: Staging
) -> None:
    async def act(stage: Stage) -> None:
        name = "wanting"
        found = await stage.make(kind, stranger(kind, taken))
        await stage.apply(taskset(name))
        told = await stage.until_told(name, "NameTaken", f"/{taken} exists already")
        assert told.type == "Warning"
        said = f"{kind} {stage.namespace}/{taken}"
        assert said in told.message
        # A TaskSet has no conditions: its phase's message says so.
        await stage.until("it says so", lambda: said in json.dumps(stage.status(name)))
        assert is_untouched(stage, found)
        assert len(stage.pods(name)) < 3
        await stage.remove(kind, taken)
        await stage.until(
            "all three run",
            lambda: (
                stage.status(name).get("phaseMessage")
                == "3 of 3 replicas running, 0 succeeded, 0 failed."
            ),
        )
        await until_its_own(stage, kind, name, taken)

    staging.play(act)


@pytest.mark.parametrize("kind", ["Pod", "Service"])
def test_a_strangers_object_keeps_a_tensorboard_but_not_its_job(
    kind: str, staging: Staging
) -> None:
    async def act(stage: Stage) -> None:
        name, taken = "wanting", "wanting-tensorboard"
        found = await stage.make(kind, stranger(kind, taken))
        board = {"image": IMAGE, "trainingLogFilesets": ["t9k://pvc/logs/run"]}
        await stage.apply(pytorch(name, tensorboardSpec=board))
        await stage.until_running(name, 2)
        told = await stage.until_told(name, "NameTaken", f"/{taken} exists already")
        assert told.type == "Warning"
        said = await stage.until_condition(name, "Running", "True", "NameTaken")
        assert f"{kind} {stage.namespace}/{taken}" in said["message"]
        note = stage.status(name)["tensorboard"]["note"]
        assert f"{kind} {stage.namespace}/{taken}" in note
        assert is_untouched(stage, found)
        await stage.remove(kind, taken)
        await stage.until("it is ready", lambda: stage.status(name)["tensorboard"]["ready"])
        await until_its_own(stage, kind, name, taken)
        await stage.until_condition(name, "Running", "True", "-")

    staging.play(act)


PORTS = [{"name": "same", "containerPort": 1}, {"name": "same", "containerPort": 2}]


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ({"name": "main"}, "spec.containers[0].image: Required value"),
        (
            {"name": "main", "image": IMAGE, "ports": PORTS},
            'ports[1].name: Duplicate value: "same"',
        ),
    ],
    ids=["no image", "two ports of one name"],
)
def test_a_template_that_is_refused_can_be_put_right(
    container: Json, words: str, staging: Staging
) -> None:
    async def act(stage: Stage) -> None:
        name = "refused"
        manifest = generic(name, 2)
        manifest["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"] = [container]
        await stage.apply(manifest)
        said = await stage.until_condition(name, "Initialized", "False", "InvalidTemplate")
        assert words in said["message"], said
        await stage.until_told(name, "InvalidTemplate", words)
        assert not stage.pods(name)
        assert stage.status(name)["phase"] == "Pending"
        await stage.apply(generic(name, 2))
        await stage.until_running(name, 2)
        assert condition(stage.status(name), "Initialized")["status"] == "True"

    staging.play(act)


# Ends


@pytest.mark.parametrize(
    ("policy", "stay"),
    [("None", ["worker-0", "worker-1", "worker-2"]), ("Unfinished", ["worker-0"]), ("All", [])],
)
def test_clean_up(policy: str, stay: list[str], staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        name = "ending"
        await stage.apply(pytorch(name, 3, runPolicy={"cleanUpPolicy": policy}))
        await stage.until_running(name, 3)
        await stage.kubelet.finish(f"{name}-worker-0")
        await stage.until_phase(name, "Succeeded")
        await stage.until_pods(name, *stay)
        if policy == "None":
            # Another job goes all its way meanwhile, so the controller had its time.
            await stage.apply(generic("witness", 1))
            await stage.until_running("witness", 1)
            await stage.until_pods(name, *stay)
            assert "CleanedUp" not in stage.reasons(name)
        else:
            await stage.until_told(name, "CleanedUp", f"{name}-worker-1")
            await stage.until("no service", lambda: not stage.children("Service", name))
        rows = stage.status(name)["tasks"][0]["status"]
        assert [row["name"] for row in rows] == [f"{name}-worker-{rank}" for rank in range(3)]

    staging.play(act)


def test_a_job_is_deleted_when_its_time_to_live_is_over(staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        name = "short-lived"
        await stage.apply(generic(name, 1, ttlSecondsAfterFinished=1))
        await stage.until_running(name, 1)
        await stage.kubelet.finish(f"{name}-worker-0")
        # Among all that it ever was: a second later it is gone.
        await stage.until(
            "it has succeeded",
            lambda: any(status["phase"] == "Succeeded" for status in stage.statuses(name)),
        )
        await stage.until("the job is gone", lambda: stage.job(name) is None)

    staging.play(act)


def test_a_job_that_runs_too_long_fails(staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        name = "late"
        policy = {"activeDeadlineSeconds": 2, "cleanUpPolicy": "All"}
        await stage.apply(pytorch(name, runPolicy=policy))
        # It counts from the first container on, so the others need not have come to run.
        failed = await stage.until_phase(name, "Failed")
        said = "The job ran longer than its activeDeadlineSeconds of 2 s."
        assert condition(failed, "Failed")["message"] == said
        assert condition(failed, "ReplicaFailure")["status"] == "False"
        await stage.until_told(name, "DeadlineExceeded", said)
        await stage.until("no pods", lambda: not stage.pods(name))
        listed = await stage.kubectl("get", "events")
        assert "DeadlineExceeded" in listed

    staging.play(act)


def test_deleting_a_job_deletes_all_of_it(staging: Staging, controllers: ControlPlane) -> None:
    async def act(stage: Stage) -> None:
        name = "deleted"
        scheduler = {"t9kScheduler": {"queue": "default", "priority": 50}}
        await stage.apply(mpi(name, scheduler=scheduler))
        await stage.until_running(name, 3)
        kinds = ("Pod", "Service", "Secret", "ConfigMap", "PodGroup")
        await stage.until(
            "all of it is seen", lambda: all(stage.children(kind, name) for kind in kinds)
        )
        owned = {kind: set(stage.children(kind, name)) for kind in kinds}
        await stage.kubectl("delete", "mj", name)
        await stage.until(
            "nothing of it is left",
            lambda: not any(names & set(stage.all_of(kind)) for kind, names in owned.items()),
            deadline_seconds=COLLECTED_SECONDS,
        )

    staging.play(act)


# The largest status of a TaskSet; those of other kinds are in `test_largest_status`


def worst_task_row(rank: int, words: str, pod: int) -> RoleReplicaStatus:
    """Of a replica whose pod's name has so many letters, and its role's 40."""
    row = RoleReplicaStatus(
        index=rank,
        name="r" * 40,
        phase=RoleReplicaPhase.CREATION_REQUESTED,
        phase_message=words,
        stopped=True,
        transition_time=MOMENT,
        start_at=MOMENT,
        finish_at=MOMENT,
        total_retried_count=NUMBER,
        pod_name=f"{'n' * (pod - 5)}-{rank:04}",
        pod_reason="E" * 128,
        pod_uid="00000000-0000-0000-0000-000000000000",
        pod_ip="ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        pod_host_ip="ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        container_name="c" * 63,
        container_id=f"containerd://{'0' * 64}",
        terminated_info=TerminatedInfo(
            exit_code=-NUMBER, exit_message=words, signal=NUMBER, reason="R" * 128
        ),
    )
    return fitted(row, 0)


async def stored_size(stage: Stage, status: msgspec.Struct) -> int:
    """Written through the real status endpoint; how long it comes back.

    In the answer to the write: what is there a moment later may be the controller's.
    """
    path = f"/apis/{OCTOPUS}/namespaces/{stage.namespace}/tasksets"
    wanted = msgspec.json.decode(msgspec.json.encode(status))
    written = await stage.api.request(
        "PATCH",
        f"{path}/largest/status",
        body=[{"op": "add", "path": "/status", "value": wanted}],
        content_type="application/json-patch+json",
    )
    assert written.status == 200, written.text
    assert written.body["status"] == wanted, "nothing of it was dropped"
    # As the server spells it: what it escapes takes room too.
    bare = await stage.api.request("GET", f"{path}/smallest")
    return len(written.text.encode()) - len(bare.text.encode())


# The caller of the tests sends all in one piece, and that is what is wanted here.
@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
@pytest.mark.parametrize("pod", [63, 253])
def test_the_largest_status_of_a_taskset_fits(pod: int, staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        role = {"name": "r", "replicas": 1, "template": template()}
        for name in ("largest", "smallest"):
            await stage.apply({**job("TaskSet", name, roles=[role]), "apiVersion": OCTOPUS})
            await stage.until("it runs", lambda name=name: stage.status(name).get("startAt"))
        count = ROWS_BYTES_MAX // (ROW_BYTES + 40 + pod)
        rows = tuple(worst_task_row(n, "<" * MESSAGE_LENGTH_MAX, pod) for n in range(count))
        status = TaskSetStatus(
            phase=TaskSetPhase.COMPLETED,
            state=TaskSetState.FAILED,
            phase_message="<" * 2000,
            state_message="<" * 2000,
            total_retried_count=NUMBER,
            preempt_count=NUMBER,
            role_status=(
                RoleStatus(
                    name="r",
                    phase=RolePhase.COMPLETED,
                    state=TaskSetState.FAILED,
                    replica_status=rows,
                ),
            ),
        )
        size = await stored_size(stage, status)
        assert 1_100_000 < size < STATUS_BYTES_MAX

    staging.play(act)
