"""The agent on a real API server, with pods that are plain processes of the test."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from rig.kube.plane import ControlPlane
from rig.waiting import DEADLINE_SECONDS, run, until

from jobyard.client.credentials.locating import cluster_of
from jobyard.client.request import (
    CONFIG_MAPS,
    EVENTS,
    LEASES,
    NODES,
    PODS,
    SECRETS,
    Answer,
    Request,
    Resource,
    create,
    delete,
    get,
    listing,
    merge_patch,
)
from jobyard.client.resources import CLAIMS, ENDPOINTS, SERVICES
from jobyard.client.retrying import send_patiently
from jobyard.client.transport import Transport
from jobyard.kubelet import ExecOptions, KubeletError, LogOptions
from jobyard.node.agent.agent import PATIENCE, Agent
from jobyard.node.agent.capacity import Capacity
from jobyard.node.agent.options import AgentOptions
from jobyard.node.agent.pod_queue import Lanes
from jobyard.node.objects.surroundings import Setup
from jobyard.node.ordering.environment import inherited
from jobyard.node.shared.order import PodOrder, Redirect
from node.plain_runtime import PlainRuntime

Json = dict[str, Any]
T = TypeVar("T")
PYTHON = sys.executable


class Wire:
    """The way to the server: notes what is written, and can break at any write."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.written: list[Request] = []
        self.lines = transport.lines
        self.chunks = transport.chunks
        # After so many writes nothing gets through any more, and `broken` tells so.
        self.writes_left = 10**9
        self.loses_answers = False
        self.broken = asyncio.Event()
        # How many requests to a path, or below it, are yet to be refused.
        self.refusals: dict[str, int] = {}
        # What happens right before the next write to a path.
        self.meanwhile: dict[str, Callable[[], Awaitable[object]]] = {}

    async def send(self, request: Request) -> Answer:
        for path, left in self.refusals.items():
            if left and request.path.startswith(path):
                self.refusals[path] -= 1
                return Answer(status=422, body=b"not today")
        if request.method == "GET" or request.path.startswith("/apis/coordination"):
            return await self._transport.send(request)
        if (happens := self.meanwhile.pop(request.path, None)) is not None:
            await happens()
        self.writes_left -= 1
        if self.writes_left < 0:
            if self.loses_answers:
                await self._transport.send(request)
            self.broken.set()
            await asyncio.Event().wait()
        answer = await self._transport.send(request)
        if answer.is_ok:
            self.written.append(request)
        return answer


