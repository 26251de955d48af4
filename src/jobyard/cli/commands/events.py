"""`jobyard events`: what happened to a job and its pods, oldest first."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import click

from jobyard.cli.arguments.target import Target, target_options
from jobyard.cli.asking import Found, ask, found, pods_of, send
from jobyard.cli.output.saying import say, say_json
from jobyard.cli.output.style import duration, table
from jobyard.client.deep_json import decoded_json
from jobyard.client.request import EVENTS, listing
from jobyard.client.sender import Sender
from jobyard.jobs.explaining.happened import Whose, in_order, moment_of
from jobyard.jobs.pods import JobPod
from jobyard.jobs.view import view_of
from jobyard.terminal.widths import one_line

Event = dict[str, Any]


@click.command("events")
@click.argument("job", required=False)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table")
@target_options
def command(job: str | None, output: str, target: Target) -> None:
    """Show what happened to JOB and its pods, or to everything in the namespace."""

    async def talk(sender: Sender, namespace: str) -> list[Event]:
        return await events_of(sender, namespace, job)

    events = ask(target, talk)
    if output == "json":
        say_json(events, indent=2)
        return
    for line in event_lines(events):
        say(line)
    if not events:
        say("nothing has happened that was written down", err=True)


async def events_of(sender: Sender, namespace: str, job: str | None) -> list[Event]:
    """The events about a job and its pods, or all; oldest first."""
    known = await found(sender, namespace, job) if job is not None else None
    pods = await pods_of(sender, known) if known is not None else ()
    answer = await send(sender, listing(EVENTS, namespace))
    events: list[Event] = decoded_json(answer.body)["items"] or []
    if known is not None:
        whose = _whose(known, pods)
        events = [event for event in events if whose.includes(event)]
    return in_order(events)


async def events_about(sender: Sender, namespace: str, obj: dict[str, Any]) -> list[Event]:
    """The events about one object that isn't a job; of one in no namespace they are in any."""
    metadata = obj["metadata"]
    selector = f"involvedObject.kind={obj['kind']},involvedObject.name={metadata['name']}"
    answer = await send(sender, listing(EVENTS, namespace, field_selector=selector))
    events: list[Event] = decoded_json(answer.body)["items"] or []
    # A node's events have its name where a uid would be.
    own = ("", metadata.get("uid"), metadata["name"])
    about = [event for event in events if event["involvedObject"].get("uid", "") in own]
    return in_order(about)


def _whose(job: Found, pods: Iterable[JobPod]) -> Whose:
    rows = view_of(job.value, job.kind.name).replicas
    uids = (job.uid, *(pod.metadata.uid for pod in pods), *(row.uid for row in rows))
    created = job.value["metadata"]["creationTimestamp"]
    return Whose(uids, (row.pod for row in rows), created)


def event_lines(events: list[Event]) -> list[str]:
    now = datetime.now(UTC)
    rows = []
    for event in events:
        about = event.get("involvedObject") or {}
        age = (now - datetime.fromisoformat(moment_of(event))).total_seconds()
        count: int = event.get("count") or 1
        rows.append(
            [
                f"{duration(max(age, 0))} ago" + (f" (x{count})" if count > 1 else ""),
                str(event.get("type", "")),
                str(event.get("reason", "")),
                f"{about.get('kind', '').lower()}/{about.get('name', '')}",
                one_line(str(event.get("message", ""))),
            ]
        )
    return table(["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"], rows) if rows else []
