"""`jobyard queues`: what queues use of their quota, and who waits in them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final, NoReturn

import click
import msgspec

from jobyard.cli.arguments.job_names import complete_queues
from jobyard.cli.arguments.target import Target, target_options
from jobyard.cli.asking import ask
from jobyard.cli.output.printing import as_yaml
from jobyard.cli.output.queue_lines import queue_page, queue_table
from jobyard.cli.output.saying import say, say_json
from jobyard.cli.output.style import Palette
from jobyard.cli.output.terminal_size import columns_of_output
from jobyard.cli.queue_news import news
from jobyard.client.sender import Sender
from jobyard.jobs.explaining.looking_at_queues import look_at_queues
from jobyard.jobs.explaining.queues import QueueView
from jobyard.schema.wording import suggestion

NO_QUEUES: Final = (
    "this API server has no queues: it doesn't serve the kind Queue of scheduler.tensorstack.dev,"
    " or doesn't let you list them; `jobyard crds | kubectl apply -f -` brings the kind"
)


@click.command("queues")
@click.argument("name", required=False, shell_complete=complete_queues)
@click.option("-w", "--watch", is_flag=True, help="Keep showing what changes.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json", "yaml"]),
    default="table",
    show_default=True,
    help="How to show them; with --watch, json is an object per line.",
)
@target_options
def command(name: str | None, watch: bool, output: str, target: Target) -> None:
    """Show all queues: quota, use, and how many gangs run and wait.

    With NAME that queue alone, and its gangs: those that run, then those that wait, in the order
    in which they get their turn, each with its reason. For example:

    jobyard queues team-a

    SHARE is the largest part that a queue uses of any resource of its quota, or of the machine
    where it has none. Among queues of equal priority, the one with the lower share goes first.
    """

    async def talk(sender: Sender, namespace: str) -> None:
        shown: tuple[QueueView, ...] = ()
        shown = await _look(sender, namespace, name)
        _show(shown, name, output, is_watch=watch)
        if watch:
            await _follow(sender, namespace, name, output, shown)

    ask(target, talk)


async def _look(sender: Sender, namespace: str, name: str | None) -> tuple[QueueView, ...]:
    found = await look_at_queues(sender, namespace)
    if found.views is None:
        raise click.ClickException(NO_QUEUES)
    if found.note:
        say(found.note, err=True)
    return found.views if name is None else (queue_named(name, found.views),)


def queue_named(name: str, views: Sequence[QueueView]) -> QueueView:
    """The queue of that name, or an error that names near ones."""
    for view in views:
        if view.name == name:
            return view
    names = [view.name for view in views]
    there = f"there are {', '.join(names[:8])}" if names else "there are none"
    raise click.ClickException(f"{name}: there is no such queue{suggestion(name, names)}; {there}")


async def _follow(
    sender: Sender, namespace: str, name: str | None, output: str, shown: tuple[QueueView, ...]
) -> NoReturn:
    """Until somebody presses Ctrl-C: what has changed, in the same form."""
    async for _ in news(sender):
        views = await _look(sender, namespace, name)
        changed = tuple(view for view in views if view not in shown)
        gone = {view.name for view in shown} - {view.name for view in views}
        for each in sorted(gone):
            say(f"Queue/{each} is gone", err=True)
        if changed:
            _show(changed, name, output, is_watch=True)
        shown = views
    raise AssertionError("news don't end")


def _show(views: tuple[QueueView, ...], name: str | None, output: str, *, is_watch: bool) -> None:
    if output in ("json", "yaml"):
        _objects(views, name, output, is_watch=is_watch)
        return
    columns, is_wide = columns_of_output(), output == "wide"
    if not views:
        say("there are no queues", err=True)
        return
    if name is None:
        lines = queue_table(views, columns, is_wide=is_wide)
    else:
        lines = queue_page(views[0], Palette(), columns, time.time(), is_wide=is_wide)
    for line in (*lines, *([""] if is_watch else [])):
        say(line)


def _objects(
    views: tuple[QueueView, ...], name: str | None, output: str, *, is_watch: bool
) -> None:
    values: list[Any] = [msgspec.to_builtins(view) for view in views]
    if is_watch:
        for value in values:
            say(f"---\n{as_yaml(value).rstrip()}") if output == "yaml" else say_json(value)
        return
    whole = values if name is None else values[0]
    if output == "json":
        say_json(whole, indent=2)
    else:
        say(as_yaml(whole).rstrip())
