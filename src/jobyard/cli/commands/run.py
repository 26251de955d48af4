"""`jobyard run`: submits the jobs of files, shows their logs, and waits for their end."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import click
import msgspec

from jobyard.cli.arguments.durations import Duration
from jobyard.cli.arguments.engine_options import (
    DEFAULT_NETWORK,
    DISK_BYTES_DEFAULT,
    LOG_BYTES_DEFAULT,
    engine_options,
)
from jobyard.cli.arguments.file_names import FileName
from jobyard.cli.arguments.mappings import all_image_rules, claim_folder, image_rule
from jobyard.cli.arguments.options import output_option
from jobyard.cli.arguments.setting import assigned, assignment
from jobyard.cli.arguments.sources import read_sources
from jobyard.cli.arguments.target import DEFAULT_NAMESPACE, Target, target_options
from jobyard.cli.attending import Attendance, attending
from jobyard.cli.commands.accepting import accepted, no_job, told_by_controllers
from jobyard.cli.ending import CANNOT_GO_ON, HUNG_UP, INTERRUPTED, TIMED_OUT, Ends, until_ended
from jobyard.cli.output.left_runs import tell_of_left_runs
from jobyard.cli.output.saying import say, say_json
from jobyard.cli.output.screen import Screen
from jobyard.cli.output.showing import Show
from jobyard.cli.output.style import Palette
from jobyard.cli.surroundings import expect_folder
from jobyard.client.discovery import UnknownKindError
from jobyard.client.errors import ClientError
from jobyard.engine.homes import HomeError, Presence, home_of, standing
from jobyard.engine.runs.birth import Birth, EngineFailedError
from jobyard.engine.runs.private import prepared
from jobyard.engine.runs.runs import Record, now
from jobyard.jobs.following import Following
from jobyard.jobs.one_object import Reference
from jobyard.jobs.submission import SubmissionError, is_job, submit, title_of
from jobyard.jobs.view import JobView, stopped
from jobyard.manifest.reading import Document
from jobyard.node.ordering.environment import inherited


class Flags(msgspec.Struct, frozen=True, kw_only=True):
    """The options as they were given."""

    pvc: tuple[tuple[str, Path], ...]
    image: tuple[tuple[str, str], ...]
    assignments: tuple[tuple[tuple[str | int, ...], Any], ...]
    strict: bool
    keep: bool
    detach: bool = False
    timeout: float | None
    runtime: str
    quiet: bool
    output: str
    log_size: int = LOG_BYTES_DEFAULT
    disk_budget: int = DISK_BYTES_DEFAULT
    network: IPv4Network = DEFAULT_NETWORK
    capacity: dict[str, str] = {}
    no_preemption: bool = False
    target: Target

    @property
    def needs_private_engine(self) -> bool:
        """Whether something was said that only an engine of one's own can do."""
        is_engine_told = (self.network, self.log_size, self.disk_budget) != (
            DEFAULT_NETWORK,
            LOG_BYTES_DEFAULT,
            DISK_BYTES_DEFAULT,
        )
        is_machine_told = self.pvc or self.image or self.strict or self.runtime != "auto"
        is_scheduler_told = self.capacity or self.no_preemption
        return bool(is_machine_told or is_engine_told or is_scheduler_told)


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
    help="The virtualenv or root folder that images like PATTERN stand for; also $JOBYARD_IMAGES."
    " A root folder may be followed by ,workdir=DIR ,env=NAME=VALUE ,user=USER ,config=FILE.",
)
@click.option(
    "--set",
    "assignments",
    multiple=True,
    callback=lambda _c, _p, values: tuple(assignment(value) for value in values),
    metavar="PATH=VALUE",
    help="Change a field of the jobs, such as spec.replicaSpecs[0].replicas=2.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Honour resource requests as Kubernetes does; don't cut them down.",
)
@click.option("--keep", is_flag=True, help="Keep the jobs and their logs when they have ended.")
@click.option(
    "-d", "--detach", is_flag=True,
    help="Return once the jobs are submitted; `jobyard attach` shows them.",
)  # fmt: skip
@click.option(
    "--timeout", type=Duration(), metavar="10m", help="Stop the jobs after this long; exit 124."
)
@click.option("-q", "--quiet", is_flag=True, help="Show neither logs nor notes, only the end.")
@output_option("json: the final status on stdout, everything else on stderr.")
@engine_options
@target_options
@click.pass_context
def command(ctx: click.Context, /, files: tuple[str, ...], **given: Any) -> None:
    """Run the jobs in FILE... and wait for their end.

    Other documents in the files are applied first, in their order. The logs of all
    replicas are shown as they come. Without a cluster named, the jobs run on this machine, on an
    engine of their own: they go on when the terminal closes, and `jobyard attach` shows them again.

    Exit code 0: all succeeded, 1: a job failed, 2: bad input, 75: the engine has failed (the
    replicas run on), 124: --timeout has passed, 129: the terminal was closed (the jobs go on),
    130: interrupted (the jobs are stopped first).
    """
    flags = Flags(**given)
    if not flags.target.names_cluster:
        expect_folder()
    # Before there is a loop: it is forked.
    with nullcontext() if flags.target.names_cluster else prepared() as engine:
        objects = _objects(read_sources(files), flags)
        presence = _engine_to_use(flags)
        birth = None
        if engine is not None:
            tell_of_left_runs()
            if presence is None:
                birth = engine.begin(_record(objects, flags))
    try:
        code = asyncio.run(_run(objects, flags, presence, birth))
    except (ClientError, HomeError, SubmissionError, UnknownKindError) as problem:
        raise click.ClickException(str(problem)) from problem
    except EngineFailedError as problem:
        say(f"Error: {problem}", err=True)
        code = CANNOT_GO_ON
    ctx.exit(code)


