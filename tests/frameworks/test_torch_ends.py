"""Programs that train with torch end the threads of their process group before they end themselves.

Threads that are left can want the interpreter when it is no longer there, and the process aborts
with 134 when all its work is done: once in many runs. So it is asked here how many are left.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import get_frameworks
import pytest
import yaml
from rig.places import ROOT

from frameworks.yard import DEADLINE_SECONDS, FAULTS

TELLS_AT_ITS_END = """
import atexit, pathlib

def threads():
    return [path.read_text() for path in pathlib.Path("/proc/self/task").glob("*/comm")]

def tell():
    print("left:", sum(name.startswith("pt_gloo") for name in threads()), flush=True)

atexit.register(tell)
"""
# Of programs that want it; in a job it comes from the manifest.
ENVIRONMENT = {"LEARNING_RATE": "0.1", "STEP_SECONDS": "0", "DS_ACCELERATOR": "cpu"}


def program_of(example: str) -> str:
    documents = yaml.safe_load_all((ROOT / "examples" / example).read_text())
    (program,) = (each["data"] for each in documents if each["kind"] == "ConfigMap")
    return str(program["train.py"])


def ended_by_two_ranks(program: str, folder: Path, *arguments: str) -> tuple[list[int], list[str]]:
    """Their exit codes and what they said, as plain processes of this machine."""
    (folder / "train.py").write_text(program)
    (folder / "sitecustomize.py").write_text(TELLS_AT_ITS_END)
    (torch,) = (each for each in get_frameworks.FRAMEWORKS if each.name == "torch")
    python = get_frameworks.folder_of(torch, os.environ) / "bin" / "python"
    with held_port() as port:
        group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
        ranks = [
            subprocess.Popen(
                [python, "train.py", *arguments],
                cwd=folder,
                env=os.environ
                | ENVIRONMENT
                | group
                | {"RANK": str(n), "LOCAL_RANK": str(n), "PYTHONPATH": str(folder)}
                | {"OMP_NUM_THREADS": "1"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for n in range(2)
        ]
        try:
            told = [rank.communicate(timeout=DEADLINE_SECONDS)[0] for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()
    return [rank.returncode for rank in ranks], told


@contextmanager
def held_port() -> Iterator[int]:
    """A port that nobody else is given meanwhile; rank 0 can listen there, since nobody does."""
    with socket.socket() as holding:
        holding.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holding.bind(("127.0.0.1", 0))
        yield holding.getsockname()[1]


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("example", "arguments"),
    [
        ("pytorchtrainingjob/ddp.yaml", ["2"]),
        ("pytorchtrainingjob/checkpoint.yaml", ["--save", "saved.pt"]),
        ("colossalaijob/train.yaml", []),
        ("deepspeedjob/train.yaml", []),
    ],
)
def test_no_thread_of_the_group_outlives_the_work(
    example: str, arguments: list[str], tmp_path: Path
) -> None:
    codes, told = ended_by_two_ranks(program_of(example), tmp_path, *arguments)
    assert codes == [0, 0], told
    assert all("left: 0\n" in each for each in told), told


@pytest.mark.sample(*FAULTS)
def test_a_group_that_something_still_refers_to_is_noticed(tmp_path: Path) -> None:
    program = program_of("pytorchtrainingjob/ddp.yaml")
    kept = program.replace("del parallel\n", "\n")
    assert kept != program
    # With which code they end is the question that such threads leave open.
    _, told = ended_by_two_ranks(kept, tmp_path, "2")
    assert all("left: 2\n" in each for each in told), told
