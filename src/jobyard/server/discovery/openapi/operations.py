"""What can be done with a resource, as paths and operations of OpenAPI.

kubectl looks here whether the server takes `fieldValidation` and strategic merge patches, and
`explain` finds the kind of a resource. Neutral until the end, then told in v2's or v3's words.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from jobyard.server.discovery.openapi.dialect import Dialect
from jobyard.server.discovery.openapi.schemas import DELETE_OPTIONS, PATCH, SCALE, STATUS, Schemas
from jobyard.server.resource import JSONSchema, ServedResource, Subresource

_WRITING: Final = ("dryRun", "fieldManager", "fieldValidation")
_DELETING: Final = ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy")
_LISTING: Final = (
    *("allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit"),
    *("resourceVersion", "resourceVersionMatch", "sendInitialEvents", "timeoutSeconds", "watch"),
)
_TYPES: Final = {
    "allowWatchBookmarks": "boolean",
    "force": "boolean",
    "gracePeriodSeconds": "integer",
    "limit": "integer",
    "orphanDependents": "boolean",
    "sendInitialEvents": "boolean",
    "timeoutSeconds": "integer",
    "watch": "boolean",
}
_PATCHES: Final = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
)
_STRATEGIC: Final = "application/strategic-merge-patch+json"
_BODIES: Final = ("application/json", "application/yaml")


class Action(msgspec.Struct, frozen=True):
    """What a verb is in HTTP: its method, its name in OpenAPI, how ids begin, its parameters."""

    method: str
    name: str
    id_prefix: str
    parameters: tuple[str, ...] = ()
    codes: tuple[int, ...] = (200,)


_LIST: Final = Action("get", "list", "list", _LISTING)
_DELETE_ALL: Final = Action("delete", "deletecollection", "deleteCollection", _LISTING + _DELETING)
_ACTIONS: Final = {
    "get": Action("get", "get", "read"),
    "update": Action("put", "put", "replace", _WRITING, (200, 201)),
    "delete": Action("delete", "delete", "delete", _DELETING, (200, 202)),
    "patch": Action("patch", "patch", "patch", (*_WRITING, "force"), (200, 201)),
    "create": Action("post", "post", "create", _WRITING, (200, 201, 202)),
}
_MEANINGS: Final = {200: "OK", 201: "Created", 202: "Accepted"}


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One method at one path."""

    action: Action
    id: str
    kind: dict[str, str]
    result: JSONSchema
    body: JSONSchema | None = None
    body_types: tuple[str, ...] = _BODIES
    tag: str


def paths_of(row: ServedResource, schemas: Schemas, dialect: Dialect) -> dict[str, JSONSchema]:
    """All paths of a row with their operations; fills `schemas` with what they refer to."""
    place = _Place(row, schemas)
    return {
        path: {
            **{operation.action.method: _told(operation, dialect) for operation in operations},
            "parameters": [
                _parameter(word[1:-1], "path", dialect)
                for word in path.split("/")
                if word.startswith("{")
            ],
        }
        for path, operations in place.paths()
        if operations
    }


