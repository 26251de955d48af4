"""Compares what a strategy makes of an object with what a real API server does.

Knows what can't be compared (names, versions and times that a server makes up) and nothing of
any kind.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from conformance.normal import reworded
from rig.kube.api import Answer, ApiCaller

from jobyard.server.problem import ProblemError, invalid
from jobyard.server.resource import Admitted, Part, ServedResource

Object = dict[str, Any]

NAMESPACE = "default"
# What the server makes up; the last two are the store's to keep.
_MADE_UP = ("uid", "creationTimestamp", "resourceVersion", "namespace")
_STORED = ("generation", "managedFields")
_UNKNOWN = 'unknown field "'


def place(row: ServedResource) -> str:
    root = f"/apis/{row.group}/{row.version}" if row.group else f"/api/{row.version}"
    return (
        f"{root}/namespaces/{NAMESPACE}/{row.plural}" if row.namespaced else f"{root}/{row.plural}"
    )


def told(row: ServedResource, name: str, admit: Any) -> Object:
    """An object or a Status, as the server would answer with what a strategy says."""
    try:
        admitted: Admitted = admit()
    except ProblemError as problem:
        return problem.status
    if admitted.causes:
        return invalid(row.group, row.kind, name, admitted.causes).status
    return admitted.value


def created(row: ServedResource, obj: Object) -> tuple[Object, set[str]]:
    """What our server answers to a creation, and the fields it doesn't know."""
    given = copy.deepcopy(obj)
    if row.namespaced and isinstance(given.get("metadata"), dict):
        given["metadata"]["namespace"] = NAMESPACE
    before = copy.deepcopy(given)
    unknown: set[str] = set()

    def admit() -> Admitted:
        admitted = row.strategy.created(given)
        unknown.update(admitted.unknown)
        return admitted

    metadata = given.get("metadata")
    name = metadata.get("name", "") if isinstance(metadata, dict) else ""
    answer = told(row, name, admit)
    assert given == before, "a strategy changed what it was given"
    return answer, unknown


async def creation_differences(
    api: ApiCaller, row: ServedResource, obj: Object, *, ignored: tuple[str, ...] = ()
) -> list[str]:
    query = {"dryRun": "All", "fieldValidation": "Warn"}
    answer = await api.request("POST", place(row), body=obj, query=query)
    ours, unknown = created(row, obj)
    found = list(answer_differences(ours, answer, ignored))
    if answer.status < 300:
        theirs = {text[len(_UNKNOWN) : -1] for text in answer.warnings if text.startswith(_UNKNOWN)}
        if theirs != unknown:
            found.append(f"unknown fields: ours {sorted(unknown)}, real {sorted(theirs)}")
    return found


async def change_differences(
    api: ApiCaller, row: ServedResource, stored: Object, changed: Object, part: Part
) -> list[str]:
    """For an object that is on the real server as `stored`."""
    name = stored["metadata"]["name"]
    door = f"/{part}" if part else ""
    answer = await api.request(
        "PUT", f"{place(row)}/{name}{door}", body=changed, query={"dryRun": "All"}
    )
    assert answer.status != 409, answer.text
    ours = told(row, name, lambda: row.strategy.updated(changed, stored, part))
    return list(answer_differences(ours, answer, ()))


def answer_differences(ours: Object, answer: Answer, ignored: tuple[str, ...]) -> Iterator[str]:
    real = answer.body
    is_refused = ours.get("kind") == "Status"
    if is_refused != (answer.status >= 300):
        verdict = ours["message"] if is_refused else "takes it"
        yield f"ours: {verdict}; real: {answer.status} {real.get('message', 'takes it')}"
    elif is_refused:
        for field in ("code", "reason"):
            if ours.get(field) != real.get(field):
                yield f"{field}: ours {ours.get(field)}, real {real.get(field)}: {real['message']}"
        mine, theirs = causes(ours), causes(real)
        yield from (f"only ours: {cause}" for cause in mine if cause not in theirs)
        yield from (f"only real: {cause}" for cause in theirs if cause not in mine)
        if not theirs and reworded(ours["message"]) != reworded(real["message"]):
            yield f"message: ours {ours['message']}, real {real['message']}"
    else:
        for line in differences(comparable(ours), comparable(real)):
            if not line.startswith(ignored or ("\0",)):
                yield line


def causes(status: Object) -> list[tuple[str, str, str]]:
    details = status.get("details") or {}
    return [
        # After a line break there is a diff in Go's spelling.
        (cause["reason"], cause.get("field", ""), cause["message"].partition("\n")[0])
        for cause in details.get("causes", ())
    ]


def comparable(obj: Object) -> Object:
    metadata = {
        name: value for name, value in obj["metadata"].items() if name not in (*_MADE_UP, *_STORED)
    }
    return {**obj, "metadata": metadata}


def differences(ours: Any, real: Any, path: str = "") -> Iterator[str]:
    """Where two values differ, field by field."""
    if isinstance(ours, dict) and isinstance(real, dict):
        for name in sorted({*ours, *real}):
            where = f"{path}.{name}".removeprefix(".")
            if name not in ours or name not in real:
                owner, value = ("ours", ours) if name in ours else ("real", real)
                yield f"{where}: only {owner} has {json.dumps(value[name])[:200]}"
            else:
                yield from differences(ours[name], real[name], where)
    elif isinstance(ours, list) and isinstance(real, list) and len(ours) == len(real):
        for n, (mine, theirs) in enumerate(zip(ours, real, strict=True)):
            yield from differences(mine, theirs, f"{path}[{n}]")
    elif ours != real or type(ours) is not type(real):
        yield f"{path}: ours {json.dumps(ours)[:200]}, real {json.dumps(real)[:200]}"
