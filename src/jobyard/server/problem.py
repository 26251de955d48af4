"""What goes wrong in the server, as one exception that knows its Status object.

Whoever finds a fault raises `ProblemError`, mostly through one of the functions here; the router
turns it into the answer. Reasons, codes and texts are those of a real API server.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec


class Cause(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of several faults of an object, by field."""

    reason: str = ""
    message: str = ""
    field: str = ""


class Details(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Which object is meant, and what is wrong with it."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after_seconds: int = 0


class ProblemError(Exception):
    """An answer other than success; `reason` is what clients compare."""

    # What the client should know besides; whoever catches it on its way may add them.
    warnings: tuple[str, ...] = ()

    def __init__(
        self, code: int, reason: str, message: str, details: Details | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details

    @property
    def status(self) -> dict[str, Any]:
        """The Status object that tells a client about it."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = msgspec.to_builtins(self.details)
        return {**body, "code": self.code}


def qualified(group: str, plural: str) -> str:
    """How messages name a resource: `pods`, `genericjobs.batch.tensorstack.dev`."""
    return f"{plural}.{group}" if group else plural


def not_found(group: str, plural: str, name: str) -> ProblemError:
    text = f'{qualified(group, plural)} "{name}" not found'
    return ProblemError(404, "NotFound", text, Details(name=name, group=group, kind=plural))


def already_exists(group: str, plural: str, name: str) -> ProblemError:
    text = f'{qualified(group, plural)} "{name}" already exists'
    return ProblemError(409, "AlreadyExists", text, Details(name=name, group=group, kind=plural))


def conflict(group: str, plural: str, name: str, why: str) -> ProblemError:
    text = f'Operation cannot be fulfilled on {qualified(group, plural)} "{name}": {why}'
    return ProblemError(409, "Conflict", text, Details(name=name, group=group, kind=plural))


def invalid(group: str, kind: str, name: str, causes: Sequence[Cause]) -> ProblemError:
    """A well-formed object with faults in its fields; messages are `field: what is wrong`."""
    texts = [f"{cause.field}: {cause.message}" for cause in causes]
    told = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    text = f'{qualified(group, kind)} "{name}" is invalid: {told}'
    details = Details(name=name, group=group, kind=kind, causes=tuple(causes))
    return ProblemError(422, "Invalid", text, details)


def bad_request(message: str) -> ProblemError:
    return ProblemError(400, "BadRequest", message)


def forbidden(group: str, plural: str, name: str, why: str) -> ProblemError:
    text = f'{qualified(group, plural)} "{name}" is forbidden: {why}'
    return ProblemError(403, "Forbidden", text, Details(name=name, group=group, kind=plural))


def method_not_allowed() -> ProblemError:
    text = "the server does not allow this method on the requested resource"
    return ProblemError(405, "MethodNotAllowed", text, Details())


def expired(message: str) -> ProblemError:
    return ProblemError(410, "Expired", message)
