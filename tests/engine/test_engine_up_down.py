"""`jobyard up`, `down` and `status` where something is in the way: a port, a folder, an engine."""

from __future__ import annotations

import json
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from rig.engine import Room, RunningEngine
from rig.person import MARK, Person, person
from rig.waiting import until_it_holds

from jobyard.engine.homes import DataFolder
from jobyard.node.network.host_ports import FIRST_NUMBER

# Far less than the half minute that an engine has to come up: who can't is told at once.
SOON_SECONDS = 20
BAD_INPUT = 2
PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


@pytest.fixture
def who() -> Iterator[Person]:
    with person(is_ordinary=False) as somebody:
        yield somebody


@pytest.fixture
def ordinary() -> Iterator[Person]:
    with person(is_ordinary=True) as somebody:
        yield somebody


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as door:
        yield door.getsockname()[1]


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    """What a command that was used wrongly says."""
    assert done.returncode == BAD_INPUT, (done.stdout, done.stderr)
    (line,) = done.stderr.strip().splitlines()
    return line


# Ports.


@pytest.mark.parametrize("runtime", ["host", "sandbox"])
def test_a_port_that_is_taken_is_told_and_nothing_is_left(
    who: Person, taken: int, runtime: str
) -> None:
    folder = str(who.home / "engine")
    words = ("up", "--port", str(taken), "--runtime", runtime, "--data-dir", folder)
    line = one_line(who.run(*words, seconds=SOON_SECONDS))
    assert f"port {taken} of 127.0.0.1 can't be used: another process listens there" in line
    assert "name another with --port" in line
    assert who.processes() == {}


def test_an_engine_in_the_background_tells_what_it_said_last(who: Person, taken: int) -> None:
    folder = who.home / "engine"
    folder.mkdir()
    (folder / "engine.log").write_text("what another engine said\n")
    words = ("up", "-d", "--port", str(taken), "--data-dir", str(folder))
    done = who.run(*words, seconds=SOON_SECONDS)
    assert done.returncode == BAD_INPUT
    assert f"port {taken} of 127.0.0.1 can't be used" in done.stderr
    assert "another engine said" not in done.stderr
    assert who.processes() == {}


def test_a_port_for_root_alone(ordinary: Person) -> None:
    if int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text()) <= 80:
        pytest.skip("every port is for everybody here")
    line = one_line(ordinary.run("up", "--port", "80", seconds=SOON_SECONDS))
    assert "port 80 of 127.0.0.1 can't be used: it is kept for root" in line
    assert ordinary.processes() == {}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_an_engine_that_has_not_come_up(who: Person, number: signal.Signals) -> None:
    folder = DataFolder(who.home / "engine")
    # Who opens this socket waits for ever for a hub to answer.
    folder.path.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(folder.path / "hub.sock"))
        silent.listen()
        started = who.start("up", "--runtime", "host", "--data-dir", str(folder.path))
        until_it_holds(lambda: folder.holder == started.pid, "the engine has its folder")
        until_it_holds(lambda: silent_is_asked(silent), "the engine asks its hub")
        started.send_signal(number)
        _, said = started.communicate(timeout=SOON_SECONDS)
    assert started.returncode == 0, said
    assert not folder.is_in_use


def silent_is_asked(silent: socket.socket) -> bool:
    silent.settimeout(0.1)
    try:
        silent.accept()[0].detach()
    except TimeoutError:
        return False
    return True


# Engines that others stop.

HOLDS = """
import sys
from pathlib import Path
from jobyard.engine.homes import DataFolder
with DataFolder(Path(sys.argv[1])):
    print("here", flush=True)
    sys.stdin.read()
"""


