"""How long the offline commands take, beside a bare interpreter: python bench/commands.py

Each command runs in turn, round after round, so that what else the machine does hits all
alike. Prints the medians, and the ratio to the interpreter's.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 15
ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent

COMMANDS = {
    "python -c pass": (sys.executable, "-c", "pass"),
    "jobyard --version": (str(BIN / "jobyard"), "--version"),
    "jobyard validate, 3 faults": (
        str(BIN / "jobyard"),
        "validate",
        str(ROOT / "docs" / "samples" / "three-faults.yaml"),
    ),
    "jobyard validate examples": (str(BIN / "jobyard"), "validate", str(ROOT / "examples")),
    "jobyard explain ptj.spec": (str(BIN / "jobyard"), "explain", "ptj.spec"),
}


def seconds(command: tuple[str, ...]) -> float:
    with tempfile.TemporaryFile() as output:
        begun = time.perf_counter()
        subprocess.run(command, stdout=output, stderr=output, check=False)
        return time.perf_counter() - begun


def main() -> None:
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS):
        for name, command in COMMANDS.items():
            taken[name].append(seconds(command))
    medians = {name: statistics.median(times) for name, times in taken.items()}
    bare = medians["python -c pass"]
    for name, median in medians.items():
        print(f"{name:<28} {median * 1000:7.0f} ms   {median / bare:5.1f} x the interpreter")


if __name__ == "__main__":
    main()
