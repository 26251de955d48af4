"""What every cage promises, with real supervisors and real processes: namespaces, and none.

Each test runs once for each. What only namespaces can do is in `test_node_isolation`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from jobyard.node.hub.starting import supervisor_of
from jobyard.node.runtime.abilities import look, missing_for_sandbox
from jobyard.node.shared.folders import PodFolder
from jobyard.node.shared.order import Check, PodOrder, Probe, Probes, RestartPolicy
from jobyard.node.shared.runtime import Inside, Pipes, RuntimeFailedError
from node.isolation_stage import MARK, Yard, eventually, marked_processes, play, shell

Scene = Callable[[Yard], Awaitable[None]]
Play = Callable[[Scene], None]

lacking = missing_for_sandbox(look())
SANDBOX = pytest.param(
    False,
    id="sandbox",
    marks=pytest.mark.skipif(
        lacking is not None, reason=f"{lacking.reason} ({lacking.remedy})" if lacking else ""
    ),
)
HOST = pytest.param(True, id="host")
SLEEPER = shell("", argv=("sleep", "1000"))


@pytest.fixture(params=[SANDBOX, HOST])
def in_cage(request: pytest.FixtureRequest, tmp_path: Path, mark: str) -> Play:
    """Plays a scene in one kind of cage; afterwards nothing may be left."""
    assert mark
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    return lambda scene: play(data, scene, host=request.param)


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> str:
    value = str(uuid.uuid4())
    monkeypatch.setenv(MARK, value)
    return value


def supervisor(yard: Yard, order: PodOrder) -> int:
    pid = supervisor_of(PodFolder(yard.data, order.uid).path)
    assert pid
    return pid


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def close(pipes: Pipes) -> None:
    for descriptor in {pipes.stdin, pipes.stdout, pipes.stderr, pipes.status} - {-1}:
        os.close(descriptor)


def sleepers(mark: str) -> list[str]:
    return [line for line in marked_processes(mark) if "sleep" in line]


async def holds_as_many(pid: int, count: int) -> None:
    await eventually(lambda: descriptors(pid) == count, f"{count} descriptors, as before")


def test_what_came_in_leaves_no_descriptor_behind(in_cage: Play) -> None:
    async def scene(yard: Yard) -> None:
        order = await yard.running(SLEEPER)
        pid = supervisor(yard, order)
        before = descriptors(pid)
        for _ in range(10):
            assert (await yard.ask(order, "true"))[0] == 0
            assert (await yard.ask(order, "false", tty=True))[0] == 1
            with pytest.raises(RuntimeFailedError, match="not found"):
                await yard.ask(order, "nosuch")
        await holds_as_many(pid, before)

    in_cage(scene)


def test_probes_leave_no_descriptor_behind(in_cage: Play, tmp_path: Path) -> None:
    count = tmp_path / "count"
    probe = Probe(
        check=Check(argv=("sh", "-c", f"echo >> {count}")),
        period_seconds=0.05,
        timeout_seconds=30,
    )

    async def scene(yard: Yard) -> None:
        order = await yard.running(replace(SLEEPER, probes=Probes(readiness=probe)))
        pid = supervisor(yard, order)
        await eventually(count.exists, "a check")
        before = descriptors(pid)

        def has_run() -> bool:
            return count.read_text().count("\n") >= 30

        await eventually(has_run, "thirty checks")
        # One may be under way, with its pipes.
        await eventually(lambda: descriptors(pid) <= before, "no more descriptors than before")

    in_cage(scene)


def test_containers_that_cant_start_leave_no_descriptor_behind(in_cage: Play) -> None:
    async def scene(yard: Yard) -> None:
        broken = replace(shell("", argv=("nosuch",), memory_limit_bytes=1 << 30), name="broken")
        order = await yard.start(
            SLEEPER,
            containers=(SLEEPER, broken),
            restart_policy=RestartPolicy.ALWAYS,
            restart_delay_seconds=0.001,
        )

        await yard.until(order.uid, lambda state: state.containers[1].run >= 2)
        pid = supervisor(yard, order)
        before = descriptors(pid)
        await yard.until(order.uid, lambda state: state.containers[1].run >= 9)
        await eventually(lambda: descriptors(pid) <= before, "no more descriptors than before")

    in_cage(scene)


def test_sigkill_is_sigkill_for_what_came_in(in_cage: Play) -> None:
    """Programs of Go ignore all signals of real time, and any program may."""
    deaf = (
        "import signal\n"
        "for number in set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}:\n"
        "    signal.signal(number, signal.SIG_IGN)\n"
        "print('deaf', flush=True)\n"
        "while True: signal.pause()"
    )

    async def scene(yard: Yard) -> None:
        order = await yard.running(SLEEPER)
        link = yard.runtime._links[order.uid]
        what = Inside(container="main", argv=(sys.executable, "-c", deaf))
        pipes = await yard.runtime.inside(order.uid, what)
        os.set_blocking(pipes.stdout, True)
        assert os.read(pipes.stdout, 10) == b"deaf\n"
        await link.signal(pipes.pid, signal.SIGTERM)
        await link.signal(pipes.pid, signal.SIGKILL)
        os.set_blocking(pipes.status, True)
        assert os.read(pipes.status, 10) == b"137"
        close(pipes)
        assert (await yard.ask(order, "true"))[0] == 0

    in_cage(scene)


def test_a_deaf_probe_ends_at_its_time_limit(in_cage: Play, mark: str, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    script = (
        "import os, signal, time\n"
        "for number in set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}:\n"
        "    signal.signal(number, signal.SIG_IGN)\n"
        f"os.close(os.open({str(begun)!r}, os.O_CREAT | os.O_WRONLY))\n"
        "os.execvp('sleep', ['sleep', '4321'])"
    )
    probe = Probe(
        check=Check(argv=(sys.executable, "-c", script)),
        # The first one is the only one of this test.
        period_seconds=3600,
        timeout_seconds=3,
    )
    env = SLEEPER.env | {MARK: mark}

    async def scene(yard: Yard) -> None:
        container = replace(shell("", argv=("cat",), stdin=True), env=env)
        await yard.running(replace(container, probes=Probes(readiness=probe)))
        await eventually(lambda: begun.exists() and bool(sleepers(mark)), "the probe")
        await eventually(lambda: not sleepers(mark), "the end of the probe")

    in_cage(scene)


def test_what_came_in_leaves_running_ends_with_the_container(in_cage: Play, mark: str) -> None:
    """Also what has a session of its own and no parent; until then it lives."""
    script = f"""exec >/dev/null 2>&1; export {MARK}={mark}
        (setsid sleep 4321 &); (sleep 4321 &); (env -i sleep 4322 &)"""

    async def scene(yard: Yard) -> None:
        order = await yard.running(shell("trap '' TERM; echo up; while :; do sleep 1; done"))
        assert (await yard.ask(order, "sh", "-c", script))[0] == 0
        code, said = await yard.ask(order, "sh", "-c", "ps -eo pid,args | grep 'sleep 432[2]'")
        assert code == 0
        assert said
        assert len(sleepers(mark)) == 2
        await yard.runtime.stop(order.uid, 0)
        assert (await yard.ended(order)).exit_code == 137
        assert not sleepers(mark)

    in_cage(scene)


def test_nothing_that_came_in_survives_down(in_cage: Play, mark: str) -> None:
    async def scene(yard: Yard) -> None:
        order = await yard.running(SLEEPER)
        script = f"export {MARK}={mark}; (setsid sleep 4321 &); sleep 4321"
        pipes = await yard.runtime.inside(
            order.uid, Inside(container="main", argv=("sh", "-c", script))
        )
        await eventually(lambda: len(sleepers(mark)) == 2, "both")
        close(pipes)

    # It looks for what carries the mark when everything was stopped.
    in_cage(scene)


def test_nothing_that_came_in_survives_a_killed_supervisor(in_cage: Play, mark: str) -> None:
    async def scene(yard: Yard) -> None:
        order = await yard.running(SLEEPER)
        script = f"export {MARK}={mark}; (setsid sleep 4321 &); sleep 4321"
        what = Inside(container="main", argv=("sh", "-c", script))
        pipes = await yard.runtime.inside(order.uid, what)
        await eventually(lambda: len(sleepers(mark)) == 2, "both")
        os.kill(supervisor(yard, order), signal.SIGKILL)
        await eventually(lambda: not sleepers(mark), "nobody")
        close(pipes)

    in_cage(scene)


def test_what_came_in_ends_when_nobody_waits_for_it_any_more(in_cage: Play, mark: str) -> None:
    """Who asked for it may be an engine that was killed."""

    async def scene(yard: Yard) -> None:
        order = await yard.running(SLEEPER)
        script = f"export {MARK}={mark}; trap '' HUP PIPE; exec sleep 4321"
        what = Inside(container="main", argv=("sh", "-c", script))
        pipes = await yard.runtime.inside(order.uid, what)
        await eventually(lambda: bool(sleepers(mark)), "it")
        close(pipes)
        await eventually(lambda: not sleepers(mark), "nobody")

    in_cage(scene)


def test_a_long_word_comes_in_whole(in_cage: Play) -> None:
    async def scene(yard: Yard) -> None:
        order = await yard.running(SLEEPER)
        word = "x" * 100_000
        code, said = await yard.ask(order, "sh", "-c", 'echo "${#1} ${#2}"', "sh", word, word)
        assert (code, said.strip()) == (0, "100000 100000")

    in_cage(scene)


def test_without_namespaces_who_kills_the_first_process_gains_nothing(
    tmp_path: Path, mark: str
) -> None:
    async def scene(yard: Yard) -> None:
        script = f"export {MARK}={mark}; (setsid sleep 4321 &); sleep 4321 & kill -KILL $PPID; wait"
        order = await yard.start(shell(script))
        assert (await yard.ended(order)).exit_code == 137
        await eventually(lambda: not sleepers(mark), "nobody")

    play(tmp_path, scene, host=True)


WITH_FEW_DESCRIPTORS = """
import os, resource, sys
from pathlib import Path
from jobyard.node.isolation.cage import CannotRunError
from jobyard.node.shared.folders import PodFolder
from jobyard.node.isolation.host import HostCage
from jobyard.node.isolation.sandbox import SandboxCage
from jobyard.node.shared.order import ContainerOrder, PodOrder

