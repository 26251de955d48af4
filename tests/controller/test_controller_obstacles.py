"""What stands in a job's way and goes away again: full namespaces, keys that somebody deleted."""

from __future__ import annotations

import asyncio

import pytest
from rig.kube.kubectl import Kubectl
from rig.kube.plane import ControlPlane

from controller.controller_stage import COLLECTED_SECONDS, Json, Stage, Staging, condition

API_VERSION = "batch.tensorstack.dev/v1beta1"
# The caller of the tests sends all in one piece, and that is what is wanted here.
LARGE = pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")


@pytest.fixture
def staging(control_plane: ControlPlane, namespace: str, kubectl: Kubectl, crds: None) -> Staging:
    return Staging(control_plane, namespace, kubectl)


def template(container: str) -> Json:
    return {"spec": {"containers": [{"name": container, "image": "i", "command": ["train"]}]}}


def job(kind: str, **spec: object) -> Json:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": "job"}, "spec": spec}


def test_a_full_namespace_keeps_what_was_made_and_the_rest_comes_later(staging: Staging) -> None:
    """Of four pods three fit: they stay, and the fourth comes once there is room."""

    async def act(stage: Stage) -> None:
        await stage.kubectl("create", "quota", "small", "--hard=pods=3")
        # The quota counts from when a controller of Kubernetes has looked at it.
        async with asyncio.timeout(60):
            while "pods" not in await stage.kubectl(
                "get", "quota", "small", "-o=jsonpath={.status.used}"
            ):
                pass
        workers = {"type": "worker", "replicas": 4, "template": template("main")}
        await stage.apply(job("GenericJob", replicaSpecs=[workers]))
        await stage.until_condition("job", "Running", "False", "QuotaExceeded")
        told = await stage.until_told("job", "QuotaExceeded", "exceeded quota: small")
        assert told.type == "Warning"
        said = await stage.until_condition("job", "Initialized", "False", "QuotaExceeded")
        assert "exceeded quota: small" in said["message"]
        await stage.until("three of them are there", lambda: len(stage.pods("job")) == 3)
        before = stage.uids("job")
        await stage.kubectl("delete", "quota", "small")
        await stage.until("the fourth comes", lambda: len(stage.pods("job")) == 4)
        assert stage.uids("job").items() >= before.items()
        await stage.until_condition("job", "Initialized", "True", "-")

    staging.play(act)


def test_keys_that_somebody_deleted_are_there_again_when_the_job_goes_on(staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        worker = {"replicas": 1, "cmd": ["walk"], "template": template("mpi-worker")}
        await stage.apply(job("MPIJob", worker=worker))
        await stage.until_pods("job", "launcher", "worker-0")
        (name,) = await stage.until("the keys", lambda: list(stage.children("Secret", "job")))
        await stage.pause("job")
        await stage.until_phase("job", "Paused")
        await stage.until("no pod is left", lambda: not stage.pods("job"))
        await stage.remove("Secret", name)
        await stage.until("the keys are gone", lambda: not stage.children("Secret", "job"))
        await stage.pause("job", enabled=False)
        await stage.until_pods("job", "launcher", "worker-0")
        await stage.until(
            "the keys are there", lambda: set(stage.children("Secret", "job")) == {name}
        )

    staging.play(act)


def test_a_job_made_again_waits_for_the_pods_of_the_one_before(staging: Staging) -> None:
    """Who collects what the first one has left takes its time; nobody has to be told."""

    async def act(stage: Stage) -> None:
        owner = {"apiVersion": API_VERSION, "kind": "GenericJob", "name": "job", "uid": "before"}
        old: Json = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "job-worker-0",
                "ownerReferences": [{**owner, "controller": True}],
            },
            "spec": {"containers": [{"name": "main", "image": "i"}], "schedulerName": "nobody"},
        }
        await stage.make("Pod", old)
        workers = {"type": "worker", "replicas": 2, "template": template("main")}
        await stage.apply(job("GenericJob", replicaSpecs=[workers]))
        await stage.until(
            "its own pods are there",
            lambda: set(stage.pods("job")) == {"job-worker-0", "job-worker-1"},
            COLLECTED_SECONDS,
        )
        assert "NameTaken" not in stage.reasons("job")
        said = [condition(status, "Initialized") for status in stage.statuses("job")]
        assert "False" not in {each["status"] for each in said}

    staging.play(act)


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        pytest.param(14, "etcdserver: request is too large", id="than etcd stores"),
        pytest.param(30, "and an API server takes 3145728", id="than an API server reads"),
    ],
)
def test_pods_that_grow_too_large_are_told_of(staging: Staging, texts: int, words: str) -> None:
    """The job itself is small: its variables stand for longer words."""

    async def act(stage: Stage) -> None:
        type_ = "t" * 48
        pod = template("main")
        pod["spec"]["containers"][0]["args"] = ["$(type)" * 2700] * texts
        workers = {"type": type_, "replicas": 3, "template": pod}
        await stage.create(job("GenericJob", replicaSpecs=[workers]))
        found = await stage.until_condition("job", "Initialized", "False", "InvalidTemplate")
        assert words in found["message"]
        await stage.until_told("job", "InvalidTemplate", words)
        assert stage.pods("job") == {}
        # It stays so, however often it is tried, until the job is changed.
        told = [each for each in stage.statuses("job") if condition(each, "Initialized")]
        assert [condition(each, "Initialized")["status"] for each in told[-2:]].count("True") <= 1

    staging.play(act)


