"""`jobyard describe`: everything about a job, or about another object, on one page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import msgspec

from jobyard.cli.arguments.options import output_option
from jobyard.cli.arguments.selecting import Choice, are_names, chosen
from jobyard.cli.arguments.target import Target, target_options
from jobyard.cli.asking import Found, ask, found, send
from jobyard.cli.commands.describe_pages import concealed, job_page, object_page
from jobyard.cli.commands.events import Event, events_about, events_of
from jobyard.cli.output.saying import say, say_json
from jobyard.cli.output.style import Palette
from jobyard.client.deep_json import decoded_json
from jobyard.client.request import get, listing, resource_of
from jobyard.client.sender import Sender
from jobyard.jobs.view import view_of
from jobyard.plan.lowering.table import JOB_KINDS

_JOBS = {resource_of(kind): kind for kind in JOB_KINDS}
JSON = dict[str, Any]


class Described(msgspec.Struct, frozen=True):
    """An object that is there, and what happened to it; `job` is None for what isn't one."""

    value: JSON
    events: list[Event]
    job: Found | None = None


@click.command("describe")
@click.argument("what", nargs=-1, required=True, metavar="JOB... | KIND/NAME... | KIND [NAME...]")
@output_option()
@target_options
def command(what: tuple[str, ...], output: str, target: Target) -> None:
    """Show the state of a job: conditions, replicas, and what happened.

    Also of a pod, a service, or any other object that jobs are made of.
    """
    choices = () if are_names(what) else tuple(chosen(what))

    async def talk(sender: Sender, namespace: str) -> list[Described]:
        if not choices:
            return [await _job(sender, namespace, word) for word in what]
        return [each for choice in choices for each in await _chosen(sender, namespace, choice)]

    described = ask(target, talk)
    if output == "json":
        values = [_as_json(each) for each in described]
        one = len(values) == 1 and (not choices or bool(choices[0].names))
        say_json(values[0] if one else values, indent=2)
        return
    palette = Palette()
    if not described:
        say("there are none", err=True)
    for n, each in enumerate(described):
        for line in (*([""] * 2 if n else ()), *_page(each, palette)):
            say(line)


async def _job(sender: Sender, namespace: str, name: str) -> Described:
    known = await found(sender, namespace, name)
    return Described(known.value, await events_of(sender, namespace, str(known)), known)


async def _chosen(sender: Sender, namespace: str, choice: Choice) -> list[Described]:
    resource = choice.resource
    where = namespace if resource.namespaced else ""
    names: Sequence[str] = choice.names
    if not names:
        answer = await send(sender, listing(resource, where))
        names = [item["metadata"]["name"] for item in decoded_json(answer.body)["items"]]
    if resource in _JOBS:
        return [await _job(sender, namespace, f"{resource.kind}/{name}") for name in names]
    described: list[Described] = []
    for name in names:
        value = decoded_json((await send(sender, get(resource, where, name))).body)
        value = {"apiVersion": resource.api_version, "kind": resource.kind, **value}
        described.append(Described(concealed(value), await events_about(sender, where, value)))
    return described


def _page(described: Described, palette: Palette) -> list[str]:
    known = described.job
    if known is None:
        return object_page(described.value, described.events, palette)
    view = view_of(known.value, known.kind.name)
    return job_page(known, view, described.events, palette)


def _as_json(described: Described) -> JSON:
    known = described.job
    value: JSON = {"object": described.value, "events": described.events}
    if known is not None:
        whole = {"apiVersion": known.kind.api_version, "kind": known.kind.name, **known.value}
        view = msgspec.to_builtins(view_of(known.value, known.kind.name))
        value = {**view, **value, "object": whole}
    return value
