"""What replicas may do: no more than in a container, as root and as an ordinary user.

Run as root, the last test runs this whole file again as a user without rights.
"""

from __future__ import annotations

import errno
import os
import re
import resource
import shlex
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rig.users import free_uid

from jobyard.node.hub.starting import supervisor_of
from jobyard.node.isolation import seccomp
from jobyard.node.isolation.privileges import processes_max
from jobyard.node.objects.pod_object import pod_from
from jobyard.node.ordering.privileges import privileges_of
from jobyard.node.ordering.problems import NeverError
from jobyard.node.runtime.abilities import look, missing_for_sandbox
from jobyard.node.shared.capabilities import CAPABILITIES, DEFAULT_CAPABILITIES
from jobyard.node.shared.order import ContainerOrder, Privileges, RestartPolicy
from jobyard.node.shared.state import Stage
from node.isolation_stage import Yard, file_as, play, shell

IS_ROOT = os.geteuid() == 0
DEFAULT_MASK = 0x00000000A80425FB
PRIVILEGED = Privileges(
    capabilities=CAPABILITIES, no_new_privileges=False, is_filtered=False, is_privileged=True
)
UNFILTERED = Privileges(is_filtered=False)

lacking = missing_for_sandbox(look()) if sys.platform == "linux" else None
needs_sandbox = pytest.mark.skipif(
    sys.platform != "linux" or lacking is not None,
    reason=f"{lacking.reason} ({lacking.remedy})" if lacking else "not Linux",
)
as_root = pytest.mark.skipif(not IS_ROOT, reason="an ordinary user can't do it anyway")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.mkdir(mode=0o700)
    return path


def python(program: str, **more: object) -> ContainerOrder:
    return shell(f"exec {shlex.quote(sys.executable)} -uc {shlex.quote(program)}", **more)


STATUS = "grep -E '^(Cap(Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp):' /proc/self/status"


def status(text: str) -> dict[str, int]:
    found = dict(re.findall(r"^(\w+):\s+(\w+)$", text, re.MULTILINE))
    assert len(found) == 6, text
    return {name: int(value, 16) for name, value in found.items()}


@needs_sandbox
def test_a_command_has_a_containers_capabilities_and_gains_none(data: Path) -> None:
    async def scene(yard: Yard) -> None:
        pod = await yard.running(shell(f"{STATUS}; echo said; exec sleep 1000"))
        await yard.logged(pod, "said")
        _, beside = await yard.ask(pod, "sh", "-c", STATUS)
        has = DEFAULT_MASK if IS_ROOT else 0
        for text in (yard.log(pod), beside):
            assert status(text) == {
                "CapPrm": has,
                "CapEff": has,
                "CapBnd": DEFAULT_MASK,
                "CapAmb": 0,
                "NoNewPrivs": 1,
                "Seccomp": 2,
            }

    play(data, scene)


@needs_sandbox
def test_privileged_means_all_that_its_user_may_do(data: Path) -> None:
    own = status(_own_status())

    async def scene(yard: Yard) -> None:
        said = status(await yard.said(shell(STATUS, privileges=PRIVILEGED)))
        assert said["CapEff"] == (own["CapEff"] if IS_ROOT else 0)
        assert (said["NoNewPrivs"], said["Seccomp"]) == (own["NoNewPrivs"], own["Seccomp"])

    play(data, scene)


def _own_status() -> str:
    lines = Path("/proc/self/status").read_text().splitlines()
    wanted = re.compile(r"(Cap(Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp):")
    return "\n".join(line for line in lines if wanted.match(line))


# None of them needs a capability to be tried; the last is a call by the number of 32-bit programs.
CALLING = """
import ctypes, errno, platform
libc = ctypes.CDLL(None, use_errno=True)
numbers = {"x86_64": (250, 272, 425, 323, 41), "aarch64": (219, 97, 425, 282, 198)}
keyctl, unshare, io_uring, userfaultfd, socket = numbers[platform.machine()]
def told(*words):
    ctypes.set_errno(0)
    return errno.errorcode.get(ctypes.get_errno(), "fine") if libc.syscall(*words) < 0 else "fine"
print("keyctl", told(keyctl, 0, -3, 1))
print("unshare", told(unshare, 0x10000000))
print("io_uring", told(io_uring, 1, ctypes.create_string_buffer(120)))
print("clone3", told(435, 0, 0))
print("vsock", told(socket, 40, 1, 0))
print("socket", told(socket, 2, 1, 0))
import subprocess, threading
thread = threading.Thread(target=print, args=("thread",)); thread.start(); thread.join()
subprocess.run(["echo", "process"], check=True)
"""


