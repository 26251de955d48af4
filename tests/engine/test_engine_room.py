"""A disk that is full: what was answered stays, what wasn't waits, and no work ends for it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from rig.needs import needed
from rig.waiting import run, until

from jobyard.client.request import Answer, Request
from jobyard.engine.in_process import InProcess
from jobyard.server.call import Call
from jobyard.server.live import LiveServer
from jobyard.server.opening import open_server
from jobyard.server.server import ApiServer
from jobyard.server.store import committing
from jobyard.server.store.journal import Batch, Journal, JournalError, NoRoomError, Revision

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PAGE_BYTES = 4096


def write_of(name: str, size: int = 0, method: str = "POST") -> Request:
    body = {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": name},
        "data": {"text": "x" * size},
    }
    path = CONFIG_MAPS if method == "POST" else f"{CONFIG_MAPS}/{name}"
    return Request(method=method, path=path, body=json.dumps(body).encode())


def read_of(name: str = "") -> Request:
    return Request(method="GET", path=f"{CONFIG_MAPS}/{name}".rstrip("/"))


class Disk:
    """A server on a file that SQLite itself lets grow no further, until it may."""

    def __init__(self, server: ApiServer) -> None:
        self._database: sqlite3.Connection = server.store.journal._db
        self._pages = self._pragma("max_page_count")

    def _pragma(self, words: str) -> int:
        (found,) = self._database.execute(f"PRAGMA {words}").fetchone()
        return int(found)

    def fill(self) -> None:
        self._pragma(f"max_page_count = {self._pragma('page_count')}")

    def make_room(self) -> None:
        self._pragma(f"max_page_count = {self._pages}")


def told(answer: Answer) -> str:
    return str(json.loads(answer.body).get("message", ""))


def test_writes_wait_for_room_and_reads_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        server = open_server(tmp_path / "store.sqlite")
        async with LiveServer(server) as live:
            disk, sender = Disk(server), InProcess(live)
            assert (await sender.send(write_of("before"))).status == 201
            disk.fill()
            large = 64 * PAGE_BYTES
            writes = [
                asyncio.create_task(sender.send(write_of(name, large))) for name in ("a", "b")
            ]

            async def is_full() -> bool:
                return bool(server.store.trouble)

            await until(is_full)
            # What isn't on disk is not there yet; all else is answered as ever.
            assert (await sender.send(read_of("before"))).status == 200
            assert (await sender.send(read_of("a"))).status == 404
            items = json.loads((await sender.send(read_of())).body)["items"]
            assert {"a", "b"}.isdisjoint(item["metadata"]["name"] for item in items)
            ready = await sender.send(Request(method="GET", path="/readyz"))
            assert ready.status == 500
            assert b"the disk is full" in ready.body
            assert (await sender.send(Request(method="GET", path="/livez"))).status == 200
            # A refusal that rests on what isn't on disk waits with it.
            writes.append(asyncio.create_task(sender.send(write_of("a"))))
            assert not any(write.done() for write in writes)
            disk.make_room()
            answers = await asyncio.gather(*writes)
            assert [answer.status for answer in answers] == [201, 201, 409]
            assert (await sender.send(Request(method="GET", path="/readyz"))).status == 200
        server.store.journal.close()
        again = open_server(tmp_path / "store.sqlite")
        names = {key.rpartition("/")[2] for key in again.store.shelf("configmaps").objects}
        assert {"before", "a", "b"} <= names
        again.store.journal.close()

    with caplog.at_level(logging.WARNING):
        run(story())
    lines = [record.getMessage() for record in caplog.records]
    assert sum("writes wait until there is room" in line for line in lines) == 1, lines
    assert sum("there is room on the disk again" in line for line in lines) == 1, lines


def test_only_so_many_writes_wait_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committing, "WAITING_MAX", 3)
    monkeypatch.setattr(committing, "ROOM_SECONDS", 1.0)

    async def story() -> None:
        server = open_server(tmp_path / "store.sqlite")
        async with LiveServer(server) as live:
            disk, sender = Disk(server), InProcess(live)
            disk.fill()
            first = asyncio.create_task(sender.send(write_of("a", 64 * PAGE_BYTES)))

            async def is_full() -> bool:
                return bool(server.store.trouble)

            await until(is_full)
            more = [asyncio.create_task(sender.send(write_of(f"b{n}"))) for n in range(2)]

            async def are_waiting() -> bool:
                return len(server.store.pending) == 2

            await until(are_waiting)
            third = write_of("c")
            refused = await live.send(
                Call(method=third.method, path=third.path, body=third.body or b"")
            )
            assert refused.status == 429
            assert ("Retry-After", "5") in refused.headers
            assert b"the disk is full" in refused.body
            answers = await asyncio.gather(first, *more)
            assert {answer.status for answer in answers} == {504}
            assert "may still be made" in told(answers[0])
            disk.make_room()
            await live.settled()
            names = sorted(key.rpartition("/")[2] for key in server.store.shelf("configmaps").keys)
            assert "a" in names
            assert "c" not in names
        server.store.journal.close()

    run(story())


def test_a_server_on_a_full_disk_can_be_stopped(tmp_path: Path) -> None:
    async def story() -> None:
        server = open_server(tmp_path / "store.sqlite")
        async with LiveServer(server) as live:
            disk, sender = Disk(server), InProcess(live)
            assert (await sender.send(write_of("answered"))).status == 201
            disk.fill()
            waiting = asyncio.create_task(sender.send(write_of("a", 64 * PAGE_BYTES)))

            async def is_full() -> bool:
                return bool(server.store.trouble)

            await until(is_full)
        assert (await waiting).status == 500
        server.store.journal.close()
        again = open_server(tmp_path / "store.sqlite")
        names = {key.rpartition("/")[2] for key in again.store.shelf("configmaps").objects}
        assert "answered" in names
        assert "a" not in names
        again.store.journal.close()

    run(story())


def error_of(code: int) -> sqlite3.Error:
    problem = sqlite3.OperationalError("disk I/O error")
    problem.sqlite_errorcode = code
    return problem


@pytest.mark.parametrize(
    "code",
    [
        sqlite3.SQLITE_IOERR_FSYNC,
        sqlite3.SQLITE_IOERR_WRITE,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_READONLY,
    ],
)
def test_no_other_error_of_the_disk_is_waited_for(tmp_path: Path, code: int) -> None:
    journal = Journal(tmp_path / "store.sqlite")

    class Failing:
        in_transaction = False

        def execute(self, _words: str) -> None:
            raise error_of(code)

    database, journal._db = journal._db, Failing()  # type: ignore[assignment]
    with pytest.raises(JournalError) as caught:
        journal.write(Batch((Revision(2, "a", "b", b"{}"),)))
    assert not isinstance(caught.value, NoRoomError)
    database.close()


SMALL_DISK = """
import asyncio, errno, logging, os, sys
from pathlib import Path
from jobyard.client.backoff import wait_seconds
from jobyard.node.shared.folders import PodFolder
from jobyard.node.runtime.hub_runtime import HubRuntime
from jobyard.node.network.names import HostsFiles
from jobyard.node.shared.state import ContainerState, PodState, Stage
from jobyard.node.shared.keeping import read_state, write_state
from jobyard.server.call import Call
from jobyard.server.store.journal import Batch, Journal, NoRoomError, Revision, is_full

