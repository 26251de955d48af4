"""`jobyard run` of four replicas that do nothing, beside a shell loop and beside torchx.

python bench/run.py [--rounds 7] [--torchx] [--before FOLDER]

All take turns in one run; what counts is the difference to the loop and the ratio to torchx.
With --torchx it is installed from its package into a virtualenv in a temporary folder first;
with --before another clone of this project (set up) takes its turn as well.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent
REPLICAS = 4
MANIFEST = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata: {name: nothing}
spec:
  replicaSpecs:
  - type: worker
    replicas: 4
    template:
      spec:
        containers: [{name: main, image: none, command: ["true"]}]
"""
COMPONENT = """
import torchx.specs as specs

def nothing() -> specs.AppDef:
    role = specs.Role(name="worker", image="", entrypoint="true", num_replicas=4)
    return specs.AppDef(name="nothing", roles=[role])
"""


def timed(command: list[str], folder: Path, env: dict[str, str]) -> float:
    began = time.perf_counter()
    done = subprocess.run(  # its end is looked at below
        command, cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    took = time.perf_counter() - began
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return took


def with_torchx(folder: Path) -> list[str]:
    print("installing torchx …", file=sys.stderr)
    venv.create(folder / "venv", with_pip=True)
    pip = [str(folder / "venv/bin/pip"), "install", "-q", "torchx"]
    subprocess.run(pip, check=True)
    (folder / "nothing.py").write_text(COMPONENT)
    torchx = str(folder / "venv/bin/torchx")
    return [torchx, "run", "--wait", "-s", "local_cwd", "nothing.py:nothing"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--torchx", action="store_true")
    parser.add_argument("--before", type=Path, help="another clone, with its .venv")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "job.yaml").write_text(MANIFEST)
        env = {**os.environ, "JOBYARD_HOME": str(folder / "home")}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        loop = f"for n in $(seq {REPLICAS}); do true & done; wait"
        jobyard = [str(Path(sys.executable).parent / "jobyard"), "run", "job.yaml"]
        commands = {
            "a shell loop": ["sh", "-c", loop],
            "a bare interpreter": [sys.executable, "-c", "pass"],
            "jobyard run": jobyard,
            "jobyard run --runtime host": [*jobyard, "--runtime", "host"],
        }
        if chosen.before:
            before = [str(chosen.before.absolute() / ".venv/bin/jobyard"), *jobyard[1:]]
            commands["jobyard run, before"] = before
        if chosen.torchx:
            commands["torchx run -s local_cwd"] = with_torchx(folder)
        report(commands, chosen.rounds, lambda words: timed(words, folder, env))


def report(
    commands: dict[str, list[str]], rounds: int, measure: Callable[[list[str]], float]
) -> None:
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for words in commands.values():
        measure(words)  # once for the caches
    for _ in range(rounds):
        for name, words in commands.items():
            taken[name].append(measure(words))
    medians = {name: statistics.median(times) for name, times in taken.items()}
    loop, ours = medians["a shell loop"], medians["jobyard run"]
    print(f"{'':28}  median s   over the loop   jobyard run / this")
    for name, median in medians.items():
        ratio = f"{ours / median:.2f}" if name not in ("a shell loop", "a bare interpreter") else ""
        print(f"{name:28}  {median:8.3f}   {median - loop:+13.3f}   {ratio:>18}")


if __name__ == "__main__":
    main()
