"""A cluster with several tenants: a control plane of its own, the controller as installed.

The controller looks after all namespaces, with the permissions that `jobyard install` prints and
the memory that it asks for. So it needs a plane that no other test is on. A tenant has a
namespace and may do there what a test says. Pods run on fake nodes; a tenant's pods can have an
address at which a program of the test answers what it likes, and the API server really asks it.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import aiohttp
import yaml
from rig.kube import namespaces
from rig.kube.api import LINE_BYTES_MAX, REQUEST_SECONDS, ApiCaller
from rig.kube.binaries import find_binaries
from rig.kube.control_plane import Parts, running
from rig.kube.jobyard_controller import ControllerProcess, running_controller
from rig.kube.kubectl import Kubectl
from rig.kube.plane import ControlPlane, write_private
from rig.memory import memory_limit, peak_bytes
from rig.waiting import until, until_it_holds

from jobyard.api.kinds import KINDS, kind_of
from jobyard.install.bundle import bundle
from jobyard.install.settings import Settings
from jobyard.plan.lowering.table import JOB_KINDS

Json = dict[str, Any]

SYSTEM = "jobyard-system"
# As install/workload.py asks for it.
MEMORY_BYTES = 512 * 2**20
JOB_SECONDS = 90
PORT_NAME = "rest.port"


class TokenCaller(ApiCaller):
    """Calls the control plane as somebody with a token, who may not do everything."""

    def __init__(self, plane: ControlPlane, token: str) -> None:
        super().__init__(plane)
        self._token = token

    async def __aenter__(self) -> Self:
        context = ssl.create_default_context(cafile=self._plane.ca)
        self._session = aiohttp.ClientSession(
            base_url=self._plane.url,
            connector=aiohttp.TCPConnector(ssl=context),
            timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS),
            headers={"Authorization": f"Bearer {self._token}"},
            read_bufsize=LINE_BYTES_MAX,
        )
        return self

    async def post(self, path: str, text: str) -> tuple[int, str]:
        """Status and text, neither of which has to be anything that Python could read."""
        async with self._open_session.post(
            path, data=text.encode(), headers={"Content-Type": "application/json"}
        ) as response:
            return response.status, await response.text(errors="replace")


@dataclass
class Cluster:
    """All of it, with the controller that is tested."""

    plane: ControlPlane
    folder: Path
    api: ApiCaller
    _stack: AsyncExitStack
    _wrapper: Sequence[str]
    process: ControllerProcess = field(init=False)

    async def start_controller(self, *options: str) -> None:
        """As its service account, under the limit of its memory.

        Without a lease: who has one gives up after ten seconds without an answer, and on a machine
        on which other tests run an API server is that late whatever tenants do.
        """
        account = await asyncio.to_thread(self.kubeconfig, SYSTEM, "jobyard-controller")
        self.process = await self._stack.enter_async_context(
            running_controller(account, "", *options, wrapper=self._wrapper)
        )

    @property
    def is_alive(self) -> bool:
        return self.process.process.returncode is None

    @property
    def peak_mb(self) -> float:
        return peak_bytes(self.process.process.pid) / 2**20

    async def tenant(self, name: str, **may: Sequence[str]) -> TokenCaller:
        """Somebody with a namespace of that name, who may create and read these kinds in it.

        `may` has the resources of each API group, by its first word.
        """
        await namespaces.create(self.plane, name)
        groups = {str(kind.group).partition(".")[0]: str(kind.group) for kind in KINDS} | {
            "core": ""
        }
        verbs = ["create", "get", "list", "watch", "delete"]
        role = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": "tenant", "namespace": name},
            "rules": [
                {"apiGroups": [groups[group]], "resources": list(resources), "verbs": verbs}
                for group, resources in may.items()
            ],
        }
        account = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "tenant", "namespace": name},
        }
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "tenant", "namespace": name},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "Role",
                "name": "tenant",
            },
            "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": name}],
        }
        await asyncio.to_thread(self._apply, name, role, account, binding)
        token = await asyncio.to_thread(self._token, name, "tenant")
        caller = TokenCaller(self.plane, token)
        return await self._stack.enter_async_context(caller)

    def kubectl(self, namespace: str) -> Kubectl:
        return kubectl_in(self.plane, self.folder, namespace)

    def _apply(self, namespace: str, *objects: Json) -> None:
        listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        self.kubectl(namespace)("apply", "-f", "-", stdin=listed)

    def _token(self, namespace: str, account: str) -> str:
        made = self.kubectl(namespace)("create", "token", account, "--duration=2h")
        return made.stdout.strip()

    def kubeconfig(self, namespace: str, account: str) -> Path:
        document = yaml.safe_load(self.plane.kubeconfig.read_text())
        document["users"][0]["user"] = {"token": self._token(namespace, account)}
        path = self.folder / f"{account}.kubeconfig"
        write_private(path, yaml.safe_dump(document).encode())
        return path


def all_job_kinds() -> dict[str, list[str]]:
    """The resources of all kinds of jobs, as `tenant` takes them."""
    found: dict[str, list[str]] = {}
    for kind in JOB_KINDS:
        found.setdefault(str(kind.group).partition(".")[0], []).append(kind.plural)
    return found


@asynccontextmanager
async def cluster(
    folder: Path, show: Callable[[str], None] = lambda _: None, memory_bytes: int = MEMORY_BYTES
) -> AsyncIterator[Cluster]:
    """The control plane with what `jobyard install` prints; the controller isn't started yet."""
    binaries = find_binaries(show)
    with (
        running(binaries, folder / "plane", Parts()) as (plane, _),
        memory_limit(memory_bytes) as limit,
    ):
        await asyncio.to_thread(_install, kubectl_in(plane, folder, SYSTEM))
        async with AsyncExitStack() as stack:
            api = await stack.enter_async_context(ApiCaller(plane))
            yield Cluster(plane, folder, api, stack, limit.wrapper)


