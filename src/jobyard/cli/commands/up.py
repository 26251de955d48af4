"""`jobyard up`: the embedded engine as a service."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from jobyard.cli.arguments.engine_options import engine_options
from jobyard.cli.arguments.mappings import all_image_rules, claim_folder, image_rule
from jobyard.cli.arguments.options import output_option
from jobyard.cli.output.engines import engine_as_json
from jobyard.cli.output.saying import say, say_json
from jobyard.cli.surroundings import expect_folder
from jobyard.cli.until import until
from jobyard.engine.homes import (
    DataFolder,
    HomeError,
    Presence,
    claims_of,
    home_of,
    standing,
    usable,
)

START_SECONDS: Final = 30.0
# What did not come up may still have to let go of what it has begun.
STOP_SECONDS: Final = 5.0
LOG_LINES: Final = 3


@click.command("up")
@click.option("--detach", "-d", is_flag=True, help="Run in the background.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, metavar="N",
    help="The port of the API server; absent: the last one used, or any that is free.",
)  # fmt: skip
@click.option(
    "--data-dir", type=click.Path(file_okay=False, path_type=Path),
    help="Where everything is kept; absent: $JOBYARD_HOME or ~/.local/share/jobyard.",
)  # fmt: skip
@click.option("--relaxed", is_flag=True, help="Cut requests down to what the machine has.")
@click.option(
    "--pvc", multiple=True, metavar="NAME=DIR",
    callback=lambda _c, _p, values: tuple(claim_folder(value) for value in values),
    help="The folder that a persistentVolumeClaim stands for.",
)  # fmt: skip
@click.option(
    "--image", multiple=True, metavar="PATTERN=ENV",
    callback=lambda _c, _p, values: tuple(image_rule(value) for value in values),
    help="The virtualenv or root folder that images like PATTERN stand for; also $JOBYARD_IMAGES."
    " A root folder may be followed by ,workdir=DIR ,env=NAME=VALUE ,user=USER ,config=FILE.",
)  # fmt: skip
@engine_options
@output_option()
def command(detach: bool, data_dir: Path | None, output: str, **given: Any) -> None:
    """Start the engine: an API server for kubectl, and everything that runs jobs on this machine.

    Jobs go on when the engine stops, and are taken over when it starts again;
    `jobyard down` stops them too. An engine with a --data-dir is one of its own: `status` and
    `down` find it by the same option, other commands by its kubeconfig.
    """
    expect_folder()
    folder = DataFolder(data_dir.absolute()) if data_dir else standing(home_of(os.environ))
    presence = folder.presence
    if presence is not None:
        which = f" --data-dir {data_dir}" if data_dir else ""
        raise click.ClickException(
            f"an engine is running already (pid {presence.pid}, {presence.server});"
            f" `jobyard status{which}` tells more, `jobyard down{which}` stops it"
        )
    try:
        if detach:
            _tell(folder, _detached(folder), output)
        else:
            asyncio.run(_until_asked(folder, {**given, "output": output}))
    except HomeError as problem:
        raise click.ClickException(str(problem)) from problem


async def _until_asked(folder: DataFolder, given: dict[str, Any]) -> None:
    """Serves until a signal comes, which may be before the engine has come up."""
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked.set)
    serving = asyncio.create_task(_serve(folder, given))
    waiting = asyncio.create_task(asked.wait())
    await asyncio.wait((serving, waiting), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    serving.cancel()
    # One that has ended by itself has something to say.
    with suppress(asyncio.CancelledError):
        await serving


async def _serve(folder: DataFolder, given: dict[str, Any]) -> None:
    # Imported here: --detach and mistakes need none of it.
    from jobyard.engine.engine import EngineSettings
    from jobyard.engine.engine_log import keep_log
    from jobyard.engine.service import DoorError, serving_engine

    home = home_of(os.environ)
    settings = EngineSettings(
        is_strict=not given["relaxed"],
        runtime=given["runtime"],
        claims=dict(given["pvc"]),
        images=all_image_rules(given["image"], os.environ),
        claims_kept=claims_of(home) if folder.path == standing(home).path else None,
        network=given["network"],
        log_bytes=given["log_size"],
        disk_bytes=given["disk_budget"],
        capacity=given["capacity"],
        may_preempt=not given["no_preemption"],
    )
    # What is said on the way is no part of the answer.
    tell = partial(say, err=given["output"] == "json")
    try:
        with folder:
            keep_log(folder.path)
            async with serving_engine(folder, settings, given["port"], tell) as engine:
                presence = folder.presence
                if presence is not None:
                    _tell(folder, presence, given["output"])
                await engine.failed.wait()
                raise click.ClickException("the engine has failed; its log says why")
    except DoorError as problem:
        raise click.ClickException(str(problem)) from problem


def _tell(folder: DataFolder, presence: Presence, output: str) -> None:
    if output == "json":
        say_json(engine_as_json(folder, presence))
        return
    say(f"engine    {presence.server} (pid {presence.pid}, {presence.runtime} runtime)")
    say(f"data      {folder.path}")
    say(f"kubectl   export KUBECONFIG={folder.kubeconfig}")


def _detached(folder: DataFolder) -> Presence:
    """Starts the same command in a session of its own, and waits until it has come up."""
    folder.make()
    arguments = [each for each in sys.argv[1:] if each not in ("-d", "--detach")]
    log = folder.path / "engine.log"
    with usable(folder.path), log.open("ab") as out:
        # Others have written here before.
        before = out.tell()
        child = subprocess.Popen(  # noqa: S603 - ourselves
            # What lies in the caller's folder is no module of ours.
            [sys.executable, "-P", "-m", "jobyard", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )

    def come_up() -> Presence | int | None:
        return folder.presence or child.poll()

    found = asyncio.run(until(come_up, START_SECONDS))
    if isinstance(found, Presence):
        return found
    _end(child)
    with log.open("rb") as text:
        text.seek(before)
        last = text.read().decode(errors="replace").strip().splitlines()[-LOG_LINES:]
    if not last:
        raise click.ClickException(
            f"the engine did not come up within {START_SECONDS:g} s, and {log} doesn't say why"
        )
    told = "\n  ".join(last)
    raise click.ClickException(f"the engine did not come up; {log} ends with\n  {told}")


def _end(child: subprocess.Popen[bytes]) -> None:
    """Nothing is left of an engine that nobody can reach."""
    child.terminate()
    try:
        child.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
