"""The controller is killed without warning, again and again, while jobs run and restart.

New jobs come as the kills go on, so that every life of the controller has something to do. What
must hold in the end: every job ended as its pods did, every restart was counted exactly once,
and no attempt of a replica ran twice.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from rig.kube.api import ApiCaller
from rig.kube.kubelet import FakeKubelet
from rig.kube.plane import ControlPlane
from rig.kube.pod_life import Life
from rig.places import TESTS
from rig.selection import all_is_asked_for

# Each run kills at other moments than the last one.
KILLS = 100 if all_is_asked_for() else 40
OF_EACH_KIND = 4 if all_is_asked_for() else 2
# After the last of these no job comes any more; what it has to do lasts until the kills end.
LAST_JOB_AT = KILLS * 92 // 100
LATE = KILLS * 9 // 10
# So many more at most, until something was counted after the late ones.
MORE_KILLS = 100
# A life lasts for up to this, and for up to twice what it takes here to get something done.
LIFE_SECONDS = 0.8
DEADLINE_SECONDS = 240
ATTEMPT = "batch.tensorstack.dev/attempt"
PODS_BEFORE = "batch.tensorstack.dev/pods-before"
BATCH = "batch.tensorstack.dev/v1beta1"
OCTOPUS = "octopus.openi.pcl.cn/v1alpha1"
Json = dict[str, Any]


def template(container: str = "main") -> Json:
    return {"spec": {"containers": [{"name": container, "image": "busybox"}]}}


def job(kind: str, name: str, api_version: str = BATCH, **spec: Any) -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def generic(name: str) -> Json:
    policy = {"policy": "OnFailure", "limit": 3}
    worker = {"type": "worker", "replicas": 4, "restartPolicy": policy, "template": template()}
    return job("GenericJob", name, replicaSpecs=[worker])


def pytorch(name: str) -> Json:
    worker = {"type": "worker", "replicas": 3, "template": template()}
    return job("PyTorchTrainingJob", name, replicaSpecs=[worker], runPolicy={"backoffLimit": 9})


def mpi(name: str) -> Json:
    worker = {"replicas": 2, "cmd": ["./walk"], "template": template("mpi-worker")}
    return job("MPIJob", name, worker=worker)


def taskset(name: str) -> Json:
    """Its replicas are retried, one by one."""
    policy = {"retry": True, "delay": 0, "maxRetryCount": 3}
    role = {"name": "worker", "replicas": 3, "retryPolicy": policy, "template": template()}
    return job("TaskSet", name, OCTOPUS, roles=[role])


def retried(name: str) -> Json:
    """A TaskSet that is retried as a whole."""
    policy = {"retry": True, "delay": 1, "maxRetryCount": 3}
    role = {"name": "worker", "replicas": 2, "template": template()}
    return job("TaskSet", name, OCTOPUS, retryPolicy=policy, roles=[role])


MAKERS = (generic, pytorch, taskset, mpi, retried)


def path_of(kind: str, api_version: str, namespace: str) -> str:
    return f"/apis/{api_version}/namespaces/{namespace}/{kind.lower()}s"


PATHS = (
    ("GenericJob", BATCH),
    ("PyTorchTrainingJob", BATCH),
    ("MPIJob", BATCH),
    ("TaskSet", OCTOPUS),
)


@asynccontextmanager
async def reborn(kubeconfig: Path, namespace: str) -> AsyncIterator[asyncio.StreamReader]:
    """The pids of the controller's lives, one a line."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "rig.reborn",
        "controller",
        f"--kubeconfig={kubeconfig}",
        f"--namespace={namespace}",
        "--listen=127.0.0.1:0",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=TESTS,
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
        self.runs: Counter[tuple[str, str, str]] = Counter()
        self.failures: Counter[str] = Counter()

    def life(self, pod: Json) -> Life:
        """A replica fails a few times, then succeeds."""
        name, annotations = pod["metadata"]["name"], pod["metadata"]["annotations"]
        job, attempt = name.partition("-")[0], int(annotations[ATTEMPT])
        # A pod that was taken away is recreated as the same attempt.
        self.runs[name, annotations[ATTEMPT], annotations.get(PODS_BEFORE, "")] += 1
        rank = name.rpartition("-")[2]
        if job.startswith("mpi") or (job.startswith("pytorch") and rank == "0"):
            # Its end is the job's: it waits for the others, and for those who play with it.
            return Life(run_seconds=None)
        if job.startswith("retried"):
            # Of the attempts of the whole; one replica is enough to end them.
            attempt = int(name.split("-")[2])
            wanted = 2 if rank == "0" else 0
        else:
            wanted = self._fails.setdefault(f"{job}/{rank}", self._dice.randrange(4))
        if attempt < wanted:
            self.failures[job] += 1
            return Life(run_seconds=self._dice.random() / 4, exit_code=1)
        return Life(run_seconds=self._dice.random() / 4 if wanted or attempt else 0.25)


