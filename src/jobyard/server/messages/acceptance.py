"""What a client takes, by its Accept header: the first of its wishes that we can grant.

Decides between media types only; what they hold is the business of who asks. Protobuf is never
granted, so clients that prefer it fall back to the JSON they also name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import msgspec

from jobyard.numerals import decimal_number
from jobyard.server.call import JSON_TYPE, Call, Reply
from jobyard.server.problem import Details, ProblemError

_TYPES: Final = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
# A client sends the same few with every request.
_HEADERS_KEPT: Final = 64


class Wish(msgspec.Struct, frozen=True):
    """One entry of an Accept header: a media type with its parameters, but its weight."""

    type: str
    parameters: dict[str, str]

    @property
    def is_json(self) -> bool:
        return self.type in (JSON_TYPE, "application/*", "*/*")


@lru_cache(_HEADERS_KEPT)
def wishes(accept: str) -> tuple[Wish, ...]:
    """All entries, the dearest first; no header at all means anything."""
    weighed = sorted(_entries(accept or "*/*"), key=lambda entry: -entry[0])
    return tuple(wish for weight, wish in weighed if weight > 0)


def _entries(accept: str) -> Iterator[tuple[float, Wish]]:
    for entry in accept.split(","):
        type_, *pairs = (part.strip() for part in entry.split(";"))
        parameters = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
        yield _weight(parameters.pop("q", "1")), Wish(type_.lower(), parameters)


def _weight(text: str) -> float:
    weight = decimal_number(text)
    return 1.0 if weight is None else weight


def not_acceptable(*, is_routed: bool = False) -> ProblemError:
    """What discovery says to who takes no JSON; on a real server some paths say it otherwise."""
    if is_routed:
        text = f"406: Not Acceptable\n\nAvailable representations: {_TYPES}"
        return ProblemError(406, "NotAcceptable", text, Details())
    text = f"only the following media types are accepted: {_TYPES}"
    return ProblemError(406, "NotAcceptable", text)


def require_json(accept: str, *, is_routed: bool = False) -> None:
    """Refuse a client that doesn't take JSON."""
    if not any(wish.is_json for wish in wishes(accept)):
        raise not_acceptable(is_routed=is_routed)


def tagged(
    call: Call, body: bytes, *, content_type: str = JSON_TYPE, fingerprint: str = ""
) -> Reply:
    """An answer that clients may keep: with its `ETag`, and 304 for those that have it already."""
    tag = f'"{fingerprint or hashlib.sha512(body).hexdigest().upper()}"'
    headers = (("ETag", tag), ("Vary", "Accept"), ("Cache-Control", "public"))
    if tag in (part.strip() for part in call.if_none_match.split(",")):
        return Reply(status=304, body=b"", content_type=content_type, headers=headers)
    return Reply(status=200, body=body, content_type=content_type, headers=headers)
