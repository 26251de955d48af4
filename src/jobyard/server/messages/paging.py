"""Which moment a list or watch is about, and which part of it is wanted.

Reads limit, continue, resourceVersion and their companions from the query, with the refusals of
a real server, and makes the tokens that lead to the next page. A token says the version of the
first page, so that all pages show one moment.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Final

import msgspec

from jobyard.server.call import Call
from jobyard.server.kinds.types.go_numbers import NotANumberError, parsed_int, parsed_uint
from jobyard.server.problem import Cause, Details, ProblemError, bad_request, expired, invalid

_TOKEN_VERSION: Final = "meta.k8s.io/v1"  # noqa: S105 - the version of a token, no secret
# The version of a token that goes on with whatever is there now.
INCONSISTENT: Final = -1
_MATCHES: Final = ("Exact", "NotOlderThan", "")


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Which objects of a list are wanted."""

    # None: what is there now.
    version: int | None = None
    limit: int = 0
    # The key after which the page begins.
    after: str = ""
    # Not a page of one moment: the token was too old for that.
    is_inconsistent: bool = False


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """Where a watch begins."""

    # None: with all that is there as ADDED. 0: with what comes next.
    since: int | None
    # Whether a bookmark tells the end of what was there.
    marks_start: bool


def list_options_problem(
    field: str, text: str, reason: str = "FieldValueForbidden"
) -> ProblemError:
    return options_problem("ListOptions", field, text, reason)


def options_problem(options: str, field: str, text: str, reason: str) -> ProblemError:
    """A parameter that isn't allowed, as a fault of the options object that it belongs to."""
    return invalid("meta.k8s.io", options, "", (Cause(reason, text, field),))


def integer(call: Call, name: str) -> int | None:
    text = call.option(name)
    if not text:
        return None
    try:
        return parsed_int(text)
    except NotANumberError as fault:
        raise bad_request(str(fault)) from None


def version_of(text: str) -> int:
    """A resourceVersion; raises the 500 that a real server gives for other texts."""
    try:
        return parsed_uint(text)
    except NotANumberError as fault:
        told = f'resourceVersion: Invalid value: "{text}": {fault}'
        raise ProblemError(500, "", told) from None


def page_of(call: Call, current: int) -> Page:
    limit = max(integer(call, "limit") or 0, 0)
    integer(call, "timeoutSeconds")
    version_text, match = call.option("resourceVersion"), call.option("resourceVersionMatch")
    token = call.option("continue")
    if call.option("sendInitialEvents"):
        text = "Forbidden: sendInitialEvents is forbidden for list"
        raise list_options_problem("sendInitialEvents", text)
    _check_match(match, version_text, token)
    if token:
        if version_text and version_text != "0":
            text = "specifying resource version is not allowed when using continue"
            raise bad_request(text)
        version, after = _read_token(token)
        if version == INCONSISTENT:
            return Page(limit=limit, after=after, is_inconsistent=True)
        return Page(version=version, limit=limit, after=after)
    if not version_text:
        return Page(limit=limit)
    try:
        version = parsed_uint(version_text)
    except NotANumberError as fault:
        text = f'resourceVersion: Invalid value: "{version_text}": {fault}'
        raise bad_request(f"invalid resource version: {text}") from None
    if version == 0:
        # From the cache, which doesn't page.
        return Page()
    check_not_ahead(version, current)
    is_exact = match == "Exact" or (limit > 0 and not match)
    return Page(version=version if is_exact else None, limit=limit)


def _check_match(match: str, version: str, token: str) -> None:
    field = "resourceVersionMatch"
    if not match:
        return
    if not version:
        text = f"Forbidden: {field} is forbidden unless resourceVersion is provided"
        raise list_options_problem(field, text)
    if token:
        text = f"Forbidden: {field} is forbidden when continue is provided"
        raise list_options_problem(field, text)
    if match not in _MATCHES:
        listed = ", ".join(f'"{known}"' for known in _MATCHES)
        text = f'Unsupported value: "{match}": supported values: {listed}'
        raise list_options_problem(field, text, "FieldValueNotSupported")
    if match == "Exact" and version == "0":
        text = f'Forbidden: {field} "exact" is forbidden for resourceVersion "0"'
        raise list_options_problem(field, text)