async def killed_once(
    lives: asyncio.StreamReader, dice: random.Random, life_seconds: float
) -> None:
    pid = int(await lives.readline())
    # A moment at random, from before its first call to the middle of its work.
    moment = asyncio.Event()
    try:
        async with asyncio.timeout(dice.random() * life_seconds):
            await moment.wait()
    except TimeoutError:
        os.kill(pid, signal.SIGKILL)


def has_ended(status: Json) -> bool:
    return status.get("phase") in ("Succeeded", "Failed", "TaskSetCompleted")


def waits_for_master(status: Json) -> bool:
    return bool(status.get("aggregate", {}).get("succeeded") == 2)


def restarts_in(status: Json) -> int:
    """Of replicas, and of TaskSets as a whole.

    Of each replica: what those of a collective use up together is less.
    """
    rows = [row for role in status.get("roleStatus", ()) for row in role["replicaStatus"]]
    counts = [
        *(task["restartCount"] for task in status.get("tasks", ())),
        *(each.get("totalRetriedCount", 0) for each in (status, *rows)),
    ]
    return sum(map(int, counts))


class Yard:
    """The jobs of this test, as the API server has them."""

    def __init__(self, api: ApiCaller, namespace: str, kubelet: FakeKubelet) -> None:
        self._api = api
        self._namespace = namespace
        self._kubelet = kubelet
        self.names: list[str] = []

    async def add(self, manifest: Json) -> None:
        path = path_of(manifest["kind"], manifest["apiVersion"], self._namespace)
        answer = await self._api.request("POST", path, body=manifest)
        assert answer.status == 201, answer.text
        self.names.append(manifest["metadata"]["name"])

    async def restarts(self) -> int:
        """All that were counted so far."""
        total = 0
        for kind, api_version in PATHS:
            path = path_of(kind, api_version, self._namespace)
            answer = await self._api.request("GET", path)
            total += sum(restarts_in(item.get("status", {})) for item in answer.body["items"])
        return total

    async def when(
        self, names: Iterable[str], kind: str, api_version: str, holds: Callable[[Json], bool]
    ) -> dict[str, Json]:
        """The status of each of these jobs of one kind, once it holds of all."""
        wanted, found = set(names), dict[str, Json]()
        path = path_of(kind, api_version, self._namespace)
        watch = self._api.watch(path, deadline_seconds=DEADLINE_SECONDS)
        async with aclosing(watch) as events:
            async for event in events:
                name, status = event["object"]["metadata"]["name"], event["object"].get("status")
                if name in wanted and holds(status or {}):
                    found[name] = status
                if set(found) == wanted:
                    return found
        raise AssertionError(f"{path}: it holds only of {sorted(found)}")

    async def first_life(self, lives: asyncio.StreamReader) -> float:
        """How many seconds a life takes here until it has written of a job; then it is killed."""
        pid = int(await lives.readline())
        began = time.monotonic()
        await self.when(self.names, "GenericJob", BATCH, bool)
        os.kill(pid, signal.SIGKILL)
        return time.monotonic() - began

    async def disturb(self, name: str) -> None:
        """One worker of an MPIJob is evicted, so that the whole gang is recreated."""
        await self.when([name], "MPIJob", BATCH, all_run)
        await self._kubelet.evict(f"{name}-worker-1")

    async def ends(self) -> dict[str, Json]:
        """Lets the jobs end whose end is in our hand; the statuses of all of them."""
        masters = [name for name in self.names if name.startswith("pytorch")]
        for name in await self.when(masters, "PyTorchTrainingJob", BATCH, waits_for_master):
            await self._kubelet.finish(f"{name}-worker-0")
        gangs = [name for name in self.names if name.startswith("mpi")]
        for name in await self.when(gangs, "MPIJob", BATCH, is_remade):
            await self._kubelet.finish(f"{name}-launcher")
        statuses: dict[str, Json] = {}
        for kind, api_version in PATHS:
            prefixes = [m.__name__ for m in MAKERS if m("x")["kind"] == kind]
            names = [name for name in self.names if name.rstrip("0123456789") in prefixes]
            statuses |= await self.when(names, kind, api_version, has_ended)
        return statuses