@needs_sandbox
@pytest.mark.skipif(not seccomp.is_known(), reason="no filter for this architecture")
def test_calls_that_no_container_needs_are_denied_and_others_work(data: Path) -> None:
    async def scene(yard: Yard) -> None:
        denied = await yard.said(python(CALLING))
        assert denied.splitlines() == [
            "keyctl EPERM",
            "unshare EPERM",
            "io_uring EPERM",
            "clone3 ENOSYS",
            "vsock EPERM",
            "socket fine",
            "thread",
            "process",
        ]
        free = (await yard.said(python(CALLING, privileges=UNFILTERED))).splitlines()
        assert free[0] != "keyctl EPERM"
        assert free[1] == "unshare fine"
        assert free[3] == "clone3 EINVAL"

    play(data, scene)


CHANGING = """
for path in /proc/sys/kernel/core_pattern /proc/sys/vm/swappiness /sys/kernel/mm/ksm/run \
    /sys/fs/cgroup/cgroup.procs; do
    [ ! -e $path ] || ! (: >>$path) 2>/dev/null || echo "can write $path"
done
[ -z "$(find /dev -type b)" ] || echo disks
[ ! -e /dev/mem ] && [ ! -e /dev/kmsg ] || echo memory
mount -t tmpfs none /mnt 2>/dev/null && echo mounted
for place in /tmp $HOME /dev /etc; do
    mknod $place/jy-node-$$ b 7 0 2>/dev/null || continue
    (: <$place/jy-node-$$) 2>/dev/null && echo "a device in $place"
    rm $place/jy-node-$$
done
date -s 2030-01-01 >/dev/null 2>&1 && echo "the clock"
touch /dev/jy-here && rm /dev/jy-here && echo done
"""


@needs_sandbox
@as_root
def test_root_in_a_sandbox_cant_change_the_machine(data: Path) -> None:
    async def scene(yard: Yard) -> None:
        env = {"PATH": os.environ["PATH"], "HOME": os.path.expanduser("~")}
        assert await yard.said(shell(CHANGING, env=env)) == "done"

    play(data, scene)


@needs_sandbox
@as_root
def test_what_a_container_keeps_can_be_used(data: Path) -> None:
    script = "setpriv --reuid=12345 --regid=12345 --clear-groups id -u; chown 12345 /etc/hostname"

    async def scene(yard: Yard) -> None:
        assert await yard.said(shell(script)) == "12345"
        none = Privileges(capabilities=())
        # It becomes somebody else before it gives up the power to.
        said = await yard.said(shell(f"id -u; {STATUS}", privileges=none, uid=12345, gid=12345))
        assert said.splitlines()[0] == "12345"
        assert status(said)["CapBnd"] == 0
        more = Privileges(capabilities=(*DEFAULT_CAPABILITIES, "SYS_ADMIN"))
        assert await yard.said(shell("hostname other && hostname", privileges=more)) == "other"

    play(data, scene)


THREADS = """
import threading
threading.stack_size(65536)
stop = threading.Event()
count = 0
try:
    while count < %d:
        threading.Thread(target=stop.wait, daemon=True).start()
        count += 1
except RuntimeError:
    pass
stop.set()
print(count)
"""


@needs_sandbox
def test_processes_are_limited(data: Path) -> None:
    most = processes_max()

    async def scene(yard: Yard) -> None:
        count = int(await yard.said(python(THREADS % (most + 10))))
        assert most * 0.8 < count < most

    play(data, scene)


