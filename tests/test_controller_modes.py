"""Modes, restarts, obstacles and ends under the running controller, on a real API server.

What the pure tests show of decisions, these show of the whole: patches by kubectl, pods that
come and go, conditions and events as a user finds them. Nodes are played by a fake kubelet.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from controller_stage import Json, Stage, Staging, condition
from manifests import ROOT
from rig.kubectl import Kubectl
from rig.plane import ControlPlane

from jobyard.api.status import (
    MESSAGE_LENGTH_MAX,
    REPLICAS_MAX,
    ContainerState,
    ContainerStatus,
    Failure,
    JobStatus,
    Phase,
    ReplicaPhase,
    ReplicaStatus,
    TaskStatus,
)
from jobyard.api.taskset_status import (
    TASKSET_REPLICAS_MAX,
    RolePhase,
    RoleReplicaPhase,
    RoleReplicaStatus,
    RoleStatus,
    TaskSetPhase,
    TaskSetState,
    TaskSetStatus,
    TerminatedInfo,
)
from jobyard.plan.description import Role
from jobyard.plan.rows import aggregate_of, fitting
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


def main_of(stage: Stage, name: str, pod: str) -> Json:
    container: Json = stage.pods(name)[f"{name}-{pod}"]["spec"]["containers"][0]
    return container


def started_with(stage: Stage, name: str, pod: str) -> list[str]:
    """The whole command line of a replica's main container."""
    container = main_of(stage, name, pod)
    return [*container.get("command", ()), *container.get("args", ())]


# Pause


# The folder of the example, its pods once resumed, and how command lines of some of them end.
RESUMED: list[tuple[str, tuple[str, ...], dict[str, list[str]]]] = [
    ("genericjob", ("loader-0", "trainer-0", "trainer-1"), {"trainer-1": ["resumed"]}),
    ("mpijob", ("launcher", "worker-0", "worker-1"), {"launcher": ["echo", "resumed"]}),
    (
        "colossalaijob",
        ("launcher", "worker-0", "worker-1"),
        {"launcher": ["train.py", "resumed"]},
    ),
    (
        "deepspeedjob",
        ("worker-0", "worker-1"),
        {"worker-0": ["/program/train.py", "resumed"]},
    ),
    ("pytorchtrainingjob", ("worker-0", "worker-1"), {"worker-1": ["resumed"]}),
    ("tensorflowtrainingjob", ("worker-0", "worker-1"), {}),
    (
        "xgboosttrainingjob",
        ("master-0", "worker-0"),
        {"master-0": ["resumed from the model"], "worker-0": ["resumed"]},
    ),
]


