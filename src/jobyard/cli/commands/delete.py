"""`jobyard delete`: objects, and with them what they own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import click
import msgspec

from jobyard.cli.arguments.durations import Duration
from jobyard.cli.arguments.file_names import FileName
from jobyard.cli.arguments.options import deed_output
from jobyard.cli.arguments.selecting import are_names, chosen
from jobyard.cli.arguments.sources import Unreadable, expect_names, read_sources
from jobyard.cli.arguments.target import Target, target_options
from jobyard.cli.asking import Found, ask, found, looked_for
from jobyard.cli.output.deeds import Deed, tell
from jobyard.cli.output.left_out import skipped
from jobyard.cli.output.saying import say, say_aside
from jobyard.client.deep_json import decoded_json
from jobyard.client.discovery import UnknownKindError, resource_for
from jobyard.client.errors import ClientError
from jobyard.client.request import PODS, Propagation, Resource, delete, listing
from jobyard.client.sender import Sender
from jobyard.jobs.one_object import Reference, until_gone
from jobyard.jobs.troubles import Troubles
from jobyard.manifest.checking import checked
from jobyard.manifest.reading import Document
from jobyard.plan.lowering.names import pod_selector

# Who waits longer than this is told for what.
PATIENCE_SECONDS: Final = 2.0
_NAMED_MAX: Final = 4


@click.command("delete")
@click.argument("what", nargs=-1, metavar="[KIND NAME... | KIND/NAME... | JOB...]")
@click.option(
    "-f", "--filename", multiple=True, type=FileName(), metavar="FILE",
    help="The objects in these files.",
)  # fmt: skip
@click.option(
    "--cascade",
    type=click.Choice(["background", "foreground", "orphan"]),
    default="foreground",
    show_default=True,
    help="What happens to what they own.",
)
@click.option("--grace-period", type=click.IntRange(min=0), help="Seconds a pod has to terminate.")
@click.option("--wait/--no-wait", default=True, help="Wait until they are gone.")
@click.option("--timeout", type=Duration(), default="60s", show_default=True, metavar="1m")
@deed_output
@target_options
def command(what: tuple[str, ...], filename: tuple[str, ...], target: Target, **how: Any) -> None:
    """Delete jobs or other objects; the pods of a job go with it."""
    if not what and not filename:
        raise click.UsageError("name what to delete, or a file with -f")
    documents = read_sources(filename) if filename else []
    found = [checked(document) for document in documents]
    others = [each for each in found if each.is_platforms]
    for note in skipped(others, "`kubectl delete` deletes it"):
        say(note, err=True)
    documents = [each.document for each in found if not each.is_platforms]
    if others and not documents and not what:
        return
    expect_names(documents)
    named = [_named(document) for document in documents]

    async def talk(sender: Sender, namespace: str) -> None:
        deleted: list[Reference] = []
        problems: list[str] = []
        for resource, where, name in await _meant(sender, namespace, what, named):
            request = delete(
                resource,
                where,
                name,
                grace_seconds=how["grace_period"],
                propagation=Propagation(how["cascade"].capitalize()),
            )
            answer = await sender.send(request)
            if not answer.is_ok:
                # One that is gone already is no reason to leave the others.
                problems.append(answer.problem.message)
                continue
            uid = decoded_json(answer.body, type=_Deleted).uid
            deleted.append(Reference(resource, where, name, uid))
            deed = Deed(resource.kind, where, name, "deleted", {"action": "deleted"})
            tell(how["output"], deed)
        if how["wait"]:
            await _gone(sender, deleted, how["timeout"])
        if problems:
            raise click.ClickException("\n".join(problems))

    try:
        ask(target, talk)
    except UnknownKindError as problem:
        raise click.ClickException(str(problem)) from problem


async def _meant(
    sender: Sender, namespace: str, what: tuple[str, ...], named: Sequence[_Named]
) -> list[tuple[Resource, str, str]]:
    objects: list[tuple[Resource, str, str]] = []
    # A single word is the name of a job: `delete pods` alone must not delete all pods.
    if are_names(what) or (len(what) == 1 and "/" not in what[0]):
        jobs = [await _job(sender, namespace, word) for word in what]
        objects += [(job.resource, job.namespace, job.name) for job in jobs]
    elif what:
        for choice in chosen(what):
            where = namespace if choice.resource.namespaced else ""
            objects += [(choice.resource, where, name) for name in choice.names]
    for each in named:
        resource = await resource_for(sender, each.api_version, each.kind)
        where = (each.namespace or namespace) if resource.namespaced else ""
        objects.append((resource, where, each.name))
    return objects


async def _job(sender: Sender, namespace: str, word: str) -> Found:
    if not are_names((word,)) and await looked_for(sender, namespace, word) is None:
        raise click.UsageError(f"{word} is a kind: say which, such as {word}/NAME")
    return await found(sender, namespace, word)


class _Named(msgspec.Struct, frozen=True):
    """What a file names; what else is in it doesn't matter here."""

    api_version: str
    kind: str
    namespace: str
    name: str


