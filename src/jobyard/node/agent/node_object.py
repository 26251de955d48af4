"""The Node object and its Lease: that the machine is there, what it has, and that it is alive.

The objects are pure; `keep_node` writes them, at the start and then as often as kubelet does.
Whoever else wrote labels or taints keeps them.
"""

from __future__ import annotations

import logging
import platform
import time
from datetime import UTC, datetime
from typing import Any, Final

from jobyard import __version__
from jobyard.client.backoff import wait_seconds
from jobyard.client.errors import ClientError
from jobyard.client.request import LEASES, NODES, Answer, create, merge_patch
from jobyard.client.resources import NAMESPACES
from jobyard.client.retrying import send_patiently
from jobyard.client.sender import Sender
from jobyard.node.agent.options import AgentOptions
from jobyard.plan.moments import text_of

LEASE_NAMESPACE: Final = "kube-node-lease"
LEASE_SECONDS: Final = 40
RENEW_SECONDS: Final = 10.0
# The status itself changes rarely; kubelet writes it this often at least.
STATUS_SECONDS: Final = 300.0
NOT_FOUND: Final = 404
CONFLICT: Final = 409
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_CONDITIONS: Final = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)
_log = logging.getLogger(__name__)


def node_labels(options: AgentOptions) -> dict[str, str]:
    """Those that files select nodes by."""
    machine = platform.machine()
    return {
        "kubernetes.io/hostname": options.node_name,
        "kubernetes.io/os": platform.system().lower(),
        "kubernetes.io/arch": _ARCHITECTURES.get(machine, machine),
        **options.labels,
    }


def node_object(options: AgentOptions) -> dict[str, Any]:
    """The node as it is made."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": options.node_name, "labels": node_labels(options)},
        "spec": {},
    }


def node_status(options: AgentOptions, since: float, now: float) -> dict[str, Any]:
    """Its status; `since` is when this engine began."""
    machine = platform.machine()
    resources = options.capacity.resources()
    return {
        "capacity": resources,
        "allocatable": resources,
        "addresses": [
            {"type": "InternalIP", "address": options.setup.host_address},
            {"type": "Hostname", "address": options.node_name},
        ],
        "conditions": [
            {
                "type": name,
                "status": status,
                "reason": reason,
                "message": message,
                "lastHeartbeatTime": text_of(now),
                "lastTransitionTime": text_of(since),
            }
            for name, status, reason, message in _CONDITIONS
        ],
        "nodeInfo": {
            "machineID": "",
            "systemUUID": "",
            "bootID": "",
            "kernelVersion": platform.release(),
            "osImage": platform.system(),
            "containerRuntimeVersion": f"jobyard://{__version__}",
            "kubeletVersion": f"jobyard-{__version__}",
            "kubeProxyVersion": "",
            "operatingSystem": platform.system().lower(),
            "architecture": _ARCHITECTURES.get(machine, machine),
        },
    }


def lease_object(node: str, now: float) -> dict[str, Any]:
    """The heartbeat."""
    moment = datetime.fromtimestamp(now, UTC)
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": node, "namespace": LEASE_NAMESPACE},
        "spec": {
            "holderIdentity": node,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        },
    }


async def register_node(sender: Sender, options: AgentOptions, since: float) -> None:
    """Make the node and say that it is ready; ClientError when the server can't be told."""
    made = await send_patiently(sender, create(NODES, "", node_object(options)))
    if made.status == CONFLICT:
        labels = {"metadata": {"labels": node_labels(options)}}
        made = await send_patiently(sender, merge_patch(NODES, "", options.node_name, labels))
    _check("node", made)
    await _write_status(sender, options, since)


async def keep_node(sender: Sender, options: AgentOptions, since: float) -> None:
    """Tell that the machine is alive, until cancelled."""
    last_status = time.monotonic()
    while True:
        try:
            await _renew(sender, options.node_name)
            if time.monotonic() - last_status > STATUS_SECONDS:
                await _write_status(sender, options, since)
                last_status = time.monotonic()
        except ClientError as error:
            _log.warning("node %s: %s", options.node_name, error)
        await wait_seconds(RENEW_SECONDS)


async def _write_status(sender: Sender, options: AgentOptions, since: float) -> None:
    status = {"status": node_status(options, since, time.time())}
    request = merge_patch(NODES, "", options.node_name, status, subresource="status")
    answer = await send_patiently(sender, request)
    if answer.status == NOT_FOUND:
        # Somebody deleted it; a kubelet would make it again, too.
        await send_patiently(sender, create(NODES, "", node_object(options)))
        answer = await send_patiently(sender, request)
    _check("status of the node", answer)


async def _renew(sender: Sender, node: str) -> None:
    lease = lease_object(node, time.time())
    patch = {"spec": lease["spec"]}
    answer = await send_patiently(sender, merge_patch(LEASES, LEASE_NAMESPACE, node, patch))
    if answer.status != NOT_FOUND:
        return _check("lease", answer)
    made = await send_patiently(sender, create(LEASES, LEASE_NAMESPACE, lease))
    if made.status == NOT_FOUND:
        namespace = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": LEASE_NAMESPACE},
        }
        await send_patiently(sender, create(NAMESPACES, "", namespace))
        made = await send_patiently(sender, create(LEASES, LEASE_NAMESPACE, lease))
    return _check("lease", made)


def _check(what: str, answer: Answer) -> None:
    if not answer.is_ok and answer.status != CONFLICT:
        _log.warning("%s: %s", what, answer.problem)
