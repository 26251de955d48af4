"""Manifests with values that nobody thought of: a finding each time, and soon.

The commands are asked in this process, as often as a run allows; a real API server and the
controller get those that such a server takes.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from hostile_values import HostileMutator
from manifests import valid_manifests
from rig.selection import all_is_asked_for

from jobyard.cli.main import cli

MUTATIONS = int(os.environ.get("JOBYARD_MUTATIONS", "20000" if all_is_asked_for() else "2000"))
CHUNKS = max(4, MUTATIONS // 1000)
SEED = int(os.environ["JOBYARD_SEED"])
SECONDS_MAX = 2.0


def answered(*arguments: str, text: str) -> str | None:
    """What is wrong with how a command deals with a file; None if nothing is."""
    begun = time.process_time()
    result = CliRunner().invoke(cli, [*arguments, "-"], input=text)
    seconds = time.process_time() - begun
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return f"{arguments[0]}: {result.exception!r}"
    if result.exit_code not in (0, 1, 2) or "Traceback" in result.output:
        return f"{arguments[0]}: exit code {result.exit_code}"
    if "is not understood" in result.output:
        return f"{arguments[0]}: {result.output[:500]}"
    return f"{arguments[0]}: {seconds:.1f} s" if seconds > SECONDS_MAX else None


@pytest.mark.long
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_commands_find_something_to_say_about_random_mutations(chunk: int, tmp_path: Path) -> None:
    mutator = HostileMutator(valid_manifests(), SEED + chunk)
    for number in range(MUTATIONS // CHUNKS):
        drawn = mutator.draw()
        # What begins with a brace is read as JSON; with a comment before it, as YAML.
        text = drawn if number % 2 else f"# yaml\n{drawn}"
        wrong = answered("validate", text=text) or answered("render", text=text)
        if wrong is not None:
            (tmp_path / "manifest").write_text(text)
            pytest.fail(
                f"{wrong}\n{tmp_path / 'manifest'}: {text[:300]}\n"
                f"repeat with JOBYARD_SEED={SEED} -k 'random_mutations and {chunk}'"
            )
