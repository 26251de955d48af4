"""The bodies of patches as values, and what is said about bodies that aren't any.

Texts follow Go's decoder, whose names of types a real server lets through. Where the JSON
itself is broken our text tells where; the code and the beginning of the message are the same.
"""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from jobyard.server.kinds.types.go_words import go_noun
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
        raise bad_request(f"{prefix}{_go_fault(patch)}")
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


def _go_fault(patch: bytes) -> str:
    """What Go's decoder says about broken JSON, as near as the place of the fault allows."""
    text = patch.decode(errors="replace")
    try:
        json.loads(text, parse_int=str)
    except json.JSONDecodeError as problem:
        if problem.pos >= len(text.rstrip()):
            return "unexpected end of JSON input"
        char = text[problem.pos]
        shown = "'\\''" if char == "'" else f"'{char}'"
        if problem.msg.startswith("Expecting property name"):
            where = "looking for beginning of object key string"
        elif problem.msg.startswith("Extra data"):
            where = "after top-level value"
        elif problem.msg.startswith("Expecting ':'"):
            where = "after object key"
        elif problem.msg.startswith("Expecting ','"):
            inside = "object key:value pair" if _in_object(text, problem.pos) else "array element"
            where = f"after {inside}"
        else:
            where = "looking for beginning of value"
        return f"invalid character {shown} {where}"
    return "invalid character in string literal"


def _in_object(text: str, pos: int) -> bool:
    """Whether a place in broken JSON is directly inside of an object."""
    opened: list[str] = []
    quoted = escaped = False
    for char in text[:pos]:
        if quoted:
            quoted = escaped or char != '"'
            escaped = not escaped and char == "\\"
        elif char == '"':
            quoted = True
        elif char in "[{":
            opened.append(char)
        elif char in "]}" and opened:
            opened.pop()
    return bool(opened) and opened[-1] == "{"


def _wrong_type(prefix: str, value: Any, wanted: str) -> ProblemError:
    return bad_request(f"{prefix}json: cannot unmarshal {go_noun(value)} into Go {wanted}")


def json_patch_body(patch: bytes) -> list[Body | None]:
    """The operations of a JSON patch; raises ProblemError."""
    operations = _decoded(patch, _DECODING)
    if operations is None:
        return []
    if not isinstance(operations, list):
        raise _wrong_type(_DECODING, operations, "value of type []handlers.jsonPatchOp")
    for operation in operations:
        if operation is None:
            continue
        if not isinstance(operation, dict):
            raise _wrong_type(_DECODING, operation, "value of type handlers.jsonPatchOp")
        for name in _OPERATION_TEXTS:
            text = operation.get(name)
            if text is not None and not isinstance(text, str):
                wanted = f"struct field jsonPatchOp.{name} of type string"
                raise _wrong_type(_DECODING, text, wanted)
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
        raise _wrong_type(_DECODING, body, "value of type map[string]interface {}")
    return body


def strategic_body(patch: bytes) -> Body:
    """A strategic merge patch; raises ProblemError."""
    body = _decoded(patch, "")
    if body is None:
        return {}
    if not isinstance(body, dict):
        raise _wrong_type("", body, "value of type map[string]interface {}")
    return body
