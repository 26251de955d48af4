"""What an engine may take of a machine, and what strangers may take of an engine."""

from __future__ import annotations

import json
import logging
import os
import random
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rig.engine import Room, RunningEngine
from rig.person import Person, person
from rig.script_job import script_job
from rig.selection import all_is_asked_for
from rig.users import free_uid
from rig.waiting import look_again

from jobyard.engine.engine_log import SAME_MAX, EngineLog

BAD_INPUT = 2
STRANGERS = 1500
# They are all there before the first question; each flood is one of five.
FLOOD_SECONDS = 8.0 if all_is_asked_for() else 2.0
ANSWER_SECONDS_MAX = 1.0
ANSWERS_MIN = 10
LOG_BYTES_MAX = 10 * 1024 * 1024


@pytest.fixture
def who() -> Iterator[Person]:
    with person(is_ordinary=False) as somebody:
        yield somebody


def with_descriptors(
    who: Person, soft: int, hard: int, *words: str
) -> subprocess.CompletedProcess[str]:
    limits = f'ulimit -Sn {soft} && ulimit -Hn {hard} && exec "$@"'
    return subprocess.run(
        ["sh", "-c", limits, "sh", *who.jobyard(*words)],
        env=who.environment,
        cwd=who.work,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


@contextmanager
def engine_with(
    who: Person, soft: int, hard: int, runtime: str = "host"
) -> Iterator[RunningEngine]:
    folder = who.home / "engine"
    words = ("up", "-d", "--runtime", runtime, "--data-dir", str(folder))
    started = with_descriptors(who, soft, hard, *words)
    assert started.returncode == 0, started.stderr
    yield RunningEngine(who, folder)
    stopped = who.run("down", "--data-dir", str(folder))
    assert stopped.returncode == 0, stopped.stderr
    assert who.processes() == {}


# So many connections to a port, each made again when it is closed; nobody has a token.
FLOODING = """
import os, select, socket, sys, threading
os.setuid(int(sys.argv[4]))
port, count, words = int(sys.argv[1]), int(sys.argv[2]), bytes.fromhex(sys.argv[3])
poll, there, made = select.poll(), {}, 0
while True:
    while len(there) < count:
        one = socket.socket()
        one.setblocking(False)
        one.connect_ex(("127.0.0.1", port))
        there[one.fileno()] = one
        poll.register(one, select.POLLIN | (select.POLLOUT if words else 0))
        made += 1
        if made == count:
            print("all have come", flush=True)
    # In rounds: a busy loop would only show how the machine shares its cores.
    threading.Event().wait(0.02)
    for number, event in poll.poll():
        is_over = event & ~select.POLLOUT
        if event & select.POLLOUT:
            poll.modify(number, select.POLLIN)
            try:
                there[number].send(words)
            except OSError:
                is_over = True
        if is_over:
            poll.unregister(number)
            there.pop(number).close()
"""


@contextmanager
def strangers(port: int, first_words: bytes, uid: int) -> Iterator[None]:
    """In a process of their own: they are not to wait for us, nor we for them."""
    words = [sys.executable, "-c", FLOODING, str(port), str(STRANGERS), first_words.hex(), str(uid)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as flood:
        try:
            assert flood.stdout is not None
            assert flood.stdout.readline() == "all have come\n"
            yield
        finally:
            flood.kill()


def client_hello() -> bytes:
    outgoing = ssl.MemoryBIO()
    talk = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="x")
    with pytest.raises(ssl.SSLWantReadError):
        talk.do_handshake()
    return outgoing.read()


OWNERS_WORDS = (
    ("get", "jobs"),
    ("get", "pods", "-o", "wide"),
    ("describe", "train"),
    ("why", "train"),
    ("events", "train"),
    ("logs", "train"),
    ("queues",),
    ("wait", "train", "--for", "running"),
    ("exec", "train", "worker-0", "--", "true"),
    ("apply", "-f", "train.yaml"),
)
WORDS = {"silence": b"", "no TLS": b"GET / HTTP/1.1\r\n\r\n", "TLS": client_hello()}


@pytest.mark.parametrize("said", WORDS)
def test_other_users_do_not_keep_the_owner_out(who: Person, said: str) -> None:
    with free_uid() as uid:
        keeps_out_nobody(who, uid, WORDS[said])


@pytest.mark.parametrize("said", WORDS)
def test_connections_without_a_token_do_not_keep_the_owner_out(who: Person, said: str) -> None:
    keeps_out_nobody(who, os.geteuid(), WORDS[said])


def waited_seconds(pid: int) -> float:
    """How long a process could have run, and had no processor: that is whoever else's doing."""
    stats = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(one.read_text().split()[1]) for one in stats) / 1e9


def asked_for_there() -> list[tuple[str, ...]]:
    """What an owner asks while strangers stand at the door: all of it, or two that change."""
    if all_is_asked_for():
        return OWNERS_WORDS
    return random.Random(os.environ["JOBYARD_SEED"]).sample(OWNERS_WORDS, 2)


