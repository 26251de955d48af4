"""The first process of the enclosure: sets it up, runs one command in it, and collects the dead.

Whoever loses its parent in here becomes our child, as containers' shims do.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

from real_cluster.enclosure import FOLDER_VARIABLE, KERNEL_SETTINGS

# Everything of the node is there: its API server, kubelet, and what pods see as the node.
NODE_ADDRESS = "10.99.0.1"
# A node writes there without being asked where.
OWN_FOLDERS = ("/run", "/var/log", "/var/lib")
# Images take 4 GB, and the pods need as much again.
MEMORY_FOR_IMAGES_BYTES = 12 * 2**30


def main() -> int:
    # Commands of the system are in there on some distributions, but not on everybody's path.
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    folder = Path(os.environ[FOLDER_VARIABLE])
    _mounts(folder)
    _network()
    # A Ctrl-C is for pytest, which then ends in order, and only then do we.
    signal.signal(signal.SIGINT, lambda *_: None)
    child = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ)
    while True:
        ended, status = os.wait()
        if ended == child:
            return os.waitstatus_to_exitcode(status)


def _mounts(folder: Path) -> None:
    for own in OWN_FOLDERS:
        assert Path(own) not in folder.parents, f"{folder} must be elsewhere than below {own}"
        _do("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", own)
    # Volumes are on the disk, or a pod's memory limit would count what is in them.
    volumes, place = folder / "kubelet", Path("/var/lib/kubelet")
    volumes.mkdir()
    place.mkdir()
    _do("mount", "--bind", str(volumes), str(place))
    if _available_bytes() >= MEMORY_FOR_IMAGES_BYTES:
        # Images are many small files, which come and go much faster in memory.
        (folder / "containerd").mkdir()
        _do("mount", "-t", "tmpfs", "tmpfs", str(folder / "containerd"))
    settings = folder / "kernel"
    for name, value in KERNEL_SETTINGS.items():
        path = settings / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n")
        _do("mount", "--bind", str(path), f"/proc/sys/{name}")
    # What a node mounts reaches containers that ask for it; nothing reaches the machine.
    _do("mount", "--make-rshared", "/")


def _available_bytes() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    (told,) = (line for line in lines if line.startswith("MemAvailable:"))
    return int(told.split()[1]) * 1024


def _network() -> None:
    _do("ip", "link", "set", "lo", "up")
    # On the loopback interface, which every kernel has; pods reach it all the same.
    _do("ip", "address", "add", f"{NODE_ADDRESS}/32", "dev", "lo")
    # Of this network namespace only.
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def _do(*command: str) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    sys.exit(main())
