"""A supervisor with real processes: what it starts, ends, checks, tells and leaves behind.

The decisions by themselves, with all their cases, are in test_supervisor_progress.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import signal
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from rig.needs import needed
from rig.users import free_uid

from jobyard.node.logs.container_logs import LogCut, read_logs
from jobyard.node.logs.log_files import LogWriter
from jobyard.node.runtime.supervisor_wire import (
    CommandFailedError,
    SupervisorGoneError,
    SupervisorLink,
    final_state,
    is_supervised,
    resize,
)
from jobyard.node.shared.folders import PodFolder
from jobyard.node.shared.keeping import lost, read_state
from jobyard.node.shared.order import Check, ContainerOrder, HttpGet, Probe, Probes, RestartPolicy
from jobyard.node.shared.runtime import Inside, Pipes
from jobyard.node.shared.socket_paths import short_path
from jobyard.node.shared.state import ContainerState, End, PodState, Stage
from jobyard.node.supervisor import outputs, running
from node.isolation_stage import read_all as read_terminal
from node.supervised import (
    DEADLINE_SECONDS,
    Nursery,
    PlainCage,
    Supervised,
    collected,
    nursery,
    only,
    pod,
    python,
    shell,
    until,
    within_time,
)

FOREVER = "exec sleep 1000"
IGNORES_TERM = "trap '' TERM; echo ready; while :; do sleep 0.1; done"


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Nursery]:
    with nursery(tmp_path) as made:
        yield made


def until_there(path: str) -> str:
    """For a script that must not go on before another has made a file."""
    return f"until [ -e {path} ]; do sleep 0.02; done"


def end_of(state: PodState) -> End:
    end = only(state).end
    assert end is not None
    return end


def is_running(state: PodState) -> bool:
    return all(container.stage is Stage.RUNNING for container in state.containers)


def is_ready(state: PodState) -> bool:
    return all(container.is_ready for container in state.containers)


def stopped(one: Supervised, grace_seconds: float = 10) -> PodState:
    async def work() -> None:
        async with one.link() as link:
            await until(link, is_running)
            await link.stop(grace_seconds)

    within_time(work())
    return one.end()


@pytest.mark.parametrize(
    ("script", "exit_code", "number", "reason"),
    [
        pytest.param("true", 0, 0, "Completed", id="well"),
        pytest.param("exit 3", 3, 0, "Error", id="badly"),
        pytest.param("kill -SEGV $$", 139, 11, "Error", id="by a signal"),
    ],
)
def test_a_container_ends(
    pods: Nursery, script: str, exit_code: int, number: int, reason: str
) -> None:
    end = end_of(pods.end(pod(shell(script))))
    assert (end.exit_code, end.signal, end.reason) == (exit_code, number, reason)
    assert end.started_at <= end.finished_at


def test_a_command_that_is_not_there_is_an_end_too(pods: Nursery) -> None:
    missing = ContainerOrder(name="main", argv=("/no/such/command",), env={})
    end = end_of(pods.end(pod(missing)))
    assert (end.exit_code, end.reason) == (128, "StartError")
    assert end.message == "exec /no/such/command: No such file or directory"


def test_a_pod_without_a_place_to_run_in_fails(pods: Nursery) -> None:
    state = pods.end(pod(shell("true"), shell("true", "b")), PlainCage(refuses="no bridge"))
    assert (state.reason, state.message) == ("FailedCreatePodSandBox", "no bridge")
    assert [c.end and c.end.exit_code for c in state.containers] == [128, 128]


def test_init_containers_come_first_and_in_order(pods: Nursery, tmp_path: Path) -> None:
    note = f"{tmp_path}/notes"
    containers = [shell(f"echo {name} >> {note}", name) for name in ("a", "b")]
    inits = tuple(shell(f"sleep 0.05; echo {name} >> {note}", name) for name in ("i", "j"))
    state = pods.end(pod(*containers, init_containers=inits))
    lines = Path(note).read_text().split()
    assert lines[:2] == ["i", "j"]
    assert sorted(lines[2:]) == ["a", "b"]
    assert all(c.end and c.end.exit_code == 0 for c in state.init_containers)


def test_restarts_are_counted_and_every_run_keeps_its_log(pods: Nursery, tmp_path: Path) -> None:
    count = f"echo x >> {tmp_path}/count; n=$(wc -l < {tmp_path}/count); echo run $n"
    one = pods.start(pod(shell(f"{count}; test $n -ge 4"), restart_policy=RestartPolicy.ON_FAILURE))
    state = one.end()
    container = only(state)
    assert container.run == 3
    assert end_of(state).exit_code == 0
    assert container.last_end is not None
    assert container.last_end.exit_code == 1
    assert [one.text(run=n) for n in range(4)] == [b"run %d\n" % n for n in range(1, 5)]


def test_of_many_runs_the_last_logs_are_kept(pods: Nursery, tmp_path: Path) -> None:
    count = tmp_path / "count"
    script = f"""echo run; yes | head -c 20000; echo >> {count}; test $(wc -l < {count}) -ge 9"""
    order = pod(
        shell(script),
        restart_policy=RestartPolicy.ON_FAILURE,
        restart_delay_seconds=0.001,
        log_bytes_max=9000,
    )
    one = pods.start(order)
    one.end()
    names = {path.name.split(".")[0] for path in one.folder.log("main", 0).parent.iterdir()}
    assert names == {"4", "5", "6", "7", "8"}
    assert one.text(run=8).count(b"y") > 100


def test_the_agent_sees_a_container_wait_for_its_next_run(pods: Nursery) -> None:
    order = pod(shell("exit 1"), restart_policy=RestartPolicy.ALWAYS, restart_delay_seconds=1000)
    one = pods.start(order)

    async def work() -> None:
        async with one.link() as link:
            state = await until(link, lambda s: only(s).reason == "CrashLoopBackOff")
            assert only(state).run == 1
            await link.stop(30)
            assert (await until(link, lambda s: s.is_over)).notes[0].reason == "BackOff"

    within_time(work())
    assert end_of(one.end()).exit_code == 1


def test_stop_asks_first(pods: Nursery) -> None:
    one = pods.start(pod(shell("trap 'echo bye; exit 5' TERM; echo ready; sleep 1000 & wait")))

    async def work() -> None:
        async with one.link() as link:
            await until(link, is_running)
            await log_until(one, b"ready\n")
            await link.stop(30)

    within_time(work())
    assert end_of(one.end()).exit_code == 5
    assert one.text() == b"ready\nbye\n"


async def log_until(one: Supervised, text: bytes, container: str = "main") -> None:
    """Until the log of a container that is running holds this."""
    seen = b""
    async for piece in read_logs(one.folder, container, 0, LogCut(follow=True)):
        seen += piece
        if text in seen:
            return
    raise AssertionError(seen)


def test_what_does_not_listen_is_killed_after_the_grace(pods: Nursery) -> None:
    one = pods.start(pod(shell(IGNORES_TERM)))

    async def work() -> float:
        async with one.link() as link:
            await until(link, is_running)
            await log_until(one, b"ready\n")
            start = asyncio.get_running_loop().time()
            await link.stop(0.5)
            await until(link, lambda s: s.is_over)
            return asyncio.get_running_loop().time() - start

    assert within_time(work()) >= 0.5
    end = end_of(one.end())
    assert (end.exit_code, end.signal) == (137, 9)


def test_a_second_stop_hurries(pods: Nursery) -> None:
    one = pods.start(pod(shell(IGNORES_TERM)))

    async def work() -> None:
        async with one.link() as link:
            await until(link, is_running)
            await log_until(one, b"ready\n")
            await link.stop(1000)
            await link.stop(0)
            await until(link, lambda s: s.is_over)

    within_time(work())
    assert end_of(one.end()).exit_code == 137


def test_stop_while_an_init_container_runs(pods: Nursery) -> None:
    one = pods.start(pod(shell("true"), init_containers=(shell(FOREVER, "i"),)))

    async def work() -> None:
        async with one.link() as link:
            await until(link, lambda s: s.init_containers[0].stage is Stage.RUNNING)
            await link.stop(5)

    within_time(work())
    state = one.end()
    assert state.init_containers[0].end is not None
    assert state.init_containers[0].end.exit_code == 143
    assert only(state).stage is Stage.WAITING


def test_a_sidecar_ends_after_the_others(pods: Nursery, tmp_path: Path) -> None:
    note, up = f"{tmp_path}/notes", f"{tmp_path}/up"
    side = shell(
        f"trap 'echo side >> {note}; exit 0' TERM; touch {up}; sleep 1000 & wait",
        "side",
        is_sidecar=True,
    )
    main = shell(f"{until_there(up)}; echo main >> {note}")
    state = pods.end(pod(main, init_containers=(side,)))
    assert Path(note).read_text().split() == ["main", "side"]
    assert state.init_containers[0].end is not None
    assert end_of(state).exit_code == 0


def test_at_its_deadline_a_pod_ends(pods: Nursery) -> None:
    state = pods.end(pod(shell(FOREVER), deadline_seconds=1, grace_seconds=5))
    assert state.reason == "DeadlineExceeded"
    assert end_of(state).exit_code == 143


def test_hooks_run_inside_the_container(pods: Nursery, tmp_path: Path) -> None:
    note, up = f"{tmp_path}/notes", f"{tmp_path}/up"
    stop = f"{until_there(up)}; sleep 0.1; echo stop >> {note}"
    container = shell(
        f"trap 'echo term >> {note}; exit 0' TERM; touch {up}; sleep 1000 & wait",
        post_start=Check(argv=("/bin/sh", "-c", f"echo start >> {note}")),
        pre_stop=Check(argv=("/bin/sh", "-c", stop)),
    )
    one = pods.start(pod(container))

    async def work() -> None:
        async with one.link() as link:
            await until(link, is_ready)
            await link.stop(10)

    within_time(work())
    one.end()
    assert Path(note).read_text().split() == ["start", "stop", "term"]


def test_a_post_start_hook_that_fails_ends_the_container(pods: Nursery) -> None:
    hook = Check(argv=("/bin/sh", "-c", "echo no >&2; exit 1"))
    state = pods.end(pod(shell(FOREVER, post_start=hook), grace_seconds=5))
    assert end_of(state).exit_code == 143
    assert (state.notes[0].reason, state.notes[0].message) == (
        "FailedPostStartHook",
        "PostStartHook failed: no",
    )


def test_a_pre_stop_hook_that_takes_too_long_is_cut(pods: Nursery) -> None:
    hook = Check(argv=("/bin/sh", "-c", FOREVER))
    end = end_of(stopped(pods.start(pod(shell(FOREVER, pre_stop=hook))), 0.3))
    assert end.exit_code == 143


class Web:
    """A server that says what it is told to, for probes."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.code = 200
        self.seen: list[dict[str, str]] = []
        web = self

        class Answering(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                web.seen.append({"path": self.path, **dict(self.headers.items())})
                self.send_response(web.code)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        self.server.daemon_threads = True
        if context:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = int(self.server.server_address[1])
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


@pytest.fixture
def web() -> Iterator[Web]:
    made = Web()
    yield made
    made.close()


def probed(check: Check, **fields: Any) -> Probe:
    return Probe(check=check, **{"period_seconds": 0.05, "timeout_seconds": 30, **fields})


def test_an_http_probe_decides_about_readiness(pods: Nursery, web: Web) -> None:
    get = HttpGet(port=web.port, path="/healthz?x=1", headers=(("X-Test", "yes"), ("Host", "me")))
    probe = probed(Check(http=get), failure_threshold=1)
    web.code = 503
    one = pods.start(pod(shell(FOREVER, probes=Probes(readiness=probe))))

    async def work() -> PodState:
        async with one.link() as link:
            await until(link, lambda s: bool(s.notes))
            assert link.state is not None
            assert not is_ready(link.state)
            web.code = 302
            await until(link, is_ready)
            web.code = 500
            return await until(link, lambda s: not is_ready(s))

    state = within_time(work())
    messages = [note.message for note in state.notes]
    assert messages[0] == "Readiness probe failed: HTTP probe failed with statuscode: 503"
    assert state.containers[0].run == 0
    seen = web.seen[0]
    assert (seen["path"], seen["X-Test"], seen["Host"]) == ("/healthz?x=1", "yes", "me")
    assert seen["User-Agent"].startswith("kube-probe/")


def test_an_https_probe_looks_at_no_certificate(pods: Nursery, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = f"{needed('openssl')} req -x509 -newkey rsa:2048 -nodes -subj /CN=other"
    subprocess.run(
        [*command.split(), "-keyout", key, "-out", certificate],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    web = Web(context)
    try:
        get = HttpGet(port=web.port, scheme="HTTPS")
        one = pods.start(pod(shell(FOREVER, probes=Probes(readiness=probed(Check(http=get))))))

        async def work() -> None:
            async with one.link() as link:
                await until(link, is_ready)

        within_time(work())
    finally:
        web.close()


def test_a_tcp_probe_needs_a_listener(pods: Nursery) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        probe = probed(Check(tcp_port=port), failure_threshold=1)
        one = pods.start(pod(shell(FOREVER, probes=Probes(startup=None, readiness=probe))))

        async def work() -> None:
            async with one.link() as link:
                state = await until(link, lambda s: bool(s.notes))
                want = f"Readiness probe failed: dial tcp 127.0.0.1:{port}: connect: connection"
                assert state.notes[0].message == f"{want} refused"
                listener.listen()
                await until(link, is_ready)

        within_time(work())


def test_an_exec_probe_that_fails_restarts_the_container(pods: Nursery, tmp_path: Path) -> None:
    alive = tmp_path / "alive"
    check = Check(argv=("/bin/cat", str(alive)))
    # However long it takes to start.
    startup = probed(check, failure_threshold=10**6)
    liveness = probed(check, failure_threshold=2, grace_seconds=5)
    order = pod(
        shell(f"touch {alive}; {FOREVER}", probes=Probes(startup=startup, liveness=liveness)),
        restart_policy=RestartPolicy.ALWAYS,
    )
    one = pods.start(order)

    async def work() -> None:
        async with one.link() as link:
            await until(link, is_ready)
            alive.unlink()
            state = await until(link, lambda s: only(s).run == 1 and is_ready(s))
            last = only(state).last_end
            assert last is not None
            assert last.exit_code == 143
            assert "Container main failed liveness probe, will be restarted" in [
                note.message for note in state.notes
            ]

    within_time(work())


def test_a_probe_that_takes_too_long_has_failed(pods: Nursery) -> None:
    probe = probed(Check(argv=("/bin/sleep", "1000")), timeout_seconds=0.1, failure_threshold=1)
    state = pods.end(pod(shell(FOREVER, probes=Probes(liveness=probe))))
    assert state.notes[0].message == (
        'Liveness probe failed: command "/bin/sleep 1000" timed out after 0.1s'
    )


def test_a_server_that_never_answers_fails_a_probe(pods: Nursery) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        get = HttpGet(port=listener.getsockname()[1])
        probe = probed(Check(http=get), timeout_seconds=0.1, failure_threshold=1)
        state = pods.end(pod(shell(FOREVER, probes=Probes(liveness=probe))))
    assert "context deadline exceeded" in state.notes[0].message


def test_too_much_memory_is_the_end(pods: Nursery) -> None:
    looks = iter([10, 60, 90, 101, 200])
    cage = PlainCage(used=lambda _pid: next(looks))
    end = end_of(pods.end(pod(shell(FOREVER, memory_limit_bytes=100)), cage))
    assert (end.exit_code, end.reason) == (137, "OOMKilled")


def test_memory_is_looked_at_as_often_as_it_could_run_out(pods: Nursery, tmp_path: Path) -> None:
    looks = tmp_path / "looks"

    def used(_: int) -> int:
        with looks.open("a") as file:
            file.write("x")
        return 1 << 20

    far = shell("sleep 1.5", memory_limit_bytes=8 << 30)
    pods.end(pod(far), PlainCage(used=used))
    assert 1 <= len(looks.read_text()) <= 3
    looks.unlink()
    near = shell("sleep 1.5", memory_limit_bytes=3 << 20)
    pods.end(pod(near), PlainCage(used=used))
    assert len(looks.read_text()) > 3


def test_output_is_kept_byte_by_byte(pods: Nursery) -> None:
    one = pods.start(pod(python("import os; os.write(1, bytes(range(256)) * 999 + b'no end')")))
    one.end()
    assert one.text() == bytes(range(256)) * 999 + b"no end"


def test_the_beginning_of_a_line_is_shown_after_a_moment(pods: Nursery) -> None:
    one = pods.start(pod(shell(f"printf 'name? '; {FOREVER}")))

    async def work() -> None:
        async with one.link() as link:
            await until(link, is_running)
            await log_until(one, b"name? ")

    within_time(work())


def test_a_flood_is_kept_and_rotated(pods: Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of both streams, as fast as they can be written: none lost, none mixed."""
    # A busy machine may hold up the process in the middle of a line; that is shown elsewhere.
    monkeypatch.setattr(outputs, "_PARTIAL_SECONDS", DEADLINE_SECONDS)
    script = """
import os, threading
def pour(fd, letter):
    for n in range(300):
        os.write(fd, b"".join(b"%s %d %s\\n" % (letter, n * 500 + k, letter * 70)
                              for k in range(500)))
threads = [threading.Thread(target=pour, args=(1, b"o")), threading.Thread(target=pour,
           args=(2, b"e"))]
[t.start() for t in threads]; [t.join() for t in threads]
"""
    one = pods.start(pod(python(script), log_bytes_max=4 * 2**20, log_files_max=100))
    assert end_of(one.end()).exit_code == 0
    lines = one.text().splitlines()
    for letter in (b"o", b"e"):
        own = [line for line in lines if line.startswith(letter)]
        assert own == [b"%s %d %s" % (letter, n, letter * 70) for n in range(150_000)]
    assert len(lines) == 300_000
    parts = list(one.folder.log("main", 0).parent.iterdir())
    assert len(parts) > 5
    assert max(part.stat().st_size for part in parts) <= 4 * 2**20


def test_who_holds_the_pipe_open_does_not_hold_the_pod(pods: Nursery, tmp_path: Path) -> None:
    """A process that got away; in a real cage there is none, but nothing waits for it anyway."""
    away = f"{tmp_path}/away"
    getting_away = f"(setsid sh -c 'touch {away}; exec sleep 1000') & echo $!"
    one = pods.start(pod(shell(f"{getting_away}; {until_there(away)}; echo done")))
    # In time, which the other one has plenty of.
    one.end()
    text = one.text()
    assert text.endswith(b"done\n")
    os.kill(int(text.split()[0]), signal.SIGKILL)


class FullDisk(LogWriter):
    """Finds no room so many times."""

    refusals = 0

    def _store(self, records: bytes) -> None:
        if self.refusals:
            self.refusals -= 1
            self._unwritten += records
        else:
            super()._store(records)


def test_the_end_of_a_log_waits_for_a_full_disk(
    pods: Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FullDisk, "refusals", 10)
    monkeypatch.setattr(running, "LogWriter", FullDisk)
    monkeypatch.setattr(running, "_RETRY_SECONDS", 0.01)
    one = pods.start(pod(shell("echo one; echo two; exit 3")))
    assert end_of(one.end()).exit_code == 3
    assert one.text() == b"one\ntwo\n"


def test_a_disk_that_stays_full_does_not_hold_the_pod(
    pods: Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FullDisk, "refusals", 10**9)
    monkeypatch.setattr(running, "LogWriter", FullDisk)
    monkeypatch.setattr(running, "_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(running, "_STUCK_SECONDS", 0.1)
    assert end_of(pods.end(pod(shell("echo one; exit 3")))).exit_code == 3


def test_a_container_says_last_words(pods: Nursery) -> None:
    end = end_of(pods.end(pod(shell("printf 'all is lost' > $MESSAGE; exit 1"))))
    assert end.message == "all is lost"
    end = end_of(
        pods.end(pod(python("import os; open(os.environ['MESSAGE'], 'w').write('x'*9999)")))
    )
    assert end.message == "x" * 4096


@pytest.mark.parametrize(
    ("script", "want"),
    [
        pytest.param("seq 200; exit 1", "\n".join(map(str, range(121, 201))) + "\n", id="80 lines"),
        pytest.param("printf %04096d 7; exit 1", "0" * 2047 + "7", id="2048 bytes"),
        pytest.param("seq 3; exit 0", "", id="nothing, if it went well"),
        pytest.param("seq 3; echo own > $MESSAGE; exit 1", "own\n", id="its own message"),
    ],
)
def test_the_end_of_the_log_stands_in_for_a_message(pods: Nursery, script: str, want: str) -> None:
    assert end_of(pods.end(pod(shell(script, message_from_logs=True)))).message == want


async def read_all(descriptor: int) -> bytes:
    """What comes out of a descriptor, which is closed."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    file = os.fdopen(descriptor, "rb")
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    try:
        return await reader.read()
    finally:
        transport.close()


async def results(pipes: Pipes) -> tuple[bytes, bytes, int]:
    out, err, code = await asyncio.gather(
        read_all(pipes.stdout), read_all(pipes.stderr), read_all(pipes.status)
    )
    return out, err, int(code)


def test_processes_can_be_started_inside(pods: Nursery) -> None:
    one = pods.start(pod(shell(FOREVER)))

    async def work() -> None:
        async with one.link() as link:
            await until(link, is_running)
            script = ("/bin/sh", "-c", "cat; echo err >&2; exit 7")
            pipes = await link.inside(Inside(container="main", argv=script, stdin=True))
            os.write(pipes.stdin, b"hello")
            os.close(pipes.stdin)
            assert await results(pipes) == (b"hello", b"err\n", 7)
            # Several at once, and one that is told to end.
            several = [
                await link.inside(Inside(container="main", argv=("/bin/sleep", "1000")))
                for _ in range(3)
            ]
            for pipes in several:
                await link.signal(pipes.pid, signal.SIGTERM)
                assert (await results(pipes))[2] == 143
            with pytest.raises(CommandFailedError, match="container other is not running"):
                await link.inside(Inside(container="other", argv=("true",)))
            with pytest.raises(CommandFailedError, match="No such file"):
                await link.inside(Inside(container="main", argv=("/no/such",)))

    within_time(work())


def test_a_process_inside_ends_with_its_container(pods: Nursery) -> None:
    one = pods.start(pod(shell(FOREVER)))

    async def work() -> None:
        async with one.link() as link:
            await until(link, is_running)
            pipes = await link.inside(Inside(container="main", argv=("/bin/sleep", "1000")))
            await link.stop(0)
            assert (await results(pipes))[2] == 137

    within_time(work())
    one.end()


def test_a_terminal_inside_can_be_resized(pods: Nursery) -> None:
    one = pods.start(pod(shell(FOREVER)))

    async def work() -> None:
        async with one.link() as link:
            await until(link, is_running)
            script = ("/bin/sh", "-c", "test -t 0 && read x && stty size; exit 3")
            pipes = await link.inside(Inside(container="main", argv=script, stdin=True, tty=True))
            resize(pipes, columns=123, rows=45)
            os.write(pipes.stdin, b"go\n")
            assert int(await read_all(pipes.status)) == 3
            assert "45 123" in await asyncio.to_thread(read_terminal, pipes.stdout)
            os.close(pipes.stdin)
            os.close(pipes.stdout)

    within_time(work())


def test_a_container_can_be_talked_to(pods: Nursery) -> None:
    one = pods.start(pod(shell("read line; echo got $line", stdin=True)))

    async def work() -> None:
        async with one.link() as link:
            await until(link, is_running)
            stdin = await link.attach("main")
            os.write(stdin, b"this\n")
            os.close(stdin)
            await log_until(one, b"got this\n")

    within_time(work())
    one.end()


def test_ports_of_the_pod_can_be_reached(pods: Nursery) -> None:
    one = pods.start(pod(shell(FOREVER)))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]

        async def work() -> None:
            async with one.link() as link:
                await until(link, is_running)
                with pytest.raises(CommandFailedError, match=f"port {port}: connect: connection"):
                    await link.connect(port)
                listener.listen()
                connection = await link.connect(port)
                reader, writer = await asyncio.open_connection(sock=connection)
                other, _ = listener.accept()
                writer.write(b"hello")
                assert other.recv(5) == b"hello"
                other.sendall(b"bye")
                assert await reader.readexactly(3) == b"bye"
                other.close()
                writer.close()
                await writer.wait_closed()

        within_time(work())


def test_clients_come_and_go_and_a_slow_one_gets_the_newest(pods: Nursery) -> None:
    order = pod(shell("exit 1"), restart_policy=RestartPolicy.ALWAYS, restart_delay_seconds=0.001)
    one = pods.start(order)

    async def work() -> None:
        async with one.link() as slow:
            for run in range(3):
                async with one.link() as link:
                    await until(link, lambda s, run=run: only(s).run > run)  # type: ignore[misc]
            async with one.link() as link:
                state = await until(link, lambda s: only(s).run > 4)
                # Of all that happened it gets the newest, after one that it had heard already and
                # one that was under way.
                behind = 0
                async for news in slow.states():
                    if only(news).run >= only(state).run:
                        break
                    behind += 1
                assert behind <= 2
                # In the meantime it is on disk as well, before anybody was told.
                kept = read_state(one.folder)
                assert kept is not None
                assert kept.revision >= state.revision
                await link.stop(0)
                await until(link, lambda s: s.is_over)
            last = await until(slow, lambda s: s.is_over)
            assert last.is_over
            with pytest.raises(SupervisorGoneError):
                await slow.stop(0)

    within_time(work())
    one.end()
    assert not one.folder.control.exists()


def test_nonsense_on_the_socket_harms_nobody(pods: Nursery) -> None:
    one = pods.start(pod(shell(FOREVER)))

    async def work() -> None:
        async with one.link() as link:
            await until(link, is_running)
            for nonsense in (b"\n", b"{}\n", b'{"type": "stop"}\n', b"x" * (5 * 2**20)):
                with short_path(one.folder.control) as name:
                    reader, writer = await asyncio.open_unix_connection(name)
                writer.write(nonsense)
                with contextlib.suppress(ConnectionError):
                    await reader.read()
                writer.close()
            await link.stop(0)

    within_time(work())
    one.end()


@pytest.fixture
def stranger() -> Iterator[int]:
    """The uid of another user."""
    with free_uid() as uid:
        yield uid


def test_another_user_is_not_let_in(pods: Nursery, stranger: int) -> None:
    one = pods.start(pod(shell(FOREVER)))

    async def work() -> None:
        async with one.link() as link:
            await until(link, is_running)

    within_time(work())
    # As if modes did not matter: the door is open, and still nobody comes in.
    one.folder.path.chmod(0o755)
    one.folder.control.chmod(0o777)
    place = os.open(one.folder.path, os.O_PATH)
    script = f"""
import socket
connection = socket.socket(socket.AF_UNIX)
connection.connect("/proc/self/fd/{place}/control.sock")
print("heard", len(connection.recv(100)))
"""
    heard = subprocess.run(
        ["python3", "-c", script],
        user=stranger,
        pass_fds=[place],
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        env={"PATH": "/usr/bin:/bin"},
    )
    os.close(place)
    assert heard.stdout == "heard 0\n", heard.stderr


def test_a_data_folder_may_be_deep(tmp_path: Path) -> None:
    with nursery(tmp_path / ("deep" * 20) / ("deeper" * 20)) as pods:
        one = pods.start(pod(shell(FOREVER)))
        assert end_of(stopped(one)).exit_code == 143


def test_signals_of_the_terminal_are_not_for_the_supervisor(pods: Nursery) -> None:
    one = pods.start(pod(shell("echo ready; sleep 0.5")))

    async def work() -> None:
        async with one.link() as link:
            await until(link, is_running)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                os.kill(one.pid, number)

    within_time(work())
    assert end_of(one.end()).exit_code == 0


def test_a_pod_never_runs_twice(pods: Nursery, tmp_path: Path) -> None:
    order = pod(shell(f"echo x >> {tmp_path}/runs; echo ready; {FOREVER}"))
    first = pods.start(order)

    async def work() -> None:
        async with first.link() as link:
            await until(link, is_running)
            await log_until(first, b"ready\n")
            assert is_supervised(first.folder)
            # While it runs, and by one that starts at the same time.
            assert pods.start(order).wait() == 0
            assert link.state == read_state(first.folder)
            await link.stop(0)

    within_time(work())
    first.end()
    assert not is_supervised(first.folder)
    assert pods.start(order).wait() == 0, "and not after it ended"
    assert (tmp_path / "runs").read_text() == "x\n"


def test_of_many_supervisors_one_runs_the_pod(pods: Nursery, tmp_path: Path) -> None:
    order = pod(shell(f"echo x >> {tmp_path}/runs"))
    for one in [pods.start(order) for _ in range(6)]:
        assert one.wait() == 0
    assert (tmp_path / "runs").read_text() == "x\n"


def test_what_a_dead_supervisor_could_not_say_is_said_for_it(pods: Nursery) -> None:
    one = pods.start(pod(shell(FOREVER), shell("exit 4", "b")))

    async def work() -> None:
        async with one.link() as link:
            await until(link, lambda s: s.containers[1].end is not None)
            pid = link.state.containers[0].pid if link.state else 0
            os.kill(one.pid, signal.SIGKILL)
            os.killpg(pid, signal.SIGKILL)
            async for _ in link.states():
                pass
            with pytest.raises(SupervisorGoneError):
                await SupervisorLink.open(one.folder)

    within_time(work())
    one.wait()
    state = final_state(one.folder)
    assert state is not None
    assert state.is_over
    end = state.containers[0].end
    assert end is not None
    assert (end.exit_code, end.reason) == (137, "ContainerStatusUnknown")
    assert state.containers[1].end is not None
    assert state.containers[1].end.exit_code == 4
    assert final_state(one.folder) == state, "and never anything else"
    assert pods.start(one.order).wait() == 0
    assert final_state(one.folder) == state


def test_a_pod_that_never_started_may_start(tmp_path: Path) -> None:
    folder = PodFolder(tmp_path, "abc")
    folder.path.mkdir(parents=True)
    assert final_state(folder) is None

    async def work() -> None:
        with pytest.raises(SupervisorGoneError):
            await SupervisorLink.open(folder)

    within_time(work())


def test_a_state_that_can_not_be_read_is_a_pod_that_started(pods: Nursery) -> None:
    order = pod(shell("true"))
    one = pods.start(order)
    one.end()
    one.folder.state.write_bytes(b"")
    assert pods.start(order).wait() == 0
    state = final_state(one.folder)
    assert state is not None
    assert end_of(state).reason == "ContainerStatusUnknown"


WAITS = ContainerState(name="c")
RUNS = ContainerState(name="c", stage=Stage.RUNNING, pid=1, has_started=True)
DONE = ContainerState(
    name="c",
    stage=Stage.ENDED,
    end=End(exit_code=0, reason="Completed", started_at=0, finished_at=0),
)


@pytest.mark.parametrize(
    ("init", "main", "ended"),
    [
        pytest.param([], [WAITS], [True], id="may just have been starting"),
        pytest.param([], [RUNS, DONE, WAITS], [True, True, True], id="was running"),
        pytest.param(
            [RUNS, WAITS], [WAITS], [True, True, False], id="sidecar runs, next may start"
        ),
        pytest.param([DONE, WAITS, WAITS], [WAITS], [True, True, False, False], id="initializing"),
        pytest.param(
            [ContainerState(name="c", stage=Stage.RUNNING), WAITS],
            [WAITS],
            [True, False, False],
            id="first init container runs",
        ),
        pytest.param([DONE, DONE], [WAITS], [True, True, True], id="initialized"),
    ],
)
def test_a_lost_pod(
    init: list[ContainerState], main: list[ContainerState], ended: list[bool]
) -> None:
    before = PodState(uid="a", init_containers=tuple(init), containers=tuple(main))
    state = lost(before, 5)
    every = (*state.init_containers, *state.containers)
    assert [container.stage is Stage.ENDED for container in every] == ended
    assert any(c.end and c.end.exit_code == 137 for c in every)
    assert not any(c.pid for c in every)


def test_killed_at_any_moment_it_leaves_a_state_that_can_be_read(pods: Nursery) -> None:
    """And one that never goes back behind what a client was told."""
    dice = random.Random(5)
    for _ in range(25):
        order = pod(
            shell("echo x; exit 1"),
            init_containers=(shell("true", "i"),),
            restart_policy=RestartPolicy.ALWAYS,
            restart_delay_seconds=0.0001,
        )
        one = pods.start(order)

        async def work(one: Supervised = one) -> int:
            told = 0
            try:
                async with one.link() as link:
                    asyncio.get_running_loop().call_later(
                        dice.random() * 0.1, os.kill, one.pid, signal.SIGKILL
                    )
                    async for state in link.states():
                        told = state.revision
            except SupervisorGoneError:
                pass
            return told

        told = within_time(work())
        assert one.wait() == -9
        state = one.state()
        assert state is not None
        assert state.revision >= told
        final = final_state(one.folder)
        assert final is not None
        assert final.is_over
        within_time(collected(one.folder, "main", 0, LogCut(follow=True)))
        assert not is_supervised(one.folder)


def test_nothing_is_left_behind(pods: Nursery) -> None:
    """Neither descriptors in this process nor a socket, a lock holder or a file on its way."""
    # What earlier tests left open is closed whenever it is collected.
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    one = pods.start(pod(shell(FOREVER)))
    stopped(one)
    assert len(os.listdir("/proc/self/fd")) == before
    assert sorted(path.name for path in one.folder.path.iterdir()) == [
        "lock",
        "logs",
        "messages",
        "order.json",
        "state.json",
    ]
