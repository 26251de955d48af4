"""The agent with pods in real namespaces, on a real API server."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from rig.kube.plane import ControlPlane
from rig.waiting import run, until

from jobyard.client.credentials.locating import cluster_of
from jobyard.client.request import CONFIG_MAPS, PODS, SERVICES, delete
from jobyard.client.transport import Transport
from jobyard.kubelet import ExecOptions
from jobyard.node.runtime.sandbox_runtime import SandboxRuntime
from jobyard.node.shared.runtime import Runtime
from node.test_node_agent import Scene


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Names of sockets have at most 108 characters; pytest's own folders leave too few."""
    path = Path(tempfile.mkdtemp(prefix="jy-"))
    yield path
    shutil.rmtree(path)


class SandboxScene(Scene):
    """A scene whose pods are sandboxes."""

    def __init__(self, transport: Transport, namespace: str, data: Path) -> None:
        super().__init__(transport, namespace, data, network="100.96.0.0/16")
        self.sandboxes: Runtime = SandboxRuntime(data)
        self.runtime = self.sandboxes  # type: ignore[assignment]

    async def kill(self) -> None:
        """The engine goes, and with it all that only it knew."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.sandboxes.close(stop_everything=False)
        self.sandboxes = SandboxRuntime(self.data)
        self.runtime = self.sandboxes  # type: ignore[assignment]


def test_pods_in_sandboxes_find_one_another_and_outlive_the_engine(
    control_plane: ControlPlane, namespace: str, short_folder: Path
) -> None:
    async def play() -> None:
        async with Transport(cluster_of(control_plane.kubeconfig)) as transport:
            scene = SandboxScene(transport, namespace, short_folder)
            await scene.begin()
            try:
                await act(scene)
            finally:
                await scene.end()

    run(play())


async def act(scene: Scene) -> None:
    await scene.make(CONFIG_MAPS, "words", data={"greeting": "good day"})
    spec = {"clusterIP": "None", "selector": {"app": "web"}, "publishNotReadyAddresses": True}
    await scene.make(SERVICES, "web", spec=spec)
    serve = "hostname >/srv-made/index.html; cd /srv-made; exec python3 -m http.server 80"
    volumes = [{"name": "made", "emptyDir": {}}, {"name": "words", "configMap": {"name": "words"}}]
    mounts = [
        {"name": "made", "mountPath": "/srv-made"},
        {"name": "words", "mountPath": "/words/here"},
    ]
    probe = {"httpGet": {"port": 80}, "periodSeconds": 1, "timeoutSeconds": 30}
    await scene.pod(
        "server",
        *("sh", "-c", serve),
        main={"volumeMounts": mounts, "readinessProbe": probe},
        volumes=volumes,
        metadata={"labels": {"app": "web"}},
        hostname="s0",
        subdomain="web",
    )

    async def is_ready() -> bool:
        pod = await scene.found(PODS, "server")
        conditions = (pod or {}).get("status", {}).get("conditions", ())
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    await until(is_ready)
    ask = (
        "import urllib.request as u\n"
        f"for n in ('web', 's0.web', 'web.{scene.namespace}.svc.cluster.local', 's0'):\n"
        "    print(u.urlopen(f'http://{n}/', timeout=30).read().decode().strip())\n"
    )
    await scene.pod("client", "python3", "-c", ask)
    await scene.phase("client", "Succeeded")
    assert await scene.log("client") == "s0\n" * 4

    before = await scene.phase("server", "Running")
    await scene.kill()
    await scene.begin()
    after = await scene.phase("server", "Running")
    assert after["status"] == before["status"]

    reader, writer = await scene.agent.kubelet.connect(after, 80)
    writer.write(b"GET / HTTP/1.0\r\n\r\n")
    assert (await reader.read()).endswith(b"s0\n")
    writer.close()
    await writer.wait_closed()

    command = ("sh", "-c", "cat /words/here/greeting; exit 3")
    session = await scene.agent.kubelet.execute(after, ExecOptions(command=command))
    heard = b""
    while (piece := await session.read()) is not None:
        heard += piece[1]
    assert (heard, await session.wait()) == (b"good day", 3)
    await session.close()

    await scene.send(delete(PODS, scene.namespace, "server"))
    await scene.gone("server")
    client = await scene.phase("client", "Succeeded")

    async def is_forgotten() -> bool:
        kept = [path.name for path in (scene.data / "pods").iterdir()]
        return kept == [client["metadata"]["uid"]]

    await until(is_forgotten)
