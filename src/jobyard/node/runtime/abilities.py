"""What this machine lets us do, each found out by doing it in a forked child that then exits.

For `doctor`, and for the reason when a sandbox can't be had. It changes nothing on the machine
and chooses nothing: which runtime to use is up to who asks.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from jobyard.node.hub.netlink import Netlink
from jobyard.node.isolation import cgroups, kernel, seccomp
from jobyard.node.isolation.users import RealUser, enter_new_user_namespace


class What(StrEnum):
    """What may be there or not."""

    USER = "user namespaces"
    NETWORK = "network namespaces"
    MOUNT = "mount namespaces"
    PID = "PID namespaces"
    BRIDGE = "bridges"
    PROC = "a fresh /proc"
    OVERLAY = "overlay mounts"
    FILTERS = "filters of system calls"
    PROCESSES = "limits of processes"
    MEMORY = "memory control groups"
    CPU = "CPU control groups"
    PASTA = "pasta"
    SLIRP = "slirp4netns"
    NFT = "nft"


class Ability(msgspec.Struct, frozen=True, kw_only=True):
    """One thing: whether it is there, why we think so, and what would help if it isn't."""

    what: What
    is_there: bool
    reason: str
    remedy: str = ""


_NEEDED: Final = (What.USER, What.NETWORK, What.MOUNT, What.PID, What.BRIDGE)
_RESTS_ON: Final = {
    What.BRIDGE: (What.NETWORK,),
    What.OVERLAY: (What.MOUNT,),
    What.PROC: (What.MOUNT, What.PID),
}
_LINUX_REMEDY: Final = "use the host runtime (--runtime host), or a Linux that has them"
_SYSCTLS: Final = (
    # Where, what keeps namespaces out, and what lets them in.
    ("/proc/sys/user/max_user_namespaces", "0", "15000"),
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "1"),
    ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
)
_REMEDIES: Final = {
    What.USER: "allow unprivileged user namespaces, or run as root, or use --runtime host",
    What.NETWORK: _LINUX_REMEDY,
    What.MOUNT: _LINUX_REMEDY,
    What.PID: _LINUX_REMEDY,
    What.BRIDGE: "load the kernel modules bridge and veth (modprobe bridge veth)",
    What.PROC: "not needed; inside a container, one that may mount /proc (--privileged)",
    What.OVERLAY: "what replicas write to the machine's folders stays there; Linux 5.11 has them",
    What.FILTERS: "not needed; replicas may call whatever their capabilities allow",
    What.PROCESSES: "not needed; a replica may start as many processes as the machine allows",
    What.MEMORY: "not needed; memory is watched instead (systemd-run --user --scope gives one)",
    What.CPU: "not needed; CPU limits are not enforced (systemd-run --user --scope gives one)",
    What.PASTA: "for pods to reach the network: install passt (/dev/net/tun of mode 666)",
    What.SLIRP: "for pods to reach the network: install slirp4netns (root needs this one)",
    What.NFT: "not needed; rules are set without it",
}


def look() -> tuple[Ability, ...]:
    """All of them; a few milliseconds."""
    found = _tried_in_child()
    found |= {
        What.FILTERS: _filter_problem(),
        What.PROCESSES: _processes_problem(),
        What.MEMORY: _group_problem(memory_bytes=1 << 30, cpu_millis=0),
        What.CPU: _group_problem(memory_bytes=0, cpu_millis=1000),
        What.PASTA: _program_problem("pasta"),
        What.SLIRP: _program_problem("slirp4netns"),
        What.NFT: _program_problem("nft"),
    }
    return tuple(_ability(what, found.get(what, "not tried")) for what in What)


def missing_for_layers(abilities: tuple[Ability, ...]) -> Ability | None:
    """What keeps what replicas write from being theirs alone, if anything does."""
    return next((one for one in abilities if one.what == What.OVERLAY and not one.is_there), None)


def missing_for_sandbox(abilities: tuple[Ability, ...]) -> Ability | None:
    """The first thing that keeps the sandbox runtime from working here."""
    is_root = os.geteuid() == 0
    for ability in abilities:
        if ability.what in _NEEDED and not ability.is_there:
            if ability.what == What.USER and is_root:
                continue
            return ability
    return None


