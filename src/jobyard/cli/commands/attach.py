"""`jobyard attach`: shows a run that was left to itself, or any job, and waits for its end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

import click
import msgspec

from jobyard.cli.arguments.options import output_option
from jobyard.cli.arguments.target import Target, target_options
from jobyard.cli.asking import found
from jobyard.cli.attending import attending_run
from jobyard.cli.commands.run import report, show_for, tell_how_to_attach
from jobyard.cli.ending import CANNOT_GO_ON, HUNG_UP, INTERRUPTED, Ends, until_ended
from jobyard.cli.output.left_runs import line_about
from jobyard.cli.output.saying import say
from jobyard.cli.output.showing import Show
from jobyard.client.deep_json import decoded_json
from jobyard.client.errors import ClientError
from jobyard.client.request import listing, resource_of
from jobyard.client.sender import Sender
from jobyard.engine.homes import HomeError, home_of
from jobyard.engine.runs.birth import Birth, EngineFailedError
from jobyard.engine.runs.private import spawn_engine
from jobyard.engine.runs.runs import Run, State, runs_of
from jobyard.jobs.following import Following
from jobyard.jobs.one_object import Reference
from jobyard.jobs.view import stopped
from jobyard.plan.lowering.table import JOB_KINDS


@click.command("attach")
@click.argument("what", required=False, metavar="[RUN|JOB]")
@click.option("-q", "--quiet", is_flag=True, help="Show neither logs nor notes, only the end.")
@output_option("json: the final status on stdout, everything else on stderr.")
@target_options
@click.pass_context
def command(
    ctx: click.Context, /, what: str | None, quiet: bool, output: str, target: Target
) -> None:
    """Show what a run does, as `jobyard run` does, and wait for its end.

    Without a name: the run on this machine that nobody is attached to. A run whose engine
    has ended gets a new one. With the name of a job: that job, wherever it runs.

    Ctrl-C leaves the jobs running; `jobyard delete JOB` stops them. Exit codes are those of
    `jobyard run`.
    """
    run = None if target.names_cluster else _run_meant(what)
    show = show_for(is_quiet=quiet, is_json=output == "json")
    try:
        if run is not None:
            # Before there is a loop.
            birth = _taken_up(run)
            code = asyncio.run(_attend(run, birth, show, output))
        else:
            assert what is not None, "without a name it is a run"
            code = asyncio.run(_follow(what, target, show, output))
    except (ClientError, HomeError) as problem:
        raise click.ClickException(str(problem)) from problem
    except EngineFailedError as problem:
        say(f"Error: {problem}", err=True)
        code = CANNOT_GO_ON
    finally:
        show.close()
    ctx.exit(code)


def _run_meant(what: str | None) -> Run | None:
    """The run that was named, by its own name or by its only job's; None: no run has that name."""
    runs = [run for run in runs_of(home_of(os.environ)) if run.record.jobs]
    if what is None:
        left = [run for run in runs if not run.is_attended]
        if len(left) == 1:
            return left[0]
        if not left:
            raise click.ClickException(
                "no run is left to itself; name a job to see it, `jobyard get jobs` lists them"
            )
        raise click.ClickException(_choice("several runs are left to themselves", left))
    named = [run for run in runs if what == run.name]
    with_job = [run for run in runs if any(what in (job, _bare(job)) for job in run.record.jobs)]
    if named or len(with_job) == 1:
        return (named or with_job)[0]
    if with_job:
        raise click.ClickException(_choice(f"several runs have a job {what}", with_job))
    return None


def _bare(job: str) -> str:
    return job.partition("/")[2]


def _choice(text: str, runs: Sequence[Run]) -> str:
    return "\n  ".join([f"{text}: say which", *(line_about(run) for run in runs)])


def _taken_up(run: Run) -> Birth | None:
    """A new engine, if it has none any more."""
    is_there = run.state in (State.ATTENDED, State.LEFT)
    return None if is_there else spawn_engine(run.folder.path)


async def _attend(run: Run, birth: Birth | None, show: Show, output: str) -> int:
    ends = Ends()
    ends.listen()
    was_attended = run.is_attended
    if birth is not None:
        await birth.folder()
    async with attending_run(run, birth, show) as attendance:
        ends.failed = attendance.failed
        jobs = await _jobs(attendance.link)
        show.expect((str(job) for job in jobs), is_late=True)
        following = Following(attendance.link, jobs, show)
        code, views = await until_ended(following, ends, show, stops_jobs=False)
        if code in (HUNG_UP, INTERRUPTED):
            _leave(show, run.name, code)
            return code
        report(show, [stopped(view) for view in views], output, code)
        # Else it is the other command's to end.
        if not was_attended:
            await attendance.end()
        return code


def _leave(show: Show, name: str, code: int) -> None:
    if code == HUNG_UP:
        show.abandon()
    else:
        show.close()
        tell_how_to_attach(name)


class _Metadata(msgspec.Struct, frozen=True):
    name: str
    uid: str
    namespace: str = ""


class _Item(msgspec.Struct, frozen=True):
    metadata: _Metadata


class _Items(msgspec.Struct, frozen=True):
    items: tuple[_Item, ...] = ()


async def _jobs(sender: Sender) -> list[Reference]:
    """All jobs of an engine."""
    jobs: list[Reference] = []
    for kind in JOB_KINDS:
        resource = resource_of(kind)
        answer = await sender.send(listing(resource, ""))
        if not answer.is_ok:
            raise click.ClickException(answer.problem.message)
        jobs += [
            Reference(resource, each.namespace, each.name, each.uid)
            for each in (item.metadata for item in decoded_json(answer.body, type=_Items).items)
        ]
    return jobs


async def _follow(what: str, target: Target, show: Show, output: str) -> int:
    """A job of a cluster, or of the engine of `up`."""
    from jobyard.client.transport import Transport

    ends = Ends()
    ends.listen()
    cluster = target.cluster()
    async with Transport(cluster) as transport:
        job = await found(transport, target.namespace_of(cluster), what)
        reference = Reference(job.resource, job.namespace, job.name, job.uid)
        show.expect([str(reference)], is_late=True)
        following = Following(transport, [reference], show)
        code, views = await until_ended(following, ends, show, stops_jobs=False)
        if code in (HUNG_UP, INTERRUPTED):
            _leave(show, str(reference), code)
        else:
            report(show, views, output, code)
        return code