class _Place:
    """A row and where it is served; makes its operations."""

    def __init__(self, row: ServedResource, schemas: Schemas) -> None:
        self._row = row
        self._schemas = schemas
        self._root = f"/apis/{row.api_version}" if row.group else f"/api/{row.version}"
        group = "".join(w.capitalize() for w in _group_words(row.group))
        self._id_middle = f"{group}{row.version.capitalize()}"
        self._scope = "Namespaced" if row.namespaced else ""

    def paths(self) -> Iterator[tuple[str, list[Operation]]]:
        row = self._row
        home = f"{self._root}/namespaces/{{namespace}}" if row.namespaced else self._root
        if row.namespaced and "list" in row.verbs:
            ending = f"{row.kind}ForAllNamespaces"
            yield f"{self._root}/{row.plural}", [self._collection(_LIST, ending)]
        collection = []
        if "list" in row.verbs:
            collection.append(self._collection(_LIST, f"{self._scope}{row.kind}"))
        if "create" in row.verbs:
            collection.append(self._single("create", None))
        if "deletecollection" in row.verbs:
            collection.append(self._collection(_DELETE_ALL, f"{self._scope}{row.kind}"))
        yield f"{home}/{row.plural}", collection
        verbs = ("get", "update", "delete", "patch")
        one = f"{home}/{row.plural}/{{name}}"
        yield one, [self._single(verb, None) for verb in verbs if verb in row.verbs]
        for sub in row.subresources:
            known = [verb for verb in _ACTIONS if verb in sub.verbs]
            yield f"{one}/{sub.name}", [self._single(verb, sub) for verb in known]

    def _collection(self, action: Action, ending: str) -> Operation:
        is_list = action is _LIST
        reference = self._schemas.reference
        return Operation(
            action=action,
            id=f"{action.id_prefix}{self._id_middle}{ending}",
            kind=_kind(self._row, None),
            result=self._schemas.list_kind(self._row) if is_list else reference(STATUS),
            body=None if is_list else reference(DELETE_OPTIONS),
            tag=self._tag,
        )

    def _single(self, verb: str, sub: Subresource | None) -> Operation:
        action = _ACTIONS[verb]
        schema = self._schema(sub)
        strategic = () if self._row.is_custom else (_STRATEGIC,)
        body: JSONSchema | None = None
        match verb:
            case "patch":
                body = self._schemas.reference(PATCH)
            case "delete":
                body = self._schemas.reference(DELETE_OPTIONS)
            case "create" | "update":
                body = schema
        ending = f"{self._scope}{self._row.kind}{sub.name.capitalize() if sub else ''}"
        return Operation(
            action=action,
            id=f"{action.id_prefix}{self._id_middle}{ending}",
            kind=_kind(self._row, sub),
            result=self._schemas.reference(STATUS) if verb == "delete" else schema,
            body=body,
            body_types=_PATCHES + strategic if verb == "patch" else _BODIES,
            tag=self._tag,
        )

    def _schema(self, sub: Subresource | None) -> JSONSchema:
        if sub is None or sub.kind in ("", self._row.kind):
            return self._schemas.kind(self._row)
        group = (sub.group if sub.version else self._row.group).split(".")[0] or "core"
        name = f"io.k8s.api.{group}.{sub.version or self._row.version}.{sub.kind}"
        name = SCALE if sub.name == "scale" else name
        return self._schemas.reference(name) if self._schemas.has(name) else {"type": "string"}

    @property
    def _tag(self) -> str:
        first, *others = _group_words(self._row.group)
        return f"{first}{''.join(w.capitalize() for w in others)}_{self._row.version}"


def _group_words(group: str) -> list[str]:
    return group.removesuffix(".k8s.io").split(".") if group else ["core"]


def _kind(row: ServedResource, sub: Subresource | None) -> dict[str, str]:
    """A custom resource's subresources go by its own kind, also where they speak another."""
    if sub is None or row.is_custom or not sub.kind:
        return {"group": row.group, "kind": row.kind, "version": row.version}
    group, version = (sub.group, sub.version) if sub.version else (row.group, row.version)
    return {"group": group, "kind": sub.kind, "version": version}


def _parameter(name: str, where: str, dialect: Dialect) -> JSONSchema:
    type_ = {"type": _TYPES.get(name, "string"), "uniqueItems": True}
    told = type_ if dialect is Dialect.V2 else {"schema": type_}
    return {"name": name, "in": where, **({"required": True} if where == "path" else {}), **told}


def _told(operation: Operation, dialect: Dialect) -> JSONSchema:
    action = operation.action
    told: dict[str, Any] = {
        "tags": [operation.tag],
        "operationId": operation.id,
        "parameters": [_parameter(name, "query", dialect) for name in action.parameters],
    }
    if dialect is Dialect.V2:
        told |= {"consumes": list(operation.body_types), "produces": list(_BODIES)}
        answer: JSONSchema = {"schema": operation.result}
        if operation.body is not None:
            body = {"name": "body", "in": "body", "schema": operation.body}
            told["parameters"].insert(0, body)
    else:
        answer = {"content": {type_: {"schema": operation.result} for type_ in _BODIES}}
        if operation.body is not None:
            content = {type_: {"schema": operation.body} for type_ in operation.body_types}
            told["requestBody"] = {"content": content, "required": action.name != "delete"}
    told["responses"] = {
        str(code): {"description": _MEANINGS[code], **answer} for code in action.codes
    } | {"401": {"description": "Unauthorized"}}
    told["x-kubernetes-action"] = action.name
    told["x-kubernetes-group-version-kind"] = operation.kind
    return told
