"""`jobyard apply`: brings what is in files to an API server, whether it is there or not."""

from __future__ import annotations

import os
from typing import Any

import click

from jobyard.cli.arguments.file_names import FileName
from jobyard.cli.arguments.options import deed_output
from jobyard.cli.arguments.sources import read_sources
from jobyard.cli.arguments.target import Target, target_options
from jobyard.cli.asking import ask
from jobyard.cli.commands.accepting import accepted, as_written
from jobyard.cli.output.deeds import Deed, tell
from jobyard.cli.output.saying import say
from jobyard.client.deep_json import decoded_json
from jobyard.client.discovery import UnknownKindError, resource_for
from jobyard.client.request import Answer, get
from jobyard.client.sender import Sender
from jobyard.engine.homes import alive, home_of
from jobyard.jobs.submission import SubmissionError, apply, is_job


@click.command("apply")
@click.option(
    "-f", "--filename", "files", multiple=True, required=True, type=FileName(), metavar="FILE",
    help="A file, a folder, or - for standard input.",
)  # fmt: skip
@click.option(
    "--all", "takes_all", is_flag=True,
    help="Also send workflows, notebooks and other kinds that only the platform has.",
)  # fmt: skip
@deed_output
@target_options
def command(files: tuple[str, ...], takes_all: bool, output: str, target: Target) -> None:
    """Create the objects in files, or change them to what the files say.

    Errors in jobs are reported before anything is changed.
    """
    results = accepted(read_sources(files), takes_all=takes_all, remedy="--all sends it")
    if not results:
        say("nothing to apply", err=True)
        return
    objects = [as_written(result) for result in results]

    async def talk(sender: Sender, namespace: str) -> None:
        for value in objects:
            resource = await resource_for(sender, str(value["apiVersion"]), str(value["kind"]))
            metadata = dict(value.get("metadata") or {})
            where = str(metadata.get("namespace") or namespace) if resource.namespaced else ""
            body = {**value, "apiVersion": resource.api_version, "metadata": metadata}
            name = str(metadata.get("name", ""))
            before = await sender.send(get(resource, where, name)) if name else None
            after = await apply(sender, resource, body, where)
            done = what_happened(before, after)
            tell(output, Deed(resource.kind, where, name, done, {"action": done}))
        if any(is_job(value) for value in objects):
            _tell_folder(target)

    try:
        ask(target, talk)
    except (SubmissionError, UnknownKindError) as problem:
        raise click.ClickException(str(problem)) from problem


def _tell_folder(target: Target) -> None:
    """Where programs of jobs will find files: not where `apply` was called, on one machine."""
    folder = None if target.names_cluster else alive(home_of(os.environ))
    presence = folder.presence if folder is not None else None
    if presence is not None and presence.started_in != os.getcwd():
        say(f"jobs run in {presence.started_in}, where the engine was started", err=True)


def what_happened(before: Answer | None, after: Answer) -> str:
    """Told by what a file may say of the object, not by its version."""
    if before is None or not before.is_ok:
        return "created"
    return "unchanged" if _written(before) == _written(after) else "changed"


def _written(answer: Answer) -> dict[str, Any]:
    """What a file may say of an object. A controller may write its status between two looks."""
    found: dict[str, Any] = decoded_json(answer.body)
    metadata = {
        name: value
        for name, value in found["metadata"].items()
        if name not in ("resourceVersion", "managedFields")
    }
    return {**found, "metadata": metadata, "status": None}