@LARGE
def test_a_refusal_that_quotes_a_megabyte_is_told_in_short_and_logged_without_it(
    staging: Staging,
) -> None:
    async def act(stage: Stage) -> None:
        secret = "s3cret-value "
        pod = template("main")
        pod["spec"]["containers"][0]["env"] = [{"name": f"A={secret * 60_000}", "value": "x"}]
        workers = {"type": "worker", "replicas": 1, "template": pod}
        await stage.create(job("GenericJob", replicaSpecs=[workers]))
        found = await stage.until_condition("job", "Initialized", "False", "InvalidTemplate")
        assert len(found["message"]) <= 1000
        lines = [str(line) for line in stage.controller.lines if "422" in str(line)]
        assert lines
        assert "spec.containers[0].env" in lines[0]
        assert not [line for line in stage.controller.lines if secret.strip() in str(line)]

    staging.play(act)


@LARGE
def test_a_pod_that_is_long_as_json_stops_no_watch(staging: Staging) -> None:
    """etcd has a byte for a "<", and an API server six: it is the longest line of a watch."""

    async def act(stage: Stage) -> None:
        environment = [{"name": "A", "value": "<" * 1_200_000}]
        stranger: Json = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "long", "labels": {"app.kubernetes.io/managed-by": "jobyard"}},
            "spec": {
                "containers": [{"name": "main", "image": "i", "env": environment}],
                "schedulerName": "nobody",
            },
        }
        await stage.make("Pod", stranger)
        workers = {"type": "worker", "replicas": 1, "template": template("main")}
        await stage.apply(job("GenericJob", replicaSpecs=[workers]))
        # What its watch tells after that pod is still heard.
        await stage.until_running("job", 1)
        assert not [line for line in stage.controller.lines if "longer than" in str(line)]

    staging.play(act, ignored_schedulers=frozenset({"nobody"}))


def test_a_pod_that_cannot_start_says_why_for_as_long_as_that_lasts(staging: Staging) -> None:
    """A claim, a secret or a folder that is missing stands in no pod, only in its events."""
    said = 'MountVolume.SetUp failed for volume "data" : secret "keys" not found'

    async def act(stage: Stage) -> None:
        workers = {"type": "worker", "replicas": 1, "template": template("main")}
        await stage.apply(job("GenericJob", replicaSpecs=[workers]))
        await stage.kubelet.bind("job-worker-0")
        await stage.until_pods("job", "worker-0")
        about = {"apiVersion": "v1", "kind": "Pod", "name": "job-worker-0"}
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "job-worker-0.1"},
            "involvedObject": {
                **about,
                "namespace": stage.namespace,
                "uid": stage.uids("job")["job-worker-0"],
            },
            "reason": "FailedMount",
            "message": said,
            "type": "Warning",
        }
        path = f"/api/v1/namespaces/{stage.namespace}/events"
        answer = await stage.api.request("POST", path, body=event)
        assert answer.status == 201, answer.text

        def told() -> bool:
            message = condition(stage.status("job"), "Running").get("message", "")
            return f"worker-0: FailedMount: {said}" in message

        await stage.until("the condition tells it", told)
        assert stage.status("job")["tasks"][0]["status"][0]["reason"] == "FailedMount"
        await stage.kubelet.running("job-worker-0")
        status = await stage.until_running("job", 1)
        assert "reason" not in status["tasks"][0]["status"][0]
        assert not told()

    staging.play(act, start=False)
