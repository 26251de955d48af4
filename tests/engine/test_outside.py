"""The way out of sandboxes that have no route: a real server, a real proxy, real namespaces."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from node.isolation_stage import MARK, marked_processes
from rig.places import TESTS
from rig.waiting import until

from engine.outside_stage import ADDRESS, PORT
from jobyard.engine.outside.gateway import Outside, _in_hosts_files, is_own
from jobyard.engine.outside.proxy import Connection, Proxy, RefusedError, asked_for
from jobyard.engine.outside.upstream import Upstream
from jobyard.node.hub.client import HubClient
from jobyard.node.objects.surroundings import Found
from jobyard.node.ordering.way_out import with_way_out
from jobyard.node.runtime.abilities import look, missing_for_sandbox
from jobyard.node.shared.private_network import DEFAULT_NETWORK as NETWORK
from jobyard.node.shared.runtime import RuntimeFailedError

DEADLINE_SECONDS = 120
STAGE = Path(__file__).with_name("outside_stage.py")

needs_sandbox = pytest.mark.skipif(
    missing_for_sandbox(look()) is not None, reason="namespaces are not allowed here"
)


@pytest.fixture
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="jy-"))
    yield path
    shutil.rmtree(path)


def played(scene: str, folder: Path) -> list[str]:
    """What a scene on a machine of its own says; nothing of it may be left running."""
    mark = f"outside-{os.getpid()}-{folder.name}"
    done = subprocess.run(
        [sys.executable, STAGE, scene, folder],
        env={**os.environ, MARK: mark, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert marked_processes(mark) == []
    return done.stdout.splitlines()


@needs_sandbox
def test_a_pod_reaches_the_world_but_not_the_hosts_loopback(folder: Path) -> None:
    said = [line.removeprefix("worker-0 | ") for line in played("command", folder)]
    assert f"http://{ADDRESS}:{PORT}/ served on {ADDRESS}" in said
    # However loopback is written, and even when the pod exempts nothing from the proxy.
    for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"):
        assert f"http://{host}:{PORT}/ 403" in said
    assert f"http://192.0.2.8:{PORT}/ 502" in said
    assert "GenericJob/ask succeeded" in " ".join(said)


@needs_sandbox
def test_the_way_out_is_the_same_for_the_next_engine(folder: Path) -> None:
    said = played("restart", folder)
    assert said == [
        "told http://100.96.0.1:3128",
        f"served on {ADDRESS}",
        # By address and by name, for programs that don't heed no_proxy.
        "pods: ['a pod', 'a pod']",
    ]


def variables(own: dict[str, str], **found: object) -> dict[str, str]:
    base = {"PATH": "/bin", "HTTPS_PROXY": "http://corporate:8080", "no_proxy": "intranet"}
    whole = {"proxy": "http://100.96.0.1:3128", "network": "100.96.0.0/16", "names": ("web",)}
    return with_way_out(base, own, "lab", Found(**{**whole, **found}))  # type: ignore[arg-type]


def test_programs_are_told_of_the_proxy_in_both_spellings() -> None:
    told = variables({})
    for name in ("http_proxy", "https_proxy"):
        assert told[name] == told[name.upper()] == "http://100.96.0.1:3128"
    exempt = told["no_proxy"].split(",")
    assert told["NO_PROXY"] == told["no_proxy"]
    assert set(exempt) >= {"localhost", "127.0.0.1", "100.96.0.0/16", "web", "svc", "lab"}
    assert "intranet" not in exempt
    assert told["PATH"] == "/bin"


def test_what_a_container_says_itself_counts() -> None:
    told = variables({"HTTPS_PROXY": "http://mine:1", "no_proxy": "*"})
    # The other spelling must not contradict it.
    assert {"https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY"}.isdisjoint(told)
    assert told["http_proxy"] == "http://100.96.0.1:3128"


def test_with_a_route_nothing_is_said_of_a_proxy() -> None:
    told = variables({}, proxy="")
    assert told["HTTPS_PROXY"] == "http://corporate:8080"
    assert "http_proxy" not in told


@pytest.mark.parametrize(
    ("head", "address", "first"),
    [
        ("CONNECT example.org:443 HTTP/1.1\r\n\r\n", ("example.org", 443), ""),
        ("CONNECT [2001:db8::1]:443 HTTP/1.1\r\n\r\n", ("2001:db8::1", 443), ""),
        (
            "GET http://a.example/x?y=1 HTTP/1.1\r\nHost: a.example\r\nProxy-Connection: k\r\n\r\n",
            ("a.example", 80),
            "GET /x?y=1 HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n",
        ),
    ],
)
def test_what_is_asked_for(head: str, address: tuple[str, int], first: str) -> None:
    assert asked_for(head.encode()) == (address, first.encode())


@pytest.mark.parametrize(
    "head",
    [
        "CONNECT example.org HTTP/1.1\r\n\r\n",
        "CONNECT example.org:0 HTTP/1.1\r\n\r\n",
        f"CONNECT example.org:{'9' * 5_000} HTTP/1.1\r\n\r\n",
        "CONNECT example.org:65536 HTTP/1.1\r\n\r\n",
        f"GET http://a.example:{'9' * 5_000}/ HTTP/1.1\r\n\r\n",
        "GET /path HTTP/1.1\r\n\r\n",
        "GET ftp://a.example/ HTTP/1.1\r\n\r\n",
        "GET http://a.example:nought/ HTTP/1.1\r\n\r\n",
        "nonsense\r\n\r\n",
        "\xff \xff \xff\r\n\r\n",
    ],
)
def test_what_makes_no_sense_is_refused(head: str) -> None:
    with pytest.raises(RefusedError, match="400"):
        asked_for(head.encode("latin-1"))


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", True),
        ("::", True),
        ("192.0.2.1", False),
        ("fe80::1%eth0", False),
    ],
)
def test_loopback_is_known_however_it_is_written(address: str, expected: bool) -> None:
    assert is_own(address) is expected


def test_no_hosts_file_leads_the_proxy_to_where_no_pod_is(tmp_path: Path) -> None:
    """A pod may write there, and what is found there is dialled from the hub's own place."""
    lines = "100.96.0.7 me\n100.96.0.8 web\n10.1.2.3 db\n127.0.0.1 self\n::1 six\nnonsense x\n"
    (tmp_path / "hosts").mkdir()
    (tmp_path / "hosts" / "lab").write_text(lines)
    outside = Outside(HubClient("sandbox", tmp_path), NETWORK, tmp_path)

    async def found(name: str) -> str:
        return await outside._known_to("100.96.0.7", name)

    names = ("web", "db", "self", "six", "x", "nobody")
    assert [asyncio.run(found(name)) for name in names] == ["100.96.0.8", "", "", "", "", ""]


