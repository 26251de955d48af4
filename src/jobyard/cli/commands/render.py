"""`jobyard render`: what the jobs of a manifest are made of, without a cluster."""

from __future__ import annotations

from collections.abc import Iterator

import click
import msgspec

from jobyard.cli.arguments.file_names import FileName
from jobyard.cli.arguments.sources import read_sources
from jobyard.cli.output.left_out import skipped
from jobyard.cli.output.printing import print_objects
from jobyard.cli.output.saying import say
from jobyard.manifest.checking import Checked, checked, not_understood
from jobyard.plan.lowering.description import JSON, Description
from jobyard.plan.lowering.names import pod_name
from jobyard.plan.lowering.table import described
from jobyard.plan.objects.rendering import children
from jobyard.schema.finding import dotted, is_error


@click.command("render")
@click.argument("file", type=FileName(), metavar="FILE")
@click.option(
    "-o", "--output", type=click.Choice(("yaml", "json")), default="yaml", help="Output format."
)
@click.option(
    "--defaults", is_flag=True, help="Print the job itself first, with its defaults filled in."
)
@click.pass_context
def command(ctx: click.Context, file: str, output: str, defaults: bool) -> None:
    """Show the objects that the jobs in FILE are made of.

    Services, gang and pods go to standard output as manifests, and a line about each job to
    standard error. What only a cluster can know, such as a job's uid, is shown as <uid>.
    Secrets are hidden. FILE may be - for standard input.
    """
    results = [checked(document) for document in read_sources((file,))]
    if any(result.has_errors for result in results):
        _tell_errors(results)
        ctx.exit(1)
    jobs = [
        (result, description)
        for result in results
        if result.kind and (description := described(result.kind, result.value)) is not None
    ]
    for note in skipped([result for result in results if result.is_platforms]):
        say(note, err=True)
    for result, description in jobs:
        say(_pods_line(result, description), err=True)
    try:
        if jobs:
            print_objects(_objects(jobs, with_jobs=defaults), output)
    except _UnrenderableError as error:
        _tell_errors(
            [msgspec.structs.replace(error.job, findings=(not_understood(error.problem),))]
        )
        ctx.exit(1)
    if not jobs:
        say(f"{file}: there is no job in it, so there is nothing to show", err=True)


class _UnrenderableError(Exception):
    """A job that was taken, and yet there is something about it that isn't understood."""

    def __init__(self, job: Checked, problem: Exception) -> None:
        super().__init__(str(problem))
        self.job, self.problem = job, problem


def _objects(jobs: list[tuple[Checked, Description]], *, with_jobs: bool) -> Iterator[JSON]:
    """One after the other: those of a large job wouldn't fit into memory together."""
    for result, description in jobs:
        if with_jobs:
            yield result.value
        try:
            yield from children(description)
        except MemoryError:
            raise
        except Exception as problem:
            raise _UnrenderableError(result, problem) from problem


def _tell_errors(results: list[Checked]) -> None:
    for result in results:
        for finding in result.findings:
            if is_error(finding):
                line = result.document.line_of(finding.path)
                where = f"{result.document.source}:{line}: {dotted(finding.path)}"
                say(f"{where}: {finding.text}", err=True)


def _pods_line(result: Checked, description: Description) -> str:
    told = []
    for role in description.roles:
        first = pod_name(description.identity.name, role, 0)
        last = pod_name(description.identity.name, role, role.replicas - 1)
        told.append(first if role.replicas == 1 else f"{first} to {last}")
    count = description.replicas
    return f"{result.title}: {count} pod{'s' if count != 1 else ''}: {', '.join(told)}"
