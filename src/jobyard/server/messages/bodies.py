"""What a client sends as a body, as a value: JSON or YAML, with the fields it named twice.

Media types, syntax, and whether the object is of the kind that the path names. Whether the object
is any good is for the strategies.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from jobyard.manifest.reading import UnreadableManifest, read
from jobyard.server.call import JSON_TYPE, Call
from jobyard.server.kinds.types.misfit import misfit
from jobyard.server.messages import json_text
from jobyard.server.messages.conversion import unaliased
from jobyard.server.messages.protobuf import PROTOBUF_TYPE, ProtobufError, decoded_protobuf
from jobyard.server.problem import Cause, ProblemError, bad_request, invalid
from jobyard.server.resource import Object, ServedResource

_SHOWN_BYTES: Final = 30
_TYPES: Final = "application/json, application/yaml, application/vnd.kubernetes.protobuf"


class Body(msgspec.Struct, frozen=True):
    """A value, and a complaint about each field that is in it more than once."""

    value: Any
    repeated: tuple[str, ...] = ()


class BodyError(Exception):
    """The text is neither JSON nor YAML."""


def media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def unsupported(*types: str) -> ProblemError:
    text = "the body of the request was in an unknown format - accepted media types include: "
    return ProblemError(415, "UnsupportedMediaType", text + (", ".join(types) or _TYPES))


def object_in(call: Call, otherwise: str) -> dict[str, Any]:
    """The object that a body is; refused with this text if it is none."""
    try:
        value = body_of(call).value
    except BodyError as problem:
        raise bad_request(str(problem)) from None
    if not isinstance(value, dict):
        raise bad_request(otherwise)
    return value


def object_of(call: Call, resource: ServedResource) -> Body:
    """The object that a create or update sends, with the header that the path implies."""
    if resource.is_custom and media_type(call.content_type) == PROTOBUF_TYPE:
        raise unsupported()
    try:
        body = body_of(call)
    except BodyError as problem:
        raise _unrecognized(resource, str(problem), call.body) from None
    if not isinstance(body.value, dict):
        text = f"couldn't get version/kind; json parse error: {misfit('', body.value, 'object')}"
        raise _unrecognized(resource, text, call.body)
    for name in ("apiVersion", "kind"):
        found = body.value.get(name)
        if found is not None and not isinstance(found, str):
            text = f"couldn't get version/kind; json parse error: {misfit(name, found, 'string')}"
            raise _unrecognized(resource, text, call.body)
    return Body(headed(unaliased(body.value), resource, call.body), body.repeated)


def body_of(call: Call) -> Body:
    """The value in a body of any sort; raises BodyError, or 415 for other sorts."""
    match media_type(call.content_type) or JSON_TYPE:
        case "application/json":
            return decoded(call.body)
        case "application/yaml":
            return decoded(call.body, is_yaml=True)
        case "application/vnd.kubernetes.protobuf":
            try:
                return Body(decoded_protobuf(call.body))
            except ProtobufError as problem:
                raise BodyError(str(problem)) from None
    raise unsupported()


def _unrecognized(resource: ServedResource, why: str, body: bytes) -> ProblemError:
    shown = body[:_SHOWN_BYTES]
    is_plain = shown.startswith(b"{") or not shown
    text = (shown.decode(errors="replace") if is_plain else shown.hex()) or "<empty>"
    more = " ..." if len(body) > _SHOWN_BYTES else ""
    return bad_request(
        f"the object provided is unrecognized (must be of type {resource.kind}): {why}"
        f" ({text}{more})"
    )


def headed(value: Object, resource: ServedResource, body: bytes) -> Object:
    """The object with apiVersion and kind; Kubernetes' own kinds may leave them out."""
    api_version, kind = value.get("apiVersion") or "", value.get("kind") or ""
    if resource.is_custom:
        return _custom_headed(value, resource, body)
    wanted = resource.api_version
    group, _, version = (api_version or wanted).rpartition("/")
    if api_version and api_version != wanted:
        text = f'no kind "{kind}" is registered for version "{api_version}" in scheme'
        text += ' "pkg/runtime/scheme.go:111"'
        raise cannot_handle(kind or resource.kind, version, resource, text)
    if kind and kind != resource.kind:
        text = f"converting ({version}.{kind}) to ({group or 'core'}.{resource.kind}): unknown"
        raise cannot_handle(kind, version, resource, f"{text} conversion")
    if api_version and kind:
        return value
    return {"kind": resource.kind, "apiVersion": wanted, **_headless(value)}


