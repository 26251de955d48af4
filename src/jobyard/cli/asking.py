"""A command's conversation with an API server, and finding the job that a name means."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, NoReturn, TypeVar

import click
import msgspec

from jobyard.api.kinds import Kind
from jobyard.cli.arguments.kind_names import kind_or_error
from jobyard.cli.arguments.selecting import JOBS, check_name, check_pair, named_resources
from jobyard.cli.arguments.target import Target
from jobyard.cli.output.saying import say
from jobyard.client.deep_json import decoded_json
from jobyard.client.errors import ClientError
from jobyard.client.request import PODS, Answer, Request, Resource, get, listing, resource_of
from jobyard.client.sender import Sender
from jobyard.jobs.one_object import Reference
from jobyard.jobs.pods import JobPod, PodList
from jobyard.plan.lowering.names import pod_selector
from jobyard.plan.lowering.table import JOB_KINDS
from jobyard.schema.finding import enumerated
from jobyard.schema.wording import suggestion

T = TypeVar("T")
DECLINED: Final = 1


class Found(msgspec.Struct, frozen=True):
    """A job that is there."""

    kind: Kind
    resource: Resource
    namespace: str
    name: str
    value: dict[str, Any]

    @property
    def uid(self) -> str:
        return str(self.value["metadata"]["uid"])

    @property
    def reference(self) -> Reference:
        return Reference(self.resource, self.namespace, self.name, self.uid)

    def __str__(self) -> str:
        return f"{self.kind.name}/{self.name}"


def ask(target: Target, talk: Callable[[Sender, str], Awaitable[T]]) -> T:
    """Connects and runs `talk` with the connection and the namespace that is meant."""
    cluster = target.cluster()
    namespace = target.namespace_of(cluster)

    async def connected() -> T:
        # Imported here: an HTTP client is slow to import, and a wrong name needs none.
        from jobyard.client.transport import Transport

        async with Transport(cluster) as transport:
            return await talk(transport, namespace)

    try:
        return asyncio.run(connected())
    except ClientError as problem:
        raise click.ClickException(str(problem)) from problem


async def send(sender: Sender, request: Request) -> Answer:
    """Sends a request; what the server refuses is told in its own words."""
    answer = await sender.send(request)
    if not answer.is_ok:
        raise click.ClickException(answer.problem.message)
    return answer


def declined(text: str) -> NoReturn:
    """Ends the command with 1: what was asked for is no mistake, but can't be had any more."""
    say(f"Error: {text}", err=True)
    raise click.exceptions.Exit(DECLINED)


async def found(sender: Sender, namespace: str, name: str) -> Found:
    """The job that KIND/NAME, or NAME where only one kind has it, means."""
    match = await looked_for(sender, namespace, name)
    if match is not None:
        return match
    there = await _names(sender, namespace)
    close = suggestion(name.rpartition("/")[2], there)
    raise click.ClickException(
        f"{name}: there is no such job in namespace {namespace}{close};"
        " `jobyard get jobs -A` lists them all"
    )


async def looked_for(sender: Sender, namespace: str, name: str) -> Found | None:
    """The same, or None if there is no such job."""
    kind_text, own_name = _parts(name)
    kinds = _job_kinds(kind_text, own_name) if kind_text else JOB_KINDS
    matches: list[Found] = []
    for kind in kinds:
        resource = resource_of(kind)
        answer = await sender.send(get(resource, namespace, own_name))
        if answer.is_ok:
            value = decoded_json(answer.body)
            matches.append(Found(kind, resource, namespace, own_name, value))
        elif answer.status != 404:
            raise click.ClickException(answer.problem.message)
    if len(matches) > 1:
        choices = ", ".join(str(match) for match in matches)
        raise click.ClickException(f"{name} is ambiguous: say which of {choices}")
    return matches[0] if matches else None


def _parts(text: str) -> tuple[str, str]:
    """The kind, empty if none is said, and the name."""
    kind, slash, name = text.partition("/")
    if slash:
        check_pair(kind, name)
        return kind, name
    check_name(text)
    return "", text


def _job_kinds(text: str, name: str) -> tuple[Kind, ...]:
    """The kinds that a word means, if their objects are jobs."""
    if text.lower() in JOBS:
        return JOB_KINDS
    resources = named_resources(text)
    jobs = [kind.name for kind in JOB_KINDS]
    if resources and resources[0].kind not in jobs:
        raise click.UsageError(
            f"{text}/{name}: {resources[0].kind} is no kind of job; those are"
            f" {enumerated(jobs, 'and')}"
        )
    return (kind_or_error(text),)


async def pods_of(sender: Sender, job: Found) -> list[JobPod]:
    """The pods of a job that are there; not those that an earlier one of its name has left."""
    selector = pod_selector(job.kind.name, job.name)
    answer = await send(sender, listing(PODS, job.namespace, label_selector=selector))
    pods = decoded_json(answer.body, type=PodList).items
    return [pod for pod in pods if pod.is_of(job.uid)]


class _Meta(msgspec.Struct, frozen=True):
    name: str


class _Item(msgspec.Struct, frozen=True):
    metadata: _Meta


class _Items(msgspec.Struct, frozen=True):
    items: tuple[_Item, ...] = ()


async def _names(sender: Sender, namespace: str) -> list[str]:
    names: list[str] = []
    for kind in JOB_KINDS:
        answer = await sender.send(listing(resource_of(kind), namespace, limit=500))
        if answer.is_ok:
            items = decoded_json(answer.body, type=_Items).items
            names += [item.metadata.name for item in items]
    return names
