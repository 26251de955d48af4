"""`jobyard run`: submits the jobs of files, shows their logs, and waits for their end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from jobyard.cli.accepting import accepted
from jobyard.cli.durations import Duration
from jobyard.cli.engine_options import DEFAULT_NETWORK, LOG_BYTES_DEFAULT, engine_options
from jobyard.cli.file_names import FileName
from jobyard.cli.live import rows
from jobyard.cli.live.following import Following
from jobyard.cli.live.jobs import JobView
from jobyard.cli.live.log_lines import DRAIN_SECONDS
from jobyard.cli.live.screen import Screen
from jobyard.cli.live.showing import Show
from jobyard.cli.live.style import Palette
from jobyard.cli.live.submission import SubmissionError, is_job, submit, title_of
from jobyard.cli.mappings import all_image_rules, claim_folder, image_rule
from jobyard.cli.setting import assignment, with_assignments
from jobyard.cli.sources import read_sources
from jobyard.cli.target import DEFAULT_NAMESPACE, Target, target_options
from jobyard.client.discovery import UnknownKindError
from jobyard.client.errors import ClientError
from jobyard.client.sender import Sender
from jobyard.manifest.reading import Document
from jobyard.run.homes import HomeError, home_of, standing

FAILED: Final = 1
TIMED_OUT: Final = 124
INTERRUPTED: Final = 130


class Flags(msgspec.Struct, frozen=True, kw_only=True):
    """The options as they were given."""

    pvc: tuple[tuple[str, Path], ...]
    image: tuple[tuple[str, str], ...]
    assignments: tuple[tuple[tuple[str | int, ...], Any], ...]
    strict: bool
    keep: bool
    timeout: float | None
    runtime: str
    quiet: bool
    output: str
    log_size: int = LOG_BYTES_DEFAULT
    network: IPv4Network = DEFAULT_NETWORK
    target: Target

    @property
    def needs_private_engine(self) -> bool:
        """Whether something was said that only an engine of one's own can do."""
        is_engine_told = self.network != DEFAULT_NETWORK or self.log_size != LOG_BYTES_DEFAULT
        is_machine_told = self.pvc or self.image or self.strict or self.runtime != "auto"
        return bool(is_machine_told or is_engine_told)


@click.command("run")
@click.argument("files", nargs=-1, required=True, type=FileName(), metavar="FILE...")
@click.option(
    "--pvc",
    multiple=True,
    callback=lambda _c, _p, values: tuple(claim_folder(value) for value in values),
    metavar="NAME=DIR",
    help="The folder that a persistentVolumeClaim stands for.",
)
@click.option(
    "--image",
    multiple=True,
    callback=lambda _c, _p, values: tuple(image_rule(value) for value in values),
    metavar="PATTERN=ENV",
    help="The virtualenv or root folder that images like PATTERN stand for; also $JOBYARD_IMAGES.",
)
@click.option(
    "--set",
    "assignments",
    multiple=True,
    callback=lambda _c, _p, values: tuple(assignment(value) for value in values),
    metavar="PATH=VALUE",
    help="Change a field of the jobs, such as spec.replicaSpecs[0].replicas=2.",
)
@click.option("--strict", is_flag=True, help="Honour requests as Kubernetes does; don't cut down.")
@click.option("--keep", is_flag=True, help="Keep the jobs and their logs when they have ended.")
@click.option(
    "--timeout", type=Duration(), metavar="10m", help="Stop the jobs after this long; exit 124."
)
@click.option(
    "--runtime",
    type=click.Choice(["auto", "sandbox", "host"]),
    default="auto",
    show_default=True,
    help="How replicas run: in namespaces of their own, or as plain processes.",
)
@click.option("-q", "--quiet", is_flag=True, help="Show neither logs nor notes, only the end.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    help="json: the final status on stdout, everything else on stderr.",
)
@engine_options
@target_options
@click.pass_context
def command(ctx: click.Context, /, files: tuple[str, ...], **given: Any) -> None:
    """Run the jobs in FILE... and wait for their end.

    Other documents in the files are applied first, in their order. The logs of all
    replicas are shown as they come. Without a cluster named, the jobs run on this machine.

    Exit code 0: all succeeded, 1: a job failed, 2: bad input, 124: --timeout has passed,
    130: interrupted (the jobs are stopped first).
    """
    flags = Flags(**given)
    objects = _objects(read_sources(files), flags)
    try:
        code = asyncio.run(_run(objects, flags))
    except (ClientError, HomeError, SubmissionError, UnknownKindError) as problem:
        raise click.ClickException(str(problem)) from problem
    ctx.exit(code)


def _objects(documents: Sequence[Document], flags: Flags) -> list[dict[str, Any]]:
    """The objects to submit; whatever can be said against them is said before anything runs."""
    results = accepted(_assigned(document, flags) for document in documents)
    objects = [result.value for result in results]
    if not any(is_job(obj) for obj in objects):
        raise click.ClickException("there is no job in these files; `jobyard apply` takes others")
    return objects


def _assigned(document: Document, flags: Flags) -> Document:
    value = document.value
    if not flags.assignments or not isinstance(value, dict) or not is_job(value):
        return document
    changed = with_assignments(value, flags.assignments)
    return msgspec.structs.replace(document, value=changed)


