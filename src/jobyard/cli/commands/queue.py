"""`jobyard queue open` and `jobyard queue close`: whether a queue takes new gangs."""

from __future__ import annotations

import click

from jobyard.cli.arguments.job_names import complete_queues
from jobyard.cli.arguments.options import deed_output
from jobyard.cli.arguments.target import Target, target_options
from jobyard.cli.asking import ask, send
from jobyard.cli.commands.queues import NO_QUEUES, queue_named
from jobyard.cli.output.deeds import Deed, tell
from jobyard.client.request import merge_patch
from jobyard.client.sender import Sender
from jobyard.jobs.explaining.answer import counted
from jobyard.jobs.explaining.looking import QUEUES
from jobyard.jobs.explaining.looking_at_queues import look_at_queues
from jobyard.jobs.explaining.queues import QueueView


@click.group("queue")
def command() -> None:
    """Open or close a queue; `jobyard queues` shows them."""


@command.command("open")
@click.argument("name", shell_complete=complete_queues)
@deed_output
@target_options
def open_(name: str, output: str, target: Target) -> None:
    """Let gangs of queue NAME start again. For example:

    jobyard queue open team-a
    """
    _turned(target, name, output, closed=False)


@command.command("close")
@click.argument("name", shell_complete=complete_queues)
@deed_output
@target_options
def close(name: str, output: str, target: Target) -> None:
    """Keep gangs of queue NAME that haven't started from starting.

    What runs keeps running, restarts included; what is submitted meanwhile waits. For example:

    jobyard queue close team-a
    """
    _turned(target, name, output, closed=True)


def _turned(target: Target, name: str, output: str, *, closed: bool) -> None:
    async def talk(sender: Sender, namespace: str) -> QueueView:
        found = await look_at_queues(sender, namespace)
        if found.views is None:
            raise click.ClickException(NO_QUEUES)
        view = queue_named(name, found.views)
        if view.closed is not closed:
            await send(sender, merge_patch(QUEUES, "", name, {"spec": {"closed": closed}}))
        return view

    view = ask(target, talk)
    is_same = view.closed is closed
    what = {
        "action": "unchanged" if is_same else "close" if closed else "open",
        "closed": closed,
        "runningGangs": view.running_gangs,
        "waitingGangs": view.waiting_gangs,
    }
    tell(output, Deed("Queue", "", name, _told(view, closed=closed, is_same=is_same), what))


def _told(view: QueueView, *, closed: bool, is_same: bool) -> str:
    state = "closed" if closed else "open"
    running, waiting = counted(view.running_gangs, "gang"), counted(view.waiting_gangs, "gang")
    now = f"is {state} already" if is_same else f"is {state} now"
    if not closed:
        return f"{now}: {waiting} may start in turn, as there is room"
    return (
        f"{now}: {running} that have started keep running, restarts included; {waiting} and all"
        " that come wait until it is opened"
    )
