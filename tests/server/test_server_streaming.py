"""Logs, processes, connections and proxied requests through the real HTTPS server.

The clients are real: two versions of kubectl, each with WebSockets and with SPDY, the official
Python client, curl. What runs "in a pod" are processes of this machine.
"""

from __future__ import annotations

import asyncio
import base64
import fcntl
import json
import os
import pty
import socket
import ssl
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from http.client import HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from rig.kube.binaries import find_binaries
from rig.needs import needed
from rig.waiting import look_again, until_it_holds
from yarl import URL

from jobyard.client.backoff import wait_seconds
from jobyard.client.request import Request
from jobyard.client.sockets import Sockets
from jobyard.engine.in_process import InProcess
from jobyard.kubelet import ExecOptions, LogOptions
from jobyard.server.streaming import process_ends
from jobyard.server.streaming.spdy import connection as spdy_connection
from jobyard.server.streaming.spdy.frames import Data, Decoder, Encoder, Frame, Ping, SynStream
from server.streaming_stage import DEADLINE_SECONDS, Stage, streaming_stage

PODS = "/api/v1/namespaces/default/pods"
OLD_KUBECTL = Path("/usr/bin/kubectl")
VIA = {"websocket": "true", "SPDY/3.1": "false"}


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with streaming_stage(tmp_path) as made:
        made.make_pod("one")
        yield made


@pytest.fixture(scope="session")
def newest_kubectl() -> Path:
    return find_binaries(lambda _: None) / "kubectl"


class Kubectl:
    """One kubectl with one way of upgrading."""

    def __init__(self, path: Path, stage: Stage, upgrade: str) -> None:
        self.path = path
        self.stage = stage
        self.upgrade = upgrade
        self.was_used = False
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(stage.folder),
            "KUBECONFIG": str(stage.kubeconfig),
            "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": VIA[upgrade],
            "KUBECTL_PORT_FORWARD_WEBSOCKETS": VIA[upgrade],
        }

    def __call__(self, *arguments: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        self.was_used = True
        return subprocess.run(
            (str(self.path), *arguments),
            env=self.environment,
            input=data,
            capture_output=True,
            timeout=DEADLINE_SECONDS,
        )

    def start(self, *arguments: str, **how: Any) -> subprocess.Popen[bytes]:
        self.was_used = True
        return subprocess.Popen((str(self.path), *arguments), env=self.environment, **how)


@pytest.fixture(params=["newest", "older"])
def any_kubectl(request: pytest.FixtureRequest) -> Path:
    if request.param == "newest":
        return Path(request.getfixturevalue("newest_kubectl"))
    if not OLD_KUBECTL.exists():
        pytest.skip("there is no second kubectl on this machine")
    return OLD_KUBECTL


@pytest.fixture(params=VIA)
def kubectl(request: pytest.FixtureRequest, any_kubectl: Path, stage: Stage) -> Iterator[Kubectl]:
    made = Kubectl(any_kubectl, stage, request.param)
    yield made
    if not made.was_used:
        return
    asked = {each.lower() for each in stage.upgrades}
    assert made.upgrade.lower() in asked, f"kubectl chose another way: {stage.upgrades}"


@pytest.fixture(params=VIA)
def one_kubectl(request: pytest.FixtureRequest, newest_kubectl: Path, stage: Stage) -> Kubectl:
    return Kubectl(newest_kubectl, stage, request.param)


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    try:
        with process:
            yield process
            process.terminate()
    finally:
        process.kill()
        process.wait()


def inside(stage: Stage) -> subprocess.Popen[bytes]:
    """The process that runs in the pod, once it does."""
    until_it_holds(lambda: stage.kubelet.processes, "a process runs in the pod")
    return stage.kubelet.processes[-1]


# exec and attach


def test_kubectl_exec_has_output_errors_and_the_exit_code(kubectl: Kubectl) -> None:
    done = kubectl("exec", "one", "--", "sh", "-c", "echo out; echo err >&2; exit 42")
    assert done.stdout == b"out\n"
    assert done.stderr == b"err\ncommand terminated with exit code 42\n"
    assert done.returncode == 42


def test_large_binary_data_goes_in_and_comes_back(kubectl: Kubectl) -> None:
    data = os.urandom(8_000_000)
    done = kubectl("exec", "-i", "one", "--", "cat", data=data)
    assert done.returncode == 0, done.stderr
    assert done.stdout == data


def test_the_end_of_the_input_alone_doesnt_end_the_process(kubectl: Kubectl) -> None:
    done = kubectl("exec", "-i", "one", "--", "sh", "-c", "wc -c; echo more", data=b"x" * 5)
    assert done.stdout.split() == [b"5", b"more"]


def test_a_process_need_not_read_its_input(kubectl: Kubectl) -> None:
    done = kubectl("exec", "-i", "one", "--", "sh", "-c", "exit 7", data=b"x" * 5_000_000)
    assert done.returncode == 7


def test_kubectl_exec_with_a_terminal(kubectl: Kubectl) -> None:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 37, 99, 0, 0))
    # The size comes right after the start, not with it.
    script = (
        "while [ \"$(stty size)\" != '37 99' ]; do :; done;"
        " tty; stty size; printf 'say: '; read x; echo got $x; exit 5"
    )
    with ended(
        kubectl.start(
            "exec", "-it", "one", "--", "sh", "-c", script, stdin=slave, stdout=slave, stderr=slave
        )
    ) as process:
        os.close(slave)
        seen = b""
        while b"say: " not in seen:
            seen += os.read(master, 4096)
        os.write(master, b"hello\r")
        while b"got hello" not in seen:
            seen += os.read(master, 4096)
        assert process.wait(DEADLINE_SECONDS) == 5
    os.close(master)
    assert b"/dev/pts/" in seen
    assert b"37 99" in seen