def test_down_stops_an_engine_that_never_announced_itself(who: Person) -> None:
    folder = who.home / "engine"
    stuck = subprocess.Popen(
        who.command(sys.executable, "-c", HOLDS, str(folder)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert stuck.stdin is not None
    assert stuck.stdout is not None
    with stuck.stdin, stuck.stdout:
        assert stuck.stdout.readline() == "here\n"
        shown = who.run("status", "--data-dir", str(folder))
        assert shown.returncode == 1
        assert f"an engine is starting or stopping (pid {stuck.pid}, {folder})" in shown.stderr
        done = who.run("down", "--data-dir", str(folder))
        assert stuck.wait(SOON_SECONDS) == -signal.SIGTERM
    assert done.returncode == 0, done.stderr
    assert f"the engine (pid {stuck.pid}) has stopped" in done.stdout
    assert "nothing is running any more" in done.stdout


def free_port() -> int:
    """If possible none that the kernel hands out by itself: it stays free until it is used."""
    first_of_kernel = int(PORT_RANGE.read_text().split()[0])
    others = range(10_000, min(first_of_kernel, FIRST_NUMBER)) or [0]
    while True:
        with (
            suppress(OSError),
            socket.create_server(("127.0.0.1", secrets.choice(others))) as door,
        ):
            return int(door.getsockname()[1])


def test_an_engine_with_a_folder_and_a_port_of_its_own(who: Person) -> None:
    folder, port = who.home / "elsewhere", free_port()
    there = ("--data-dir", str(folder))
    assert who.run("up", "-d", "--port", str(port), *there).returncode == 0
    engine = RunningEngine(who, folder)
    assert engine.port == port
    room = Room(engine, "default")
    room.pod("box", "sleep", "1000", main={"env": [{"name": MARK, "value": who.mark}]})
    running = room.running("box")["status"]["containerStatuses"][0]["state"]

    assert who.run("status").returncode == 1, "it is not the one of this home"
    shown = who.run("status", "-o", "json", *there)
    assert shown.returncode == 0
    (told,) = json.loads(shown.stdout)
    assert (told["server"], told["folder"]) == (engine.url, str(folder))
    again = one_line(who.run("up", *there))
    assert f"`jobyard down --data-dir {folder}` stops it" in again

    # The engine goes, the pod stays, and the next engine finds it at the same port.
    kept = who.run("down", "--keep-jobs", *there)
    assert kept.returncode == 0, kept.stderr
    assert "stopped" in kept.stdout
    assert "nothing is running" not in kept.stdout
    assert who.run("status", *there).returncode == 1
    assert any("sleep 1000" in words for words in who.processes().values())
    assert who.run("up", "-d", *there).returncode == 0
    assert RunningEngine(who, folder).port == port
    assert room.running("box")["status"]["containerStatuses"][0]["state"] == running

    done = who.run("down", *there)
    assert "stopped 1 pod; nothing is running any more" in done.stdout
    assert who.processes() == {}


# Folders.

JOB = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata: {name: j}
spec:
  replicaSpecs:
    - type: worker
      template: {spec: {containers: [{name: main, image: any, command: ["true"]}]}}
"""


@pytest.mark.parametrize(
    "words",
    [
        ("up", "--data-dir", "/proc/nope"),
        ("up", "-d", "--data-dir", "/proc/nope"),
        ("up", "-d", "--data-dir", "/dev/null/x"),
    ],
    ids=" ".join,
)
def test_a_folder_that_cannot_be_made(who: Person, words: tuple[str, ...]) -> None:
    line = one_line(who.run(*words))
    assert f"{words[-1]} can't be used" in line
    assert "--data-dir" in line


@pytest.fixture
def roots_own() -> Iterator[Path]:
    with person(is_ordinary=False) as root:
        root.home.chmod(0o700)
        yield root.home


@pytest.mark.parametrize(
    "words",
    [("up",), ("up", "-d"), ("run", "job.yaml"), ("run", "--keep", "job.yaml")],
    ids=" ".join,
)
def test_a_home_that_is_not_ones_own(
    ordinary: Person, roots_own: Path, words: tuple[str, ...]
) -> None:
    ordinary.write("job.yaml", JOB)
    for home in (roots_own / "x", Path("/proc/nope")):
        line = one_line(ordinary.run(*words, JOBYARD_HOME=str(home)))
        assert f"{home}" in line
        assert "can't be used" in line
        assert "$JOBYARD_HOME" in line
    shown = ordinary.run("status", JOBYARD_HOME=str(roots_own / "x"))
    assert (shown.returncode, shown.stdout) == (1, "")
    assert "no engine is running" in shown.stderr
