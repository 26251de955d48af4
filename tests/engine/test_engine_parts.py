"""The parts of an engine when one of them fails: the others go on, and it comes back."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rig.person import Person, person
from rig.waiting import run, until

from jobyard.client.request import Request
from jobyard.controller.running import Controller
from jobyard.engine.engine import Engine, EngineSettings
from jobyard.engine.homes import DataFolder
from jobyard.engine.scheduling.scheduler import Scheduler
from jobyard.node.agent.agent import Agent

SETTINGS = EngineSettings(runtime="host")
PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch.tensorstack.dev/v1beta1/namespaces/default/genericjobs"
BAD_INPUT = 2
PARTS = {"node agent": Agent, "scheduler": Scheduler, "controller": Controller}


@pytest.fixture
def who() -> Iterator[Person]:
    with person(is_ordinary=False) as somebody:
        yield somebody


def pod_template(*command: str) -> dict[str, Any]:
    main = {"name": "main", "image": "any", "command": list(command)}
    return {"restartPolicy": "Never", "containers": [main]}


def pod(name: str, *command: str) -> Request:
    metadata = {"name": name}
    body = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": pod_template(*command)}
    return Request(method="POST", path=PODS, body=json.dumps(body).encode())


def job(name: str) -> Request:
    body = {
        "kind": "GenericJob",
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "metadata": {"name": name},
        "spec": {
            "replicaSpecs": [
                {"type": "worker", "replicas": 1, "template": {"spec": pod_template("true")}}
            ],
        },
    }
    return Request(method="POST", path=JOBS, body=json.dumps(body).encode())


class Poison:
    """Makes the part of that name fail, as a fault of the program would, each time it is given."""

    def __init__(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self._given = asyncio.Event()
        self.starts = 0
        part = PARTS[name]
        original = part.run

        async def poisoned(this: Any) -> None:
            self.starts += 1
            async with asyncio.TaskGroup() as group:
                group.create_task(original(this))
                await self._given.wait()
                self._given.clear()
                raise RuntimeError("poisoned")

        monkeypatch.setattr(part, "run", poisoned)

    def give(self) -> None:
        self._given.set()


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_fails_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, part: str
) -> None:
    async def story() -> None:
        poison = Poison(part, monkeypatch)
        with DataFolder(tmp_path / "engine") as folder:
            async with Engine(folder, SETTINGS, print) as engine:
                engine.stops_everything = True
                send = engine.sender.send

                async def found(path: str) -> Any:
                    return json.loads((await send(Request(method="GET", path=path))).body)

                async def is_running() -> bool:
                    return bool((await found(f"{PODS}/long"))["status"]["phase"] == "Running")

                await engine.ready()
                assert (await send(pod("long", "sleep", "1000"))).status == 201
                await until(is_running)
                started = (await found(f"{PODS}/long"))["status"]["containerStatuses"][0]
                for times in (1, 2):
                    poison.give()

                    async def is_back(times: int = times) -> bool:
                        return poison.starts == times + 1

                    await until(is_back)
                    ready = await send(Request(method="GET", path="/readyz"))
                    assert ready.status == 500
                    assert f"[-]{part} failed: poisoned" in ready.body.decode()
                # All three are needed for this.
                assert (await send(job("after"))).status == 201

                async def has_succeeded() -> bool:
                    status = (await found(f"{JOBS}/after")).get("status", {})
                    return bool(status.get("phase") == "Succeeded")

                await until(has_succeeded)
                # What ran before runs still, and was not started a second time.
                assert (await found(f"{PODS}/long"))["status"]["containerStatuses"][0] == started
                assert not engine.failed.is_set()

    with caplog.at_level(logging.ERROR):
        run(story())
    assert f"{part} failed: poisoned; again in" in caplog.text


# What `up` says of an engine that has no node.


def test_stray_files_stop_neither_up_nor_down(who: Person) -> None:
    folder = who.home / "engine"
    pods = folder / "pods"
    pods.mkdir(parents=True)
    (pods / "old.bak").write_text("somebody's copy")
    (pods / "deadbeef").write_text("no folder")
    (pods / "Copy of 12ab").mkdir()
    (pods / "Copy of 12ab" / "order.json").write_text("{}")
    started = who.run("up", "-d", "--data-dir", str(folder))
    assert started.returncode == 0, started.stderr
    assert "engine    https://" in started.stdout
    shown = who.run("status", "--data-dir", str(folder))
    assert shown.returncode == 0, shown.stderr
    assert "trouble" not in shown.stdout
    stopped = who.run("down", "--data-dir", str(folder))
    assert stopped.returncode == 0, stopped.stderr
    assert "nothing is running any more" in stopped.stdout
    assert (pods / "old.bak").exists()
    assert who.processes() == {}


def test_files_that_no_engine_wrote_stop_neither_up_nor_down(who: Person) -> None:
    """Such as a disk leaves behind that lost its power while they were written."""
    folder = who.home / "engine"
    folder.mkdir()
    for name in ("boot", "outside-keeper", "port", "engine.json", "resolv.conf", "claims.id"):
        (folder / name).write_bytes(b"\xff\xfe\0\n" + b"9" * 5000)
    at = ("--data-dir", str(folder))
    for words in ("up", "-d"), ("status",), ("down",):
        if words == ("down",):
            (folder / "outside-keeper").write_bytes(b"\xff")
        done = who.run(*words, *at)
        assert done.returncode == 0, (words, done.stderr)
        assert "trouble" not in done.stdout
    assert who.processes() == {}


def test_an_engine_whose_node_can_not_come_up_is_not_up(who: Person) -> None:
    folder = who.home / "engine"
    folder.mkdir(mode=0o700)
    # Where the hub's lock should be.
    (folder / "hub.lock").mkdir()
    started = who.run("up", "-d", "--runtime", "host", "--data-dir", str(folder))
    assert started.returncode == BAD_INPUT, (started.stdout, started.stderr)
    assert "the engine can't run pods: " in started.stderr
    assert "hub.lock" in started.stderr
    assert who.processes() == {}
