"""Jobyard upgraded, or taken back, under running pods; and questions that nobody should ask."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import resource
import socket
import subprocess
import sys
import uuid
from ipaddress import IPv4Network
from pathlib import Path

import msgspec
import pytest
from rig.places import TESTS

from jobyard.node.hub import client
from jobyard.node.hub.client import HubClient
from jobyard.node.hub.starting import HOST, SANDBOX, supervisor_of
from jobyard.node.hub.wire import SOCKET_NAME
from jobyard.node.isolation import kernel
from jobyard.node.runtime.abilities import look, missing_for_sandbox
from jobyard.node.runtime.host_runtime import HostRuntime
from jobyard.node.runtime.sandbox_runtime import SandboxRuntime
from jobyard.node.runtime.supervisor_wire import CommandFailedError
from jobyard.node.shared.folders import PodFolder
from jobyard.node.shared.order import PodOrder, Redirect
from jobyard.node.shared.private_network import DEFAULT_NETWORK, gateway_of, network_of
from jobyard.node.shared.process_end import has_ended
from jobyard.node.shared.protocol import PROTOCOL
from jobyard.node.shared.runtime import Inside, RuntimeFailedError
from jobyard.node.shared.socket_paths import short_path
from jobyard.node.shared.state import PodState
from jobyard.node.supervisor.messages import Command, StartInside, Word
from node.isolation_stage import MARK, marked_processes, opened, shell
from node.supervised import nursery, pod, within_time
from node.supervised import shell as plain_shell
from node.test_node_cages import HOST as ON_HOST
from node.test_node_cages import SANDBOX as IN_SANDBOX

GATEWAY = gateway_of(DEFAULT_NETWORK)
GOLDEN = TESTS / "golden" / "wire.json"
# A hub of another release, with all that it forks.
ANOTHER_HUB = """
import sys
from pathlib import Path
from jobyard.node.shared import protocol
protocol.PROTOCOL = int(sys.argv[1])
if sys.argv[2] == "strange":
    from jobyard.node.supervisor import control_socket as desk
    known = desk.encode_line
    desk.encode_line = lambda word: (
        b'{"type": "condition", "protocol": %d}\\n' % protocol.PROTOCOL
        if isinstance(word, desk.StateTold) else known(word))