def _named(document: Document) -> _Named:
    value = document.value if isinstance(document.value, dict) else {}
    metadata = value["metadata"] if isinstance(value.get("metadata"), dict) else {}
    said = (value.get("apiVersion"), value.get("kind"), metadata.get("name"))
    fields = ("apiVersion", "kind", "metadata.name")
    missing = [field for field, text in zip(fields, said, strict=True) if not text]
    if missing:
        raise Unreadable(
            f"{document.source}:{document.line_of(())}: {' and '.join(missing)} must be there"
            " to tell what to delete"
        )
    api_version, kind, name = map(str, said)
    return _Named(api_version, kind, str(metadata.get("namespace") or ""), name)


class _Meta(msgspec.Struct, frozen=True):
    uid: str = ""


class _Deleted(msgspec.Struct, frozen=True):
    """What a server answers: the object on its way out, or that it is gone and what it was."""

    metadata: _Meta = _Meta()
    details: _Meta = _Meta()

    @property
    def uid(self) -> str:
        return self.metadata.uid or self.details.uid


async def _waited_for(sender: Sender, one: Reference) -> str:
    """What keeps an object that has been deleted, as far as can be told."""
    if one.resource == PODS:
        request = listing(PODS, one.namespace, field_selector=f"metadata.name={one.name}")
    else:
        selector = pod_selector(one.resource.kind, one.name)
        request = listing(PODS, one.namespace, label_selector=selector)
    try:
        answer = await sender.send(request)
    except ClientError:
        # An engine may end with its last job. The watch tells what became of the object.
        return f"{one}: waiting until it is gone"
    pods = decoded_json(answer.body, type=_Going).items if answer.is_ok else ()
    going = [pod.metadata for pod in pods if pod.metadata.deletion_grace_period_seconds is not None]
    if not going:
        return f"{one}: waiting until it is gone"
    seconds = max(pod.deletion_grace_period_seconds or 0 for pod in going)
    names = ", ".join(pod.name for pod in going[:_NAMED_MAX])
    more = f" and {len(going) - _NAMED_MAX} more" if len(going) > _NAMED_MAX else ""
    return (
        f"{one}: waiting for {names}{more}: told to end, with {seconds} s to do so"
        " (--grace-period gives less)"
    )


class _GoingMeta(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    deletion_grace_period_seconds: int | None = None


class _GoingPod(msgspec.Struct, frozen=True):
    metadata: _GoingMeta


class _Going(msgspec.Struct, frozen=True):
    """Pods, and how long those have that were told to end."""

    items: tuple[_GoingPod, ...] = ()


async def _gone(sender: Sender, objects: list[Reference], seconds: float) -> None:
    troubles = Troubles(say_aside)
    try:
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            tasks = {
                group.create_task(until_gone(sender, each, troubles)): each for each in objects
            }
            if not tasks:
                return
            _, waiting = await asyncio.wait(tasks, timeout=PATIENCE_SECONDS)
            for task in waiting:
                say(await _waited_for(sender, tasks[task]), err=True)
    except TimeoutError:
        raise click.ClickException(
            f"still there after {seconds:g} s; deletion continues in the background (finalizers,"
            " or a pod"
            " that takes its time)"
        ) from None
