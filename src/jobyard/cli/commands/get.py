"""`jobyard get`: objects as a table, or as they are stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from jobyard.cli.arguments.questions import (
    JSON,
    TABLES,
    Question,
    layout,
    list_request,
    short_title,
    whole,
)
from jobyard.cli.arguments.selecting import Choice, are_names, chosen, unknown_kind
from jobyard.cli.arguments.target import Target, target_options
from jobyard.cli.asking import ask, looked_for, send
from jobyard.cli.changes import show_changes
from jobyard.cli.output.printing import as_yaml
from jobyard.cli.output.saying import as_json, say
from jobyard.cli.output.tables import GrowingTable, Table
from jobyard.client.deep_json import decoded_json
from jobyard.client.request import Request, Resource
from jobyard.client.sender import Sender


@click.command("get")
@click.argument("what", nargs=-1, metavar="[KIND [NAME...] | KIND/NAME... | JOB...]")
@click.option("-A", "--all-namespaces", is_flag=True, help="In all namespaces.")
@click.option(
    "-l", "--selector", default="", metavar="LABELS", help="Only those with these labels."
)
@click.option("-w", "--watch", is_flag=True, help="Keep showing what changes.")
@click.option(
    "-o",
    "--output",
    type=click.Choice([*TABLES, "json", "yaml", "name"]),
    default="table",
    show_default=True,
    help="How to show them; with --watch, json is an object per line.",
)
@target_options
def command(
    what: tuple[str, ...],
    all_namespaces: bool,
    selector: str,
    watch: bool,
    output: str,
    target: Target,
) -> None:
    """Show jobs, or objects of any kind that jobs are made of.

    Without a KIND: all jobs, or those named.
    """
    named = () if are_names(what) else tuple(chosen(what))
    if all_namespaces and (are_names(what) or any(choice.names for choice in named)):
        raise click.UsageError("-A is for all objects of a kind; a name is one of a namespace")

    async def talk(sender: Sender, namespace: str) -> None:
        choices = named or tuple([await _job(sender, namespace, word) for word in what])
        question = Question(
            choices=_merged(choices),
            namespace="" if all_namespaces else namespace,
            selector=selector,
            output=output,
        )
        if watch:
            await show_changes(sender, question)
        elif output in TABLES:
            await _tables(sender, question)
        else:
            _print(await _objects(sender, question), question)

    ask(target, talk)


async def _job(sender: Sender, namespace: str, name: str) -> Choice:
    job = await looked_for(sender, namespace, name)
    if job is None:
        raise click.ClickException(
            f"{unknown_kind(name)}, nor a job with this name in namespace {namespace};"
            " `jobyard get jobs -A` lists all jobs"
        )
    return Choice(job.resource, (job.name,))


def _merged(choices: Sequence[Choice]) -> tuple[Choice, ...]:
    """Those of one resource together, as they are in one table."""
    names: dict[Resource, tuple[str, ...]] = {}
    for choice in choices:
        names[choice.resource] = (*names.get(choice.resource, ()), *choice.names)
    return tuple(Choice(resource, named) for resource, named in names.items())


def _requests(question: Question, choice: Choice) -> list[Request]:
    where = question.where(choice)
    if choice.names:
        paths = [choice.resource.item(where, name) for name in choice.names]
        return [Request(method="GET", path=path, accept=question.accept) for path in paths]
    return [list_request(question, choice)]


async def _objects(sender: Sender, question: Question) -> list[JSON]:
    found: list[JSON] = []
    for choice in question.choices:
        for request in _requests(question, choice):
            answer = decoded_json((await send(sender, request)).body)
            items = answer["items"] or [] if "items" in answer else [answer]
            found += [whole(choice, item) for item in items]
    return found


def _print(objects: list[JSON], question: Question) -> None:
    if question.output == "name":
        for obj in objects:
            say(short_title(obj))
        return
    # One that was named is printed as it is, as kubectl does.
    listed = not any(choice.names for choice in question.choices) or len(objects) != 1
    value: Any = {"apiVersion": "v1", "kind": "List", "items": objects} if listed else objects[0]
    is_json = question.output == "json"
    say(as_json(value, indent=2) if is_json else as_yaml(value).rstrip())


async def _tables(sender: Sender, question: Question) -> None:
    is_first = True
    for choice in question.choices:
        parts = [
            decoded_json((await send(sender, request)).body, type=Table)
            for request in _requests(question, choice)
        ]
        rows = [row for part in parts for row in part.rows]
        if rows:
            if not is_first:
                say()
            is_first = False
            for line in GrowingTable(layout(question, choice, parts[0])).lines(rows):
                say(line)
    if is_first:
        say(question.nothing, err=True)
