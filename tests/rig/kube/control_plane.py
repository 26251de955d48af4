"""Start a Kubernetes control plane on the loopback address, and take it down again.

The recipe only: which commands with which flags, in which order, and what "ready"
means. The keeper calls it; processes are `component`'s business. Nothing here
survives the `with` block but the log files.
"""

import json
import shutil
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rig.kube import kubeconfig
from rig.kube.certificates import Credentials, make_credentials
from rig.kube.component import Component, await_condition, start, stop
from rig.kube.plane import ControlPlane
from rig.tls import client_context

ETCD_READY_SECONDS = 30
# Five seconds on a free machine; the rest is for machines that are not.
API_READY_SECONDS = 90
CONTROLLERS_READY_SECONDS = 60
VERSION_SECONDS = 30
PROBE_SECONDS = 2
# The data is thrown away, so there is nothing that a longer grace would save.
STOP_GRACE_SECONDS = 3
SERVICE_RANGE = "10.0.0.0/24"
# The first of the range, which is always the API server's own service.
SERVICE_ADDRESS = "10.0.0.1"
POD_COLLECTOR = "pod-garbage-collector-controller"


@dataclass(frozen=True, slots=True)
class Parts:
    """Which commands run besides etcd and kube-apiserver."""

    controllers: bool = True
    scheduler: bool = False
    # Tests lose nothing if the machine does; a benchmark of a disk has to wait for it.
    fsync: bool = False
    # Where real nodes and their pods reach the server; without one, nodes are fake.
    node_address: str | None = None


@dataclass(frozen=True, slots=True)
class Site:
    """Where one plane lives: its commands, files and ports."""

    binaries: Path
    folder: Path
    credentials: Credentials
    etcd_port: int
    api_port: int

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.api_port}"

    @property
    def etcd_url(self) -> str:
        return f"http://127.0.0.1:{self.etcd_port}"

    @property
    def audit_log(self) -> Path:
        return self.folder / "audit.log"

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"


@dataclass(slots=True)
class Starter:
    """Starts components one after another and remembers which are alive."""

    folder: Path
    stack: ExitStack
    ending: int | None
    components: list[Component] = field(default_factory=list)

    def start(self, command: Sequence[str]) -> None:
        name = Path(command[0]).name
        component = start(command, self.folder / f"{name}.log")
        self.stack.callback(stop, component, grace_seconds=STOP_GRACE_SECONDS)
        self.components.append(component)

    def await_condition(
        self, condition: Callable[[], bool], what: str, deadline_seconds: float
    ) -> None:
        await_condition(
            condition,
            what,
            self.components,
            deadline_seconds=deadline_seconds,
            ending=self.ending,
        )

    def await_answer(
        self, url: str, tls: ssl.SSLContext | None, what: str, deadline_seconds: float
    ) -> bytes:
        """The body of the first successful GET."""
        bodies: list[bytes] = []

        def is_answered() -> bool:
            body = _answer(url, tls)
            bodies.extend([] if body is None else [body])
            return bool(bodies)

        self.await_condition(is_answered, what, deadline_seconds)
        return bodies[0]


@contextmanager
def running(
    binaries: Path, folder: Path, parts: Parts, *, ending: int | None = None
) -> Iterator[tuple[ControlPlane, tuple[Component, ...]]]:
    """A control plane in `folder` (made here) for the time of a `with` block.

    Raises StartError with the log of the part at fault, or AbandonedError when `ending`
    turns readable before the plane is ready.
    """
    folder.mkdir(mode=0o700, parents=True)
    with ExitStack() as stack:
        stack.callback(_remove_data, folder)
        site = Site(
            binaries=binaries,
            folder=folder,
            credentials=make_credentials(
                folder / "pki", (parts.node_address, SERVICE_ADDRESS) if parts.node_address else ()
            ),
            etcd_port=stack.enter_context(reserved_port()),
            api_port=stack.enter_context(reserved_port()),
        )
        kubeconfig.write(
            site.kubeconfig,
            site.url,
            site.credentials.ca,
            site.credentials.admin_cert,
            site.credentials.admin_key,
        )
        starter = Starter(folder, stack, ending)
        version = _start_all(site, parts, starter)
        plane = ControlPlane(
            url=site.url,
            version=version,
            kubeconfig=site.kubeconfig,
            ca=site.credentials.ca,
            cert=site.credentials.admin_cert,
            key=site.credentials.admin_key,
            kubectl=binaries / "kubectl",
            has_controllers=parts.controllers,
            audit_log=site.audit_log,
        )
        yield plane, tuple(starter.components)


def _start_all(site: Site, parts: Parts, starter: Starter) -> str:
    """Start what `parts` asks for, wait until it works, and return the server's version."""
    admin = site.credentials
    tls = client_context(admin.ca, admin.admin_cert, admin.admin_key)
    starter.start(etcd_command(site, parts))
    starter.await_answer(f"{site.etcd_url}/health", None, "etcd answers", ETCD_READY_SECONDS)
    starter.start(apiserver_command(site, parts))
    ready = f"{site.url}/readyz"
    starter.await_answer(ready, tls, "kube-apiserver is ready", API_READY_SECONDS)
    if parts.controllers:
        starter.start(controller_manager_command(site, parts))
    if parts.scheduler:
        starter.start(scheduler_command(site))
    if parts.controllers:
        # Made by a controller, so this shows that the controllers have begun their work.
        account = f"{site.url}/api/v1/namespaces/default/serviceaccounts/default"
        starter.await_answer(
            account,
            tls,
            "kube-controller-manager makes the default service account",
            CONTROLLERS_READY_SECONDS,
        )
    version = starter.await_answer(
        f"{site.url}/version", tls, "kube-apiserver tells its version", VERSION_SECONDS
    )
    return str(json.loads(version)["gitVersion"])


