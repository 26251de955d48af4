"""How much memory the embedded server takes: after a restart, and for watches that nobody reads."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from rig.waiting import run

from jobyard.server.call import Call
from jobyard.server.live import LiveServer
from jobyard.server.opening import open_server
from jobyard.server.server import ApiServer
from jobyard.server.store import store as stores
from jobyard.server.verbs.following import followed
from jobyard.server.verbs.watch import PIECE_BYTES_MAX, Watch

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
GROWTH_MAX = 1.3

# Prints how much memory the process has with a server that wrote (`write`) or only opened its file.
MEASURED = """
import json, sys
from pathlib import Path
from jobyard.server.call import Call
from jobyard.server.opening import open_server

def memory():
    line = [line for line in Path("/proc/self/status").read_text().splitlines() if "VmRSS" in line]
    return int(line[0].split()[1])

begun = memory()
server = open_server(Path(sys.argv[2]), durable=False)
path = "/api/v1/namespaces/default/pods"
if sys.argv[1] == "write":
    variables = [{"name": f"NAME_{n}", "value": f"value {n}"} for n in range(60)]
    main = {"name": "main", "image": "any", "command": ["true"], "env": variables}
    body = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}}
    body["spec"] = {"containers": [main]}
    server.handle(Call(method="POST", path=path, body=json.dumps(body).encode()))
    for number in range(6000):
        status = json.dumps({"status": {"message": f"change {number}"}}).encode()
        merge = "application/merge-patch+json"
        where = f"{path}/a/status"
        reply = server.handle(Call(method="PATCH", path=where, body=status, content_type=merge))
        assert reply.status == 200, reply.body
else:
    reply = server.handle(Call(method="GET", path=f"{path}/a"))
    assert json.loads(reply.body)["status"]["message"] == "change 5999"
print(memory() - begun)
server.store.journal.close()
"""


def measured(what: str, path: Path) -> int:
    words = [sys.executable, "-c", MEASURED, what, str(path)]
    return int(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def test_a_restart_takes_no_more_memory_than_there_was_before(tmp_path: Path) -> None:
    before = measured("write", tmp_path / "store.sqlite")
    after = measured("open", tmp_path / "store.sqlite")
    assert after < GROWTH_MAX * before, (before, after)


def filled(count: int, size: int) -> ApiServer:
    server = open_server(None)
    for number in range(count):
        body = {
            "kind": "ConfigMap",
            "apiVersion": "v1",
            "metadata": {"name": f"map-{number}"},
            "data": {"text": "x" * size},
        }
        server.handle(Call(method="POST", path=CONFIG_MAPS, body=json.dumps(body).encode()))
    return server


def watch_of(server: ApiServer, **query: str) -> Watch:
    options = {"watch": "1", **query}
    watch = server.handle(Call(method="GET", path=CONFIG_MAPS, query=tuple(options.items())))
    assert isinstance(watch, Watch)
    return watch


def test_a_watch_that_nobody_reads_holds_nothing_but_what_is_there_anyway() -> None:
    server = filled(count=500, size=2000)
    watches = [watch_of(server) for _ in range(50)]
    assert sum(watch.size for watch in watches) == 0
    piece = watches[0].take()
    assert 0 < len(piece) < PIECE_BYTES_MAX + 4000
    whole = piece
    while piece := watches[0].take():
        assert len(piece) < PIECE_BYTES_MAX + 4000
        whole += piece
    names = [json.loads(line)["object"]["metadata"]["name"] for line in whole.splitlines()]
    assert len(names) == len(set(names)) >= 500
    server.store.journal.close()


def test_what_waits_for_all_watches_together_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "WATCHED_BYTES_MAX", 1_000_000)

    async def story() -> None:
        server = filled(count=1, size=0)
        async with LiveServer(server) as live:
            unread = [watch_of(server, resourceVersion="0") for _ in range(20)]
            read = watch_of(server, resourceVersion=str(server.store.version))
            seen: list[bytes] = []

            async def reading() -> None:
                async for lines in followed(read):
                    seen.extend(lines.splitlines())

            reader = asyncio.create_task(reading())
            for number in range(100):
                patch = json.dumps({"data": {"text": "x" * 3000, "n": str(number)}}).encode()
                call = Call(
                    method="PATCH",
                    path=f"{CONFIG_MAPS}/map-0",
                    body=patch,
                    content_type="application/merge-patch+json",
                )
                assert (await live.send(call)).status == 200
                assert sum(watch.size for watch in unread) < 1_200_000
            assert any(watch.ended for watch in unread)
            # Who reads doesn't suffer for those who don't.
            assert not read.ended
            reader.cancel()
            with suppress(asyncio.CancelledError):
                await reader
            assert len(seen) == 100
        server.store.journal.close()

    run(story())
