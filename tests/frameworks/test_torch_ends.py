"""Programs that train with torch end the threads of their process group before they end themselves.

Threads that are left can want the interpreter when it is no longer there, and the process aborts
with 134 when all its work is done: once in many runs. So it is asked here how many are left.
"""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import get_frameworks
import pytest
import yaml
from rig.person import ROOT

TELLS_AT_ITS_END = """
import atexit, pathlib

def threads():
    return [path.read_text() for path in pathlib.Path("/proc/self/task").glob("*/comm")]

atexit.register(lambda: print("left:", sum(name.startswith("pt_gloo") for name in threads())))
"""
# Of programs that want it; in a job it comes from the manifest.
ENVIRONMENT = {"LEARNING_RATE": "0.1", "STEP_SECONDS": "0", "DS_ACCELERATOR": "cpu"}


def program_of(example: str) -> str:
    documents = yaml.safe_load_all((ROOT / "examples" / example).read_text())
    (program,) = (each["data"] for each in documents if each["kind"] == "ConfigMap")
    return str(program["train.py"])


def said_by_two_ranks(program: str, folder: Path, *arguments: str) -> list[str]:
    """As plain processes of this machine."""
    (folder / "train.py").write_text(program)
    (folder / "sitecustomize.py").write_text(TELLS_AT_ITS_END)
    (torch,) = (each for each in get_frameworks.FRAMEWORKS if each.name == "torch")
    python = get_frameworks.folder_of(torch, os.environ) / "bin" / "python"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
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
        told = [rank.communicate(timeout=120)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    assert [rank.returncode for rank in ranks] == [0, 0], told
    return told


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
    told = said_by_two_ranks(program_of(example), tmp_path, *arguments)
    assert all("left: 0\n" in each for each in told), told


def test_a_group_that_something_still_refers_to_is_noticed(tmp_path: Path) -> None:
    program = program_of("pytorchtrainingjob/ddp.yaml")
    kept = program.replace("del parallel\n", "\n")
    assert kept != program
    assert all("left: 2\n" in each for each in said_by_two_ranks(kept, tmp_path, "2"))
