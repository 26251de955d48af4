"""The controller beside Kubernetes' own Job controller, on one API server, in one run.

python bench/engine.py [--sizes 100,1000,5000] [--jobs 1000] [--rounds 1] [--before FOLDER]

For each size one job of that many replicas, by Jobyard (GenericJob) and by the built-in
controller (an Indexed Job, its client limits lifted), in turn: seconds from creating the job
until all its pods are made, CPU seconds and memory of the controller's process, and requests
to the API server meanwhile. Then many jobs of four replicas, all created at once and run to
their end by fake nodes. With several rounds the medians are told. With --before another clone
of this project (set up) runs in turn with this one: machines change their speed by the minute,
so only what ran side by side can be compared. It starts a control plane of its own (`make kube`
gets the programs).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tools")]

from rig.kube.api import ApiCaller  # noqa: E402
from rig.kube.binaries import find_binaries  # noqa: E402
from rig.kube.control_plane import Parts, running  # noqa: E402
from rig.kube.jobyard_controller import JOBYARD, running_controller  # noqa: E402
from rig.kube.kubelet import FakeKubelet  # noqa: E402
from rig.kube.plane import ControlPlane  # noqa: E402
from rig.kube.pod_life import Life  # noqa: E402

from jobyard.api.crd import crd  # noqa: E402
from jobyard.api.kinds import KINDS  # noqa: E402

DEADLINE_SECONDS = 600
OURS, BEFORE, THEIRS = "jobyard", "before", "built-in"
TICKS = os.sysconf("SC_CLK_TCK")
CONTAINER = {"name": "main", "image": "busybox", "command": ["true"]}


@dataclass(frozen=True)
class Cost:
    """What one run took."""

    seconds: float
    cpu_seconds: float
    memory_mb: float
    requests: float
    status_writes: float


Costs = dict[str, Cost]


@dataclass(frozen=True)
class Course:
    """Who runs, how often, and which Jobyard each of ours is."""

    rounds: int
    programs: dict[str, Path]

    @property
    def runners(self) -> tuple[str, ...]:
        return (*self.programs, THEIRS)


def ours(name: str, replicas: int) -> tuple[str, dict[str, Any]]:
    return "/apis/batch.tensorstack.dev/v1beta1/namespaces/{}/genericjobs", {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "GenericJob",
        "metadata": {"name": name},
        "spec": {
            "replicaSpecs": [
                {
                    "type": "worker",
                    "replicas": replicas,
                    "template": {"spec": {"containers": [CONTAINER]}},
                }
            ]
        },
    }


def theirs(name: str, replicas: int) -> tuple[str, dict[str, Any]]:
    return "/apis/batch/v1/namespaces/{}/jobs", {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completionMode": "Indexed",
            "completions": replicas,
            "parallelism": replicas,
            "template": {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}},
        },
    }


MAKERS: dict[str, Callable[[str, int], tuple[str, dict[str, Any]]]] = {
    OURS: ours,
    BEFORE: ours,
    THEIRS: theirs,
}


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory_mb(pid: int) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", text)
    assert found is not None
    return int(found[1]) / 1024


async def request_counts(api: ApiCaller) -> tuple[int, int]:
    """All requests so far but watches, and writes of a status of jobs."""
    text = (await api.request("GET", "/metrics")).text
    total = writes = 0
    for line in text.splitlines():
        if not line.startswith("apiserver_request_total{") or 'verb="WATCH"' in line:
            continue
        count = int(float(line.rpartition(" ")[2]))
        total += count
        is_job = 'resource="genericjobs"' in line or 'resource="jobs"' in line
        if 'subresource="status"' in line and is_job:
            writes += count
    return total, writes


async def seen_so_many(
    api: ApiCaller, path: str, wanted: int, counts: Callable[[dict[str, Any]], bool]
) -> None:
    """Until so many objects below `path` have been such that `counts`."""
    names: set[str] = set()
    async with asyncio.timeout(DEADLINE_SECONDS):
        while len(names) < wanted:
            # A server drops a watch that reads too slowly: it begins anew, with what there is.
            watch = api.watch(path, deadline_seconds=DEADLINE_SECONDS)
            async with contextlib.aclosing(watch) as events:
                async for event in events:
                    if counts(event["object"]):
                        names.add(event["object"]["metadata"]["name"])
                    if len(names) >= wanted:
                        return


async def pods_made(api: ApiCaller, namespace: str, wanted: int) -> None:
    await seen_so_many(api, f"/api/v1/namespaces/{namespace}/pods", wanted, lambda _: True)


def has_ended(job: dict[str, Any]) -> bool:
    status = job.get("status", {})
    return status.get("phase") == "Succeeded" or bool(status.get("completionTime"))


async def jobs_ended(api: ApiCaller, path: str, wanted: int) -> None:
    await seen_so_many(api, path, wanted, has_ended)


async def namespace_made(api: ApiCaller, name: str) -> str:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    answer = await api.request("POST", "/api/v1/namespaces", body=body)
    assert answer.status == 201, answer.text
    account = f"/api/v1/namespaces/{name}/serviceaccounts"
    async with contextlib.aclosing(api.watch(account)) as events:
        async for event in events:
            if event["object"]["metadata"]["name"] == "default":
                break
    return name


@contextlib.asynccontextmanager
async def controller(
    program: Path | None, plane: ControlPlane, namespace: str, their_pid: int
) -> AsyncIterator[int]:
    """The process to be measured: a fresh controller of ours, or theirs, which runs anyway."""
    if program is None:
        yield their_pid
        return
    async with running_controller(plane.kubeconfig, namespace, program=program) as process:
        yield process.process.pid


async def measured(api: ApiCaller, pid: int, act: Callable[[], Awaitable[None]]) -> Cost:
    requests, writes = await request_counts(api)
    cpu, begun = cpu_seconds(pid), time.perf_counter()
    await act()
    seconds = time.perf_counter() - begun
    later, later_writes = await request_counts(api)
    return Cost(
        seconds,
        cpu_seconds(pid) - cpu,
        memory_mb(pid),
        later - requests,
        later_writes - writes,
    )


async def in_turn(course: Course, run: Callable[[str, Path | None], Awaitable[Cost]]) -> Costs:
    """The median costs of everybody, who run one after the other in each round."""
    found: dict[str, list[Cost]] = {who: [] for who in course.runners}
    for _ in range(course.rounds):
        for who, costs in found.items():
            costs.append(await run(who, course.programs.get(who)))
    return {who: median(costs) for who, costs in found.items()}


def median(costs: list[Cost]) -> Cost:
    rows = zip(*(astuple(cost) for cost in costs), strict=True)
    return Cost(*(statistics.median(row) for row in rows))


async def one_large_job(
    who: str, program: Path | None, plane: ControlPlane, api: ApiCaller, size: int, their_pid: int
) -> Cost:
    namespace = await namespace_made(api, f"large-{size}-{who}-{time.monotonic_ns()}")
    path, body = MAKERS[who]("large", size)
    async with controller(program, plane, namespace, their_pid) as pid:

        async def act() -> None:
            answer = await api.request("POST", path.format(namespace), body=body)
            assert answer.status == 201, answer.text
            await pods_made(api, namespace, size)

        return await measured(api, pid, act)


async def many_pods_cached(plane: ControlPlane, api: ApiCaller, jobs: int, size: int) -> float:
    """Memory of a controller that knows the pods of so many jobs, in MB."""
    namespace = await namespace_made(api, "cached")
    async with running_controller(plane.kubeconfig, namespace) as process:
        for n in range(jobs):
            path, body = ours(f"large-{n}", size)
            answer = await api.request("POST", path.format(namespace), body=body)
            assert answer.status == 201, answer.text
        await pods_made(api, namespace, jobs * size)
        return memory_mb(process.process.pid)


async def many_small_jobs(
    who: str, program: Path | None, plane: ControlPlane, api: ApiCaller, count: int, their_pid: int
) -> Cost:
    namespace = await namespace_made(api, f"many-{count}-{who}-{time.monotonic_ns()}")
    made = [MAKERS[who](f"small-{n}", 4) for n in range(count)]
    path = made[0][0].format(namespace)
    async with (
        controller(program, plane, namespace, their_pid) as pid,
        FakeKubelet(plane, namespace=namespace, script=lambda _: Life(run_seconds=0.0)),
    ):

        async def act() -> None:
            slots = asyncio.Semaphore(32)

            async def post(body: dict[str, Any]) -> None:
                async with slots:
                    answer = await api.request("POST", path, body=body)
                    assert answer.status == 201, answer.text

            async with asyncio.TaskGroup() as group:
                group.create_task(jobs_ended(api, path, count))
                for _, body in made:
                    group.create_task(post(body))

        return await measured(api, pid, act)


def told(title: str, costs: Costs) -> None:
    print(f"\n{title}")
    print(f"  {'':10} {'seconds':>8} {'CPU s':>7} {'MB':>6} {'requests':>9} {'status writes':>14}")
    for who, cost in costs.items():
        print(
            f"  {who:10} {cost.seconds:8.2f} {cost.cpu_seconds:7.2f} {cost.memory_mb:6.0f}"
            f" {cost.requests:9.0f} {cost.status_writes:14.0f}"
        )
    for who, cost in costs.items():
        if who != OURS:
            seconds = costs[OURS].seconds / cost.seconds
            cpu = costs[OURS].cpu_seconds / cost.cpu_seconds
            print(f"  beside {who}: {seconds:.2f} of its seconds, {cpu:.2f} of its CPU time")


def growth(costs: dict[int, Cost]) -> str:
    """How the controller's CPU time grows with the size of a job."""
    small, large = min(costs), max(costs)
    ratio = costs[large].cpu_seconds / costs[small].cpu_seconds
    power = math.log(ratio) / math.log(large / small)
    return f"CPU time from {small} to {large} replicas grows like N^{power:.2f}"