@needs_sandbox
@pytest.mark.skipif(IS_ROOT, reason="the kernel doesn't count the processes of root")
def test_a_machine_without_room_for_a_process_is_waited_for(data: Path, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    first = shell(f"until [ -e {gate} ]; do sleep 0.02; done", name="first")

    async def scene(yard: Yard) -> None:
        order = await yard.start(
            shell("echo came"), init_containers=(first,), restart_policy=RestartPolicy.NEVER
        )
        await yard.until(order.uid, lambda state: state.init_containers[0].stage == Stage.RUNNING)
        supervisor = supervisor_of(data / "pods" / order.uid)
        before = resource.prlimit(supervisor, resource.RLIMIT_NPROC)
        resource.prlimit(supervisor, resource.RLIMIT_NPROC, (1, before[1]))
        gate.touch()
        await yard.until(order.uid, lambda state: any("unable" in n.message for n in state.notes))
        resource.prlimit(supervisor, resource.RLIMIT_NPROC, before)
        assert (await yard.ended(order)).exit_code == 0
        assert yard.log(order) == "came"

    play(data, scene)


# The filter itself, by the kernel's rules.


def verdict(program: bytes, architecture: int, number: int, argument: int = 0) -> int:
    """What a filter says: 0 allowed, else the error."""
    steps = [*struct.iter_unpack("HBBI", program)]
    call = struct.pack(
        "iIQQ", number if number < 2**31 else number - 2**32, architecture, 0, argument
    )
    at, value = 0, 0
    while True:
        code, then, otherwise, operand = steps[at]
        at += 1
        match code:
            case 0x20:
                (value,) = struct.unpack_from("I", call, operand)
            case 0x15:
                at += then if value == operand else otherwise
            case 0x35:
                at += then if value >= operand else otherwise
            case 0x45:
                at += then if value & operand else otherwise
            case 0x05:
                at += operand
            case 0x06:
                return 0 if operand == 0x7FFF0000 else operand & 0xFFFF
            case _:
                raise AssertionError(hex(code))


X86, X86_32, ARM = 0xC000003E, 0x40000003, 0xC00000B7


@pytest.mark.parametrize(
    ("machine", "architecture", "number", "argument", "added", "want"),
    [
        pytest.param("x86_64", X86, 165, 0, (), errno.EPERM, id="mount"),
        pytest.param("x86_64", X86, 165, 0, ("SYS_ADMIN",), 0, id="mount with SYS_ADMIN"),
        pytest.param("x86_64", X86, 0, 0, (), 0, id="read"),
        pytest.param("x86_64", X86, 101, 0, (), 0, id="ptrace"),
        pytest.param("x86_64", X86, 237, 0, (), 0, id="mbind"),
        pytest.param("x86_64", X86, 56, 0x10000000 | 17, (), errno.EPERM, id="clone of a user"),
        pytest.param("x86_64", X86, 56, 0x3D0F00, (), 0, id="clone of a thread"),
        pytest.param("x86_64", X86, 435, 0, (), errno.ENOSYS, id="clone3"),
        pytest.param("x86_64", X86, 435, 0, ("SYS_ADMIN",), 0, id="clone3 with SYS_ADMIN"),
        pytest.param("x86_64", X86, 0x40000000 | 165, 0, (), errno.ENOSYS, id="x32"),
        pytest.param("x86_64", X86_32, 21, 0, (), errno.EPERM, id="mount of 32 bits"),
        pytest.param("x86_64", X86_32, 3, 0, (), 0, id="read of 32 bits"),
        pytest.param("x86_64", ARM, 63, 0, (), errno.ENOSYS, id="another architecture"),
        pytest.param("aarch64", ARM, 40, 0, (), errno.EPERM, id="mount on aarch64"),
        pytest.param("aarch64", ARM, 63, 0, (), 0, id="read on aarch64"),
        pytest.param("aarch64", ARM, 220, 0x10000011, (), errno.EPERM, id="clone on aarch64"),
        pytest.param("aarch64", X86, 0, 0, (), errno.ENOSYS, id="not on aarch64"),
    ],
)
def test_the_filter_says(
    machine: str, architecture: int, number: int, argument: int, added: tuple[str, ...], want: int
) -> None:
    program = seccomp.program((*DEFAULT_CAPABILITIES, *added), machine)
    assert verdict(program, architecture, number, argument) == want


def rows() -> Iterator[seccomp.Row]:
    for group in seccomp.DENIED.values():
        yield from group


@pytest.mark.parametrize(
    ("header", "column"),
    [
        ("x86_64-linux-gnu/asm/unistd_64.h", 1),
        ("x86_64-linux-gnu/asm/unistd_32.h", 3),
        ("asm-generic/unistd.h", 2),
    ],
)
def test_numbers_are_those_of_the_kernels_headers(header: str, column: int) -> None:
    path = Path("/usr/include", header)
    if not path.exists():
        pytest.skip("the kernel's headers aren't installed")
    found = dict(
        re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)\s*$", path.read_text(), re.MULTILINE)
    )
    ours = {row[0]: str(row[column]) for row in rows() if row[column] >= 0}
    # Newer than the headers may be, and the ones for time of 64 bits on 32-bit machines.
    assert ours.keys() - found.keys() <= {"open_tree_attr"}
    assert {name: found[name] for name in ours.keys() & found.keys()} == {
        name: ours[name] for name in ours.keys() & found.keys()
    }


