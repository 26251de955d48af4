"""`jobyard status`: whether an engine is running, and what it runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from jobyard.cli.arguments.options import data_dir_option, output_option
from jobyard.cli.output.disk_lines import engine_disk, engine_line, home_disk, home_line
from jobyard.cli.output.engines import engine_as_json
from jobyard.cli.output.left_runs import line_about
from jobyard.cli.output.saying import say, say_json
from jobyard.client.readiness import not_ready
from jobyard.engine.homes import DataFolder, Presence, home_of, private_ones, standing
from jobyard.engine.runs.runs import left_runs
from jobyard.node.agent.disk_use import Measure

ANSWER_SECONDS: Final = 3.0
# For all sizes together: who asks how things stand doesn't wait for a million files.
MEASURE_SECONDS: Final = 0.4


@click.command("status")
@data_dir_option
@output_option()
@click.pass_context
def command(ctx: click.Context, /, data_dir: Path | None, output: str) -> None:
    """Show which engines are running, what is wrong with them, and what is kept on the disk.

    Exit code 1 if there is none.

    Shown are the engine of `up` and those of runs; an engine with a --data-dir is shown
    when the same option is given here.
    """
    home = home_of(os.environ)
    folders = (
        [DataFolder(data_dir.absolute())] if data_dir else [standing(home), *private_ones(home)]
    )
    measure = Measure(MEASURE_SECONDS)
    running = [(folder, folder.presence) for folder in folders]
    found = [(folder, presence) for folder, presence in running if presence is not None]
    if output == "json":
        disks = [engine_disk(folder, presence, measure) for folder, presence in found]
        shared = home_disk(data_dir or home, measure, is_home=data_dir is None)
        engines = [
            {
                **engine_as_json(folder, presence),
                "troubles": _troubles(folder, presence),
                "disk": disk | shared,
            }
            for (folder, presence), disk in zip(found, disks, strict=True)
        ]
        say_json(engines, indent=2)
    else:
        for folder, presence in found:
            say(
                f"pid {presence.pid}   {presence.server}   {presence.runtime} runtime,"
                f" since {presence.started_at}\n  data     {folder.path}"
                f"\n  kubectl  export KUBECONFIG={folder.kubeconfig}"
            )
            for trouble in _troubles(folder, presence):
                say(f"  trouble  {trouble}")
            say(f"  disk     {engine_line(folder, presence, measure)}")
        if line := home_line(data_dir or home, measure, is_home=data_dir is None):
            say(line)
        if not found:
            say(_nothing(folders, data_dir), err=True)
        if not data_dir:
            for run in left_runs(os.environ):
                say(line_about(run), err=True)
    ctx.exit(0 if found else 1)


def _troubles(folder: DataFolder, presence: Presence) -> list[str]:
    """What the engine says against itself, a line each."""
    keys = folder.path / "pki"
    said = not_ready(presence.server, keys / "ca.crt", keys / "token", ANSWER_SECONDS)
    return [line.removeprefix("[-]") for line in said.splitlines()]


def _nothing(folders: Sequence[DataFolder], data_dir: Path | None) -> str:
    starting = next((folder for folder in folders if folder.holder), None)
    which = f" --data-dir {data_dir}" if data_dir else ""
    if starting is not None:
        return f"an engine is starting or stopping (pid {starting.holder}, {starting.path})"
    return f"no engine is running; `jobyard up{which}` starts one"
