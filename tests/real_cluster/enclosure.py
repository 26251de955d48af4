"""Namespaces of their own for a cluster: what it does to the machine ends with them.

A node changes a machine: interfaces, packet filters, routes, mounts, kernel settings, processes
that outlive who started them. In here each has a place of its own, and when the first process
ends, the kernel ends all others and drops the rest. The outer half is called by `__main__`; the
inner one is `inside`.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from real_cluster import cgroups

# Present in the environment of all that runs enclosed: the folder that is theirs.
FOLDER_VARIABLE = "JOBYARD_NODE_FOLDER"

# What kubelet wants of the kernel. These are the machine's, not a namespace's: enclosed, files
# that hold the wanted values lie over them, so that kubelet is content and changes nothing.
KERNEL_SETTINGS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}


# How a trace of one begins.
SETTING = "kernel setting"
# Of the node and its pods, by how they begin.
OWN_ADDRESSES = ("10.99.0.", "10.88.")


def enclosed(command: Sequence[str], folder: Path) -> int:
    """Run `command` in new namespaces to its end, and return its exit code."""
    process = subprocess.Popen(
        [
            # If we are killed, so is unshare, and with it the first process in there.
            *("setpriv", "--pdeathsig", "KILL"),
            *("unshare", "--mount", "--net", "--pid", "--ipc", "--uts"),
            *("--fork", "--kill-child", "--mount-proc"),
            *(sys.executable, "-m", "real_cluster.inside", *command),
        ],
        env={**os.environ, FOLDER_VARIABLE: str(folder)},
    )
    # A Ctrl-C reaches pytest as well, which ends in order; we only wait for that.
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return process.wait()
    finally:
        signal.signal(signal.SIGINT, previous)
        if process.poll() is None:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the first process in there; unshare waits for it, and it for all others."""
    pid = process.pid
    first = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for child in first:
        os.kill(int(child), signal.SIGKILL)
    if not first:
        process.kill()
    process.wait()


def traces(folder: Path) -> frozenset[str]:
    """What a cluster might leave on the machine, in words; others may use it meanwhile."""
    return frozenset(
        (
            *_mounts(folder),
            *_addresses(),
            *_groups(folder.name),
            *_kernel_settings(),
            *_processes(folder),
        )
    )


def left_behind(before: frozenset[str], after: frozenset[str]) -> frozenset[str]:
    """What there is now and wasn't before.

    A kernel setting that was not even there came with a module, such as the packet filter's, which
    the kernel loads for whoever asks first: nothing of the machine's has changed.
    """
    there = {trace.partition(" = ")[0] for trace in before}
    return frozenset(
        trace
        for trace in after - before
        if not trace.startswith(SETTING) or trace.partition(" = ")[0] in there
    )


def _mounts(folder: Path) -> Iterator[str]:
    for line in Path("/proc/self/mounts").read_text().splitlines():
        if str(folder) in line:
            yield f"mount {line}"


def _addresses() -> Iterator[str]:
    told = subprocess.run(["ip", "-4", "-oneline", "address"], capture_output=True, text=True)
    for line in told.stdout.splitlines():
        _, interface, _, address, *_ = line.split()
        if address.startswith(OWN_ADDRESSES):
            yield f"interface {interface} with {address}"


def _groups(name: str) -> Iterator[str]:
    for tree in cgroups.trees():
        for folder, _, _ in os.walk(tree / name):
            yield f"cgroup {folder}"


def _kernel_settings() -> Iterator[str]:
    for name in (*KERNEL_SETTINGS, "net/ipv4/ip_forward", "net/netfilter/nf_conntrack_max"):
        path = Path("/proc/sys", name)
        if path.exists():
            yield f"{SETTING} {name} = {path.read_text().strip()}"


def _processes(folder: Path) -> Iterator[str]:
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes()
            arguments = (process / "cmdline").read_text(errors="replace")
        except OSError:
            # Ended while we looked.
            continue
        if f"{FOLDER_VARIABLE}={folder}".encode() in environment.split(b"\0"):
            yield f"process {process.name} {arguments[:80]!r}"