# What a manifest says.


def privileges(container: dict[str, Any], pod: dict[str, Any] | None = None) -> Privileges:
    spec = {
        "containers": [{"name": "main", "securityContext": container}],
        "securityContext": pod or {},
    }
    whole = pod_from({"metadata": {"name": "p"}, "spec": spec})
    assert not whole.problem
    return privileges_of(whole, whole.spec.containers[0])


def kept(*names: str, **more: bool) -> Privileges:
    return Privileges(capabilities=tuple(sorted(names)), **more)


@pytest.mark.parametrize(
    ("container", "want"),
    [
        pytest.param({}, Privileges(), id="nothing"),
        pytest.param({"privileged": True}, PRIVILEGED, id="privileged"),
        pytest.param(
            {"allowPrivilegeEscalation": True},
            Privileges(no_new_privileges=False),
            id="may gain privileges",
        ),
        pytest.param({"allowPrivilegeEscalation": False}, Privileges(), id="may not"),
        pytest.param({"seccompProfile": {"type": "Unconfined"}}, UNFILTERED, id="without a filter"),
        pytest.param({"seccompProfile": {"type": "RuntimeDefault"}}, Privileges(), id="with one"),
        pytest.param({"capabilities": {"drop": ["ALL"]}}, kept(), id="none"),
        pytest.param(
            {"capabilities": {"drop": ["ALL"], "add": ["CAP_NET_BIND_SERVICE"]}},
            kept("NET_BIND_SERVICE"),
            id="one alone",
        ),
        pytest.param(
            {"capabilities": {"add": ["IPC_LOCK"], "drop": ["MKNOD"]}},
            kept(*(set(DEFAULT_CAPABILITIES) - {"MKNOD"}), "IPC_LOCK"),
            id="one more, one less",
        ),
        pytest.param(
            {"capabilities": {"add": ["SYS_ADMIN"]}},
            kept(*DEFAULT_CAPABILITIES, "SYS_ADMIN", no_new_privileges=False),
            id="the one that is nearly all",
        ),
        pytest.param(
            {"capabilities": {"add": ["ALL"], "drop": ["SYS_BOOT"]}},
            kept(*(set(CAPABILITIES) - {"SYS_BOOT"}), no_new_privileges=False),
            id="all but one",
        ),
    ],
)
def test_a_security_context_means(container: dict[str, Any], want: Privileges) -> None:
    assert privileges(container) == want


def test_a_pods_profile_holds_where_the_container_has_none() -> None:
    pod = {"seccompProfile": {"type": "Unconfined"}}
    assert privileges({}, pod) == UNFILTERED
    assert privileges({"seccompProfile": {"type": "RuntimeDefault"}}, pod) == Privileges()


def test_a_capability_that_there_isnt_is_told() -> None:
    with pytest.raises(NeverError, match="unknown capability 'FLY' to add"):
        privileges({"capabilities": {"add": ["CAP_FLY"]}})


@pytest.mark.long
@needs_sandbox
def test_all_of_this_works_for_an_ordinary_user() -> None:
    # Not below pytest's own folder, which is for root only.
    with free_uid() as uid, tempfile.TemporaryDirectory() as name:
        os.chown(name, uid, uid)
        done = file_as(Path(__file__), uid, Path(name))
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