def _ability(what: What, problem: str) -> Ability:
    if not problem:
        return Ability(what=what, is_there=True, reason="works")
    remedy = _REMEDIES[what]
    if what == What.USER:
        for path, bad, good in _SYSCTLS:
            with contextlib.suppress(OSError):
                if Path(path).read_text().strip() == bad:
                    name = path.removeprefix("/proc/sys/").replace("/", ".")
                    problem = f"{name} is {bad}"
                    remedy = f"sudo sysctl {name}={good}, or use --runtime host"
    return Ability(what=what, is_there=False, reason=f"no {what}: {problem}", remedy=remedy)


def _program_problem(name: str) -> str:
    if not shutil.which(name):
        return "not installed"
    if name != "nft" and not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "it is installed, but /dev/net/tun may not be opened"
    return ""


def _filter_problem() -> str:
    if not seccomp.is_known():
        return f"none has been written for {platform.machine()}"
    return "" if os.path.exists("/proc/sys/kernel/seccomp") else "this kernel has none"


def _processes_problem() -> str:
    if os.geteuid() != 0:
        # In a user namespace of the container's own.
        return ""
    return _group_problem(memory_bytes=0, cpu_millis=0, processes_max=1000)


def _group_problem(*, memory_bytes: int, cpu_millis: int, processes_max: int = 0) -> str:
    name = f"jobyard-try-{os.getpid()}"
    group = cgroups.make(name, memory_bytes, cpu_millis, processes_max)
    if group is None:
        return "no control group here may be written"
    group.remove()
    return ""


def _tried_in_child() -> dict[What, str]:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            os.write(write, json.dumps(_try_all()).encode())
        finally:
            os._exit(0)
    os.close(write)
    text = b""
    while part := os.read(read, 65536):
        text += part
    os.close(read)
    os.waitpid(child, 0)
    return {What(name): problem for name, problem in json.loads(text or b"{}").items()}


def _try_all() -> dict[str, str]:
    """In the order in which one needs the other; in a child of its own."""
    steps: tuple[tuple[What, Callable[[], None]], ...] = (
        (What.USER, _try_user),
        (What.NETWORK, lambda: kernel.unshare(kernel.CLONE_NEWNET)),
        (What.BRIDGE, lambda: Netlink().add_bridge("try", bytes((2, 0, 0, 0, 0, 1)))),
        (What.MOUNT, _try_mount),
        (What.OVERLAY, _try_overlay),
        (What.PID, lambda: kernel.unshare(kernel.CLONE_NEWPID)),
        (What.PROC, _try_proc),
    )
    found: dict[str, str] = {}
    for what, step in steps:
        # Never on the machine itself, where a mount would stay.
        lacking = [one for one in _RESTS_ON.get(what, ()) if found[one]]
        if lacking:
            found[what] = f"without {lacking[0]} it can't be tried"
            continue
        try:
            step()
            found[what] = ""
        except OSError as error:
            found[what] = error.strerror or str(error)
    return found


def _try_user() -> None:
    real = RealUser(uid=os.getuid(), gid=os.getgid())
    if real.uid == 0:
        # The others are tried with the powers that root has anyway; this one apart.
        _try_in_child(lambda: kernel.unshare(kernel.CLONE_NEWUSER))
        return
    enter_new_user_namespace(inner=RealUser(uid=0, gid=0), outer=real)


def _try_mount() -> None:
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.mount("", "/", "", kernel.MS_REC | kernel.MS_SLAVE)
    kernel.mount("tmpfs", tempfile.gettempdir(), "tmpfs", kernel.MS_NOSUID)


def _try_overlay() -> None:
    base = Path(tempfile.gettempdir())
    for name in ("upper", "work", "all"):
        (base / name).mkdir()
    # As containers have it: over the machine's folders, which an ordinary user can't have whole.
    lower = "/" if _is_real_root() else "/usr"
    data = f"lowerdir={lower},upperdir={base}/upper,workdir={base}/work"
    try:
        kernel.mount("overlay", f"{base}/all", "overlay", 0, f"{data},userxattr")
    except OSError:
        kernel.mount("overlay", f"{base}/all", "overlay", 0, data)


def _is_real_root() -> bool:
    """Not one by mapping, as which an ordinary user tries all this."""
    return Path("/proc/self/uid_map").read_text().split()[:2] == ["0", "0"]


def _try_proc() -> None:
    _try_in_child(lambda: kernel.mount("proc", "/proc", "proc"))


def _try_in_child(step: Callable[[], None]) -> None:
    child = os.fork()
    if child == 0:
        try:
            step()
        except OSError as error:
            os._exit(error.errno or 1)
        os._exit(0)
    if status := os.waitpid(child, 0)[1]:
        number = os.waitstatus_to_exitcode(status)
        raise OSError(number, os.strerror(number))