kind = {"host": HostCage, "sandbox": SandboxCage}[sys.argv[1]]
folder = PodFolder(Path(sys.argv[2]), "abc")
folder.path.mkdir(parents=True)
sleeper = ContainerOrder(name="main", argv=("sleep", "1000"), env={"PATH": os.environ["PATH"]})
order = PodOrder(uid="abc", namespace="a", name="b", host_name="c", containers=(sleeper,))
cage = kind(folder, order)
cage.open()
first = cage.start(sleeper).pid
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def count():
    return len(os.listdir("/proc/self/fd"))


def leaks(act):
    before = count()
    for room in range(24):
        resource.setrlimit(resource.RLIMIT_NOFILE, (before + room, hard))
        try:
            spawned = act()
        except CannotRunError:
            spawned = None
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        if spawned is not None:
            cage.signal(spawned.pid, 9)
            os.waitpid(spawned.pid, 0)
            cage.was_out_of_memory(spawned.pid)
            for one in {spawned.stdin, spawned.stdout, spawned.stderr} - {-1}:
                os.close(one)
        assert count() == before, (room, count(), before)
    assert spawned is not None
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        raise SystemExit("the container is gone")


for tty in (False, True):
    leaks(lambda: cage.inside(first, sleeper, ("sleep", "1000"), stdin=True, tty=tty))