def _engine_to_use(flags: Flags) -> Presence | None:
    """The engine of `up`, for jobs that are to stay with it; None: one of our own."""
    if flags.target.names_cluster:
        if flags.needs_private_engine:
            raise click.UsageError("--pvc, --image, --strict and --runtime are for this machine")
        return None
    presence = standing(home_of(os.environ)).presence if flags.keep else None
    if presence is None:
        return None
    if flags.needs_private_engine or all_image_rules((), os.environ):
        raise click.UsageError(
            "the engine that is running would keep the jobs, but --pvc, --image (also"
            " $JOBYARD_IMAGES), --strict and --runtime are said when it starts: leave them out,"
            " or stop it with `jobyard down`"
        )
    if presence.started_in != os.getcwd():
        raise click.UsageError(
            f"the engine that is running would keep the jobs, but runs them in"
            f" {presence.started_in}: call this there, leave out --keep, or stop the engine with"
            " `jobyard down`"
        )
    return presence


def _record(objects: Sequence[dict[str, Any]], flags: Flags) -> Record:
    return Record(
        jobs=tuple(title_of(obj) for obj in objects if is_job(obj)),
        namespace=flags.target.namespace or DEFAULT_NAMESPACE,
        started_at=now(),
        folder=os.getcwd(),
        environment=inherited(os.environ),
        is_strict=flags.strict,
        runtime=flags.runtime,
        claims={name: str(folder) for name, folder in flags.pvc},
        images=all_image_rules(flags.image, os.environ),
        network=str(flags.network),
        log_bytes=flags.log_size,
        disk_bytes=flags.disk_budget,
        capacity=flags.capacity,
        may_preempt=not flags.no_preemption,
        keeps=flags.keep,
    )


def _objects(documents: Sequence[Document], flags: Flags) -> list[dict[str, Any]]:
    """The objects to submit; whatever can be said against them is said before anything runs."""
    results = accepted(_assigned(document, flags) for document in documents)
    objects = [result.value for result in results]
    if not any(is_job(obj) for obj in objects):
        raise click.ClickException(no_job(results))
    return objects


def _assigned(document: Document, flags: Flags) -> Document:
    value = document.value
    if not flags.assignments or not isinstance(value, dict) or not is_job(value):
        return document
    return assigned(document, flags.assignments)


