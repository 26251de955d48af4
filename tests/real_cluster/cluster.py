"""A whole Kubernetes of one node, for the time of a `with` block.

Puts together what others describe: `rig.kube.control_plane`, `node`, `images`, and the names and
volumes in the manifests beside this file. Has to run enclosed (see `enclosure`).
"""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from rig.kube import control_plane
from rig.kube.component import StartError
from rig.kube.control_plane import Parts, Starter
from rig.kube.kubectl import Kubectl
from rig.kube.plane import ControlPlane

from real_cluster import images, node
from real_cluster.ingredients import Ingredients
from real_cluster.inside import NODE_ADDRESS

HERE = Path(__file__).parent
CONTAINERD_READY_SECONDS = 60
IMPORT_SECONDS = 300
NODE_READY_SECONDS = 180
DNS_READY_SECONDS = 300
VOLUMES = 10
PAUSE_IMAGE = "jobyard/pause:1"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster that runs pods, and what it consists of."""

    plane: ControlPlane
    folder: Path
    versions: Mapping[str, str]
    # Their names; no others can be had.
    images: tuple[str, ...]

    def kubectl(self, namespace: str = "default") -> Kubectl:
        return Kubectl(self.plane, namespace, self.folder / "kubectl-cache")


@contextmanager
def running(folder: Path, ingredients: Ingredients) -> Iterator[Cluster]:
    """A cluster with its files in `folder`; ready when names of services resolve."""
    with ExitStack() as stack:
        starter = Starter(folder, stack, None)
        starter.start(node.containerd_command(folder, PAUSE_IMAGE))
        starter.await_condition(_containerd_answers, "containerd", CONTAINERD_READY_SECONDS)
        log = folder / "import.log"
        files = {
            *ingredients.images.values(),
            images.coredns_archive(folder, ingredients.coredns),
        }
        importing = images.start_import(files, log)
        parts = Parts(scheduler=True, node_address=NODE_ADDRESS)
        plane, _ = stack.enter_context(
            control_plane.running(ingredients.control_plane, folder / "plane", parts)
        )
        if importing.wait(IMPORT_SECONDS) != 0:
            raise StartError(f"import of images:\n{log.read_text()}")
        files_of_node = node.NodeFiles(folder, ingredients.node, plane.kubeconfig, plane.ca)
        starter.start(node.kubelet_command(files_of_node))
        starter.start(node.kube_proxy_command(files_of_node))
        versions = _versions(plane, ingredients.coredns)
        cluster = Cluster(plane, folder, versions, tuple(ingredients.images))
        _await_node(cluster, starter)
        yield cluster


def _await_node(cluster: Cluster, starter: Starter) -> None:
    kubectl = cluster.kubectl()
    seen = ("get", "node", node.NODE_NAME)
    starter.await_condition(
        lambda: kubectl(*seen, check=False).returncode == 0,
        "kubelet registers its node",
        NODE_READY_SECONDS,
    )
    kubectl(
        *("wait", "--for=condition=Ready", "node", "--all", f"--timeout={NODE_READY_SECONDS}s"),
        timeout_seconds=NODE_READY_SECONDS + 10,
    )
    kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(volumes(cluster.folder / "volumes")))
    system = cluster.kubectl("kube-system")
    system("apply", "-f", str(HERE / "dns.yaml"))
    await_rollout(system, DNS_READY_SECONDS)


def await_rollout(kubectl: Kubectl, seconds: int) -> None:
    """Wait until the deployments of a namespace are ready; tell how their pods are if not."""
    rolled_out = kubectl(
        *("rollout", "status", "deployment", f"--timeout={seconds}s"),
        check=False,
        timeout_seconds=seconds + 10,
    )
    if rolled_out.returncode != 0:
        pods = kubectl("describe", "pods").stdout
        names = kubectl("get", "pods", "--output=name").stdout.split()
        logs = (kubectl("logs", "--all-containers", name, check=False).stdout for name in names)
        raise StartError("\n".join((rolled_out.stdout, rolled_out.stderr, pods, *logs)))


def volumes(folder: Path) -> Iterator[dict[str, Any]]:
    """Folders of the node as volumes, for claims that name no class.

    Nobody makes more on demand: there are as many as all tests together claim.
    """
    yield {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": "local",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "kubernetes.io/no-provisioner",
    }
    for number in range(VOLUMES):
        yield {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"local-{number}"},
            "spec": {
                "storageClassName": "local",
                "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
                "capacity": {"storage": "10Gi"},
                "hostPath": {"path": str(folder / str(number)), "type": "DirectoryOrCreate"},
            },
        }


def _containerd_answers() -> bool:
    command = ["ctr", f"--address={node.SOCKET}", "version"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _versions(plane: ControlPlane, coredns: Path) -> Mapping[str, str]:
    def first_line(*command: str) -> str:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()[0]

    return {
        "Kubernetes": plane.version.removeprefix("v"),
        "containerd": first_line("containerd", "--version").split()[2].removeprefix("v"),
        "runc": first_line("runc", "--version").split()[2],
        "CoreDNS": first_line(str(coredns), "-version").removeprefix("CoreDNS-"),
    }
