"""The documents of a user's files brought to an API server.

What isn't a job goes first, in the order of the files, so that a job's config maps are there
when its pods ask for them; it is applied, so that a second run is no error. Jobs are created.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from jobyard.api.kinds import kind_of
from jobyard.client.deep_json import decoded_json
from jobyard.client.discovery import resource_for
from jobyard.client.errors import ClientError
from jobyard.client.request import Answer, Propagation, Request, Resource, create, delete, get
from jobyard.client.resources import NAMESPACES
from jobyard.client.sender import Sender
from jobyard.jobs.one_object import Reference
from jobyard.plan.lowering.table import JOB_KINDS

FIELD_MANAGER: Final = "jobyard"
APPLY_TYPE: Final = "application/apply-patch+yaml"
CONFLICT: Final = 409
Object = dict[str, Any]


class SubmissionError(Exception):
    """An object was not taken; the message names it and has the server's words."""


def is_job(obj: Object) -> bool:
    kind = kind_of(str(obj.get("apiVersion")), str(obj.get("kind")))
    return kind is not None and kind in JOB_KINDS


def title_of(obj: Object) -> str:
    metadata = obj.get("metadata") or {}
    return f"{obj.get('kind')}/{metadata.get('name') or metadata.get('generateName', '')}"


async def submit(
    sender: Sender, objects: Sequence[Object], namespace: str, *, makes_namespaces: bool
) -> list[Reference]:
    """Applies what isn't a job, then creates the jobs: all, or none if one isn't taken."""
    placed = [await _placed(sender, obj, namespace) for obj in objects]
    jobs = [each for each in placed if is_job(each[1])]
    for resource, obj, where in jobs:
        await _expect_free_name(sender, resource, obj, where)
    if makes_namespaces:
        for wanted in dict.fromkeys(where for _, _, where in placed if where):
            await _ensure_namespace(sender, wanted)
    for resource, obj, where in placed:
        if not is_job(obj):
            await apply(sender, resource, obj, where)
    made: list[Reference] = []
    try:
        for resource, obj, where in jobs:
            made.append(await _create(sender, resource, obj, where))
    except (ClientError, SubmissionError):
        # Nobody follows them: they would run on behind the user's back.
        for job in made:
            await _take_back(sender, job)
        raise
    return made


async def apply(sender: Sender, resource: Resource, obj: Object, namespace: str) -> Answer:
    """Server-side apply; what the file says wins over what others wrote before."""
    name = (obj.get("metadata") or {}).get("name")
    if not name:
        raise SubmissionError(f"{title_of(obj)}: metadata.name is missing")
    request = Request(
        method="PATCH",
        path=resource.item(namespace, name),
        query=(("fieldManager", FIELD_MANAGER), ("force", "true"), ("fieldValidation", "Strict")),
        body=msgspec.json.encode(obj),
        content_type=APPLY_TYPE,
    )
    answer = await sender.send(request)
    if not answer.is_ok:
        raise SubmissionError(f"{title_of(obj)}: {answer.problem.message}")
    return answer


async def _placed(sender: Sender, obj: Object, namespace: str) -> tuple[Resource, Object, str]:
    resource = await resource_for(sender, str(obj.get("apiVersion")), str(obj.get("kind")))
    # A list may be spelled with an alias of its group; the server wants its own.
    body = {**obj, "apiVersion": resource.api_version}
    if not resource.namespaced:
        return resource, body, ""
    metadata = dict(obj.get("metadata") or {})
    where = str(metadata.get("namespace") or namespace)
    return resource, {**body, "metadata": {**metadata, "namespace": where}}, where


async def _ensure_namespace(sender: Sender, name: str) -> None:
    obj = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    answer = await sender.send(create(NAMESPACES, "", obj))
    if not answer.is_ok and answer.status != CONFLICT:
        raise SubmissionError(f"Namespace/{name}: {answer.problem.message}")


class _Meta(msgspec.Struct, frozen=True):
    name: str
    uid: str


class _Named(msgspec.Struct, frozen=True):
    metadata: _Meta


async def _create(sender: Sender, resource: Resource, obj: Object, namespace: str) -> Reference:
    answer = await sender.send(create(resource, namespace, obj))
    if answer.status == CONFLICT:
        raise _taken(obj, namespace)
    if not answer.is_ok:
        raise SubmissionError(f"{title_of(obj)}: {answer.problem.message}")
    made = decoded_json(answer.body, type=_Named).metadata
    return Reference(resource, namespace, made.name, made.uid)


async def _expect_free_name(
    sender: Sender, resource: Resource, obj: Object, namespace: str
) -> None:
    """Before anything is sent; a server that won't say is asked again by the creation itself."""
    name = (obj.get("metadata") or {}).get("name")
    if name and (await sender.send(get(resource, namespace, str(name)))).is_ok:
        raise _taken(obj, namespace)


def _taken(obj: Object, namespace: str) -> SubmissionError:
    return SubmissionError(
        f"{title_of(obj)}: there is one with this name already; give another name, or delete"
        f" it first: jobyard delete {title_of(obj)} -n {namespace}"
    )


async def _take_back(sender: Sender, job: Reference) -> None:
    request = delete(
        job.resource, job.namespace, job.name, uid=job.uid, propagation=Propagation.BACKGROUND
    )
    # What was wrong with another job is what the user is told.
    with suppress(ClientError):
        await sender.send(request)