def test_a_hosts_file_may_say_anything(tmp_path: Path) -> None:
    (tmp_path / "n").write_text("foo web\n999.1.1.1 web\n10.0.0.5 web\n10.0.0.9 me\n\n# x\n")
    assert _in_hosts_files(tmp_path, "10.0.0.9", "web") == "10.0.0.5"


def test_the_machines_own_proxy_is_used_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nfrom far away")
        writer.close()

    async def play() -> bytes:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        for name in ("http_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("https_proxy", f"http://me:se%40cret@127.0.0.1:{port}")
        monkeypatch.setenv("no_proxy", "near.example")
        upstream = Upstream()
        assert not upstream.serves(("near.example", 443))
        assert not upstream.serves(("far.example", 80))
        assert upstream.serves(("far.example", 443))
        reader, writer = await upstream.connect(("far.example", 443))
        text = await reader.read()
        writer.close()
        server.close()
        await server.wait_closed()
        return text

    assert asyncio.run(play()) == b"from far away"
    lines = heard[0].split(b"\r\n")
    assert lines[0] == b"CONNECT far.example:443 HTTP/1.1"
    assert b"Proxy-Authorization: Basic bWU6c2VAY3JldA==" in lines


@pytest.mark.parametrize("ends", ["never answers", "answers no"])
def test_a_connection_to_the_machines_own_proxy_is_not_left_open(
    monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    async def play() -> None:
        heard, left = asyncio.Event(), asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            heard.set()
            if ends == "answers no":
                writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            assert await reader.read() == b""
            left.set()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{port}")
        connecting = asyncio.create_task(Upstream().connect(("far.example", 443)))
        await heard.wait()
        if ends == "never answers":
            connecting.cancel()
        # Whoever keeps the error keeps the frames it went through, and what is open in them.
        with pytest.raises((RefusedError, asyncio.CancelledError)) as kept:
            await connecting
        await left.wait()
        assert kept.value is not None
        server.close()
        await server.wait_closed()

    asyncio.run(asyncio.wait_for(play(), DEADLINE_SECONDS))


@pytest.mark.parametrize("place", ["a..b:443", f"{'a' * 64}.example:443", "100.96.9.9:80"])
def test_what_cannot_be_reached_has_an_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
) -> None:
    """Names that nobody can look up, and pods of a network whose hub is gone."""
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)

    class Gone(HubClient):
        async def connect(self, address: str, port: int) -> socket.socket:
            raise RuntimeFailedError("the hub does not answer")

    async def play() -> bytes:
        listening = socket.create_server(("127.0.0.1", 0))
        proxy = Proxy(listening, Outside(Gone("sandbox", tmp_path), NETWORK, tmp_path)._dial)
        await proxy.start()
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        writer.write(f"CONNECT {place} HTTP/1.1\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        await proxy.close()
        return answer

    answer = asyncio.run(asyncio.wait_for(play(), DEADLINE_SECONDS))
    assert answer.startswith(b"HTTP/1.1 502 Bad Gateway\r\n")


def test_a_pod_with_many_connections_leaves_the_engine_and_other_pods_theirs() -> None:
    """Those of a program that never closes one; they are counted by the address of the pod."""

    async def far(peer: str, address: tuple[str, int]) -> Connection:
        here, there = socket.socketpair()
        _, writer = await asyncio.open_connection(sock=there)
        far_ends.append(writer)
        return await asyncio.open_connection(sock=here)

    async def asked(pod: str) -> tuple[bytes, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(
            *listening.getsockname(), local_addr=(pod, 0)
        )
        try:
            writer.write(b"CONNECT far:80 HTTP/1.1\r\n\r\n")
            return await reader.readline(), writer
        except ConnectionResetError:
            # It was sent away before it had said what it wants.
            return b"", writer

    async def play() -> None:
        proxy = Proxy(listening, far, connections_max=8)
        await proxy.start()
        greedy = [await asked("127.0.0.2") for _ in range(20)]
        taken = [writer for line, writer in greedy if b" 200 " in line]
        assert len(taken) == 2
        assert all(b" 503 " in line or not line for line, _ in greedy[2:])
        told, other = await asked("127.0.0.3")
        assert b" 200 " in told
        # What is closed makes room.
        await all_closed(taken[0], far_ends[0])
        late = await until(lambda: taken_again("127.0.0.2"))
        assert late is not None
        await all_closed(*(writer for _, writer in greedy), other, late, *far_ends)
        await proxy.close()

    async def all_closed(*writers: asyncio.StreamWriter) -> None:
        for writer in writers:
            writer.close()
        await asyncio.gather(*(each.wait_closed() for each in writers), return_exceptions=True)

    async def taken_again(pod: str) -> asyncio.StreamWriter | None:
        line, writer = await asked(pod)
        if b" 200 " in line:
            return writer
        await all_closed(writer)
        return None

    far_ends: list[asyncio.StreamWriter] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        asyncio.run(asyncio.wait_for(play(), DEADLINE_SECONDS))


def test_the_stages_address_is_none_of_this_machines() -> None:
    with socket.socket() as probe, pytest.raises(OSError, match="assign"):
        probe.bind((ADDRESS, 0))