def check_not_ahead(version: int, current: int) -> None:
    if version <= current:
        return
    text = f"Timeout: Too large resource version: {version}, current: {current}"
    cause = Cause("ResourceVersionTooLarge", "Too large resource version")
    raise ProblemError(504, "Timeout", text, Details(causes=(cause,), retry_after_seconds=1))


def moment_of_watch(call: Call) -> Moment:
    match, initial = call.option("resourceVersionMatch"), call.option("sendInitialEvents")
    field = "resourceVersionMatch"
    if initial and match != "NotOlderThan":
        text = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        causes = [Cause("FieldValueForbidden", text, field)]
        if match:
            text = f'Unsupported value: "{match}": supported values: "NotOlderThan"'
            causes.append(Cause("FieldValueNotSupported", text, field))
        raise invalid("meta.k8s.io", "ListOptions", "", causes)
    if match and not initial:
        text = f"Forbidden: {field} is forbidden for watch unless sendInitialEvents is provided"
        raise list_options_problem(field, text)
    text = call.option("resourceVersion")
    since = version_of(text) if text else 0
    if initial:
        everything = call.flag("sendInitialEvents")
        return Moment(since=None if everything else since, marks_start=everything)
    return Moment(since=since or None, marks_start=since == 0)


def token_of(version: int, after: str, prefix: str) -> str:
    """Where the next page begins: right behind the last key of this one."""
    start = "/" + after.removeprefix(prefix) + "\0"
    content = {"v": _TOKEN_VERSION, "rv": version, "start": start}
    text = json.dumps(content, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def _read_token(token: str) -> tuple[int, str]:
    wrong = re.search(r"[^A-Za-z0-9_-]", token)
    if wrong is not None:
        text = f"continue key is not valid: illegal base64 data at input byte {wrong.start()}"
        raise bad_request(f"invalid continue token: {text}")
    try:
        raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode("latin-1")
        content = json.loads(raw)
        version, start = content["rv"], content["start"]
        if not isinstance(version, int) or not isinstance(start, str):
            raise ValueError("not a token of this server")
    except json.JSONDecodeError as problem:
        char = f"invalid character '{problem.doc[problem.pos : problem.pos + 1]}'"
        text = f"continue key is not valid: {char} looking for beginning of value"
        raise bad_request(f"invalid continue token: {text}") from None
    except (ValueError, KeyError, TypeError, binascii.Error) as problem:
        text = f"continue key is not valid: {problem}"
        raise bad_request(f"invalid continue token: {text}") from None
    if content.get("v") != _TOKEN_VERSION or not start.startswith("/"):
        text = f'server does not recognize this encoded version "{content.get("v")}"'
        raise bad_request(f"invalid continue token: continue key is not valid: {text}")
    return version, start[1:].rstrip("\0")


def too_old_list() -> ProblemError:
    return expired("The resourceVersion for the provided list is too old.")


def too_old_token(token: str) -> ProblemError:
    """A refusal with a token that leads on without a promise."""
    _, after = _read_token(token)
    problem = _ContinueError(
        410,
        "Expired",
        "The provided continue parameter is too old to display a consistent list result. You can"
        " start a new list without the continue parameter, or use the continue token in this"
        " response to retrieve the remainder of the results. Continuing with the provided token"
        " results in an inconsistent list - objects that were created, modified, or deleted"
        " between the time the first chunk was returned and now may show up in the list.",
    )
    problem.token = token_of(INCONSISTENT, after, "")
    return problem


class _ContinueError(ProblemError):
    """Carries the token that goes on anyway."""

    token = ""

    @property
    def status(self) -> dict[str, object]:
        return {**super().status, "metadata": {"continue": self.token}}
