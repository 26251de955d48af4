"""Requests to an API server as values, computed with no I/O, and the answers to them.

Every call of Jobyard is built by one of the functions here and sent by `transport`; tests
and simulations compare or replay the values. Decides method, path, query and body. Refuses
to know about connections, credentials, retries, and what is inside the objects it carries.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

import msgspec

from jobyard.client.resources import (
    CONFIG_MAPS,
    EVENTS,
    LEASES,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
    Resource,
    resource_named,
    resource_of,
)

__all__ = [
    "CONFIG_MAPS",
    "EVENTS",
    "LEASES",
    "NODES",
    "PODS",
    "SECRETS",
    "SERVICES",
    "Answer",
    "Cause",
    "Problem",
    "Propagation",
    "Request",
    "Resource",
    "create",
    "delete",
    "get",
    "json_patch",
    "listing",
    "merge_patch",
    "replace",
    "resource_named",
    "resource_of",
    "watching",
]

JSON_TYPE: Final = "application/json"
MERGE_PATCH_TYPE: Final = "application/merge-patch+json"
JSON_PATCH_TYPE: Final = "application/json-patch+json"
# What is quoted of an answer that isn't a Status, such as a proxy's page.
EXCERPT_LENGTH_MAX: Final = 200

Query = tuple[tuple[str, str], ...]
_encoder: Final = msgspec.json.Encoder()


class Propagation(StrEnum):
    """What happens to the dependents of an object that is deleted."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One call, ready to be sent; `path` is percent-encoded already."""

    method: str
    path: str
    query: Query = ()
    body: bytes | None = None
    content_type: str = JSON_TYPE
    accept: str = JSON_TYPE
    # A longer answer is given up: TooLargeError. None takes whatever comes.
    answer_bytes_max: int | None = None

    @property
    def verb(self) -> str:
        """Kubernetes' word for what is asked, a bounded label for metrics."""
        match self.method:
            case "POST":
                return "create"
            case "PUT":
                return "update"
            case "GET":
                if ("watch", "1") in self.query:
                    return "watch"
                return "list" if self._is_of_many else "get"
            case other:
                return other.lower()

    @property
    def _is_of_many(self) -> bool:
        # What follows /api/v1 or /apis/group/version: `pods` or `namespaces/x/pods`.
        parts = self.path.split("/")
        below = parts[3 if parts[1] == "api" else 4 :]
        return len(below) == 1 or (len(below) == 3 and below[0] == "namespaces")

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def create(resource: Resource, namespace: str, obj: Any, *, dry_run: bool = False) -> Request:
    """Make a new object; with `dry_run` the server only says what it would do."""
    return Request(
        method="POST",
        path=resource.collection(namespace),
        query=(("dryRun", "All"),) if dry_run else (),
        body=_encoder.encode(obj),
    )


def get(resource: Resource, namespace: str, name: str) -> Request:
    """Read one object."""
    return Request(method="GET", path=resource.item(namespace, name))


def replace(resource: Resource, namespace: str, name: str, obj: Any) -> Request:
    """Write a whole object; a resourceVersion in it makes the server refuse a stale one."""
    return Request(method="PUT", path=resource.item(namespace, name), body=_encoder.encode(obj))


def merge_patch(
    resource: Resource, namespace: str, name: str, patch: Any, *, subresource: str = ""
) -> Request:
    """Change some fields; a resourceVersion in the patch makes the server refuse a stale one."""
    return _patch(resource.item(namespace, name, subresource), patch, MERGE_PATCH_TYPE)


def json_patch(
    resource: Resource, namespace: str, name: str, steps: Any, *, subresource: str = ""
) -> Request:
    """Change what the steps name; unlike a merge patch it can write nulls."""
    return _patch(resource.item(namespace, name, subresource), steps, JSON_PATCH_TYPE)


def _patch(path: str, body: Any, content_type: str) -> Request:
    return Request(method="PATCH", path=path, body=_encoder.encode(body), content_type=content_type)


def delete(
    resource: Resource,
    namespace: str,
    name: str,
    *,
    uid: str | None = None,
    grace_seconds: int | None = None,
    propagation: Propagation | None = None,
) -> Request:
    """Delete one object; with `uid` only that very one, not a later one of the same name."""
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if uid is not None:
        options["preconditions"] = {"uid": uid}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    if propagation is not None:
        options["propagationPolicy"] = propagation
    return Request(
        method="DELETE", path=resource.item(namespace, name), body=_encoder.encode(options)
    )


def listing(
    resource: Resource,
    namespace: str = "",
    *,
    label_selector: str = "",
    field_selector: str = "",
    limit: int = 0,
    continue_token: str = "",
    resource_version: str | None = None,
) -> Request:
    """Read the objects of one namespace or of all, or one page of them."""
    query = [*_selectors(label_selector, field_selector)]
    if limit:
        query.append(("limit", str(limit)))
    if continue_token:
        query.append(("continue", continue_token))
    # The server refuses the two together: a token already stands for a version.
    elif resource_version is not None:
        query.append(("resourceVersion", resource_version))
    return Request(method="GET", path=resource.collection(namespace), query=tuple(query))


def watching(
    resource: Resource,
    namespace: str = "",
    *,
    label_selector: str = "",
    field_selector: str = "",
    resource_version: str,
    timeout_seconds: int,
) -> Request:
    """Be told what changes after `resource_version`, and now and then how far it has come."""
    return Request(
        method="GET",
        path=resource.collection(namespace),
        query=(
            *_selectors(label_selector, field_selector),
            ("watch", "1"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", resource_version),
            ("timeoutSeconds", str(timeout_seconds)),
        ),
    )


def _selectors(label_selector: str, field_selector: str) -> Query:
    pairs = (("labelSelector", label_selector), ("fieldSelector", field_selector))
    return tuple(pair for pair in pairs if pair[1])


class Cause(msgspec.Struct, frozen=True):
    """One of several faults that made the server refuse an object."""

    reason: str = ""
    message: str = ""
    field: str = ""


class Problem(msgspec.Struct, frozen=True):
    """What the server found wrong, in its own words; `reason` is the one to compare."""

    code: int
    reason: str
    message: str
    causes: tuple[Cause, ...] = ()

    def __str__(self) -> str:
        return f"{self.code} {self.reason}: {self.message}"


class _Details(msgspec.Struct, frozen=True):
    causes: tuple[Cause, ...] | None = None


class _Status(msgspec.Struct, frozen=True):
    kind: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    details: _Details | None = None


_status_decoder: Final = msgspec.json.Decoder(_Status)


def problem_of(code: int, body: bytes) -> Problem:
    """Read a Status object; of anything else, such as a proxy's page, the beginning is quoted."""
    try:
        status = _status_decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        status = _Status()
    if status.kind != "Status":
        text = " ".join(body[: EXCERPT_LENGTH_MAX * 4].decode(errors="replace").split())
        return Problem(code, "", text[:EXCERPT_LENGTH_MAX] or "the answer has no text")
    causes = status.details.causes if status.details is not None else None
    return Problem(status.code or code, status.reason, status.message, causes or ())


class Answer(msgspec.Struct, frozen=True):
    """What the server said to one request, an error included."""

    status: int
    body: bytes
    retry_after_seconds: float | None = None

    @property
    def is_ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def problem(self) -> Problem:
        """What went wrong; asked only of an answer that is not ok."""
        assert not self.is_ok, f"an answer with status {self.status} has no problem"
        return problem_of(self.status, self.body)