disk = Path(sys.argv[1])

def fill():
    with open(disk / "ballast", "wb", buffering=0) as ballast:
        for size in (1 << 16, 4096, 1):
            try:
                while ballast.write(bytes(size)) == size:
                    pass
            except OSError as problem:
                assert problem.errno == errno.ENOSPC, problem

def make_room():
    (disk / "ballast").unlink()

def journal():
    journal = Journal(disk / "store.sqlite")
    fill()
    batch = Batch((Revision(2, "a", "b", bytes(300_000)),))
    for _ in range(3):
        try:
            journal.write(batch)
        except NoRoomError:
            pass
        else:
            raise SystemExit("it had room")
    assert is_full(journal.path)
    make_room()
    journal.write(batch)
    assert [each.version for each in journal.revisions()] == [2]
    journal.close()

def hosts():
    files = HostsFiles(disk / "hosts")
    files.write("default", ["10.0.0.1\\tone"])
    fill()
    lines = ["10.0.0.1\\tone", *(f"10.0.{n // 250}.{n % 250}\\tworker-{n}" for n in range(900))]
    try:
        files.write("default", lines)
    except OSError as problem:
        assert problem.errno == errno.ENOSPC
    else:
        raise SystemExit("it had room")
    text = (disk / "hosts" / "default").read_text()
    assert text == "10.0.0.1\\tone\\n", text
    make_room()
    files.write("default", lines)
    assert (disk / "hosts" / "default").read_text().splitlines() == lines

async def end_of_a_pod():
    folder = PodFolder(disk / "data", "0123-4567")
    folder.path.mkdir(parents=True)
    (disk / "data" / "other").mkdir()
    main = ContainerState(name="main", stage=Stage.RUNNING)
    write_state(folder, PodState(uid=folder.uid, containers=(main,), revision=1))
    folder.lock.touch()
    fill()
    runtime = HubRuntime("host", disk / "data")
    await runtime._adopt(folder)
    assert not runtime._states
    assert folder.uid in runtime._followers
    said = []
    logger = logging.getLogger("jobyard.node.runtime.hub_runtime")
    logger.addFilter(lambda record: said.append(record) or True)
    async with asyncio.timeout(30):
        while not said:
            await wait_seconds(0.02)
    make_room()
    async with asyncio.timeout(30):
        async for state in runtime.states():
            assert state.is_over
            break
    assert read_state(folder).is_over
    runtime._is_closed = True

match sys.argv[2]:
    case "journal":
        journal()
    case "hosts":
        hosts()
    case "pod":
        asyncio.run(end_of_a_pod())
"""


@pytest.mark.parametrize("what", ["journal", "hosts", "pod"])
def test_what_is_written_on_a_full_disk_is_written_once_there_is_room(
    tmp_path: Path, what: str
) -> None:
    """On a real disk of two megabytes, in a mount namespace of its own."""
    needed("unshare")
    mounted = f'mount -t tmpfs -o size=2m none "$1" && exec "{sys.executable}" -c "$2" "$1" "$3"'
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    done = subprocess.run(
        ["unshare", *user, "--mount", "sh", "-c", mounted, "sh", str(tmp_path), SMALL_DISK, what],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