async def _run(objects: list[dict[str, Any]], flags: Flags) -> int:
    show = _show(flags)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stopped.set)
    try:
        async with _connected(flags, show) as to:
            show.expect(title_of(obj) for obj in objects if is_job(obj))
            submitted = await submit(to.sender, objects, to.namespace, makes_namespaces=to.is_own)
            following = Following(to.sender, submitted, show)
            failed = to.failed or asyncio.Event()
            code, views = await until_ended(following, flags, (stopped, failed), show)
            if to.is_own:
                # What still runs goes with the engine.
                views = [rows.stopped(view) for view in views]
            _report(show, views, flags, code)
            if flags.keep and to.is_own and code not in (TIMED_OUT, INTERRUPTED):
                _tell_how_to_look(views, to.namespace)
            return code
    finally:
        # An error is told where the table stood, not below it.
        show.close()


async def until_ended(
    following: Following, flags: Flags, ends: tuple[asyncio.Event, asyncio.Event], show: Show
) -> tuple[int, list[JobView]]:
    """Until all jobs have ended, time is up, somebody presses Ctrl-C, or the engine can't go on."""
    stopped, failed = ends
    work = asyncio.ensure_future(following.until_over())
    asked = [asyncio.ensure_future(each.wait()) for each in ends]
    try:
        await asyncio.wait(
            (work, *asked), timeout=flags.timeout, return_when=asyncio.FIRST_COMPLETED
        )
        if failed.is_set():
            raise click.ClickException("the engine can't go on; what is above says why")
        views = following.views()
        if work.done():
            work.result()
            return (0 if all(view.has_succeeded for view in views) else FAILED), views
        code = INTERRUPTED if stopped.is_set() else TIMED_OUT
        what = "interrupted" if stopped.is_set() else f"{flags.timeout:g} s have passed"
        show.warn(f"{what}: stopping the jobs (press Ctrl-C to stop them at once)")
        stopped.clear()
        # What they say on their way out is shown too.
        left = await following.stop_jobs(stopped)
        if not left:
            await _finished(work, stopped)
        return code, [view if view.uid in left else rows.stopped(view) for view in views]
    finally:
        for each in (work, *asked):
            each.cancel()
        await asyncio.wait((work, *asked))


async def _finished(work: asyncio.Future[None], hurry: asyncio.Event) -> None:
    """When all jobs are gone, the end of their logs is still to be read; not for ever."""
    asked = asyncio.ensure_future(hurry.wait())
    await asyncio.wait((work, asked), timeout=DRAIN_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    await asyncio.wait((asked,))


def _show(flags: Flags) -> Show:
    is_json = flags.output == "json"
    stream = sys.stderr if is_json else sys.stdout
    is_terminal = stream.isatty() and os.environ.get("TERM") != "dumb"
    screen = Screen(stream, is_live=is_terminal and not flags.quiet, clock=time.monotonic)
    palette = Palette(is_coloured=is_terminal and "NO_COLOR" not in os.environ)
    return Show(screen, palette, is_quiet=flags.quiet)


def _report(show: Show, views: list[JobView], flags: Flags, code: int) -> None:
    show.close()
    for line in show.summary(views):
        click.echo(line, err=flags.output == "json")
    if flags.output == "json":
        jobs = [msgspec.to_builtins(view) for view in views]
        click.echo(json.dumps({"exitCode": code, "jobs": jobs}, indent=2))


def _tell_how_to_look(views: list[JobView], namespace: str) -> None:
    """After --keep: nothing is running any more that could be asked."""
    view = views[0]
    where = "" if view.namespace == DEFAULT_NAMESPACE else f" -n {view.namespace or namespace}"
    click.echo(
        f"kept: `jobyard up -d` starts the engine again, then `jobyard logs {view}{where}` and"
        f" `jobyard describe {view}{where}` show what is there",
        err=True,
    )


class Connection(msgspec.Struct, frozen=True):
    """Where jobs are sent, the namespace that is meant, and for an engine of our own its end."""

    sender: Sender
    namespace: str
    failed: asyncio.Event | None = None

    @property
    def is_own(self) -> bool:
        return self.failed is not None


@asynccontextmanager
async def _connected(flags: Flags, show: Show) -> AsyncIterator[Connection]:
    """To the cluster that was named, to an engine that is running, or to one of our own."""
    target = flags.target
    # Another run's private engine goes when that run ends: nothing to rely on.
    presence = None if target.names_cluster else standing(home_of(os.environ)).presence
    is_there = target.names_cluster or presence is not None
    if target.names_cluster and flags.needs_private_engine:
        raise click.UsageError("--pvc, --image, --strict and --runtime are for this machine")
    if is_there and flags.keep and flags.needs_private_engine:
        raise click.UsageError(
            "the engine that is running would keep the jobs, but --pvc, --image, --strict and"
            " --runtime are said when it starts: leave them out, or stop it with `jobyard down`"
        )
    # A cluster, and an engine that stays, keep jobs anyway.
    if is_there and not flags.needs_private_engine:
        from jobyard.client.transport import Transport

        if presence is not None and not flags.quiet:
            click.echo(f"on the engine of pid {presence.pid}, which keeps the jobs", err=True)
        cluster = target.cluster()
        async with Transport(cluster) as transport:
            yield Connection(transport, target.namespace_of(cluster))
        return
    # Imported here: a cluster needs none of it.
    from jobyard.run.engine import EngineSettings
    from jobyard.run.private import private_engine

    settings = EngineSettings(
        is_strict=flags.strict,
        runtime=flags.runtime,
        claims=dict(flags.pvc),
        images=all_image_rules(flags.image, os.environ),
        network=flags.network,
        log_bytes=flags.log_size,
        is_durable=False,
        stops_everything=True,
    )
    async with private_engine(settings, keeps=flags.keep, say=show.note) as engine:
        yield Connection(engine.sender, target.namespace or DEFAULT_NAMESPACE, engine.failed)