class Scene:
    """One node in one namespace, and what a test does there."""

    def __init__(self, transport: Transport, namespace: str, data: Path, **options: Any) -> None:
        self.transport = transport
        self.wire = Wire(transport)
        self.namespace = namespace
        self.node = f"node-{secrets.token_hex(4)}"
        self.data = data
        self.said: list[str] = []
        self.runtime = PlainRuntime(data)
        network = IPv4Network(options.pop("network", "10.99.0.0/16"))
        setup = Setup(
            node_name=self.node,
            host_address=str(network[1]),
            environment=inherited({"PATH": "/usr/bin:/bin", "HOME": "/tmp", "TOKEN": "s3cret"}),
            start_folder=str(data),
            gateway=str(network[1]),
        )
        self.options = AgentOptions(
            data=data,
            setup=setup,
            network=network,
            capacity=Capacity(cpus=2, memory_bytes=2**30),
            **{"writes_endpoints": False, **options},
        )
        self.agent: Agent
        self._task: asyncio.Task[None]

    async def begin(self) -> None:
        self.agent = Agent(self.wire, self.runtime, self.options, say=self.said.append)
        self._task = asyncio.create_task(self.agent.run())
        ready = asyncio.create_task(self.agent.ready.wait())
        try:
            await asyncio.wait({ready, self._task}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
        if self._task.done():
            await self._task

    async def kill(self) -> None:
        """The engine ends at whatever it does; the pods go on."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        self.runtime.detach()

    async def end(self) -> None:
        await self.runtime.close(stop_everything=True)
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        await self.transport.send(delete(NODES, "", self.node))
        for name in await self.names(PODS):
            await self.transport.send(delete(PODS, self.namespace, name, grace_seconds=0))

    async def send(self, request: Request) -> Json:
        answer = await send_patiently(self.transport, request)
        assert answer.is_ok, answer.problem
        value: Json = json.loads(answer.body)
        return value

    async def names(self, resource: Resource) -> list[str]:
        found = await self.send(listing(resource, self.namespace))
        return [item["metadata"]["name"] for item in found["items"]]

    async def make(self, resource: Resource, name: str, **more: Any) -> Json:
        about = {"apiVersion": resource.api_version, "kind": resource.kind}
        obj = {**about, "metadata": {"name": name, **more.pop("metadata", {})}, **more}
        return await self.send(create(resource, self.namespace, obj))

    async def pod(self, name: str, *command: str, **spec: Any) -> Json:
        main = {"name": "main", "image": "any", **spec.pop("main", {})}
        if command:
            main["command"] = list(command)
        metadata = spec.pop("metadata", {})
        whole = {
            "nodeName": self.node,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 5,
            "automountServiceAccountToken": False,
            "containers": [main],
            **spec,
        }
        return await self.make(PODS, name, metadata=metadata, spec=whole)

    async def found(self, resource: Resource, name: str) -> Json | None:
        answer = await send_patiently(self.transport, get(resource, self.namespace, name))
        assert answer.is_ok or answer.status == 404, answer.problem
        return json.loads(answer.body) if answer.is_ok else None

    async def phase(self, name: str, phase: str) -> Json:
        async def reached() -> Json | None:
            pod = await self.found(PODS, name)
            return pod if pod is not None and pod["status"]["phase"] == phase else None

        found = await until(reached)
        assert found is not None
        return found

    async def gone(self, name: str) -> None:
        async def is_gone() -> bool:
            return await self.found(PODS, name) is None

        await until(is_gone)

    async def log(self, name: str) -> str:
        pod = await self.found(PODS, name)
        assert pod is not None
        pieces = [piece async for piece in self.agent.kubelet.logs(pod, LogOptions())]
        return b"".join(pieces).decode()

    async def events(self, reason: str) -> list[str]:
        found = await self.send(listing(EVENTS, self.namespace))
        return [item["message"] for item in found["items"] if item["reason"] == reason]

    async def told(self, reason: str) -> list[str]:
        """The same once there is one: an event is sent beside everything else."""
        return await until(lambda: self.events(reason))


Staging = Callable[..., AbstractAsyncContextManager[Scene]]


@pytest.fixture
def stage(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Staging:
    """`async with stage() as scene`: a node with a running agent."""

    @asynccontextmanager
    async def opened(**options: Any) -> AsyncIterator[Scene]:
        async with Transport(cluster_of(control_plane.kubeconfig)) as transport:
            scene = Scene(transport, namespace, tmp_path, **options)
            await scene.begin()
            try:
                yield scene
            finally:
                await scene.end()

    return opened


def condition(pod: Json, name: str) -> Json:
    found: Json
    (found,) = [each for each in pod["status"]["conditions"] if each["type"] == name]
    return found


def test_a_pod_runs_to_its_end(stage: Staging) -> None:
    async def play() -> None:
        async with stage() as scene:
            await scene.pod("good", "sh", "-c", "echo hello from $(hostname >/dev/null; echo me)")
            pod = await scene.phase("good", "Succeeded")
            status = pod["status"]
            (main,) = status["containerStatuses"]
            assert main["state"]["terminated"]["exitCode"] == 0
            assert main["state"]["terminated"]["reason"] == "Completed"
            assert main["containerID"] == f"jobyard://{pod['metadata']['uid']}/main/0"
            assert main["restartCount"] == 0
            assert status["podIP"].startswith("10.99.0.")
            assert status["podIPs"] == [{"ip": status["podIP"]}]
            assert status["hostIP"] == "10.99.0.1"
            assert status["startTime"]
            assert condition(pod, "Ready")["reason"] == "PodCompleted"
            assert condition(pod, "Initialized")["status"] == "True"
            assert await scene.log("good") == "hello from me\n"
            assert scene.said == [
                "image any is not pulled: the command runs with this machine's own files"
            ]

    run(play())


@pytest.mark.parametrize(
    ("command", "code", "signal"),
    [
        pytest.param(("sh", "-c", "exit 7"), 7, None, id="its own exit code"),
        pytest.param(("sh", "-c", "kill -KILL $$$$"), 137, 9, id="killed"),
    ],
)
def test_a_pod_that_fails_tells_how(
    stage: Staging, command: tuple[str, ...], code: int, signal: int | None
) -> None:
    async def play() -> None:
        async with stage() as scene:
            await scene.pod("bad", *command)
            pod = await scene.phase("bad", "Failed")
            ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
            assert (ended["exitCode"], ended.get("signal")) == (code, signal)
            assert condition(pod, "Ready") | {"lastTransitionTime": "", "lastProbeTime": None} == {
                "type": "Ready",
                "status": "False",
                "reason": "PodFailed",
                "lastTransitionTime": "",
                "lastProbeTime": None,
            }

    run(play())


def test_a_deleted_pod_gets_its_grace_and_its_end_is_told(stage: Staging) -> None:
    async def play() -> None:
        async with stage() as scene:
            # A finalizer, so that the last status can be looked at.
            await scene.pod(
                "long",
                "sh",
                "-c",
                "trap 'exit 3' TERM; echo up; while :; do sleep 0.05; done",
                metadata={"finalizers": ["test/keep"]},
                # More than the test has, so that however late it is told, some is left.
                terminationGracePeriodSeconds=100,
            )
            pod = await scene.phase("long", "Running")
            assert condition(pod, "Ready")["status"] == "True"
            uid = pod["metadata"]["uid"]

            async def is_up() -> bool:
                return await scene.log("long") == "up\n"

            await until(is_up)
            await scene.send(delete(PODS, scene.namespace, "long"))
            pod = await scene.phase("long", "Failed")
            ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
            assert ended["exitCode"] == 3
            (stopped, grace), *others = scene.runtime.stops
            assert stopped == uid
            assert 100 - DEADLINE_SECONDS < grace <= 100
            # Told again and again until it is over, but with no more time than before.
            graces = [grace, *(seconds for _, seconds in others)]
            assert graces == sorted(graces, reverse=True)
            patch = {"metadata": {"finalizers": None}}
            await scene.send(merge_patch(PODS, scene.namespace, "long", patch))
            await scene.gone("long")

            async def is_forgotten() -> bool:
                return not (scene.data / "pods" / uid).exists()

            await until(is_forgotten)
            assert await scene.told("Killing") == ["Stopping container main"]
            assert await scene.told("Started") == ["Started container main"]

    run(play())


def test_a_pod_waits_for_what_it_refers_to(stage: Staging) -> None:
    async def play() -> None:
        async with stage() as scene:
            source = {"configMapKeyRef": {"name": "words", "key": "greeting"}}
            env = [{"name": "GREETING", "valueFrom": source}]
            await scene.pod("waits", "sh", "-c", "echo $GREETING", main={"env": env})

            async def is_waiting() -> Json | None:
                pod = await scene.found(PODS, "waits")
                assert pod is not None
                statuses = pod["status"].get("containerStatuses")
                waiting: Json | None = statuses[0]["state"].get("waiting") if statuses else None
                return waiting

            assert await until(is_waiting) == {
                "reason": "CreateContainerConfigError",
                "message": 'configmap "words" not found',
            }
            await scene.make(CONFIG_MAPS, "words", data={"greeting": "good day"})
            await scene.phase("waits", "Succeeded")
            assert await scene.log("waits") == "good day\n"
            assert await scene.told("Failed") == ['Error: configmap "words" not found']

    run(play())


def test_a_pod_without_an_address_waits_for_one(stage: Staging) -> None:
    async def play() -> None:
        # Four addresses, of which one is the machine's and two mean the network as a whole.
        async with stage(network="10.98.0.0/30") as scene:
            await scene.pod("first", "sleep", "60")
            await scene.phase("first", "Running")
            await scene.pod("second", "sleep", "60")

            async def is_waiting() -> Json | None:
                pod = await scene.found(PODS, "second")
                assert pod is not None
                statuses = pod["status"].get("containerStatuses")
                waiting: Json | None = statuses[0]["state"].get("waiting") if statuses else None
                return waiting

            text = "all addresses of 10.98.0.0/30 are taken; delete pods that are no longer needed"
            assert await until(is_waiting) == {"reason": "CreateContainerError", "message": text}
            assert await scene.told("Failed") == [f"Error: {text}"]
            await scene.send(delete(PODS, scene.namespace, "first"))
            await scene.phase("second", "Running")

    run(play())


def test_what_can_never_run_fails_at_once(stage: Staging) -> None:
    async def play() -> None:
        async with stage() as scene:
            await scene.pod("mute")
            pod = await scene.phase("mute", "Failed")
            words = "image any is not pulled here: give the container a command"
            ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
            assert (ended["reason"], ended["message"]) == ("ContainerCannotRun", words)
            assert pod["status"]["message"] == f"container main: {words}"
            nfs = {"name": "far", "nfs": {"server": "s", "path": "/x"}}
            mounts = [{"name": "far", "mountPath": "/far"}]
            await scene.pod("far", "true", volumes=[nfs], main={"volumeMounts": mounts})
            pod = await scene.phase("far", "Failed")
            assert pod["status"]["reason"] == "VolumeRefused"
            assert "volume far (nfs)" in pod["status"]["message"]
            assert "--pvc" in pod["status"]["message"]
            assert scene.runtime.starts == []

    run(play())


def mounts_of(scene: Scene, uid: str) -> dict[str, Path]:
    """Where the volumes of a pod are, by the paths they are for."""
    order = msgspec.json.decode(
        (scene.data / "pods" / uid / "order.json").read_bytes(), type=PodOrder
    )
    return {mount.target: Path(mount.source) for mount in order.containers[0].mounts}


def test_a_change_of_a_mounted_config_map_reaches_the_pod(stage: Staging) -> None:
    async def play() -> None:
        async with stage() as scene:
            await scene.make(CONFIG_MAPS, "settings", data={"a": "1"})
            token = base64.b64encode(b"\xff\x00key").decode()
            await scene.make(SECRETS, "keys", data={"k": token})
            volumes = [
                {"name": "settings", "configMap": {"name": "settings"}},
                {"name": "keys", "secret": {"secretName": "keys", "defaultMode": 0o400}},
                {
                    "name": "about",
                    "downwardAPI": {
                        "items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]
                    },
                },
            ]
            mounts = [{"name": v["name"], "mountPath": f"/{v['name']}"} for v in volumes]
            await scene.pod(
                "reads",
                "sleep",
                "60",
                volumes=volumes,
                main={"volumeMounts": mounts},
                metadata={"labels": {"x": "1"}},
            )
            pod = await scene.phase("reads", "Running")
            paths = mounts_of(scene, pod["metadata"]["uid"])
            assert (paths["/settings"] / "a").read_text() == "1"
            assert (paths["/keys"] / "k").read_bytes() == b"\xff\x00key"
            assert (paths["/keys"] / "k").stat().st_mode & 0o777 == 0o400
            assert (paths["/about"] / "l").read_text() == 'x="1"'
            patch = {"data": {"a": "2", "b": "3"}}
            await scene.send(merge_patch(CONFIG_MAPS, scene.namespace, "settings", patch))
            labels = {"metadata": {"labels": {"x": "2"}}}
            await scene.send(merge_patch(PODS, scene.namespace, "reads", labels))

            async def has_changed() -> bool:
                return (paths["/settings"] / "b").exists() and (
                    paths["/about"] / "l"
                ).read_text() == 'x="2"'

            await until(has_changed)
            assert (paths["/settings"] / "a").read_text() == "2"

    run(play())


def test_labels_that_change_while_a_status_is_written_reach_the_pod(stage: Staging) -> None:
    async def play() -> None:
        async with stage() as scene:
            labels = {"metadata": {"labels": {"x": "2"}}}
            change = merge_patch(PODS, scene.namespace, "reads", labels)
            path = f"/api/v1/namespaces/{scene.namespace}/pods/reads/status"
            scene.wire.meanwhile[path] = lambda: scene.send(change)
            item = {"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}
            pod = await scene.pod(
                *("reads", "sleep", "60"),
                volumes=[{"name": "about", "downwardAPI": {"items": [item]}}],
                main={"volumeMounts": [{"name": "about", "mountPath": "/about"}]},
                metadata={"labels": {"x": "1"}},
            )
            await scene.phase("reads", "Running")
            file = mounts_of(scene, pod["metadata"]["uid"])["/about"] / "l"

            async def has_changed() -> bool:
                return file.read_text() == 'x="2"'

            await until(has_changed)
            assert not scene.wire.meanwhile

    run(play())


def test_a_changed_config_map_that_could_not_be_read_is_read_again(stage: Staging) -> None:
    """Nothing else changes meanwhile, so nobody but the refusal itself gives a reason to."""

    async def play() -> None:
        async with stage() as scene:
            await scene.make(CONFIG_MAPS, "settings", data={"a": "1"})
            volume = {"name": "settings", "configMap": {"name": "settings"}}
            mount = {"name": "settings", "mountPath": "/settings"}
            main = {"volumeMounts": [mount]}
            await scene.pod("reads", "sleep", "60", volumes=[volume], main=main)
            pod = await scene.phase("reads", "Running")
            file = mounts_of(scene, pod["metadata"]["uid"])["/settings"] / "a"
            path = f"/api/v1/namespaces/{scene.namespace}/configmaps/settings"
            scene.wire.refusals[path] = 1
            patch = {"data": {"a": "2"}}
            await scene.send(merge_patch(CONFIG_MAPS, scene.namespace, "settings", patch))

            async def has_changed() -> bool:
                return file.read_text() == "2"

            await until(has_changed)
            assert scene.wire.refusals[path] == 0

    run(play())


def test_an_engine_that_was_killed_finds_its_pods_again(stage: Staging) -> None:
    async def play() -> None:
        async with stage() as scene:
            await scene.pod("stays", "sleep", "60")
            await scene.pod("ends", "sleep", "60")
            await scene.pod("goes", "sleep", "60")
            await scene.pod("over", "true")
            before = await scene.phase("stays", "Running")
            ends = await scene.phase("ends", "Running")
            await scene.phase("goes", "Running")
            over = await scene.phase("over", "Succeeded")
            await scene.kill()
            # While no engine runs: one ends, one is deleted by force, one is new.
            await scene.runtime.stop(ends["metadata"]["uid"], 1)
            await scene.send(delete(PODS, scene.namespace, "goes", grace_seconds=0))
            await scene.pod("new", "sleep", "60")
            await scene.begin()
            new = await scene.phase("new", "Running")
            ended = await scene.phase("ends", "Failed")
            state = ended["status"]["containerStatuses"][0]["state"]["terminated"]
            assert state["exitCode"] == 143
            stays = await scene.phase("stays", "Running")
            assert stays["status"] == before["status"]
            addresses = {each["status"]["podIP"] for each in (stays, ended, new, over)}
            assert len(addresses) == 4
            assert len(scene.runtime.starts) == 5
            goes = set(scene.runtime.starts) - {
                each["metadata"]["uid"] for each in (stays, ended, new, over)
            }

            async def is_forgotten() -> bool:
                return not any((scene.data / "pods" / uid).exists() for uid in goes)

            await until(is_forgotten)
            assert await scene.log("over") == ""

    run(play())


@pytest.mark.parametrize("loses_answers", [False, True])
def test_killed_between_any_two_steps_nothing_runs_twice(
    stage: Staging, loses_answers: bool
) -> None:
    async def play() -> None:
        async with stage() as scene:
            number = 0
            while True:
                name = f"once-{number}"
                await scene.kill()
                pod = await scene.pod(name, "sh", "-c", f"echo run >>{scene.data}/{name}; exit 5")
                scene.wire.writes_left = number
                scene.wire.loses_answers = loses_answers
                scene.wire.broken.clear()
                begun = asyncio.create_task(scene.begin())
                ended = asyncio.create_task(scene.phase(name, "Failed"))
                broken = asyncio.create_task(scene.wire.broken.wait())
                await asyncio.wait({ended, broken}, return_when=asyncio.FIRST_COMPLETED)
                was_broken = broken.done()
                for task in (begun, ended, broken):
                    task.cancel()
                await asyncio.gather(begun, ended, broken, return_exceptions=True)
                await scene.kill()
                scene.wire.writes_left = 10**9
                await scene.begin()
                pod = await scene.phase(name, "Failed")
                (main,) = pod["status"]["containerStatuses"]
                assert main["state"]["terminated"]["exitCode"] == 5
                assert (scene.data / name).read_text() == "run\n"
                assert scene.runtime.starts.count(pod["metadata"]["uid"]) == 1
                number += 1
                if not was_broken:
                    break
            # The node and its status, and at least one status of the pod.
            assert number > 3

    run(play())


def test_a_pod_that_ran_is_not_run_again_when_its_files_are_lost(
    stage: Staging,
) -> None:
    async def play() -> None:
        async with stage() as scene:
            pod = await scene.pod("lost", "sleep", "60")
            uid = pod["metadata"]["uid"]
            await scene.phase("lost", "Running")
            await scene.kill()
            await scene.runtime.stop(uid, 0)
            await scene.runtime.forget(uid)
            await scene.begin()
            lost = await scene.phase("lost", "Failed")
            ended = lost["status"]["containerStatuses"][0]["state"]["terminated"]
            assert (ended["exitCode"], ended["reason"]) == (137, "ContainerStatusUnknown")
            assert scene.runtime.starts == [uid]

    run(play())


def test_names_of_pods_and_services_are_in_the_hosts_file(stage: Staging) -> None:
    async def play() -> None:
        async with stage(writes_endpoints=True) as scene:
            port = {"port": 80, "targetPort": 8080}
            spec = {"clusterIP": "None", "selector": {"app": "x"}, "ports": [port]}
            await scene.make(SERVICES, "svc", spec=spec)
            labels = {"labels": {"app": "x"}}
            await scene.pod("first", "sleep", "60", metadata=labels, hostname="h", subdomain="svc")
            pod = await scene.phase("first", "Running")
            order = msgspec.json.decode(
                (scene.data / "pods" / pod["metadata"]["uid"] / "order.json").read_bytes(),
                type=PodOrder,
            )
            assert order.host_name == "h"
            hosts, address, ns = Path(order.hosts_file), pod["status"]["podIP"], scene.namespace

            async def has_service() -> bool:
                wanted = f"{address}\tsvc svc.{ns} svc.{ns}.svc svc.{ns}.svc.cluster.local"
                return wanted in hosts.read_text().splitlines()

            await until(has_service)
            inode = hosts.stat().st_ino
            assert hosts.read_text().startswith("127.0.0.1\tlocalhost\n")
            assert (
                f"{address}\th.svc.{ns}.svc.cluster.local h.svc.{ns}.svc h.svc.{ns} h.svc h first"
                in hosts.read_text().splitlines()
            )
            await scene.send(delete(PODS, ns, "first"))
            await scene.gone("first")

            async def has_forgotten() -> bool:
                return f"\n{address}" not in hosts.read_text()

            await until(has_forgotten)
            assert hosts.stat().st_ino == inode
            assert await scene.found(ENDPOINTS, "svc") is not None
            assert scene.runtime.forwards == [], "a headless service changes no ports"

    run(play())


def test_a_service_that_comes_and_goes_makes_pods_change_its_ports(stage: Staging) -> None:
    async def play() -> None:
        async with stage() as scene:
            labels = {"labels": {"app": "x"}}
            await scene.pod("first", "sleep", "60", metadata=labels)
            uid = (await scene.phase("first", "Running"))["metadata"]["uid"]
            port = {"port": 80, "targetPort": 8080}
            await scene.make(SERVICES, "svc", spec={"selector": {"app": "x"}, "ports": [port]})

            async def is_told(*redirects: Redirect) -> bool:
                return scene.runtime.forwards[-1:] == [(uid, redirects)]

            await until(lambda: is_told(Redirect(protocol="TCP", port=80, target=8080)))
            await scene.send(delete(SERVICES, scene.namespace, "svc"))
            await until(is_told)
            assert len(scene.runtime.forwards) == 2
            assert not await scene.events("PortNotForwarded")

    run(play())


def test_endpoints_that_were_refused_are_told_of_and_written_again(
    stage: Staging, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing else changes meanwhile, so nobody but the refusal itself gives a reason to."""
    caplog.set_level("WARNING", "jobyard.node.network.directory")

    async def play() -> None:
        async with stage(writes_endpoints=True) as scene:
            path = f"/api/v1/namespaces/{scene.namespace}/endpoints"
            scene.wire.refusals[path] = 2
            spec = {"clusterIP": "None", "selector": {"app": "x"}, "ports": [{"port": 80}]}
            await scene.make(SERVICES, "svc", spec=spec)

            async def is_written() -> bool:
                return any(each.path.startswith(path) for each in scene.wire.written)

            await until(is_written)
            assert scene.wire.refusals[path] == 0

    run(play())
    # The agent writes those of all namespaces, and whoever else does so may be faster.
    about = f"endpoints of service {namespace}/svc: "
    told = [line for line in caplog.messages if line.startswith(about) and "not today" in line]
    assert len(told) == 1, caplog.messages


def test_lanes_that_are_closed_begin_nothing() -> None:
    """A last pass may still want to be repeated when nobody is left to do it."""

    async def play() -> None:
        passes: list[str] = []

        async def work(uid: str) -> None:
            passes.append(uid)
            if len(passes) == 1:
                lanes.close()
                lanes.wake(uid)
                lanes.retry(uid)

        async with asyncio.TaskGroup() as group:
            lanes = Lanes(group, work, PATIENCE)
            lanes.wake("one")
        assert passes == ["one"]
        assert not lanes._timers

    run(play())


@pytest.mark.parametrize(
    ("paths", "reason"),
    [
        pytest.param(["a", "a/b"], "File exists", id="a file and a folder of one name"),
        pytest.param(["/".join(["x" * 200] * 21)], "File name too long", id="a path too long"),
        pytest.param(["x" * 300], "File name too long", id="a name too long"),
    ],
)
def test_files_that_no_disk_takes_are_told_of(
    stage: Staging, paths: list[str], reason: str
) -> None:
    """By one event, and nothing of the attempts stays behind."""

    async def play() -> None:
        async with stage() as scene:
            await scene.make(CONFIG_MAPS, "words", data={"k": "1"})
            items = [{"key": "k", "path": path} for path in paths]
            volume = {"name": "files", "configMap": {"name": "words", "items": items}}
            mount = {"name": "files", "mountPath": "/files"}
            await scene.pod("waits", "true", volumes=[volume], main={"volumeMounts": [mount]})

            async def is_told() -> list[str]:
                return await scene.events("FailedMount")

            # Once, however often it was tried by now: the text is the same each time.
            (told,) = await until(is_told)
            assert told.startswith('MountVolume.SetUp failed for volume "files" : volume files: ')
            assert told.endswith(reason)
            assert "..version_" not in told
            assert len(told) < 400

            async def is_cleared() -> bool:
                return not list(scene.data.glob("pods/*/volumes/files/..version_*"))

            assert await until(is_cleared)

    run(play())


@pytest.mark.parametrize("is_strict", [False, True])
def test_a_claim_is_a_folder(stage: Staging, is_strict: bool) -> None:
    async def play() -> None:
        async with stage(is_strict=is_strict) as scene:
            claim = {"name": "data", "persistentVolumeClaim": {"claimName": "sets"}}
            mount = {"name": "data", "mountPath": "/data", "subPath": "a/b"}
            await scene.pod("uses", "true", volumes=[claim], main={"volumeMounts": [mount]})
            if is_strict:

                async def is_told() -> list[str]:
                    return await scene.events("FailedMount")

                assert await until(is_told) == [
                    'MountVolume.SetUp failed for volume "data" :'
                    ' persistentvolumeclaim "sets" not found'
                ]
                size = {"requests": {"storage": "5Gi"}}
                await scene.make(
                    CLAIMS, "sets", spec={"accessModes": ["ReadWriteOnce"], "resources": size}
                )
            pod = await scene.phase("uses", "Succeeded")
            # Whoever binds claims on this cluster unbinds it again; that we bound it is enough.
            claim_path = "/persistentvolumeclaims/sets/status"
            (bound,) = [each for each in scene.wire.written if each.path.endswith(claim_path)]
            assert json.loads(bound.body or b"")["status"]["phase"] == "Bound"
            folder = scene.data / "claims" / scene.namespace / "sets" / "a" / "b"
            assert folder.is_dir()
            assert mounts_of(scene, pod["metadata"]["uid"]) == {"/data": folder}
            made = [line for line in scene.said if line.startswith("claim ")]
            assert len(made) == (0 if is_strict else 1)

    run(play())


def test_the_node_is_there_with_what_it_has(stage: Staging) -> None:
    async def play() -> None:
        async with stage() as scene:
            node = await scene.send(get(NODES, "", scene.node))
            assert node["status"]["capacity"]["cpu"] == "2"
            assert node["status"]["capacity"]["memory"] == "1Gi"
            assert node["metadata"]["labels"]["kubernetes.io/os"] == "linux"
            conditions = {each["type"]: each["status"] for each in node["status"]["conditions"]}
            assert conditions["Ready"] == "True"

            async def is_alive() -> bool:
                lease = await scene.transport.send(get(LEASES, "kube-node-lease", scene.node))
                return lease.is_ok

            await until(is_alive)
            await scene.send(delete(LEASES, "kube-node-lease", scene.node))

    run(play())


def test_a_process_inside_speaks_and_ends(stage: Staging) -> None:
    async def play() -> None:
        async with stage() as scene:
            await scene.pod("host", "sleep", "60")
            pod = await scene.phase("host", "Running")
            options = ExecOptions(command=("sh", "-c", "cat; exit 4"), stdin=True)
            session = await scene.agent.kubelet.execute(pod, options)
            await session.write(b"through")
            await session.end_input()
            heard = b""
            while (piece := await session.read()) is not None:
                heard += piece[1]
            assert heard == b"through"
            assert await session.wait() == 4
            await session.close()
            await session.close()
            with pytest.raises(KubeletError, match="container other is not valid for pod host"):
                await scene.agent.kubelet.execute(
                    pod, ExecOptions(command=("true",), container="other")
                )
            session = await scene.agent.kubelet.execute(pod, ExecOptions(command=("sleep", "60")))
            await session.close()

    run(play())


def test_logs_say_why_there_are_none(stage: Staging) -> None:
    async def play() -> None:
        async with stage() as scene:
            env_from = [{"secretRef": {"name": "nowhere"}}]
            await scene.pod("waits", "true", main={"envFrom": env_from})

            async def is_told() -> bool:
                pod = await scene.found(PODS, "waits")
                return bool(pod and pod["status"].get("containerStatuses"))

            await until(is_told)
            with pytest.raises(KubeletError, match='is waiting to start: secret "nowhere" not'):
                await scene.log("waits")

    run(play())