def test_kubectl_cp_both_ways(kubectl: Kubectl, tmp_path: Path) -> None:
    there, back = tmp_path / "files" / "there", tmp_path / "back"
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "large").write_bytes(os.urandom(3_000_000))
    (source / "sub" / "small").write_text("text")
    for pair in ((str(source), f"one:{there}"), (f"one:{there}", str(back))):
        done = kubectl("cp", *pair)
        assert done.returncode == 0, done.stderr
    assert (back / "large").read_bytes() == (source / "large").read_bytes()
    assert (back / "sub" / "small").read_text() == "text"


def test_a_client_that_goes_ends_the_process(kubectl: Kubectl, stage: Stage) -> None:
    with ended(
        kubectl.start("exec", "one", "--", "sh", "-c", "echo here; exec sleep 600", stdout=-1)
    ) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"here\n"
        client.kill()
        assert inside(stage).wait(DEADLINE_SECONDS) == -9


def test_a_client_that_goes_is_noticed_while_its_input_waits(
    one_kubectl: Kubectl, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is read from it then, so only writing to it can tell."""
    for module in (process_ends, spdy_connection):
        monkeypatch.setattr(module, "NUDGE_SECONDS", 0.1)
    with ended(one_kubectl.start("exec", "-i", "one", "--", "sleep", "600", stdin=-1)) as client:
        assert client.stdin is not None
        os.set_blocking(client.stdin.fileno(), False)
        # Until no more fits: everything between the client and the process is full.
        full = 0
        while full < 50:
            try:
                os.write(client.stdin.fileno(), b"x" * 65536)
                full = 0
            except BlockingIOError:
                full += 1
                look_again()
        client.kill()
        assert inside(stage).wait(DEADLINE_SECONDS) == -9


def test_a_server_that_stops_ends_what_it_ran(newest_kubectl: Path, tmp_path: Path) -> None:
    with streaming_stage(tmp_path) as stage:
        stage.make_pod("one")
        client = Kubectl(newest_kubectl, stage, "websocket").start(
            "exec", "one", "--", "sleep", "600", stderr=subprocess.DEVNULL
        )
        process = inside(stage)
    with ended(client):
        assert process.returncode == -9
        client.wait(DEADLINE_SECONDS)


def test_kubectl_attach_shows_the_containers_own_process(kubectl: Kubectl) -> None:
    done = kubectl("attach", "-i", "one", data=b"typed\n")
    # How the container ended is for the pod's status to say.
    assert done.returncode == 0, done.stderr
    assert done.stdout == b"attached\ntyped\n"


def test_what_cant_be_started_is_told(one_kubectl: Kubectl) -> None:
    done = one_kubectl("exec", "one", "--", "/no/such/program")
    assert done.returncode == 1
    assert b"/no/such/program: no such file" in done.stderr


def test_the_options_reach_the_node(one_kubectl: Kubectl, stage: Stage) -> None:
    stage.make_pod("two", "a", "b")
    one_kubectl("exec", "-i", "two", "-c", "b", "--", "true")
    assert stage.kubelet.options == ExecOptions(
        command=("true",), container="b", stdin=True, stdout=True, stderr=True
    )


# The wire itself


def trusting(stage: Stage) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(stage.ca))


def bearer(stage: Stage) -> dict[str, str]:
    return {"Authorization": f"Bearer {stage.token}"}


@asynccontextmanager
async def session_to(stage: Stage) -> AsyncIterator[aiohttp.ClientSession]:
    """A session that leaves no socket behind."""
    sockets = Sockets()
    connector = aiohttp.TCPConnector(ssl=trusting(stage), socket_factory=sockets.make)
    async with aiohttp.ClientSession(
        stage.url, connector=connector, headers=bearer(stage)
    ) as session:
        yield session
    await sockets.all_closed()


def over_websocket(
    stage: Stage, query: str, protocols: tuple[str, ...], talk: Callable[[Any], Any]
) -> Any:
    async def connected() -> Any:
        async with (
            session_to(stage) as session,
            session.ws_connect(f"{PODS}/one/{query}", protocols=protocols) as opened,
            asyncio.timeout(DEADLINE_SECONDS),
        ):
            return await talk(opened)

    return asyncio.run(connected())


async def everything(opened: aiohttp.ClientWebSocketResponse) -> list[bytes | str]:
    return [message.data async for message in opened]


@pytest.mark.parametrize(
    ("protocol", "want"),
    [
        pytest.param(
            "v4.channel.k8s.io", [b"\1", b"\1hi\n", b"\3" + b"status of 3"], id="v4: a Status"
        ),
        pytest.param("v5.channel.k8s.io", [b"\1hi\n", b"\3" + b"status of 3"], id="v5: a Status"),
        pytest.param(
            "channel.k8s.io",
            [b"\1", b"\1hi\n", b"\3command terminated with non-zero exit code: command terminated"
             b" with exit code 3"],
            id="v1: a text",
        ),
        pytest.param(
            "base64.channel.k8s.io",
            ["1", "1" + base64.b64encode(b"hi\n").decode(), "3" + base64.b64encode(
                b"command terminated with non-zero exit code: command terminated with exit code 3"
            ).decode()],
            id="base64: texts",
        ),
    ],
)  # fmt: skip
def test_each_version_of_the_channels(stage: Stage, protocol: str, want: list[Any]) -> None:
    query = "exec?stdout=1&command=sh&command=-c&command=echo%20hi;exit%203"
    got = over_websocket(stage, query, (protocol,), everything)
    status = {
        "metadata": {},
        "status": "Failure",
        "message": "command terminated with non-zero exit code: command terminated with exit code"
        " 3",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
    }
    assert got[:-1] == want[:-1]
    if want[-1] == b"\3status of 3":
        assert got[-1][:1] == b"\3"
        assert json.loads(got[-1][1:]) == status
    else:
        assert got[-1] == want[-1]


def test_output_waits_for_a_client_that_doesnt_read(stage: Stage) -> None:
    total = 100_000_000
    query = f"exec?stdout=1&command=head&command=-c&command={total}&command=/dev/zero"

    async def talk(opened: aiohttp.ClientWebSocketResponse) -> tuple[int, int]:
        process = inside(stage)
        before, written = -1, 0
        # Quiet before it has begun says nothing.
        while not written or written != before:
            before = written
            await wait_seconds(0.3)
            text = Path(f"/proc/{process.pid}/io").read_text()
            written = int(text.split("wchar:")[1].split()[0])
        got = 0
        async for message in opened:
            got += len(message.data) - 1 if message.data[0] == 1 else 0
        return written, got

    written, got = over_websocket(stage, query, ("v5.channel.k8s.io",), talk)
    assert 0 < written < total / 4
    assert got == total


def spdy_client(
    stage: Stage, query: str, version: str
) -> tuple[ssl.SSLSocket, Callable[[Frame], None]]:
    host, port = stage.url.removeprefix("https://").split(":")
    plain = socket.create_connection((host, int(port)), DEADLINE_SECONDS)
    wire = trusting(stage).wrap_socket(plain, server_hostname=host)
    head = (
        f"POST {PODS}/one/{query} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n"
        f"Authorization: Bearer {stage.token}\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
    )
    head += f"X-Stream-Protocol-Version: {version}\r\n" if version else ""
    wire.sendall(f"{head}\r\n".encode())
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        answer += wire.recv(1)
    assert answer.startswith(b"HTTP/1.1 101 ")
    assert (f"X-Stream-Protocol-Version: {version}".encode() in answer) == bool(version)
    encoder = Encoder()
    return wire, lambda frame: wire.sendall(encoder.encoded(frame))


@pytest.mark.parametrize("version", ["", "v2.channel.k8s.io", "v3.channel.k8s.io"])
def test_older_versions_over_spdy_have_a_text(stage: Stage, version: str) -> None:
    query = "exec?stdout=1&command=sh&command=-c&command=echo%20hi;exit%203"
    wire, send = spdy_client(stage, query, version)
    with closing(wire):
        send(Ping(1))
        send(SynStream(1, {"streamtype": "error"}))
        send(SynStream(3, {"streamtype": "stdout"}))
        decoder, got = Decoder(), list[Frame]()
        while Data(1, b"", True) not in got:
            got += decoder.decoded(wire.recv(65536))
    data = dict.fromkeys((1, 3), b"")
    for frame in got:
        if isinstance(frame, Data):
            data[frame.stream] += frame.payload
    assert Ping(1) in got
    assert data[3] == b"hi\n"
    text = b"command terminated with exit code 3"
    assert data[1] == b"command terminated with non-zero exit code: " + text


# Refusals


def ask(stage: Stage, path: str, **headers: str) -> tuple[int, Any]:
    async def asked() -> tuple[int, Any]:
        url = URL(path, encoded=True)
        async with (
            session_to(stage) as session,
            session.get(url, headers=headers) as answer,
        ):
            return answer.status, await answer.text()

    return asyncio.run(asked())


UPGRADE = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
RUN = "command=true&stdout=1"


@pytest.mark.parametrize(
    ("path", "headers", "code", "reason", "message"),
    [
        pytest.param(
            f"none/exec?{RUN}", UPGRADE, 404, "NotFound", 'pods "none" not found', id="no such pod"
        ),
        pytest.param(
            f"two/exec?{RUN}", UPGRADE, 400, "BadRequest",
            "a container name must be specified for pod two, choose one of: [a b]",
            id="one of two containers",
        ),
        pytest.param(
            f"two/exec?{RUN}&container=c", UPGRADE, 400, "BadRequest",
            "container c is not valid for pod two", id="no such container",
        ),
        pytest.param(
            f"free/exec?{RUN}", UPGRADE, 400, "BadRequest",
            "pod free does not have a host assigned", id="no node",
        ),
        pytest.param(
            "one/exec?command=true", UPGRADE, 400, "BadRequest",
            "you must specify at least 1 of stdin, stdout, stderr", id="no stream",
        ),
        pytest.param(
            f"one/exec?{RUN}", {}, 400, "BadRequest", "Upgrade request required", id="no upgrade"
        ),
        pytest.param(
            f"one/exec?{RUN}", {**UPGRADE, "X-Stream-Protocol-Version": "v9"}, 403, "Forbidden",
            "unable to upgrade: unable to negotiate protocol: client supports [v9], server accepts"
            " [v4.channel.k8s.io v3.channel.k8s.io v2.channel.k8s.io channel.k8s.io]",
            id="no version in common",
        ),
        pytest.param(
            "one/exec?stdout=1&command=/no/such/program", UPGRADE, 500, "InternalError",
            "/no/such/program: no such file", id="what the node refuses",
        ),
        pytest.param(
            "free/portforward", UPGRADE, 400, "BadRequest",
            "pod free does not have a host assigned", id="forward to no node",
        ),
        pytest.param(
            "one/log?container=c", {}, 400, "BadRequest", "container c is not valid for pod one",
            id="the log of no container",
        ),
        pytest.param(
            "two/log", {}, 400, "BadRequest",
            "a container name must be specified for pod two, choose one of: [a b]",
            id="the log of one of two containers",
        ),
        pytest.param(
            "one/log", {}, 400, "BadRequest",
            'container "main" in pod "one" is waiting to start: ContainerCreating',
            id="no log yet",
        ),
        pytest.param(
            "one/log?previous=true", {}, 400, "BadRequest",
            'previous terminated container "main" in pod "one" not found', id="no log before",
        ),
        pytest.param(
            "one:none/proxy/", {}, 400, "BadRequest", 'invalid pod request "one:none"',
            id="a port that has no such name",
        ),
        pytest.param(
            "ftp:one:80/proxy/", {}, 400, "BadRequest", 'invalid pod request "ftp:one:80"',
            id="a scheme that isn't HTTP",
        ),
    ],
)  # fmt: skip
def test_refusals_are_status_objects(
    stage: Stage, path: str, headers: Mapping[str, str], code: int, reason: str, message: str
) -> None:
    stage.make_pod("two", "a", "b")
    stage.make_pod("free", spec={"nodeName": None})
    status, text = ask(stage, f"{PODS}/{path}", **headers)
    told = json.loads(text)
    assert (status, told["kind"], told["reason"]) == (code, "Status", reason)
    assert told["message"] == message


# Logs


def test_kubectl_logs(one_kubectl: Kubectl, stage: Stage) -> None:
    stage.kubelet.log_pieces = [b"one\n", b"two\n"]
    done = one_kubectl("logs", "one", "--tail=5", "--timestamps", "--since=60s")
    assert done.stdout == b"one\ntwo\n"
    assert stage.kubelet.options == LogOptions(
        container="main", tail_lines=5, timestamps=True, since_seconds=60
    )


def test_a_log_is_plain_text_and_empty_for_a_pod_without_a_node(stage: Stage) -> None:
    stage.make_pod("free", spec={"nodeName": None})
    assert ask(stage, f"{PODS}/free/log") == (204, "")


def test_a_connection_is_good_for_more_than_one_log(stage: Stage) -> None:
    stage.kubelet.log_pieces = [b"line\n"]

    host = stage.url.removeprefix("https://")
    client = HTTPSConnection(host, context=trusting(stage), timeout=DEADLINE_SECONDS)
    with closing(client):
        client.connect()
        opened = client.sock
        for _ in range(3):
            client.request("GET", f"{PODS}/one/log", headers=bearer(stage))
            assert client.getresponse().read() == b"line\n"
            assert client.sock is opened


def test_a_followed_log_ends_with_its_client(one_kubectl: Kubectl, stage: Stage) -> None:
    stage.kubelet.log_pieces = [b"first\n"]
    stage.kubelet.log_goes_on = True
    with ended(one_kubectl.start("logs", "-f", "one", stdout=-1)) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"first\n"
        stage.wait_for(lambda: stage.kubelet.logs_open == 1)
        client.kill()
        stage.wait_for(lambda: stage.kubelet.logs_open == 0)


# Connections


class Web(BaseHTTPRequestHandler):
    """A program in a pod that speaks HTTP."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/large":
            return self._say(200, b"x" * 10_000_000)
        if self.path == "/moved":
            return self._say(302, b"", ("Location", "/there"))
        if self.path == "/pieces":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")
            return None
        token = self.headers.get("Authorization")
        return self._say(200, f"{self.path} {token}".encode())

    def do_POST(self) -> None:
        self._say(201, self.rfile.read(int(self.headers["Content-Length"])))

    def _say(self, code: int, body: bytes, *headers: tuple[str, str]) -> None:
        self.send_response(code)
        for name, value in (*headers, ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Tests are quiet."""


@pytest.fixture
def web_port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Web) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@pytest.fixture
def late_port() -> Iterator[int]:
    """A program that answers only once it has heard everything."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with server.accept()[0] as client:
                heard = 0
                while data := client.recv(65536):
                    heard += len(data)
                client.sendall(f"heard {heard}".encode())

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join(DEADLINE_SECONDS)


@contextmanager
def forwarded(kubectl: Kubectl, port: int) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    with ended(
        kubectl.start(
            *("port-forward", "--address=127.0.0.1", "pod/one", f":{port}"), stdout=-1, stderr=-1
        )
    ) as client:
        assert client.stdout is not None
        line = client.stdout.readline().decode()
        assert line.startswith("Forwarding from 127.0.0.1:"), line
        yield int(line.split(":")[1].split()[0]), client


def test_kubectl_port_forward_carries_several_connections(
    kubectl: Kubectl, web_port: int, tmp_path: Path
) -> None:
    with forwarded(kubectl, web_port) as (port, _):
        files = [tmp_path / f"answer{number}" for number in range(5)]
        clients = [
            subprocess.Popen((needed("curl"), "-sS", "-o", file, f"http://127.0.0.1:{port}/large"))
            for file in files
        ]
        assert [client.wait(DEADLINE_SECONDS) for client in clients] == [0] * 5
        assert {file.stat().st_size for file in files} == {10_000_000}


def test_each_direction_of_a_forwarded_connection_ends_alone(
    kubectl: Kubectl, late_port: int
) -> None:
    with (
        forwarded(kubectl, late_port) as (port, _),
        socket.create_connection(("127.0.0.1", port), DEADLINE_SECONDS) as client,
    ):
        client.sendall(b"x" * 3_000_000)
        client.shutdown(socket.SHUT_WR)
        heard = b""
        while data := client.recv(1024):
            heard += data
        assert heard == b"heard 3000000"


def test_a_port_where_nobody_listens_is_told(one_kubectl: Kubectl) -> None:
    with socket.socket() as holder:
        # Bound, so that it is nobody else's either.
        holder.bind(("127.0.0.1", 0))
        closed = holder.getsockname()[1]
        with forwarded(one_kubectl, closed) as (port, process):
            with socket.create_connection(("127.0.0.1", port), DEADLINE_SECONDS) as client:
                client.sendall(b"GET / HTTP/1.0\r\n\r\n")
                # kubectl closes; what it has not read by then makes that a reset.
                with suppress(ConnectionResetError):
                    assert client.recv(10) == b""
            assert process.stderr is not None
            told = process.stderr.readline().decode()
    assert f"error forwarding port {closed} to pod one, uid " in told
    assert "Connect call failed" in told


PROXIED = [
    pytest.param("proxy/a%2Fb/?q=1%202", 200, "/a%2Fb/?q=1%202 None", id="path as it was written"),
    pytest.param("proxy/", 200, "/ None", id="root"),
    pytest.param("proxy/pieces", 200, "onetwo", id="chunks"),
    pytest.param("proxy/large", 200, "x" * 10_000_000, id="large"),
]


@pytest.mark.parametrize(("path", "code", "text"), PROXIED)
def test_requests_are_proxied(stage: Stage, web_port: int, path: str, code: int, text: str) -> None:
    assert ask(stage, f"{PODS}/one:{web_port}/{path}") == (code, text)


@pytest.mark.parametrize(
    ("path", "code", "text"),
    [
        *PROXIED[:3],
        pytest.param("proxy/large", 503, "its answer has more than", id="too large"),
    ],
)
def test_the_controller_asks_a_pod_without_a_wire(
    stage: Stage, web_port: int, path: str, code: int, text: str
) -> None:
    sender = InProcess(stage.live)
    sender.kubelet = stage.kubelet
    request = Request(method="GET", path=f"{PODS}/one:{web_port}/{path}")
    answer = stage.in_loop(sender.send(request))
    assert (answer.status, text in answer.body.decode()) == (code, True)


@pytest.mark.parametrize(
    ("pod", "code"), [("one:1", 503), ("two:80", 404)], ids=["nobody listens", "no such pod"]
)
def test_a_pod_that_does_not_answer_the_controller(stage: Stage, pod: str, code: int) -> None:
    sender = InProcess(stage.live)
    sender.kubelet = stage.kubelet
    answer = stage.in_loop(sender.send(Request(method="GET", path=f"{PODS}/{pod}/proxy/")))
    assert answer.status == code


def curl(stage: Stage, path: str, *more: str) -> str:
    command = (needed("curl"), "-sS", "--cacert", str(stage.ca), *more, f"{stage.url}{PODS}/{path}")
    token = ("-H", f"Authorization: Bearer {stage.token}")
    done = subprocess.run((*command, *token), capture_output=True, timeout=DEADLINE_SECONDS)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def test_bodies_and_redirections_are_proxied(stage: Stage, web_port: int, tmp_path: Path) -> None:
    body = tmp_path / "body"
    body.write_text("y" * 5_000_000)
    assert curl(stage, f"one:{web_port}/proxy/", "--data-binary", f"@{body}") == body.read_text()
    moved = curl(stage, f"http:one:{web_port}/proxy/moved", "-i")
    assert f"Location: {PODS}/http:one:{web_port}/proxy/there\r\n" in moved
    root = curl(stage, f"one:{web_port}/proxy", "-i")
    assert f"Location: {PODS}/one:{web_port}/proxy/\r\n" in root


def test_a_proxied_websocket(stage: Stage) -> None:
    """A program that echoes, in an aiohttp server of its own loop."""

    async def echo(request: aiohttp.web.BaseRequest) -> aiohttp.web.StreamResponse:
        opened = aiohttp.web.WebSocketResponse()
        await opened.prepare(request)
        async for message in opened:
            await opened.send_str(f"{request.path} said {message.data}")
        return opened

    async def talk() -> str:
        runner = aiohttp.web.ServerRunner(aiohttp.web.Server(echo))
        await runner.setup()
        site = aiohttp.web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        try:
            async with (
                session_to(stage) as session,
                session.ws_connect(f"{PODS}/one:{port}/proxy/api") as opened,
            ):
                await opened.send_str("this")
                return await opened.receive_str(timeout=DEADLINE_SECONDS)
        finally:
            await runner.cleanup()

    assert asyncio.run(talk()) == "/api said this"


# The official Python client, in a process of its own: it leaves sockets open

OPENING = """
import sys
from kubernetes import client, config
from kubernetes.stream import portforward, stream
config.load_kube_config(sys.argv[1])
api = client.CoreV1Api()
"""
RUNNING = """
opened = stream(
    api.connect_get_namespaced_pod_exec, "one", "default", _preload_content=False,
    command=["sh", "-c", "read x; echo got $x; echo bad >&2; exit 4"],
    stdin=True, stdout=True, stderr=True, tty=False,
)
opened.write_stdin("a line\\n")
opened.run_forever(timeout=30)
print(repr((opened.read_stdout(), opened.read_stderr(), opened.returncode)))
"""
FORWARDING = """
port = int(sys.argv[2])
forward = portforward(
    api.connect_get_namespaced_pod_portforward, "one", "default", ports=sys.argv[2]
)
opened = forward.socket(port)
opened.sendall(b"GET /large HTTP/1.0\\r\\n\\r\\n")
heard = b""
while data := opened.recv(65536):
    heard += data
print(heard.endswith(b"\\r\\n\\r\\n" + b"x" * 10_000_000), forward.error(port))
"""
READING = """
print(repr(api.read_namespaced_pod_log("one", "default")))
"""


@pytest.mark.parametrize(
    ("script", "told"),
    [
        pytest.param(RUNNING, "('got a line\\n', 'bad\\n', 4)", id="a process"),
        pytest.param(FORWARDING, "True None", id="a port"),
        pytest.param(READING, "'line\\n'", id="a log"),
    ],
)
def test_the_python_client(stage: Stage, web_port: int, script: str, told: str) -> None:
    pytest.importorskip("kubernetes")
    stage.kubelet.log_pieces = [b"line\n"]
    done = subprocess.run(
        (sys.executable, "-c", OPENING + script, str(stage.kubeconfig), str(web_port)),
        capture_output=True,
        text=True,
        timeout=2 * DEADLINE_SECONDS,
    )
    assert done.stdout.strip() == told, done.stderr
