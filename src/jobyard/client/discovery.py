"""Where objects of any kind are found, asked of the server itself.

For the commands that take a user's files: they may hold kinds that nobody here knows. What
the table in `resources` knows is not asked for.
"""

from __future__ import annotations

from typing import Final

import msgspec

from jobyard.client.errors import GarbledError, RefusedError
from jobyard.client.request import Request
from jobyard.client.resources import Resource, resource_named
from jobyard.client.sender import Sender

NOT_FOUND: Final = 404
# How the version of an embedded engine's server ends.
EMBEDDED: Final = "+jobyard"


class UnknownKindError(LookupError):
    """The server serves no such kind."""


class _Version(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str = ""


class _Row(msgspec.Struct, frozen=True):
    name: str
    kind: str
    namespaced: bool


class _Rows(msgspec.Struct, frozen=True):
    resources: tuple[_Row, ...] = ()


async def resource_for(sender: Sender, api_version: str, kind: str) -> Resource:
    """Where objects of this apiVersion and kind are; UnknownKindError if there are none."""
    try:
        return resource_named(api_version, kind)
    except LookupError:
        pass
    group, _, version = api_version.rpartition("/")
    request = Request(method="GET", path=f"/apis/{group}/{version}" if group else f"/api/{version}")
    answer = await sender.send(request)
    if not answer.is_ok and answer.status != NOT_FOUND:
        raise RefusedError(str(request), answer.problem, answer.retry_after_seconds)
    try:
        rows = msgspec.json.decode(answer.body, type=_Rows).resources if answer.is_ok else ()
    except msgspec.DecodeError as error:
        raise GarbledError(str(request)) from error
    for row in rows:
        if row.kind == kind and "/" not in row.name:
            return Resource(group, version, row.name, kind, row.namespaced)
    raise UnknownKindError(f"{kind} of {api_version}: {await _why(sender, group)}")


async def _why(sender: Sender, group: str) -> str:
    """What can be done about a kind that isn't there: for Kubernetes' own no CRD can be made."""
    if "." in group and not group.endswith(".k8s.io"):
        return "the server has no such kind; a CRD for it has to be there first"
    answer = await sender.send(Request(method="GET", path="/version"))
    try:
        version = msgspec.json.decode(answer.body, type=_Version).git_version
    except msgspec.DecodeError:
        version = ""
    if version.endswith(EMBEDDED):
        return (
            "the embedded engine serves Jobyard's kinds, users' CRDs and of Kubernetes' own kinds"
            " only pods and what pods need; this one needs a cluster (docs/embedded-server.md)"
        )
    return "the server has no such kind; it is Kubernetes' own, and this Kubernetes has none of it"