def test_jobs_made_paused_start_with_their_resume_specs(staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        names = await stage.apply(*(example(f"{path}/pause") for path, _, _ in RESUMED))
        for name, (_, pods, _) in zip(names, RESUMED, strict=True):
            paused = await stage.until_phase(name, "Paused")
            assert condition(paused, "Paused")["status"] == "True"
            assert paused["aggregate"]["deleted"] == paused["replicas"] == len(pods)
            assert not stage.pods(name)
        for name, (_, pods, ends_with) in zip(names, RESUMED, strict=True):
            await stage.pause(name, enabled=False)
            await stage.until_pods(name, *pods)
            running = await stage.until_running(name, len(pods))
            assert "Resuming" in {status["phase"] for status in stage.statuses(name)}
            assert condition(running, "Paused")["status"] == "False"
            for pod, words in ends_with.items():
                assert started_with(stage, name, pod)[-len(words) :] == words
            await stage.until_told(name, "Paused", "pause 1")
            await stage.until_told(name, "Resuming", "pause 1")
        assert "resumed as" in started_with(stage, "tf-pause", "worker-1")[2]
        # What the resumeSpecs don't speak of is as ever.
        assert (
            "initContainers" not in stage.pods("generic-pause")["generic-pause-trainer-0"]["spec"]
        )
        assert "as always" in started_with(stage, "generic-pause", "loader-0")[-1]

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
        assert stage.uids(name) == old
        grace = [p["metadata"]["deletionGracePeriodSeconds"] for p in stage.pods(name).values()]
        assert grace == [30, 30]
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
            await stage.until(
                "it runs again",
                lambda tries=tries: (
                    attempt_of(stage, name, "worker-1") == str(tries)
                    and stage.status(name).get("aggregate", {}).get("running") == 2
                ),
            )
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
        one = await stage.until_running(name, 1)
        await stage.until_pods(name, "worker-0")
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
            await stage.until(
                "it runs again",
                lambda rank=rank: (
                    attempt_of(stage, name, f"worker-{rank}") == "1"
                    and stage.status(name).get("aggregate", {}).get("running") == 2
                ),
            )
        assert stage.status(name)["restarts"] == stage.status(name)["backoffCount"] == 2
        await stage.kubelet.finish(f"{name}-worker-1", 7)
        failed = await stage.until_phase(name, "Failed")
        assert failed["restarts"] == 2
        assert condition(failed, "Failed")["message"] == "The job exited with an error code."
        await stage.until_told(name, "ReplicaFailed", "not started again")

    staging.play(act)


def test_exit_code_restarts_on_signals_alone(staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        name = "codes"
        await stage.apply(pytorch(name, policy="ExitCode"))
        await stage.until_running(name, 2)
        await stage.kubelet.finish(f"{name}-worker-1", 137, "OOMKilled")
        await stage.until("attempt 1", lambda: attempt_of(stage, name, "worker-1") == "1")
        (row,) = stage.status(name)["tasks"][0]["status"][1:]
        failure = {key: row["lastFailure"][key] for key in ("attempt", "exitCode", "reason")}
        assert failure == {"attempt": 0, "exitCode": 137, "reason": "OOMKilled"}
        await stage.until_running(name, 2)
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


def test_an_evicted_mpi_worker_remakes_the_gang(staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        name = "gang"
        await stage.apply(mpi(name))
        await stage.until_running(name, 3)
        old = set(stage.uids(name).values())
        await stage.kubelet.evict(f"{name}-worker-1")
        await stage.until(
            "all pods are others",
            lambda: len(stage.uids(name)) == 3 and not set(stage.uids(name).values()) & old,
        )
        running = await stage.until_running(name, 3)
        assert running["restarts"] == 0
        await stage.until_told(name, "GangRemade", "worker-1 was taken away")
        assert stage.reasons(name).count("GangRemade") == 1
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
    return made


@pytest.mark.parametrize(
    ("kind", "taken", "manifest"),
    [
        ("Pod", "wanting-worker-1", pytorch("wanting", 3)),
        ("Service", "wanting", pytorch("wanting", 3)),
        ("Service", "wanting-worker-2", generic("wanting", 3, service={"ports": [{"port": 80}]})),
        ("Secret", "wanting-ssh", mpi("wanting")),
        ("ConfigMap", "wanting-launch", mpi("wanting")),
    ],
    ids=["a pod", "the job's service", "a replica's service", "the keys", "the scripts"],
)
def test_a_strangers_object_is_left_alone(
    kind: str, taken: str, manifest: Json, staging: Staging
) -> None:
    async def act(stage: Stage) -> None:
        name = "wanting"
        found = await stage.make(kind, stranger(kind, taken))
        await stage.apply(manifest)
        told = await stage.until_told(name, "NameTaken", f"/{taken} is there already")
        assert told.type == "Warning"
        assert f"{kind} {stage.namespace}/{taken}" in told.message

        def is_said() -> bool:
            said = [condition(stage.status(name), each) for each in ("Initialized", "Running")]
            return any(c.get("reason") == "NameTaken" and c["status"] == "False" for c in said)

        await stage.until("a condition says so", is_said)
        assert stage.status(name)["phase"] == "Pending"
        assert stage.all_of(kind)[taken]["metadata"]["uid"] == found["metadata"]["uid"]
        assert stage.all_of(kind)[taken].get("data") == found.get("data")
        assert "ownerReferences" not in stage.all_of(kind)[taken]["metadata"]
        await stage.remove(kind, taken)
        await stage.until_running(name, 3)
        assert condition(stage.status(name), "Initialized")["status"] == "True"
        assert stage.children(kind, name)[taken]["metadata"]["uid"] != found["metadata"]["uid"]

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
        await stage.until_phase(name, "Succeeded")
        await stage.until("the job is gone", lambda: stage.job(name) is None)

    staging.play(act)


def test_a_job_that_runs_too_long_fails(staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        name = "late"
        policy = {"activeDeadlineSeconds": 2, "cleanUpPolicy": "All"}
        await stage.apply(pytorch(name, runPolicy=policy))
        await stage.until_running(name, 2)
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
        owned = {
            kind: set(stage.children(kind, name))
            for kind in ("Pod", "Service", "Secret", "ConfigMap", "PodGroup")
        }
        assert all(owned.values()), owned
        await stage.kubectl("delete", "mj", name)
        # The collector looks for kinds that are new to it only now and then.
        await stage.until(
            "nothing of it is left",
            lambda: not any(names & set(stage.all_of(kind)) for kind, names in owned.items()),
            deadline_seconds=60,
        )

    staging.play(act)


# The largest status


def worst_row(rank: int, words: str) -> ReplicaStatus:
    return ReplicaStatus(
        name=f"{'n' * 52}-worker-{rank:04}",
        uid="00000000-0000-0000-0000-000000000000",
        phase=ReplicaPhase.SUCCEEDED,
        containers=tuple(
            ContainerStatus(
                name=f"{'c' * 60}{n:03}",
                state=ContainerState.TERMINATED,
                exit_code=255,
                reason="ContainerCannotRun",
            )
            for n in range(CONTAINERS)
        ),
        attempt=NUMBER,
        restart_count=NUMBER,
        failures_in_a_row=NUMBER,
        last_failure=Failure(
            attempt=NUMBER, exit_code=255, reason="R" * 128, message=words, time=MOMENT
        ),
    )


def worst_status(replicas: int, words: str) -> JobStatus:
    """What the plan makes of a job that all went wrong in, at the greatest length."""
    roles = [Role(type="worker", replicas=replicas, template={}, place=(), main_container="c" * 63)]
    all_rows = tuple(worst_row(rank, words) for rank in range(replicas))
    tasks = fitting((TaskStatus(type="worker", status=all_rows),), roles)
    return JobStatus(
        phase=Phase.SUCCEEDED,
        tasks=tasks,
        aggregate=aggregate_of(tasks),
        completion_time=MOMENT,
        replicas=replicas,
    )


def worst_task_row(rank: int, words: str) -> RoleReplicaStatus:
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
        pod_name=f"{'n' * 58}-{rank:04}",
        pod_uid="00000000-0000-0000-0000-000000000000",
        pod_ip="ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        pod_host_ip="ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        container_name="c" * 63,
        container_id=f"containerd://{'0' * 64}",
        terminated_info=TerminatedInfo(
            exit_code=255, exit_message=words, signal=64, reason="R" * 128
        ),
    )
    return fitted(row, TASKSET_REPLICAS_MAX)


async def stored_size(stage: Stage, plural: str, status: msgspec.Struct, folder: Path) -> int:
    """Written through the real status endpoint; how long it comes back."""
    patch = folder / "status.json"
    patch.write_text(json.dumps({"status": msgspec.to_builtins(status)}))
    await stage.kubectl(
        *("patch", plural, "largest", "--subresource=status"),
        *("--type=merge", f"--patch-file={patch}"),
    )
    group = API_VERSION if plural == "genericjobs" else OCTOPUS
    path = f"/apis/{group}/namespaces/{stage.namespace}/{plural}/largest"
    answer = await stage.api.request("GET", path)
    # As the server spells it: what it escapes takes room too.
    bare = await stage.api.request("GET", path.replace("largest", "smallest"))
    return len(answer.text.encode()) - len(bare.text.encode())


@pytest.mark.parametrize(
    ("replicas", "letters"),
    [(REPLICAS_MAX, '"'), (1000, "<")],
)
def test_the_largest_status_fits(
    replicas: int, letters: str, staging: Staging, tmp_path: Path
) -> None:
    async def act(stage: Stage) -> None:
        # Paused, so that thousands of pods are not what this test waits for.
        pause = {"pause": {"enabled": True}}
        await stage.apply(generic("largest", replicas, runMode=pause))
        before = await stage.until_phase("largest", "Paused")
        assert before["aggregate"]["deleted"] == replicas
        await stage.apply(generic("smallest", 1, runMode=pause))
        await stage.until_phase("smallest", "Paused")
        status = worst_status(replicas, letters * MESSAGE_LENGTH_MAX)
        size = await stored_size(stage, "genericjobs", status, tmp_path)
        assert 200_000 < size < STATUS_BYTES_MAX

    staging.play(act)


def test_the_largest_status_of_a_taskset_fits(staging: Staging, tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        role = {"name": "r", "replicas": 1, "template": template()}
        for name in ("largest", "smallest"):
            await stage.apply({**job("TaskSet", name, roles=[role]), "apiVersion": OCTOPUS})
            await stage.until("it runs", lambda name=name: stage.status(name).get("startAt"))
        rows = tuple(worst_task_row(n, "<" * MESSAGE_LENGTH_MAX) for n in range(2000))
        status = TaskSetStatus(
            phase=TaskSetPhase.COMPLETED,
            state=TaskSetState.FAILED,
            role_status=(
                RoleStatus(
                    name="r",
                    phase=RolePhase.COMPLETED,
                    state=TaskSetState.FAILED,
                    replica_status=rows,
                ),
            ),
        )
        size = await stored_size(stage, "tasksets", status, tmp_path)
        assert 800_000 < size < STATUS_BYTES_MAX

    staging.play(act)