def kubectl_in(plane: ControlPlane, folder: Path, namespace: str) -> Kubectl:
    return Kubectl(plane, namespace, folder / "kubectl-cache")


def _install(kubectl: Kubectl) -> None:
    objects = [o for o in bundle(Settings(namespace=SYSTEM)) if o["kind"] != "Deployment"]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    kubectl("apply", "--server-side", "-f", "-", stdin=listed)
    names = [f"crd/{kind.plural}.{kind.group}" for kind in KINDS]
    kubectl("wait", "--for=condition=Established", *names, "--timeout=60s")
    served = ",".join(f"{kind.plural}.{kind.group}" for kind in KINDS)
    until_it_holds(
        lambda: kubectl("get", served, check=False).returncode == 0, "our kinds are served"
    )
    user = f"system:serviceaccount:{SYSTEM}:jobyard-controller"
    until_it_holds(
        lambda: (
            kubectl("auth", "can-i", "create", "pods", f"--as={user}", check=False).returncode == 0
        ),
        "the controller may create pods",
    )


def path_of(manifest: Json, namespace: str) -> str:
    """Where an object of one of our kinds, or of Kubernetes' own, is created."""
    kind = kind_of(manifest["apiVersion"], manifest["kind"])
    plural = kind.plural if kind is not None else f"{manifest['kind'].lower()}s"
    root = "/api" if manifest["apiVersion"] == "v1" else "/apis"
    return f"{root}/{manifest['apiVersion']}/namespaces/{namespace}/{plural}"


async def ended(api: ApiCaller, namespace: str, name: str, seconds: float = JOB_SECONDS) -> str:
    """The phase in which a GenericJob ends; TimeoutError if it doesn't in time."""
    path = f"/apis/batch.tensorstack.dev/v1beta1/namespaces/{namespace}/genericjobs/{name}"

    async def phase() -> str:
        answer = await api.request("GET", path)
        found = str(answer.body.get("status", {}).get("phase", "")) if answer.status == 200 else ""
        return found if found in ("Succeeded", "Failed") else ""

    # Asked for, since a server that others keep busy ends watches, and may forget to say so.
    async with asyncio.timeout(seconds):
        return await until(phase)


def own_address() -> str:
    """An address of this machine at which an API server would look for a pod: not a loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        # Nothing is sent: it only asks by which way one would go.
        asked.connect(("198.51.100.1", 9))
        found: str = asked.getsockname()[0]
    return found


Answering = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def program(answer: Answering) -> AsyncIterator[int]:
    """A program in a tenant's pod, at a port of `own_address`; what it does is its own choice."""
    tasks: set[asyncio.Task[None]] = set()

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await reader.readuntil(b"\r\n\r\n")
            await answer(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            tasks.discard(task)
            writer.transport.abort()

    server = await asyncio.start_server(served, own_address(), 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def lines_about(process: ControllerProcess, *words: str) -> Iterator[str]:
    for line in process.lines:
        text = json.dumps(line)
        if any(word in text for word in words):
            yield text