def _headless(value: Object) -> Object:
    return {name: item for name, item in value.items() if name not in ("kind", "apiVersion")}


def _custom_headed(value: Object, resource: ServedResource, body: bytes) -> Object:
    kind, api_version = value.get("kind") or "", value.get("apiVersion") or ""
    if not kind:
        text = body.decode(errors="replace")
        raise _unrecognized(resource, f"Object 'Kind' is missing in '{text}'", body)
    if api_version != resource.api_version:
        raise bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version"
            f" ({resource.api_version})"
        )
    if kind != resource.kind:
        metadata = value.get("metadata")
        name = metadata.get("name", "") if isinstance(metadata, dict) else ""
        cause = Cause("FieldValueInvalid", f'Invalid value: "{kind}": must be {resource.kind}')
        raise invalid(resource.group, kind, name, (msgspec.structs.replace(cause, field="kind"),))
    return value


def cannot_handle(kind: str, version: str, resource: ServedResource, why: str) -> ProblemError:
    return bad_request(
        f'{kind} in version "{version}" cannot be handled as a {resource.kind}: {why}'
    )


def decoded(text: bytes, *, is_yaml: bool = False) -> Body:
    """The value of a JSON or YAML text; raises BodyError."""
    if is_yaml and not text.lstrip().startswith((b"{", b"[")):
        return _from_yaml(text)
    try:
        plain = json_text.cleaned(text)
        try:
            return Body(json_text.decoded(plain, _DECODER))
        except _RepeatedError:
            value = json_text.decoded(plain, _LENIENT_DECODER)
    except UnicodeDecodeError:
        raise BodyError("invalid UTF-8") from None
    except json.JSONDecodeError as problem:
        fault = json_text.fault(problem)
        raise BodyError(f"couldn't get version/kind; json parse error: {fault}") from None
    except json_text.TooDeepError as problem:
        raise BodyError(f"couldn't get version/kind; json parse error: {problem}") from None
    except json_text.NoValueError as problem:
        raise BodyError(str(problem)) from None
    pairs = json_text.decoded(plain, _PAIRS_DECODER)
    paths = dict.fromkeys(_repeated(pairs, ""))
    return Body(value, tuple(f'duplicate field "{path}"' for path in paths))


class _RepeatedError(Exception):
    """A name comes twice in one object; the text has to be read with more care."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _RepeatedError
    return made


class _AsPairs(list[tuple[str, Any]]):
    """The members of a JSON object with nothing lost, told apart from a list."""


_DECODER: Final = json_text.decoder(_unique)
_LENIENT_DECODER: Final = json_text.decoder()
_PAIRS_DECODER: Final = json_text.decoder(_AsPairs)


def _repeated(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, _AsPairs):
        seen = set()
        for name, item in value:
            inner = f"{path}.{name}" if path else name
            if name in seen:
                yield inner
            seen.add(name)
            yield from _repeated(item, inner)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _repeated(item, f"{path}[{index}]")


def _from_yaml(text: bytes) -> Body:
    try:
        documents = read(text.decode(), "body")
    except UnicodeDecodeError:
        raise BodyError("yaml: invalid leading UTF-8 octet") from None
    except UnreadableManifest as problem:
        raise BodyError(f"yaml: line {problem.line}: {problem.what}") from None
    if not documents:
        return Body({})
    first = documents[0]
    repeated = tuple(
        f'line {found.line}: key "{found.path[-1]}" already set in map' for found in first.repeated
    )
    return Body(first.value, repeated)
