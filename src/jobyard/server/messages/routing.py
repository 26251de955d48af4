"""From the path of a call to the resource and the verb that are meant.

Decides only where a call goes; the refusals are those of a real server, a plain text where it
knows no such place and a Status where it knows the place but not the resource.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final
from urllib.parse import unquote

import msgspec

from jobyard.server.call import Call
from jobyard.server.messages.conversion import real_group
from jobyard.server.problem import (
    Details,
    ProblemError,
    bad_request,
    method_not_allowed,
    not_found,
    qualified,
)
from jobyard.server.resource import ServedResource
from jobyard.server.store.catalogue import ServedCatalogue


class Verb(StrEnum):
    """What can be done with a resource."""

    GET = "get"
    LIST = "list"
    WATCH = "watch"
    CREATE = "create"
    UPDATE = "update"
    PATCH = "patch"
    DELETE = "delete"
    DELETE_COLLECTION = "deletecollection"


_ON_ONE: Final = {
    "GET": Verb.GET,
    "HEAD": Verb.GET,
    "PUT": Verb.UPDATE,
    "PATCH": Verb.PATCH,
    "DELETE": Verb.DELETE,
}
_ON_MANY: Final = {
    "GET": Verb.LIST,
    "POST": Verb.CREATE,
    "DELETE": Verb.DELETE_COLLECTION,
}
_NAMESPACES: Final = "namespaces"
_OF_NAMESPACES: Final = ("status", "finalize")
_PROXY: Final = "proxy"


class NoSuchPathError(Exception):
    """A path that the server knows nothing about; answered in plain text."""


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """Where a call goes. Without a namespace: all of them, or a resource that has none."""

    resource: ServedResource
    verb: Verb
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    # What follows a subresource, such as the path that a proxy asks for.
    rest: str = ""
    # Of a watch: whether the object it names has to be there.
    must_exist: bool = False

    @property
    def key(self) -> str:
        return key_of(self.namespace, self.name)

    @property
    def prefix(self) -> str:
        return f"{self.namespace}/" if self.namespace else ""


def key_of(namespace: str, name: str) -> str:
    """An object's key on its shelf; keys sort as lists do."""
    return f"{namespace}/{name}" if namespace else name


def unknown_resource() -> ProblemError:
    text = "the server could not find the requested resource"
    return ProblemError(404, "NotFound", text, Details())


def routed(call: Call, catalogue: ServedCatalogue) -> Route:
    named, version, steps = _split(call.path)
    group = real_group(named)
    is_watch = bool(steps) and steps[0] == "watch"
    if is_watch:
        steps = steps[1:]
    namespace, plural, name, subresource, rest = _placed(steps)
    resource = catalogue.find(group, version, plural)
    if resource is None:
        if not catalogue.is_builtin(group):
            raise NoSuchPathError(call.path)
        raise unknown_resource()
    if bool(namespace) != resource.namespaced and (namespace or name):
        raise NoSuchPathError(call.path) if resource.is_custom else unknown_resource()
    if rest and subresource != _PROXY:
        raise unknown_resource()
    if resource.is_custom and call.method == "POST" and not subresource:
        # The server of custom resources doesn't look at the name.
        name = ""
    verb = _verb(call, resource, name, subresource)
    # TaskSet's own documentation watches one by its path; a real server answers with the object.
    is_documented = group != named and verb is Verb.GET and not subresource and call.flag("watch")
    if is_watch or is_documented or (verb is Verb.LIST and call.flag("watch")):
        verb = Verb.WATCH
    is_homeless = resource.namespaced and not namespace and not name
    if is_homeless and verb in (Verb.CREATE, Verb.DELETE_COLLECTION):
        raise NoSuchPathError(call.path) if resource.is_custom else method_not_allowed()
    return Route(
        resource=resource,
        verb=verb,
        namespace=namespace,
        name=name,
        subresource=subresource,
        rest=rest,
        must_exist=is_documented,
    )


def _split(path: str) -> tuple[str, str, list[str]]:
    steps = unquote(path).strip("/").split("/")
    if steps[0] == "api" and len(steps) > 2:
        return "", steps[1], steps[2:]
    if steps[0] == "api":
        raise unknown_resource()
    if steps[0] == "apis" and len(steps) > 3:
        return steps[1], steps[2], steps[3:]
    raise NoSuchPathError(path)


def _placed(steps: list[str]) -> tuple[str, str, str, str, str]:
    """Namespace, plural, name, subresource and the rest."""
    namespace = ""
    in_namespace = len(steps) > 2 and steps[0] == _NAMESPACES and steps[2] not in _OF_NAMESPACES
    if in_namespace:
        namespace, steps = steps[1], steps[2:]
    plural, name, subresource, *rest = [*steps, "", "", ""][: max(len(steps), 3)]
    return namespace, plural, name, subresource, "/".join(rest)


def _verb(call: Call, resource: ServedResource, name: str, subresource: str) -> Verb:
    if subresource:
        found = resource.subresource(subresource)
        if found is None:
            if resource.is_custom:
                raise not_found(resource.group, resource.plural, name)
            raise unknown_resource()
        verb = Verb.CREATE if call.method == "POST" else _ON_ONE.get(call.method)
        allowed = found.verbs
    else:
        verb = (_ON_ONE if name else _ON_MANY).get(call.method)
        allowed = resource.verbs
    if verb is None and resource.is_custom and not name and call.method in _ON_ONE:
        raise bad_request("name must be provided")
    if verb is None or verb not in allowed:
        raise _unsupported(resource, verb) if subresource and verb else method_not_allowed()
    return verb


def _unsupported(resource: ServedResource, verb: Verb) -> ProblemError:
    if not resource.is_custom:
        return method_not_allowed()
    kind = qualified(resource.group, resource.plural)
    text = f'{verb} is not supported on resources of kind "{kind}"'
    details = Details(group=resource.group, kind=resource.plural)
    return ProblemError(405, "MethodNotAllowed", text, details)