def etcd_command(site: Site, parts: Parts) -> tuple[str, ...]:
    """One member that doesn't wait for the disk unless it is asked to."""
    return (
        str(site.binaries / "etcd"),
        f"--data-dir={site.folder / 'etcd'}",
        *(() if parts.fsync else ("--unsafe-no-fsync",)),
        f"--listen-client-urls={site.etcd_url}",
        f"--advertise-client-urls={site.etcd_url}",
        "--socket-reuse-port",
        # There are no peers, so any port will do and nobody needs to know it.
        "--listen-peer-urls=http://127.0.0.1:0",
        "--initial-advertise-peer-urls=http://127.0.0.1:0",
        "--initial-cluster=default=http://127.0.0.1:0",
        "--log-level=warn",
    )


def apiserver_command(site: Site, parts: Parts) -> tuple[str, ...]:
    """A server with RBAC and admission as usual, but with no limits on the rate."""
    credentials = site.credentials
    issuer = "https://kubernetes.default.svc.cluster.local"
    return (
        str(site.binaries / "kube-apiserver"),
        f"--etcd-servers={site.etcd_url}",
        *_address_flags(site, parts),
        f"--secure-port={site.api_port}",
        "--permit-port-sharing",
        f"--cert-dir={site.folder / 'pki'}",
        f"--tls-cert-file={credentials.server_cert}",
        f"--tls-private-key-file={credentials.server_key}",
        f"--client-ca-file={credentials.ca}",
        f"--service-account-issuer={issuer}",
        f"--service-account-key-file={credentials.service_account_public}",
        f"--service-account-signing-key-file={credentials.service_account_key}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--authorization-mode=RBAC",
        "--allow-privileged",
        "--max-requests-inflight=0",
        "--max-mutating-requests-inflight=0",
        "--enable-priority-and-fairness=false",
        # Off by default, but on in some distributions: who sets an owner that blocks deletion
        # must be allowed to touch the owner's finalizers.
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
        f"--audit-policy-file={_audit_policy(site)}",
        f"--audit-log-path={site.audit_log}",
        # With no controller to make service accounts, no pod would be admitted at all.
        *(() if parts.controllers else ("--disable-admission-plugins=ServiceAccount",)),
    )


def _address_flags(site: Site, parts: Parts) -> tuple[str, ...]:
    if parts.node_address is None:
        return (
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            # Endpoints may not be loopback addresses; the reconciler would only log errors.
            "--endpoint-reconciler-type=none",
        )
    return (
        "--bind-address=0.0.0.0",
        f"--advertise-address={parts.node_address}",
        # For logs and exec.
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-client-certificate={site.credentials.admin_cert}",
        f"--kubelet-client-key={site.credentials.admin_key}",
    )


def _audit_policy(site: Site) -> Path:
    """Notes down what service accounts ask for: tests compare that with what they may."""
    rules = [
        {
            "level": "Metadata",
            "userGroups": ["system:serviceaccounts"],
            "omitStages": ["RequestReceived"],
        },
        {"level": "None"},
    ]
    path = site.folder / "pki" / "audit-policy.json"
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}
    path.write_text(json.dumps(policy))
    return path


def controller_manager_command(site: Site, parts: Parts) -> tuple[str, ...]:
    """All controllers, but for those that would take pods away from nodes that are fake.

    One evicts pods from nodes that don't report; the other removes by force, in the middle
    of a test, the pods of nodes that have been missing for a while.
    """
    unwanted = () if parts.node_address else ("node-lifecycle-controller", POD_COLLECTOR)
    return (
        str(site.binaries / "kube-controller-manager"),
        f"--kubeconfig={site.kubeconfig}",
        f"--controllers={','.join(('*', *(f'-{name}' for name in unwanted)))}",
        "--leader-elect=false",
        "--secure-port=0",
        f"--service-account-private-key-file={site.credentials.service_account_key}",
        f"--root-ca-file={site.credentials.ca}",
        "--kube-api-qps=10000",
        "--kube-api-burst=20000",
        "--concurrent-job-syncs=20",
    )


def scheduler_command(site: Site) -> tuple[str, ...]:
    """The stock scheduler, for tests of pods on fake nodes."""
    return (
        str(site.binaries / "kube-scheduler"),
        f"--kubeconfig={site.kubeconfig}",
        "--leader-elect=false",
        "--secure-port=0",
        "--kube-api-qps=10000",
        "--kube-api-burst=20000",
    )


@contextmanager
def reserved_port() -> Iterator[int]:
    """A free loopback port that stays ours until a server of ours listens on it.

    Closing a probing socket and hoping that nobody takes its port is a race between
    test runs. Here the socket stays bound, without listening, and the server shares
    the port (SO_REUSEPORT on both sides); connections only ever reach the listener.
    """
    with closing(socket.socket()) as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind(("127.0.0.1", 0))
        address: Any = holder.getsockname()
        yield int(address[1])


def _answer(url: str, tls: ssl.SSLContext | None = None) -> bytes | None:
    """The body of a successful GET, or None while there is none to be had."""
    # No proxy: a proxy from the environment has no business with the loopback address.
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls)
    )
    try:
        with opener.open(url, timeout=PROBE_SECONDS) as response:
            body: bytes = response.read()
            return body
    except (urllib.error.URLError, OSError):
        return None


def _remove_data(folder: Path) -> None:
    """Drop the bulk and the keys, and leave the logs to whoever asks what went wrong."""
    shutil.rmtree(folder / "etcd", ignore_errors=True)
    shutil.rmtree(folder / "pki", ignore_errors=True)
    (folder / "kubeconfig").unlink(missing_ok=True)