async def _run(
    objects: list[dict[str, Any]], flags: Flags, presence: Presence | None, birth: Birth | None
) -> int:
    show = show_for(is_quiet=flags.quiet, is_json=flags.output == "json")
    ends = Ends()
    ends.listen()
    try:
        if birth is not None:
            async with attending(birth, show) as attendance:
                return await _run_here(objects, flags, attendance, ends, show)
        from jobyard.client.transport import Transport

        if presence is not None and not flags.quiet:
            say(f"on the engine of pid {presence.pid}, which keeps the jobs", err=True)
        cluster = flags.target.cluster()
        async with Transport(cluster) as transport:
            show.expect(title_of(obj) for obj in objects if is_job(obj))
            show.heard(told_by_controllers(objects))
            where = flags.target.namespace_of(cluster)
            submitted = await submit(transport, objects, where, makes_namespaces=False)
            if flags.detach:
                return _left(submitted, where)
            following = Following(transport, submitted, show)
            code, views = await until_ended(following, ends, show, flags.timeout)
            if code == HUNG_UP:
                show.abandon()
            else:
                report(show, views, flags.output, code)
            return code
    finally:
        # An error is told where the table stood, not below it.
        show.close()


async def _run_here(
    objects: list[dict[str, Any]], flags: Flags, attendance: Attendance, ends: Ends, show: Show
) -> int:
    """On an engine of our own, which ends with the jobs."""
    link, ends.failed = attendance.link, attendance.failed
    namespace = flags.target.namespace or DEFAULT_NAMESPACE
    is_ours = True
    try:
        show.expect(title_of(obj) for obj in objects if is_job(obj))
        show.heard(told_by_controllers(objects))
        submitted = await submit(link, objects, namespace, makes_namespaces=True)
        # From here on it is somebody's work: whatever happens to us, it goes on.
        is_ours = False
        if flags.detach:
            return _left(submitted, namespace, attendance.run.name)
        following = Following(link, submitted, show)
        code, views = await until_ended(following, ends, show, flags.timeout)
        is_ours = code != HUNG_UP
        if not is_ours:
            show.abandon()
        else:
            # What still runs goes with the engine.
            report(show, [stopped(view) for view in views], flags.output, code)
            if flags.keep and code not in (TIMED_OUT, INTERRUPTED):
                _tell_how_to_look(views, namespace)
        return code
    except Exception:
        # Our output may be gone, or full. The jobs don't need it.
        if not is_ours:
            tell_how_to_attach(attendance.run.name)
        raise
    finally:
        if is_ours:
            await attendance.end()


def _left(jobs: Sequence[Reference], namespace: str, run: str = "") -> int:
    """After --detach."""
    for job in jobs:
        where = "" if job.namespace == DEFAULT_NAMESPACE else f" -n {job.namespace or namespace}"
        say(f"{job} runs: `jobyard attach {run or f'{job}{where}'}` shows it")
    return 0


def tell_how_to_attach(run: str) -> None:
    # Nobody may be there to read it.
    with suppress(OSError):
        say(f"the jobs keep running: `jobyard attach {run}` shows them again", err=True)


def show_for(*, is_quiet: bool, is_json: bool) -> Show:
    """Where what is said of jobs goes to; with json it is no part of the answer."""
    stream = sys.stderr if is_json else sys.stdout
    is_terminal = stream.isatty() and os.environ.get("TERM") != "dumb"
    screen = Screen(stream, is_live=is_terminal and not is_quiet, clock=time.monotonic)
    palette = Palette(is_coloured=is_terminal and "NO_COLOR" not in os.environ)
    return Show(screen, palette, is_quiet=is_quiet)


def report(show: Show, views: list[JobView], output: str, code: int) -> None:
    """The table at the end, and with json the final status."""
    show.close()
    for line in show.summary(views):
        say(line, err=output == "json")
    if output == "json":
        jobs = [msgspec.to_builtins(view) for view in views]
        say_json({"exitCode": code, "jobs": jobs}, indent=2)


def _tell_how_to_look(views: list[JobView], namespace: str) -> None:
    """After --keep: nothing is running any more that could be asked."""
    view = views[0]
    where = "" if view.namespace == DEFAULT_NAMESPACE else f" -n {view.namespace or namespace}"
    say(
        f"kept: `jobyard up -d` starts the engine again, then `jobyard logs {view}{where}` and"
        f" `jobyard describe {view}{where}` show what is there",
        err=True,
    )