def keeps_out_nobody(who: Person, uid: int, words: bytes) -> None:
    with engine_with(who, 1024, 1024) as engine:
        pid = json.loads((engine.folder / "engine.json").read_text())["pid"]

        def clock() -> float:
            """Stands while the engine, or who asks it, waits for a processor."""
            return time.monotonic() - waited_seconds(pid) - waited_seconds(os.getpid())

        who.write("train.yaml", script_job("train", ["sleep", "1000"]))
        for first in ("apply", "-f", "train.yaml"), ("wait", "train", "--for", "running"):
            done = who.run(*first, "--kubeconfig", str(engine.kubeconfig))
            assert done.returncode == 0, done.stderr
        with strangers(engine.port, words, uid):
            seconds: list[float] = []
            end = time.monotonic() + FLOOD_SECONDS
            while time.monotonic() < end or len(seconds) < ANSWERS_MIN:
                begun = clock()
                answer = engine.ask("GET", "/api/v1/namespaces/default/pods")
                seconds.append(clock() - begun)
                assert answer.status == 200
                look_again()
            for command, *rest in asked_for_there():
                done = who.run(command, "--kubeconfig", str(engine.kubeconfig), *rest)
                assert done.returncode == 0, (command, done.stderr)
        # Every one of them.
        assert max(seconds) < ANSWER_SECONDS_MAX, seconds
        assert engine.log.stat().st_size < LOG_BYTES_MAX


def test_a_stranger_is_sent_away_after_a_while_and_the_owner_is_not(who: Person) -> None:
    with engine_with(who, 1024, 1024) as engine:
        line = engine.connection()
        headers = {"Authorization": f"Bearer {engine.token}"}
        line.request("GET", "/version", headers=headers)
        assert line.getresponse().read()
        kept = line.sock
        with socket.create_connection(("127.0.0.1", engine.port)) as stranger:
            stranger.settimeout(30)
            # Nothing was said, and nothing is: the end of it.
            assert stranger.recv(1) == b""
        line.request("GET", "/version", headers=headers)
        assert line.getresponse().status == 200
        assert line.sock is kept
        line.close()


# Descriptors.


@pytest.mark.parametrize("runtime", ["host", "sandbox"])
def test_replicas_have_the_limit_that_the_engine_was_started_with(
    who: Person, runtime: str
) -> None:
    hard = 5000
    with engine_with(who, 700, hard, runtime) as engine:
        room = Room(engine, "default")
        room.pod("limits", "sh", "-c", "ulimit -Sn; ulimit -Hn")
        code, said = room.ended("limits")
        assert (code, said.split()) == (0, ["700", str(hard)])
        shown = who.run("status", "-o", "json", "--data-dir", str(engine.folder))
        (told,) = json.loads(shown.stdout)
        limits = Path(f"/proc/{told['pid']}/limits").read_text()
        (line,) = [line for line in limits.splitlines() if line.startswith("Max open files")]
        assert line.split()[3:5] == [str(hard), str(hard)]


def test_an_engine_that_may_open_too_few_files_says_so(who: Person) -> None:
    folder = who.home / "engine"
    for words in (("up", "-d", "--data-dir", str(folder)), ("up", "--data-dir", str(folder))):
        done = with_descriptors(who, 64, 64, *words)
        assert done.returncode == BAD_INPUT, (done.stdout, done.stderr)
        assert "a process may have 64 open files here, and an engine needs 256" in done.stderr
        assert "ulimit -n" in done.stderr
        assert "fault of jobyard" not in done.stderr
    assert who.processes() == {}


# The log.

LOGGING = """
import logging, sys
from pathlib import Path
from jobyard.engine.engine_log import EngineLog
handler = EngineLog(Path(sys.argv[1]), bytes_max=100_000)
logging.getLogger().addHandler(handler)
for number in range(20_000):
    logging.getLogger(f"part-{number % 500}").error("fault %d", number)
    print("said", flush=True)
"""


def test_the_log_of_an_engine_is_moved_aside(tmp_path: Path) -> None:
    path = tmp_path / "engine.log"
    with path.open("ab") as out:
        subprocess.run([sys.executable, "-c", LOGGING, path], stdout=out, stderr=out, check=True)
    names = sorted(each.name for each in tmp_path.iterdir())
    assert names == ["engine.log", "engine.log.1"]
    assert path.read_bytes().splitlines()[-1] == b"said"
    for each in tmp_path.iterdir():
        assert each.stat().st_size < 1_000_000


def test_the_same_message_is_logged_so_many_times_a_minute(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobyard.engine.engine_log.time.monotonic", lambda: clock[0])
    clock = [600.0]
    log = EngineLog(tmp_path / "engine.log")

    def say(text: str, *fills: object) -> None:
        log.emit(logging.LogRecord("asyncio", logging.ERROR, "", 0, text, fills, None))

    for number in range(5000):
        say("accept failed: %d", number)
    say("something else")
    clock[0] += 60
    say("and later")
    said = capsys.readouterr().err.splitlines()
    assert sum("accept failed: " in line for line in said) == SAME_MAX + 1
    assert "something else" in said[SAME_MAX]
    assert f"{5000 - SAME_MAX} more like this were left out: accept failed: %d" in said[-2]
    assert os.listdir(tmp_path) == []
