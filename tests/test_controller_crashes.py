"""The controller is killed without warning, again and again, while jobs run and restart.

What must hold in the end: every job ended as its pods did, every restart was counted exactly
once, and no attempt of a replica ran twice.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

from rig.api import ApiCaller
from rig.kubelet import FakeKubelet
from rig.plane import ControlPlane
from rig.pod_life import Life

KILLS = 100
OF_EACH_KIND = 5
DEADLINE_SECONDS = 240
ATTEMPT = "batch.tensorstack.dev/attempt"
BATCH = "batch.tensorstack.dev/v1beta1"
CONTAINER = {"name": "main", "image": "busybox"}
TEMPLATE = {"spec": {"containers": [CONTAINER]}}


def generic(name: str) -> dict[str, Any]:
    worker = {
        "type": "worker",
        "replicas": 4,
        "restartPolicy": {"policy": "OnFailure", "limit": 3},
        "template": TEMPLATE,
    }
    return {
        "apiVersion": BATCH,
        "kind": "GenericJob",
        "metadata": {"name": name},
        "spec": {"replicaSpecs": [worker]},
    }


def pytorch(name: str) -> dict[str, Any]:
    worker = {"type": "worker", "replicas": 3, "template": TEMPLATE}
    return {
        "apiVersion": BATCH,
        "kind": "PyTorchTrainingJob",
        "metadata": {"name": name},
        "spec": {"replicaSpecs": [worker], "runPolicy": {"backoffLimit": 9}},
    }


def taskset(name: str) -> dict[str, Any]:
    role = {
        "name": "worker",
        "replicas": 3,
        "retryPolicy": {"retry": True, "delay": 0, "maxRetryCount": 3},
        "template": TEMPLATE,
    }
    return {
        "apiVersion": "octopus.openi.pcl.cn/v1alpha1",
        "kind": "TaskSet",
        "metadata": {"name": name},
        "spec": {"roles": [role]},
    }


def path_of(job: dict[str, Any], namespace: str) -> str:
    return f"/apis/{job['apiVersion']}/namespaces/{namespace}/{job['kind'].lower()}s"


@asynccontextmanager
async def reborn(kubeconfig: Path, namespace: str) -> AsyncIterator[asyncio.StreamReader]:
    """The pids of the controller's lives, one a line."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "rig.reborn",
        f"--kubeconfig={kubeconfig}",
        f"--namespace={namespace}",
        "--listen=127.0.0.1:0",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=Path(__file__).parent,
    )
    assert process.stdout is not None
    try:
        yield process.stdout
    finally:
        process.kill()
        await process.wait()


class Played:
    """What the pods did: how often each attempt ran, and how many failed."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._fails: dict[str, int] = {}
        self.runs: Counter[tuple[str, str]] = Counter()
        self.failures: Counter[str] = Counter()

    def life(self, pod: dict[str, Any]) -> Life:
        """A replica fails a few times, then succeeds."""
        name, annotations = pod["metadata"]["name"], pod["metadata"]["annotations"]
        job, attempt = name.partition("-")[0], annotations[ATTEMPT]
        self.runs[name, attempt] += 1
        replica = f"{job}/{name.rpartition('-')[2]}"
        wanted = self._fails.setdefault(replica, self._dice.randrange(4))
        if name.startswith("pytorch") and replica.endswith("/0"):
            # The master's end is the job's: it waits for the others.
            return Life(run_seconds=None)
        if int(attempt) < wanted:
            self.failures[job] += 1
            return Life(run_seconds=self._dice.random() / 4, exit_code=1)
        return Life(run_seconds=self._dice.random() / 4)


async def kill_often(lives: asyncio.StreamReader, dice: random.Random) -> None:
    for _ in range(KILLS):
        pid = int(await lives.readline())
        # A moment at random, from before its first call to the middle of its work.
        moment = asyncio.Event()
        try:
            async with asyncio.timeout(dice.random() * 0.8):
                await moment.wait()
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)


def has_ended(status: dict[str, Any]) -> bool:
    return status.get("phase") in ("Succeeded", "Failed", "TaskSetCompleted")


def waits_for_master(status: dict[str, Any]) -> bool:
    return bool(status.get("aggregate", {}).get("succeeded") == 2)


async def statuses_when(
    api: ApiCaller, path: str, holds: Callable[[dict[str, Any]], bool]
) -> dict[str, dict[str, Any]]:
    """The status of each of the jobs of a kind, once it holds of all."""
    statuses: dict[str, dict[str, Any]] = {}
    watch = api.watch(path, deadline_seconds=DEADLINE_SECONDS)
    async with aclosing(watch) as events:
        async for event in events:
            status = event["object"].get("status", {})
            if holds(status):
                statuses[event["object"]["metadata"]["name"]] = status
            if len(statuses) == OF_EACH_KIND:
                return statuses
    raise AssertionError(f"{path}: it holds only of {sorted(statuses)}")


def test_counts_stay_exact_when_the_controller_is_killed_at_100_random_moments(
    control_plane: ControlPlane, namespace: str, crds: None
) -> None:
    dice = random.Random(int(os.environ["JOBYARD_SEED"]))
    played = Played(dice)
    jobs = [
        make(f"{make.__name__}{n}")
        for n in range(OF_EACH_KIND)
        for make in (generic, pytorch, taskset)
    ]

    async def scenario() -> dict[str, dict[str, Any]]:
        async with (
            ApiCaller(control_plane) as api,
            FakeKubelet(control_plane, namespace=namespace, script=played.life) as kubelet,
            reborn(control_plane.kubeconfig, namespace) as lives,
        ):
            for job in jobs:
                answer = await api.request("POST", path_of(job, namespace), body=job)
                assert answer.status == 201, answer.text
            await kill_often(lives, dice)
            for name in await statuses_when(api, path_of(pytorch(""), namespace), waits_for_master):
                await kubelet.finish(f"{name}-worker-0")
            statuses: dict[str, dict[str, Any]] = {}
            for path in {path_of(job, namespace) for job in jobs}:
                statuses |= await statuses_when(api, path, has_ended)
            return statuses

    statuses = asyncio.run(scenario())
    assert {name: count for name, count in played.runs.items() if count > 1} == {}
    for name, status in statuses.items():
        if name.startswith("taskset"):
            rows = [row for role in status["roleStatus"] for row in role["replicaStatus"]]
            assert status["state"] == "Succeeded", status
            assert sum(row.get("totalRetriedCount", 0) for row in rows) == played.failures[name]
        else:
            assert status["phase"] == "Succeeded", status
            assert status["restarts"] == played.failures[name], status
