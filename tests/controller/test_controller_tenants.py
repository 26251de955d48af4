"""Tenants of one cluster, of whom some mean no good: what one does is no other's trouble.

The controller is a process with the permissions that `jobyard install` prints and the memory that
it asks for. All the while that somebody tries to stop it, jobs of another namespace run to their
end, and at the end it is still the same process.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from rig.kube.kubelet import FakeKubelet
from rig.kube.pod_life import Life, Pod
from rig.selection import all_is_asked_for
from rig.waiting import until

from controller.hostile_objects import ANSWERS, as_text, beam_of, hostile_jobs, hostile_others
from controller.tenant_stage import (
    Answering,
    Cluster,
    TokenCaller,
    all_job_kinds,
    cluster,
    ended,
    own_address,
    path_of,
    program,
)

Json = dict[str, Any]
SEED = int(os.environ.get("JOBYARD_SEED", "1"))
API_VERSION = "batch.tensorstack.dev/v1beta1"
# A busy machine takes its time; somebody who is starved waits for minutes, or for ever.
QUIET_SECONDS = 120
DONE_SECONDS = 600
NOBODY = "nobody-schedules-this"


def small_job(name: str) -> Json:
    container = {"name": "main", "image": "i", "command": ["true"]}
    worker = {"type": "worker", "replicas": 2, "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": API_VERSION,
        "kind": "GenericJob",
        "metadata": {"name": name},
        "spec": {"replicaSpecs": [worker]},
    }


class Quiet:
    """A tenant whose jobs come one after the other, and how long each took."""

    def __init__(self, stage: Cluster, namespace: str) -> None:
        self._stage = stage
        self._namespace = namespace
        self.seconds: list[float] = []
        self._ended = asyncio.Event()

    async def one(self) -> float:
        """One job, from its creation to its end."""
        name = f"quiet-{len(self.seconds)}"
        begun = time.monotonic()
        path = path_of(small_job(name), self._namespace)
        answer = await self._stage.api.request("POST", path, body=small_job(name))
        assert answer.status == 201, answer.text
        try:
            phase = await ended(self._stage.api, self._namespace, name, QUIET_SECONDS)
        except TimeoutError:
            raise AssertionError(f"{name} didn't end: {await self._story(name)}") from None
        assert phase == "Succeeded"
        self.seconds.append(time.monotonic() - begun)
        return self.seconds[-1]

    async def _story(self, name: str) -> str:
        """Who it is that keeps it waiting: the controller, or what isn't tested here."""
        job = await self._stage.api.request("GET", f"{path_of(small_job(name), 'b')}/{name}")
        pods = await self._stage.api.request(
            "GET", "/api/v1/namespaces/b/pods", query={"labelSelector": f"genericjob={name}"}
        )
        return "\n".join(
            [
                f"the controller {'lives' if self._stage.is_alive else 'has ended'}",
                f"the job is of {job.body['metadata']['creationTimestamp']}",
                str(job.body.get("status")),
                *(
                    f"{p['metadata']['creationTimestamp']} {p['status']}"
                    for p in pods.body["items"]
                ),
                *map(str, self._stage.process.lines[-5:]),
                f"those before took {self.seconds}",
            ]
        )

    async def for_ever(self) -> None:
        while True:
            await self.one()
            self._ended.set()
            self._ended = asyncio.Event()

    async def next_end(self) -> None:
        await self._ended.wait()


def life(pod: Json) -> Life:
    """What serves runs; what submits a BeamJob's program runs too; the rest ends at once."""
    name = pod["metadata"]["name"]
    if "flinkcluster" in name or "sparkcluster" in name or "batchjob" in name:
        return Life(run_seconds=None)
    if pod["metadata"]["namespace"] == "a" and "launcher" not in name:
        return Life(run_seconds=0.0, exit_code=len(name) % 3)
    return Life(run_seconds=0.0)


def address(pod: Pod) -> str:
    """Pods that a BeamJob asks are where a test's own program listens."""
    return own_address() if "jobmanager" in pod.metadata.name else ""


@asynccontextmanager
async def tenants(folder: Path) -> AsyncIterator[tuple[Cluster, Quiet]]:
    """The cluster with its controller, nodes, and the quiet tenant of namespace b."""
    async with AsyncExitStack() as stack:
        stage = await stack.enter_async_context(cluster(folder))
        await stage.tenant("b", **all_job_kinds())
        # One for each: on whose nodes the quiet one's pods are isn't what is tested.
        for namespace in ("a", "b"):
            kubelet = FakeKubelet(
                stage.plane,
                namespace=namespace,
                script=life,
                pod_address=address,
                ignored_schedulers=frozenset({NOBODY}),
            )
            await stack.enter_async_context(kubelet)
        await stage.start_controller()
        yield stage, Quiet(stage, "b")


async def made(caller: TokenCaller, namespace: str, job: Json, taken: Counter[int]) -> None:
    job["metadata"].pop("namespace", None)
    status, said = await caller.post(path_of(job, namespace), as_text(job))
    assert status in (201, 400, 409, 413, 422, 500), said[:500]
    taken[status] += 1


