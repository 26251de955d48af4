"""The bodies of patches as values, and what is said about bodies that aren't any.

Codes and reasons are those of a real server, the texts say what is wrong and where.
"""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from jobyard.server.kinds.types.misfit import misfit
from jobyard.server.messages import json_text
from jobyard.server.problem import ProblemError, bad_request

OPERATIONS_MAX: Final = 10_000
_OPERATION_TEXTS: Final = ("op", "path", "from")
_DECODING: Final = "error decoding patch: "

Body = dict[str, Any]


# Slower than the usual one, and takes what Go takes: odd characters, and no odd numbers.
_DECODER: Final = json_text.decoder()


def _decoded(patch: bytes, prefix: str) -> Any:
    try:
        value = _usually_decoded(patch)
    except json_text.NoValueError as problem:
        raise bad_request(f"{prefix}{problem}") from None
    if value is msgspec.UNSET:
        raise bad_request(f"{prefix}{_fault(patch)}")
    return value


def _usually_decoded(patch: bytes) -> Any:
    """UNSET for what is no JSON; raises NoValueError."""
    try:
        if json_text.has_long_number(patch):
            return _carefully_decoded(patch)
        value = msgspec.json.decode(patch)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _carefully_decoded(patch)
    if not json_text.is_flat(patch):
        json_text.check_depth(value)
    return value


def _carefully_decoded(patch: bytes) -> Any:
    try:
        return json_text.decoded(json_text.cleaned(patch), _DECODER)
    except (json.JSONDecodeError, UnicodeDecodeError):
        return msgspec.UNSET


def _fault(patch: bytes) -> str:
    try:
        json.loads(patch.decode(errors="replace"), parse_int=str)
    except json.JSONDecodeError as problem:
        return json_text.fault(problem)
    return "invalid JSON: a control character in a string"


def _wrong_type(prefix: str, where: str, value: Any, wanted: str) -> ProblemError:
    return bad_request(prefix + misfit(where, value, wanted))


def json_patch_body(patch: bytes) -> list[Body | None]:
    """The operations of a JSON patch; raises ProblemError."""
    operations = _decoded(patch, _DECODING)
    if operations is None:
        return []
    if not isinstance(operations, list):
        raise _wrong_type(_DECODING, "the patch", operations, "array")
    for operation in operations:
        if operation is None:
            continue
        if not isinstance(operation, dict):
            raise _wrong_type(_DECODING, "an operation", operation, "object")
        for name in _OPERATION_TEXTS:
            text = operation.get(name)
            if text is not None and not isinstance(text, str):
                raise _wrong_type(_DECODING, f"{name} of an operation", text, "string")
    if len(operations) > OPERATIONS_MAX:
        raise ProblemError(
            413,
            "RequestEntityTooLarge",
            "Request entity too large: The allowed maximum operations in a JSON patch is"
            f" {OPERATIONS_MAX}, got {len(operations)}",
        )
    return operations


def merge_patch_body(patch: bytes) -> Body:
    """A merge patch; raises ProblemError."""
    body = _decoded(patch, _DECODING)
    if body is None:
        raise bad_request("Invalid JSON Patch")
    if not isinstance(body, dict):
        raise _wrong_type(_DECODING, "the patch", body, "object")
    return body


def strategic_body(patch: bytes) -> Body:
    """A strategic merge patch; raises ProblemError."""
    body = _decoded(patch, "")
    if body is None:
        return {}
    if not isinstance(body, dict):
        raise _wrong_type("", "the patch", body, "object")
    return body