async def main(sizes: list[int], jobs: int, course: Course) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        running(find_binaries(sys.stderr.write), Path(folder) / "plane", Parts()) as (
            plane,
            components,
        ),
    ):
        (their_pid,) = (c.process.pid for c in components if "controller-manager" in c.name)
        async with ApiCaller(plane) as api:
            for kind in KINDS:
                path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
                answer = await api.request("POST", path, body=json.loads(json.dumps(crd(kind))))
                assert answer.status == 201, answer.text
            large: dict[int, Cost] = {}
            for size in sizes:

                def large_job(who: str, program: Path | None, size: int = size) -> Awaitable[Cost]:
                    return one_large_job(who, program, plane, api, size, their_pid)

                costs = await in_turn(course, large_job)
                large[size] = costs[OURS]
                told(f"one job of {size} replicas: create to all pods made", costs)
            if max(sizes, default=0) >= 5000:
                memory = await many_pods_cached(plane, api, 2, 5000)
                print(f"\nmemory with 10,000 pods cached: {memory:.0f} MB")
            if len(sizes) > 1:
                print(f"\n{growth(large)}")
            if jobs:

                def small_jobs(who: str, program: Path | None) -> Awaitable[Cost]:
                    return many_small_jobs(who, program, plane, api, jobs, their_pid)

                costs = await in_turn(course, small_jobs)
                told(f"{jobs} jobs of 4 replicas, created at once, to the end", costs)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="100,1000,5000")
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--before", type=Path, help="another clone, with its .venv")
    chosen = parser.parse_args()
    programs = {OURS: JOBYARD}
    if chosen.before:
        programs[BEFORE] = chosen.before / ".venv/bin/jobyard"
    wanted = [int(size) for size in chosen.sizes.split(",") if size]
    asyncio.run(main(wanted, chosen.jobs, Course(chosen.rounds, programs)))
