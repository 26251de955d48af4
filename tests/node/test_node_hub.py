"""The hub: how it is started and asked, and what is said when it does not answer."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from jobyard.node.hub import client, outside, starting
from jobyard.node.hub.client import HubClient
from jobyard.node.hub.log_size import LOG_BYTES_MAX
from jobyard.node.hub.starting import HOST, supervisor_of
from jobyard.node.hub.wire import LOCK_NAME, LOG_NAME, SOCKET_NAME
from jobyard.node.logs.kept_logs import kept_folder
from jobyard.node.runtime import hub_runtime
from jobyard.node.runtime.host_runtime import HostRuntime
from jobyard.node.shared import locks
from jobyard.node.shared.folders import PodFolder
from jobyard.node.shared.polling import until
from jobyard.node.shared.process_end import has_ended
from jobyard.node.shared.runtime import RuntimeFailedError
from jobyard.node.shared.socket_paths import short_path
from node.isolation_stage import MARK, eventually, marked_processes
from node.supervised import pod, shell, within_time


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> str:
    made = str(uuid.uuid4())
    monkeypatch.setenv(MARK, made)
    return made


@contextmanager
def locked(data: Path) -> Iterator[None]:
    """A hub seems to be there, and never answers."""
    lock = os.open(data / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(lock)


def test_a_hub_that_does_not_start_in_time_is_named_with_its_log(
    tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_START_SECONDS", 1.0)

    async def work() -> None:
        with locked(tmp_path):
            with pytest.raises(RuntimeFailedError) as caught:
                await HubClient(HOST, tmp_path).ensure()
            left = [line for line in marked_processes(mark) if "jobyard.node.hub" in line]
        assert str(caught.value) == (
            f"the host runtime did not start within 1 seconds; its log is {tmp_path / LOG_NAME}"
        )
        # At most what it forked, which finds out that nobody waits for it.
        assert len(left) <= 1
        await eventually(lambda: not marked_processes(mark), "nothing is left of it")

    within_time(work())


def test_a_hub_that_does_not_answer_is_named_with_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_ANSWER_SECONDS", 0.1)
    with socket.socket(socket.AF_UNIX) as deaf, short_path(tmp_path / SOCKET_NAME) as address:
        deaf.bind(address)
        deaf.listen()
        with pytest.raises(RuntimeFailedError) as caught:
            within_time(HubClient(HOST, tmp_path).answering())
    assert str(caught.value) == (
        "the hub of the host runtime did not answer to 'status' within 0.1 seconds;"
        f" its log is {tmp_path / LOG_NAME}"
    )


def test_a_lock_that_nobody_lets_go_of_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting, "_LOCK_SECONDS", 0.05)
    own = os.open(tmp_path / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        with locked(tmp_path), pytest.raises(TimeoutError, match="another hub has it"):
            starting._take(own, tmp_path)
        assert starting._take(own, tmp_path)
    finally:
        os.close(own)


def test_looking_again_has_an_end_and_a_last_look() -> None:
    looks: list[int] = []

    def is_third() -> bool:
        looks.append(1)
        return len(looks) == 3

    assert until(is_third, seconds=60, interval_seconds=0.001)
    assert len(looks) == 3
    assert not until(lambda: False, seconds=0.01, interval_seconds=60)
    assert until(lambda: True, seconds=0, interval_seconds=1)


def test_the_end_of_any_process_can_be_awaited() -> None:
    async def work() -> None:
        with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as cat:
            assert not await has_ended(cat.pid, 0.01)
            assert cat.stdin is not None
            cat.stdin.close()
            assert await has_ended(cat.pid, 10)
        assert await has_ended(cat.pid, 0)
        assert await has_ended(0, 0)

    within_time(work())


def test_who_holds_a_lock_is_known_to_others(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert (locks.holder_of(path), locks.is_taken(path), supervisor_of(tmp_path)) == (0, False, 0)
    take = (
        "import sys, pathlib; from jobyard.node.shared import locks;"
        "locks.take(pathlib.Path(sys.argv[1])); print('taken', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", take, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"taken\n"
        assert supervisor_of(tmp_path) == locks.holder_of(path) == holder.pid
        assert locks.is_taken(path)
        holder.communicate()
    assert not locks.is_taken(path)
    # Something else among the pods' folders is nobody's.
    assert supervisor_of(path) == 0


def test_logs_are_put_aside_where_nobody_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a slow disk it takes its time, and the loop is everybody's."""
    order = pod(shell("true"))
    folder = PodFolder(tmp_path, order.uid)
    (folder.logs / "main").mkdir(parents=True)
    folder.order.write_bytes(msgspec.json.encode(order))
    keep_logs, threads = hub_runtime.keep_logs, []

    def noted(data: Path, kept: PodFolder) -> None:
        threads.append(threading.current_thread())
        keep_logs(data, kept)

    monkeypatch.setattr(hub_runtime, "keep_logs", noted)
    asyncio.run(HostRuntime(tmp_path).forget(order.uid))
    assert kept_folder(tmp_path, "default", "pod", order.attempt).logs.is_dir()
    assert not folder.path.exists()
    assert threads
    assert threading.main_thread() not in threads


@pytest.mark.parametrize("trap", ["", 'trap "" TERM; '], ids=["which listens", "which does not"])
def test_the_keeper_of_the_way_outside_ends_the_program(tmp_path: Path, trap: str) -> None:
    """A shell that goes to the background stands for the program, which does the same."""
    pid_file = tmp_path / "pid"
    (tmp_path / "program").write_text(f"{trap}echo $$ > pid.new; mv pid.new pid; exec sleep 1000")
    program = "setsid sh program 3<&- & until [ -e pid ]; do sleep 0.02; done"
    (tmp_path / "keeper").write_text(outside._PASTA)
    lifeline, held = os.pipe()
    ready, told = os.pipe()
    script = f"exec 3<&{lifeline} 4>&{told} {lifeline}<&- {told}>&-; . ./keeper"
    command = ["bash", "-c", script, str(pid_file), "sh", "-c", program]
    with subprocess.Popen(command, pass_fds=(lifeline, told), cwd=tmp_path) as keeper:
        os.close(told)
        os.close(lifeline)
        assert os.read(ready, 100) == b"ready\n"
        pid = int(pid_file.read_text())
        os.kill(pid, 0)
        os.close(held)
        assert keeper.wait(20) == 0
    os.close(ready)
    try:
        assert within_time(has_ended(pid, 10))
    finally:
        # Else a keeper that fails leaves it to the machine.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("name", ["hub.log", "outside.log"])
def test_logs_of_the_hub_have_a_bound(tmp_path: Path, mark: str, name: str) -> None:
    hub = HubClient(HOST, tmp_path)
    path = tmp_path / name

    async def work() -> None:
        await hub.ensure()
        pid = (await hub.ask(do="status"))[0]["pid"]
        # As all do who write there.
        with path.open("ab", buffering=0) as writer:
            for n in range(3):
                writer.write(b"x" * LOG_BYTES_MAX + b"%d end\n" % n)
                await hub.ask(do="status")
                await eventually(lambda: path.stat().st_size == 0, "an empty log")
                aside = path.with_name(f"{name}.1")
                assert aside.read_bytes().endswith(b"%d end\n" % n)
                assert aside.stat().st_size <= LOG_BYTES_MAX
            writer.write(b"more\n")
            assert path.read_bytes() == b"more\n"
        await hub.quit()
        assert await has_ended(pid, 30)

    within_time(work())
    assert marked_processes(mark) == []