def all_run(status: Json) -> bool:
    return bool(status.get("aggregate", {}).get("running") == 3)


def is_remade(status: Json) -> bool:
    """All of the gang run, and each is the second pod of its replica."""
    rows = [row for task in status.get("tasks", ()) for row in task["status"]]
    return bool(rows) and all(
        row["phase"] == "Running" and row.get("podsBefore") == 1 for row in rows
    )


@pytest.mark.long
def test_counts_stay_exact_when_the_controller_is_killed_at_random_moments(
    control_plane: ControlPlane, namespace: str, crds: None
) -> None:
    dice = random.Random(int(os.environ["JOBYARD_SEED"]))
    played = Played(dice)
    jobs = [make(f"{make.__name__}{n}") for n in range(OF_EACH_KIND) for make in MAKERS]
    # When each of them comes, by the number of kills before it.
    arrivals = [n * LAST_JOB_AT // (len(jobs) - 1) for n in range(len(jobs))]
    counts: list[int] = []

    async def scenario() -> dict[str, Json]:
        async with (
            ApiCaller(control_plane) as api,
            FakeKubelet(control_plane, namespace=namespace, script=played.life) as kubelet,
            reborn(control_plane.kubeconfig, namespace) as lives,
            asyncio.TaskGroup() as others,
        ):
            yard = Yard(api, namespace, kubelet)
            life_seconds = LIFE_SECONDS
            for kill in range(KILLS + MORE_KILLS):
                for manifest in (m for m, at in zip(jobs, arrivals, strict=True) if at == kill):
                    await yard.add(manifest)
                    if manifest["kind"] == "MPIJob":
                        others.create_task(yard.disturb(manifest["metadata"]["name"]))
                if kill == LATE:
                    counts.append(await yard.restarts())
                if kill == 0:
                    life_seconds = max(LIFE_SECONDS, 2 * await yard.first_life(lives))
                    continue
                await killed_once(lives, dice, life_seconds)
                if kill + 1 >= KILLS and await yard.restarts() > counts[0]:
                    break
            counts.append(await yard.restarts())
            return await yard.ends()

    statuses = asyncio.run(scenario())
    late, last = counts
    assert 0 < late < last, f"nothing was left to count for the last kills: {counts}"
    assert set(statuses) == {manifest["metadata"]["name"] for manifest in jobs}
    assert {run: count for run, count in played.runs.items() if count > 1} == {}
    for name, status in statuses.items():
        if "state" in status:
            assert status["state"] == "Succeeded", status
        else:
            assert status["phase"] == "Succeeded", status
        assert restarts_in(status) == played.failures[name], status