leaks(lambda: cage.start(sleeper))
cage.signal(first, 9)
os.waitpid(first, 0)
cage.was_out_of_memory(first)
cage.close()
"""


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(
            "sandbox",
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root needs no hub for this"),
        ),
        "host",
    ],
)
def test_a_start_for_want_of_descriptors_leaves_none_behind(kind: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITH_FEW_DESCRIPTORS, kind, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


LOOKING_AT_MEMORY = """
import os, sys
from pathlib import Path
from jobyard.node.shared.folders import PodFolder
from jobyard.node.isolation import cgroups
from jobyard.node.isolation.host import HostCage
from jobyard.node.isolation.sandbox import SandboxCage
from jobyard.node.shared.order import ContainerOrder, PodOrder

kind = {"host": HostCage, "sandbox": SandboxCage}[sys.argv[1]]
folder = PodFolder(Path(sys.argv[2]), "abc")
folder.path.mkdir(parents=True)
script = "x = bytearray(20 << 20); import os; os.fork(); print(end='up\\\\n', flush=True); input()"
hog = ContainerOrder(
    name="main", argv=(sys.executable, "-c", script), env={}, stdin=True, memory_limit_bytes=1 << 30
)
order = PodOrder(uid="abc", namespace="a", name="b", host_name="c", containers=(hog,))
cgroups.make = lambda *_: None
cage = kind(folder, order)
cage.open()
main = cage.start(hog)
guest = cage.inside(main.pid, hog, hog.argv, stdin=True, tty=False)
for one in (main, guest):
    for _ in range(2):
        assert os.read(one.stdout, 3) == b"up\\n"
scans = []
sys.addaudithook(lambda event, args: scans.append(args) if event == "os.listdir" else None)
used = cage.used_memory_bytes(main.pid)
assert used > 75 << 20, used
assert ("/proc",) not in scans, scans
assert scans
cage.signal(main.pid, 9)
for one in (guest, main):
    os.waitpid(one.pid, 0)
cage.was_out_of_memory(main.pid)
cage.close()
"""


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(
            "sandbox",
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root needs no hub for this"),
        ),
        "host",
    ],
)
def test_who_looks_at_memory_looks_at_no_strangers(kind: str, tmp_path: Path) -> None:
    """The command, its children and who came in are counted; other processes cost nothing."""
    command = [sys.executable, "-c", LOOKING_AT_MEMORY, kind, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