def noticed(answer: Answering, asked: asyncio.Event) -> Answering:
    """The same answer, and the news that somebody asked for it."""

    async def told(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await answer(reader, writer)

    return told


async def all_tried(stage: Cluster, quiet: Quiet) -> Counter[int]:
    """What the API server said to each, by status."""
    dice = random.Random(SEED)
    taken = Counter[int]()
    mallory = await stage.tenant("a", **all_job_kinds())
    trudy = await stage.tenant("c", core=["pods", "configmaps"], **all_job_kinds())
    async with AsyncExitStack() as programs:
        asked = [asyncio.Event() for _ in ANSWERS]
        ports = [
            await programs.enter_async_context(program(noticed(*each)))
            for each in zip(ANSWERS, asked, strict=True)
        ]
        # Seventeen of the first, which dribbles, and one of each other.
        for n, port in enumerate([ports[0]] * 17 + ports[1:]):
            await made(mallory, "a", beam_of(f"page-{n}", port), taken)
        for job in hostile_jobs(dice):
            await made(mallory, "a", job, taken)
        for obj in hostile_others(dice):
            await made(trudy, "c", obj, taken)
        # Not before their pods run, which takes longer than to make the rest.
        async with asyncio.timeout(DONE_SECONDS):
            for event in asked:
                await event.wait()
        # All of it is there; and stays, while the others go on.
        wanted = len(quiet.seconds) + 5
        while len(quiet.seconds) < wanted:
            await quiet.next_end()
    return taken


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
def test_no_tenant_stops_or_starves_the_controller(tmp_path: Path) -> None:
    async def scene() -> None:
        async with tenants(tmp_path) as (stage, quiet):
            pid = stage.process.process.pid
            async with asyncio.TaskGroup() as group:
                going_on = group.create_task(quiet.for_ever())
                taken = await all_tried(stage, quiet)
                going_on.cancel()
            print(f"answers {taken}; jobs took {quiet.seconds}; {stage.peak_mb:.0f} MB at most")
            assert sum(taken.values()) >= 17 + 4 + 30
            assert taken[201] >= 40, taken
            assert stage.is_alive
            assert stage.process.process.pid == pid

    asyncio.run(scene())


def large_job(name: str, replicas: int) -> Json:
    job = small_job(name)
    job["spec"]["replicaSpecs"][0]["replicas"] = replicas
    job["spec"]["replicaSpecs"][0]["template"]["spec"]["schedulerName"] = NOBODY
    return job


# Of pods that have a tenth of a megabyte each, and are counted again and again.
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


async def pod_count(stage: Cluster, namespace: str) -> int:
    answer = await stage.api.request(
        "GET", f"/api/v1/namespaces/{namespace}/pods", query={"limit": "1"}, accept=METADATA_ONLY
    )
    listed = answer.body
    # Without any it is null there.
    return len(listed["items"] or ()) + int(listed["metadata"].get("remainingItemCount", 0))


def test_a_namespace_with_much_to_do_leaves_others_their_turns(tmp_path: Path) -> None:
    """Told by order and not by time: the quiet one's job is over long before all of theirs began.

    Theirs are two jobs of thousands of pods, and many small ones that were there first.
    """

    async def scene() -> None:
        async with tenants(tmp_path) as (stage, quiet):
            await stage.tenant("a", **all_job_kinds())
            await quiet.one()
            theirs = [
                *(large_job(f"large-{n}", 1500) for n in range(2)),
                *(large_job(f"small-{n}", 5) for n in range(150)),
            ]
            wanted = 2 * 1500 + 150 * 5
            for job in theirs:
                answer = await stage.api.request("POST", path_of(job, "a"), body=job)
                assert answer.status == 201, answer.text
            seconds = await quiet.one()
            there = await pod_count(stage, "a")
            print(f"after {seconds:.1f} s {there} of {wanted} pods are there")
            assert there < wanted * 0.6

            async def all_there() -> bool:
                return await pod_count(stage, "a") == wanted

            # Nor are theirs forgotten.
            async with asyncio.timeout(DONE_SECONDS):
                await until(all_there)

    asyncio.run(scene())


# Enough that the controller couldn't hold all pods, requests and answers of it at once, as it did;
# or in a run of everything the largest job that there can be, with all of TF_CONFIG in each.
IS_LARGEST = all_is_asked_for()
WORKERS, NAME = (4717, "job") if IS_LARGEST else (600, "n" * 51)
# It takes 69 MB for the smaller one.
TIGHT_BYTES = (160 if IS_LARGEST else 112) * 2**20


@pytest.mark.long
def test_a_large_tensorflow_job_takes_little_memory(tmp_path: Path) -> None:
    """Made, and taken away again: each of its pods names all others."""
    container = {"name": "tensorflow", "image": "i"}
    pod = {"containers": [container], "schedulerName": NOBODY}
    worker = {"type": "worker", "replicas": WORKERS, "template": {"spec": pod}}
    job = {
        "apiVersion": API_VERSION,
        "kind": "TensorFlowTrainingJob",
        "metadata": {"name": NAME},
        "spec": {"replicaSpecs": [worker]},
    }

    async def scene() -> None:
        async with cluster(tmp_path, memory_bytes=TIGHT_BYTES) as stage:
            await stage.start_controller()
            await stage.tenant("a", **all_job_kinds())
            path = path_of(job, "a")
            answer = await stage.api.request("POST", path, body=job)
            assert answer.status == 201, answer.text

            async def are_there(count: int) -> bool:
                assert stage.is_alive, stage.process.lines[-3:]
                return await pod_count(stage, "a") == count

            async with asyncio.timeout(DONE_SECONDS):
                await until(lambda: are_there(WORKERS))
            made_mb = stage.peak_mb
            pause = {"spec": {"runMode": {"pause": {"enabled": True}}}}
            merge = "application/merge-patch+json"
            await stage.api.request("PATCH", f"{path}/{NAME}", body=pause, content_type=merge)
            async with asyncio.timeout(DONE_SECONDS):
                await until(lambda: are_there(0))
            print(f"{WORKERS} pods: {made_mb:.0f} MB to make them, {stage.peak_mb:.0f} MB in all")

    asyncio.run(scene())
