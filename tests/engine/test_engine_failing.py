"""What becomes of an engine when something below it fails for good."""

from __future__ import annotations

import asyncio
import logging
import re
from pathlib import Path
from typing import Any

import pytest

import jobyard
from jobyard.client.request import Request
from jobyard.engine.engine import Engine, EngineSettings
from jobyard.engine.homes import DataFolder
from jobyard.node.hub.client import HubClient
from jobyard.server.store.journal import Batch, JournalError

DEADLINE_SECONDS = 60
SOURCES = Path(jobyard.__file__).parent
SETTINGS = EngineSettings(runtime="host")


def write_of(name: str) -> Request:
    body = f'{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{name}"}}}}'
    path = "/api/v1/namespaces/default/configmaps"
    return Request(method="POST", path=path, body=body.encode())


def test_a_disk_that_fails_ends_the_engine(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(batch: Batch) -> None:
        raise JournalError("store.sqlite: disk I/O error")

    async def story() -> None:
        with DataFolder(tmp_path / "engine") as folder:
            async with Engine(folder, SETTINGS, print) as engine:
                engine.stops_everything = True
                assert (await engine.sender.send(write_of("a"))).status == 201
                assert not engine.failed.is_set()
                engine.live.server.store.journal.write = broken  # type: ignore[method-assign]
                assert (await engine.sender.send(write_of("b"))).status == 500
                await engine.failed.wait()

    with caplog.at_level(logging.ERROR):
        asyncio.run(asyncio.wait_for(story(), DEADLINE_SECONDS))
    assert "store ended: the store can't be written: store.sqlite: disk I/O error" in caplog.text


class Answering(HubClient):
    """A hub that answers when it is told to."""

    def __init__(self, answer: asyncio.Future[tuple[dict[str, Any], int]], data: Path) -> None:
        super().__init__("host", data)
        self._answer = answer

    async def _ask(self, question: dict[str, Any]) -> tuple[dict[str, Any], int]:
        return await self._answer


@pytest.mark.parametrize("turns", range(5))
def test_who_is_cancelled_as_the_hub_answers_does_not_go_on(tmp_path: Path, turns: int) -> None:
    """However many turns of the loop are between the two."""

    async def story() -> bool:
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        has_gone_on = False

        async def asking() -> None:
            nonlocal has_gone_on
            await Answering(answer, tmp_path).ask(do="status")
            has_gone_on = not task.cancelling()

        async def turn() -> None:
            passed = asyncio.Event()
            loop.call_soon(passed.set)
            await passed.wait()

        task = asyncio.create_task(asking())
        await turn()
        answer.set_result(({}, -1))
        for _ in range(turns):
            await turn()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return has_gone_on or task.cancelled()

    assert asyncio.run(story())


def test_nothing_waits_in_a_way_that_loses_a_cancellation() -> None:
    """Until Python 3.12 `asyncio.wait_for` does; `asyncio.timeout` doesn't."""
    sources = sorted(SOURCES.rglob("*.py"))
    assert sources
    waiting = [path for path in sources if re.search(r"\bawait .*\bwait_for\(", path.read_text())]
    assert waiting == []
