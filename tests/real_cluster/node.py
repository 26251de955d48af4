"""The node of the cluster: containerd, kubelet and kube-proxy, with which settings.

The recipe only, like `rig.kube.control_plane`; `cluster` runs it. It relies on being enclosed:
/run, /var/lib and the network are the node's own.
"""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from real_cluster.inside import NODE_ADDRESS

NODE_NAME = "node"
POD_RANGE = "10.88.0.0/16"
DNS_ADDRESS = "10.0.0.10"
CLUSTER_DOMAIN = "cluster.local"
SOCKET = Path("/run/containerd/containerd.sock")
# Where distributions put the plugins of the pod network.
PLUGIN_FOLDERS = ("/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni")


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """What the node's programs are started with."""

    folder: Path
    binaries: Path
    kubeconfig: Path
    ca: Path


def containerd_command(folder: Path, pause_image: str) -> tuple[str, ...]:
    """containerd with its data in `folder`; everything else is below /run."""
    network = folder / "cni"
    network.mkdir()
    (network / "10-pods.conflist").write_text(json.dumps(pod_network()))
    config = folder / "containerd.toml"
    config.write_text(
        f"""\
version = 2
root = "{folder / "containerd"}"
state = "/run/containerd"

[grpc]
  address = "{SOCKET}"

# It would make /opt/containerd.
[plugins."io.containerd.internal.v1.opt"]
  path = "{folder / "opt"}"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause_image}"
  # Only who has CAP_SYS_RESOURCE may set a score below its own; in a container we may not.
  restrict_oom_score_adj = true
  disable_apparmor = true

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugin_folder()}"
    conf_dir = "{network}"

  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{snapshotter(folder)}"
    default_runtime_name = "runc"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
"""
    )
    return ("containerd", f"--config={config}")


def plugin_folder() -> Path:
    """Where the plugins of the pod network are."""
    for folder in map(Path, PLUGIN_FOLDERS):
        if (folder / "ptp").exists():
            return folder
    raise AssertionError(f"no network plugins in {', '.join(PLUGIN_FOLDERS)}")


def pod_network() -> Mapping[str, Any]:
    """A cable from each pod to the node, which routes between them.

    A bridge would do too, but then packets from pod to pod go round the node's packet filter, and
    services need a kernel setting that isn't everywhere.
    """
    addresses = {
        "type": "host-local",
        "ranges": [[{"subnet": POD_RANGE}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    return {
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {"type": "ptp", "ipMasq": False, "mtu": 1500, "ipam": addresses},
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def snapshotter(folder: Path) -> str:
    """overlayfs where it works; on top of another overlay it doesn't, and layers are copied."""
    probe = folder / "containerd" / "probe"
    layers = {name: probe / name for name in ("lowerdir", "upperdir", "workdir")}
    for path in (*layers.values(), probe / "merged"):
        path.mkdir(parents=True)
    options = ",".join(f"{name}={path}" for name, path in layers.items())
    mounted = subprocess.run(
        ["mount", "-t", "overlay", "overlay", "-o", options, str(probe / "merged")],
        capture_output=True,
        check=False,
    )
    if mounted.returncode != 0:
        return "native"
    subprocess.run(["umount", str(probe / "merged")], check=True)
    return "overlayfs"


def kubelet_command(files: NodeFiles) -> tuple[str, ...]:
    """kubelet, the same for version 1 and 2 of control groups."""
    names = files.folder / "resolv.conf"
    # What pods with dnsPolicy Default see: there is nobody to ask.
    names.write_text("")
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": str(files.ca)},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "address": NODE_ADDRESS,
        "cgroupDriver": "cgroupfs",
        # Made before the enclosure was, with the name of its folder.
        "cgroupRoot": f"/{files.folder.name}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "clusterDNS": [DNS_ADDRESS],
        "clusterDomain": CLUSTER_DOMAIN,
        "resolvConf": str(names),
        "volumePluginDir": str(files.folder / "volume-plugins"),
        # Tests measure behaviour, not the disk that they happen to share.
        "evictionHard": {"nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
    }
    return (
        str(files.binaries / "kubelet"),
        f"--config={_written(files.folder / 'kubelet.yaml', config)}",
        f"--kubeconfig={files.kubeconfig}",
        f"--hostname-override={NODE_NAME}",
        f"--node-ip={NODE_ADDRESS}",
        f"--cert-dir={files.folder / 'kubelet-pki'}",
    )


def kube_proxy_command(files: NodeFiles) -> tuple[str, ...]:
    """kube-proxy: services' addresses, by the packet filter of the enclosure."""
    config = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(files.kubeconfig)},
        "hostnameOverride": NODE_NAME,
        "mode": "iptables",
        "clusterCIDR": POD_RANGE,
        "healthzBindAddress": "127.0.0.1:10256",
        # Limits of the whole machine stay as they are.
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
        # A service's name is asked for as soon as its pods are there.
        "iptables": {"minSyncPeriod": "0s", "syncPeriod": "30s"},
    }
    return (
        str(files.binaries / "kube-proxy"),
        f"--config={_written(files.folder / 'kube-proxy.yaml', config)}",
    )


def _written(path: Path, config: Mapping[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path
