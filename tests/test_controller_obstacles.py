"""What stands in a job's way and goes away again: full namespaces, keys that somebody deleted."""

from __future__ import annotations

import asyncio

import pytest
from controller_stage import Json, Stage, Staging, condition
from rig.kubectl import Kubectl
from rig.plane import ControlPlane

API_VERSION = "batch.tensorstack.dev/v1beta1"


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
        assert condition(stage.status("job"), "Initialized")["status"] == "True"
        await stage.until("three of them are there", lambda: len(stage.pods("job")) == 3)
        before = stage.uids("job")
        await stage.kubectl("delete", "quota", "small")
        await stage.until("the fourth comes", lambda: len(stage.pods("job")) == 4)
        assert stage.uids("job").items() >= before.items()

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
