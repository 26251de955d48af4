"""The embedded API server beside kube-apiserver with etcd, on this machine, in one run.

python bench/api_server.py [--clients 8] [--seconds 3]

The same clients (one process, one connection each) do the same to both in turn: create, get and
patch config maps, create pods, list 500 objects, and wait for the event of a watch. Median and
worst times of a request, and requests per second. Both write to the same disk.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tools")]

from rig.kube.binaries import find_binaries  # noqa: E402
from rig.kube.control_plane import Parts, running  # noqa: E402

from jobyard.client.credentials.kubeconfig import cluster_from  # noqa: E402

LISTED = 500
POD = {"containers": [{"name": "main", "image": "busybox", "command": ["true"]}]}


@dataclass
class Api:
    """One server, and the numbers of what was made on it."""

    name: str
    url: str
    headers: dict[str, str]
    tls: ssl.SSLContext
    counter: Any = field(default_factory=itertools.count)

    def session(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(ssl=self.tls, limit=1)
        return aiohttp.ClientSession(self.url, connector=connector, headers=self.headers)


Work = Callable[[Api, aiohttp.ClientSession], Awaitable[None]]


async def _ok(answer: aiohttp.ClientResponse) -> Any:
    body = await answer.read()
    if answer.status >= 300:
        sys.exit(f"{answer.method} {answer.url}: {answer.status} {body[:300]!r}")
    return json.loads(body)


async def create(api: Api, session: aiohttp.ClientSession) -> None:
    body = {"metadata": {"name": f"made-{next(api.counter)}"}, "data": {"key": "x" * 200}}
    async with session.post("/api/v1/namespaces/default/configmaps", json=body) as answer:
        await _ok(answer)


async def create_pod(api: Api, session: aiohttp.ClientSession) -> None:
    body = {"metadata": {"name": f"pod-{next(api.counter)}"}, "spec": POD}
    async with session.post("/api/v1/namespaces/default/pods", json=body) as answer:
        await _ok(answer)


async def get(api: Api, session: aiohttp.ClientSession) -> None:
    n = next(api.counter) % LISTED
    async with session.get(f"/api/v1/namespaces/listed/configmaps/item-{n}") as answer:
        await _ok(answer)


async def patch(api: Api, session: aiohttp.ClientSession) -> None:
    n = next(api.counter)
    async with session.patch(
        f"/api/v1/namespaces/listed/configmaps/item-{n % LISTED}",
        data=json.dumps({"data": {"key": f"{n}"}}),
        headers={"Content-Type": "application/merge-patch+json"},
    ) as answer:
        await _ok(answer)


async def list_all(_api: Api, session: aiohttp.ClientSession) -> None:
    async with session.get("/api/v1/namespaces/listed/configmaps") as answer:
        found = await _ok(answer)
    assert len(found["items"]) >= LISTED


async def watch_latency(api: Api, rounds: int) -> list[float]:
    """From sending a change until a watch told of it."""
    times = []
    async with api.session() as watching, api.session() as writing:
        query = {"watch": "1", "fieldSelector": "metadata.name=item-0"}
        async with watching.get("/api/v1/namespaces/listed/configmaps", params=query) as stream:
            await stream.content.readline()
            for n in range(rounds):
                began = time.perf_counter()
                async with writing.patch(
                    "/api/v1/namespaces/listed/configmaps/item-0",
                    data=json.dumps({"data": {"key": f"w{n}{began}"}}),
                    headers={"Content-Type": "application/merge-patch+json"},
                ) as answer:
                    told = asyncio.ensure_future(stream.content.readline())
                    await _ok(answer)
                await told
                times.append(time.perf_counter() - began)
    return times


async def hammer(api: Api, work: Work, clients: int, seconds: float) -> list[float]:
    times: list[float] = []

    async def client() -> None:
        async with api.session() as session:
            await work(api, session)  # the connection
            while time.perf_counter() < end:
                began = time.perf_counter()
                await work(api, session)
                times.append(time.perf_counter() - began)

    end = time.perf_counter() + seconds
    await asyncio.gather(*(client() for _ in range(clients)))
    return times


async def prepare(api: Api) -> None:
    async with api.session() as session:
        namespace = {"metadata": {"name": "listed"}}
        async with session.post("/api/v1/namespaces", json=namespace) as answer:
            await _ok(answer)
        for n in range(LISTED):
            body = {"metadata": {"name": f"item-{n}"}, "data": {"key": "x" * 200}}
            path = "/api/v1/namespaces/listed/configmaps"
            async with session.post(path, json=body) as answer:
                await _ok(answer)
        account = {"metadata": {"name": "default"}}
        path = "/api/v1/namespaces/default/serviceaccounts"
        async with session.post(path, json=account) as answer:
            await answer.read()


@contextlib.asynccontextmanager
async def embedded(folder: Path) -> AsyncIterator[Api]:
    """The embedded API server alone, in a process of its own: nothing runs the pods."""
    program = str(Path(__file__).parent / "embedded_api.py")
    process = await asyncio.create_subprocess_exec(
        sys.executable, program, str(folder), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(30):
            if not await process.stdout.readline():
                sys.exit("the embedded API server doesn't start")
        cluster = cluster_from((folder / "kubeconfig",), None)
        tls = ssl.create_default_context(cadata=(cluster.trust.authorities or b"").decode())
        token = {"Authorization": f"Bearer {cluster.credentials.token}"}
        yield Api("embedded", cluster.server, token, tls)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


def shown(name: str, api: Api, times: list[float], seconds: float) -> dict[str, float]:
    ordered = sorted(times)
    found = {
        "p50": statistics.median(ordered) * 1000,
        "p99": ordered[int(len(ordered) * 0.99)] * 1000,
        "rate": len(times) / seconds,
    }
    figures = f"{found['p50']:9.2f} {found['p99']:9.2f} {found['rate']:10.0f}"
    print(f"{name:22} {api.name:12} {figures}")
    return found


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=3.0)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        parts = Parts(fsync=True)
        with running(find_binaries(sys.stderr.write), Path(name) / "kube", parts) as (plane, _):
            tls = ssl.create_default_context(cafile=str(plane.ca))
            tls.load_cert_chain(plane.cert, plane.key)
            real = Api("kubernetes", plane.url, {}, tls)
            async with embedded(Path(name) / "engine") as ours:
                await measured((real, ours), chosen.clients, chosen.seconds)


async def measured(apis: tuple[Api, Api], clients: int, seconds: float) -> None:
    for api in apis:
        await prepare(api)
    print(f"{clients} clients             server          p50 ms    p99 ms   requests/s")
    works: dict[str, Work] = {
        "create config map": create,
        "create pod": create_pod,
        "get": get,
        "patch": patch,
        f"list {LISTED}": list_all,
    }
    for name, work in works.items():
        both = [shown(name, a, await hammer(a, work, clients, seconds), seconds) for a in apis]
        _ratios(both)
    both = []
    for api in apis:
        times = await watch_latency(api, 100)
        both.append(shown("change to watch event", api, times, sum(times)))
    _ratios(both)


def _ratios(both: list[dict[str, float]]) -> None:
    real, ours = both
    latency, rate = ours["p50"] / real["p50"], ours["rate"] / real["rate"]
    print(f"{'':22} ratio        {latency:9.2f} {'':9} {rate:10.2f}\n")


if __name__ == "__main__":
    asyncio.run(main())