from jobyard.node.hub.starting import start
start(sys.argv[3], Path(sys.argv[4]), sys.argv[5])
"""


def start_another_hub(number: int, kind: str, data: Path, *, is_strange: bool = False) -> None:
    how = "strange" if is_strange else "plain"
    command = [sys.executable, "-c", ANOTHER_HUB, str(number), how, kind, str(data), GATEWAY]
    subprocess.run(command, check=True, timeout=60, stdin=subprocess.DEVNULL)


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> str:
    value = str(uuid.uuid4())
    monkeypatch.setenv(MARK, value)
    return value


@pytest.mark.parametrize("is_host", [IN_SANDBOX, ON_HOST])
@pytest.mark.parametrize("number", [PROTOCOL - 1, PROTOCOL + 1], ids=["older", "newer"])
def test_pods_of_another_release_go_on_and_new_ones_are_of_this(
    tmp_path: Path, mark: str, is_host: bool, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime_of = HostRuntime if is_host else SandboxRuntime
    start_another_hub(number, HOST if is_host else SANDBOX, tmp_path)

    async def before() -> PodOrder:
        """The engine of that release."""
        monkeypatch.setattr(client, "PROTOCOL", number)
        runtime = runtime_of(tmp_path)
        async with opened(runtime, tmp_path) as yard:
            order = await yard.running(shell("echo up; while :; do sleep 1; done"))
            await yard.logged(order, "up")
        await runtime.close(stop_everything=False)
        monkeypatch.setattr(client, "PROTOCOL", PROTOCOL)
        return order

    async def after(old: PodOrder) -> None:
        supervisor = supervisor_of(PodFolder(tmp_path, old.uid).path)
        hub_before = await HubClient("", tmp_path).ask(do="status")
        runtime = runtime_of(tmp_path)
        try:
            async with opened(runtime, tmp_path) as yard:
                hub_after = await HubClient("", tmp_path).ask(do="status")
                assert hub_after[0]["pid"] != hub_before[0]["pid"]
                assert hub_after[0]["protocol"] == PROTOCOL
                assert supervisor_of(PodFolder(tmp_path, old.uid).path) == supervisor
                assert runtime._links[old.uid].protocol == number
                assert await yard.ask(old, "echo", "hello") == (0, "hello\n")
                # Who ends what is started inside depends on what the supervisor does by itself.
                pipes = await runtime.inside(old.uid, Inside(container="main", argv=("true",)))
                assert pipes.ends_with_status is (number >= PROTOCOL)
                for one in (pipes.stdout, pipes.stderr, pipes.status):
                    os.close(one)
                # The network is the same: one reaches the other.
                new = await yard.running(shell("sleep 1000"), address="100.96.1.99")
                assert runtime._links[new.uid].protocol == PROTOCOL
                if not is_host:
                    found = f"import socket\ntry: socket.create_connection(('{old.address}', 1), 5)"
                    found += "\nexcept ConnectionRefusedError: print('there')"
                    assert await yard.ask(new, sys.executable, "-c", found) == (0, "there\n")
                # What its supervisor doesn't know is refused in words, and it goes on.
                monkeypatch.setattr(StartInside, "since", PROTOCOL)
                if number < PROTOCOL:
                    with pytest.raises(RuntimeFailedError, match=r"older Jobyard \(protocol 0; th"):
                        await yard.ask(old, "true")
                assert (await yard.ask(new, "true"))[0] == 0
                await runtime.stop(old.uid, 0)
                assert (await yard.ended(old)).exit_code == 137
        finally:
            await runtime.close(stop_everything=True)

    order = within_time(before())
    within_time(after(order))
    assert marked_processes(mark) == []


def test_a_supervisor_that_cant_be_understood_is_let_be_and_told_of_once(
    tmp_path: Path, mark: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_another_hub(9, HOST, tmp_path, is_strange=True)
    monkeypatch.setattr(client, "PROTOCOL", 9)

    async def work() -> None:
        runtime = HostRuntime(tmp_path)
        try:
            with caplog.at_level(logging.WARNING, "jobyard.node"):
                async with opened(runtime, tmp_path) as yard:
                    order = await yard.start(shell("echo up; while :; do sleep 1; done"))
                    await yard.logged(order, "up")
                    link = runtime._links[order.uid]
                    with pytest.raises(RuntimeFailedError, match=r"newer Jobyard \(protocol 9; "):
                        await yard.ask(order, "true")
                    # An engine that starts it again, or looks again, changes nothing.
                    await runtime.start(order)
                    assert runtime._links[order.uid] is link
                    said = [one.getMessage() for one in caplog.records if order.uid in one.message]
                    assert len(said) == 1
                    assert "it goes on, and only its end will be known" in said[0]
                    await runtime.stop(order.uid, 30)
                    assert (await yard.ended(order)).exit_code == 137
        finally:
            await runtime.close(stop_everything=True)

    within_time(work())
    assert marked_processes(mark) == []


@pytest.mark.skipif(missing_for_sandbox(look()) is not None, reason="no sandbox here")
def test_pods_of_two_networks_reach_one_another(tmp_path: Path, mark: str) -> None:
    """Of an engine that was told another network than the one before it, whose pods run on."""
    other = network_of("10.214.0.0/20")
    listen = (
        "import socket; s = socket.create_server(('', 80)); print('up', flush=True)\n"
        "while True: s.accept()[0].sendall(b'hello')"
    )
    call = "import socket, sys; print(socket.create_connection((sys.argv[1], 80), 10).recv(5))"

    async def before() -> PodOrder:
        runtime = SandboxRuntime(tmp_path)
        async with opened(runtime, tmp_path) as yard:
            order = await yard.running(shell("", argv=(sys.executable, "-c", listen)))
            await yard.logged(order, "up")
        await runtime.close(stop_everything=False)
        return order

    async def after(old: PodOrder) -> None:
        runtime = SandboxRuntime(tmp_path, other)
        try:
            async with opened(runtime, tmp_path) as yard:
                new = await yard.running(
                    shell("", argv=(sys.executable, "-c", listen)),
                    address=str(other[9]),
                    prefix_length=other.prefixlen,
                    gateway=str(other[1]),
                )
                await yard.logged(new, "up")
                for one, address in ((new, old.address), (old, new.address), (new, new.address)):
                    said = await yard.ask(one, sys.executable, "-c", call, address)
                    assert said == (0, "b'hello'\n")
        finally:
            await runtime.close(stop_everything=True)

    order = within_time(before())
    within_time(after(order))
    assert marked_processes(mark) == []


@pytest.mark.parametrize(
    "text",
    [
        *("x", "10.0.0.1/8", "10.0.0.0/7", "10.1.2.0/25", "127.0.0.0/8", "224.0.0.0/8"),
        *("10.0.0.0/8", "192.0.2.0/24", "::/16", "10.0.0.0/99", "0.0.0.0/8"),
    ],
)
def test_what_cant_be_a_private_network(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        network_of(text)


def test_the_private_network_is_nobodys() -> None:
    used = ["10.0.0.0/8", "192.168.0.0/16", "172.16.0.0/12", "198.18.0.0/15", "169.254.0.0/16"]
    for one in (*used, "240.0.0.0/4", "100.100.0.0/16"):
        assert not DEFAULT_NETWORK.overlaps(IPv4Network(one))
    assert network_of(str(DEFAULT_NETWORK)) == DEFAULT_NETWORK


def told_of(kind: object) -> object:
    return msgspec.json.schema(kind)


def test_what_is_said_has_not_changed_without_a_new_number() -> None:
    """JOBYARD_WRITE_GOLDEN=1 writes it anew, for a number that no release had."""
    kinds = {"command": Command, "word": Word, "order": PodOrder, "state": PodState}
    shapes = {name: told_of(kind) for name, kind in kinds.items()}
    found = json.dumps({"protocol": PROTOCOL, **shapes}, indent=1, sort_keys=True) + "\n"
    if os.environ.get("JOBYARD_WRITE_GOLDEN"):
        GOLDEN.write_text(found)
    assert GOLDEN.read_text() == found, "raise PROTOCOL in jobyard/node/protocol.py"


NONSENSE = {
    "too deep": b"[" * 100_000,
    "too deep, within": b'{"do": ' + b"[" * 100_000,
    "no object": b"[]",
    "no question": b"{}",
    "no text": b'{"do": "start", "uid": 5}',
    "no uid": b'{"do": "start", "uid": "../x"}',
    "no bytes": b"\xff\xfe",
    "a long number": b'{"do": ' + b"9" * 5000 + b"}",
    "nothing": b"",
}


def test_no_question_ends_the_hub(tmp_path: Path, mark: str) -> None:
    hub = HubClient(HOST, tmp_path)

    async def work() -> None:
        await hub.ensure()
        pid = (await hub.ask(do="status"))[0]["pid"]
        for nonsense in NONSENSE.values():
            with short_path(tmp_path / SOCKET_NAME) as name:
                reader, writer = await asyncio.open_unix_connection(name)
            writer.write(nonsense)
            writer.write_eof()
            assert b"problem" in await reader.read()
            writer.close()
        # And a client that is gone before it is answered.
        for _ in range(3):
            with socket.socket(socket.AF_UNIX) as hasty, short_path(tmp_path / SOCKET_NAME) as name:
                hasty.connect(name)
        assert (await hub.ask(do="status"))[0]["pid"] == pid
        await hub.quit()
        assert await has_ended(pid, 30)

    within_time(work())
    assert marked_processes(mark) == []


def test_a_hub_without_descriptors_answers_when_it_has_some_again(
    tmp_path: Path, mark: str
) -> None:
    hub = HubClient(HOST, tmp_path)

    async def work() -> None:
        await hub.ensure()
        pid = (await hub.ask(do="status"))[0]["pid"]
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        # Those that the hub keeps apart have higher numbers than any that is free.
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))
        asking = asyncio.create_task(hub.ask(do="status"))
        turns = cpu_ticks(pid)
        done, _ = await asyncio.wait({asking}, timeout=1)
        assert not done
        # It looks again now and then; it does not run in a circle.
        assert cpu_ticks(pid) - turns < 20
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        assert (await asking)[0]["pid"] == pid
        await hub.quit()
        assert await has_ended(pid, 30)

    within_time(work())
    assert marked_processes(mark) == []


def cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_no_request_ends_a_supervisor(tmp_path: Path) -> None:
    with nursery(tmp_path) as pods:
        one = pods.start(pod(plain_shell("while :; do sleep 1; done")))

        async def work() -> None:
            async with one.link() as link:
                for port in (199_999, -1, 2**70, 0):
                    with pytest.raises(CommandFailedError):
                        await link.connect(port)
                with pytest.raises(CommandFailedError):
                    await link.forward((Redirect(protocol="PIGEON", port=2**40, target=-1),))
                what = Inside(container="main", argv=("a\0b",))
                with pytest.raises(CommandFailedError):
                    await link.inside(what)
                await link.stop(0)

        within_time(work())
        one.end()


FAILING_CALLS = """
import os, signal
from jobyard.node.supervisor.loop import READ, Loop

loop = Loop()
read, write = os.pipe()
os.write(write, b"x")
calls = {"descriptor": 0, "timer": 0, "child": 0}

def fail(name):
    calls[name] += 1
    raise OverflowError(name)

loop.watch(read, READ, lambda: fail("descriptor"))
loop.after(0, lambda: fail("timer"))
pid = os.fork()
if pid == 0:
    os._exit(0)
loop.child(pid, lambda status: fail("child"))
over = []
loop.after(1.5, lambda: over.append(True))
while not over:
    loop.turn()
# The descriptor is ready all the time; it was tried again after a moment, and only then.
assert calls == {"descriptor": 2, "timer": 1, "child": 1}, calls
"""


def test_a_call_that_fails_ends_no_supervisor() -> None:
    command = [sys.executable, "-c", FAILING_CALLS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("OverflowError: descriptor") == 2


def test_elsewhere_than_on_linux_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "IS_LINUX", False)
    with pytest.raises(RuntimeFailedError, match="only Linux can run replicas"):
        within_time(HostRuntime(tmp_path).open())
    assert not list(tmp_path.iterdir())
