"""Completion as a shell asks for it: bash with the script that `jobyard completion` prints."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BIN = str(Path(sys.executable).parent)
# What bash does at a Tab: it calls the function that `complete` has for the command.
ASK = """
eval "$(jobyard completion bash)"
[[ $(complete -p jobyard) =~ -F\\ ([^ ]+) ]]
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
"${BASH_REMATCH[1]}" jobyard
printf '%s\\n' "${COMPREPLY[@]}"
"""


def completed(*words: str) -> list[str]:
    """What bash offers for the last of the words."""
    done = subprocess.run(
        ["bash", "--norc", "-c", ASK, "bash", *words],
        env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        pytest.param(("jobyard", "des"), ["describe"], id="a command"),
        pytest.param(("jobyard", "re"), ["resume", "render"], id="commands"),
        pytest.param(("jobyard", "run", "--runtime", ""), ["auto", "sandbox", "host"], id="values"),
        pytest.param(("jobyard", "get", "-o", "j"), ["json"], id="a value"),
        pytest.param(("jobyard", "logs", "--tim"), ["--timestamps"], id="an option"),
        pytest.param(("jobyard", "nothing-like-this"), [], id="nothing"),
    ],
)
def test_bash_completes(words: tuple[str, ...], offered: list[str]) -> None:
    assert completed(*words) == offered


@pytest.mark.parametrize(
    "words",
    [
        ("run",),
        ("validate", "one.yaml"),
        ("validate", "--update-of"),
        ("render",),
        ("apply", "-f"),
        ("delete", "-f"),
    ],
    ids=" ".join,
)
def test_bash_completes_files(words: tuple[str, ...]) -> None:
    # bash itself knows the files; it is told that the word is one.
    done = subprocess.run(
        [f"{BIN}/jobyard"],
        env={
            **os.environ,
            "_JOBYARD_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(("jobyard", *words, "exa")),
            "COMP_CWORD": str(len(words) + 1),
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("file,exa\n", "")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_a_script(shell: str) -> None:
    done = subprocess.run(
        [f"{BIN}/jobyard", "completion", shell], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0
    assert "_JOBYARD_COMPLETE=" + shell + "_complete" in done.stdout
