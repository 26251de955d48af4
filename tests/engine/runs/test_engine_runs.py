"""The folders of runs, while several come and go; and the door to the engine of one."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from rig.waiting import until_it_holds

from jobyard.engine import service
from jobyard.engine.engine import Engine, EngineSettings
from jobyard.engine.homes import DataFolder, alive, dead_run, new_run, private_ones
from jobyard.engine.runs import private as private_module

DEADLINE_SECONDS = 60
CLEAR = """
import sys
from pathlib import Path
from jobyard.engine.homes import dead_run, removed

home = Path(sys.argv[1])
# As `clean` sees them, also such as are being made.
for path in (home / "runs").iterdir():
    with dead_run(home, path) as folder:
        if folder is not None:
            removed(home, folder)
"""
DIES = """
import os, sys
from pathlib import Path
from jobyard.engine.homes import new_run

with new_run(Path(sys.argv[1]), 'job') as folder:
    (folder.path / "left").touch()
    os._exit(0)
"""


def waits_for_a_lock(pid: int) -> bool:
    return any(
        "->" in line and line.split()[5] == str(pid)
        for line in Path("/proc/locks").read_text().splitlines()
    )


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells who waits for a lock")
def test_a_folder_is_in_use_from_its_first_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clearing: list[subprocess.Popen[bytes]] = []
    make = tempfile.mkdtemp

    def made_while_another_run_clears(**where: Any) -> str:
        path = make(**where)
        (Path(path) / "mine").touch()
        other = subprocess.Popen([sys.executable, "-c", CLEAR, str(tmp_path)])
        clearing.append(other)
        until_it_holds(
            lambda: other.poll() is not None or waits_for_a_lock(other.pid),
            "the other run neither ends nor waits",
        )
        return path

    monkeypatch.setattr(tempfile, "mkdtemp", made_while_another_run_clears)
    with new_run(tmp_path, "job") as folder:
        assert clearing[0].wait(DEADLINE_SECONDS) == 0
        assert (folder.path / "mine").exists()
        assert folder.is_in_use
    assert not folder.is_in_use


def test_what_a_killed_run_left_is_cleared_and_what_runs_is_not(tmp_path: Path) -> None:
    with new_run(tmp_path, "job") as mine:
        subprocess.run([sys.executable, "-c", DIES, str(tmp_path)], check=True)
        # One that was killed before it had a lock.
        (tmp_path / "runs" / "empty").mkdir()
        assert len(list(private_ones(tmp_path))) == 3
        subprocess.run([sys.executable, "-c", CLEAR, str(tmp_path)], check=True)
        assert [each.path for each in private_ones(tmp_path)] == [mine.path]
        assert mine.is_in_use


def test_what_one_clears_another_leaves_alone(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", DIES, str(tmp_path)], check=True)
    (left,) = private_ones(tmp_path)
    with dead_run(tmp_path, left.path) as folder:
        assert folder is not None
        subprocess.run([sys.executable, "-c", CLEAR, str(tmp_path)], check=True)
        assert (folder.path / "left").exists()


def test_runs_are_told_in_the_order_in_which_they_were_made(tmp_path: Path) -> None:
    with new_run(tmp_path, "job") as first, new_run(tmp_path, "job") as second:
        for n, folder in enumerate((first, second)):
            os.utime(folder.path / "engine.lock", (n, n))
        # Whatever is written there afterwards.
        (first.path / "later").touch()
        # Gone before it could be looked at.
        (tmp_path / "runs" / "gone").symlink_to("nowhere")
        assert [each.path for each in private_ones(tmp_path)] == [first.path, second.path]
        assert alive(tmp_path) is None


def test_a_door_that_cannot_be_opened_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @asynccontextmanager
    async def stuck(engine: Any) -> Any:
        raise OSError("no sockets left")
        yield

    said: list[str] = []

    async def story() -> None:
        with DataFolder(tmp_path / "engine") as folder:
            async with Engine(folder, EngineSettings(runtime="host"), said.append) as engine:
                engine.stops_everything = True
                closing = asyncio.Event()
                told = asyncio.Event()

                def say(text: str) -> None:
                    said.append(text)
                    told.set()

                door = asyncio.create_task(private_module._door(engine, closing, say))
                await told.wait()
                await door

    monkeypatch.setattr(service, "open_door", stuck)
    monkeypatch.setattr(private_module, "DOOR_SECONDS", 0.01)
    asyncio.run(asyncio.wait_for(story(), DEADLINE_SECONDS))
    assert said[-1] == "other commands can't reach this run: no sockets left"
