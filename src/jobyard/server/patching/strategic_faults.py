"""What is said about strategic merge patches that can't be merged.

A real server tells some apart as bad requests; most it lets through as errors of its own,
without a reason, and so do we.
"""

from __future__ import annotations

from typing import Any

from jobyard.server.apply.go_text import printed
from jobyard.server.problem import Details, ProblemError, bad_request


def plain_fault(message: str) -> ProblemError:
    return ProblemError(500, "", message)


def bad_format(of: str) -> ProblemError:
    return bad_request(f"invalid patch format of {of}")


def list_of_lists() -> ProblemError:
    text = "the server rejected our request due to an error in our request"
    return ProblemError(422, "Invalid", text, Details())


def no_merge_key(item: dict[str, Any], key: str) -> ProblemError:
    return plain_fault(f"map: {printed(item)} does not contain declared merge key: {key}")


def unknown_directive(directive: Any, patch: dict[str, Any]) -> ProblemError:
    shown = directive if isinstance(directive, str) else printed(directive)
    return plain_fault(f"unknown patch type: {shown} in map: {printed(patch)}")


def wrong_type(wanted: str, found: str) -> ProblemError:
    return plain_fault(f"expected a {wanted}, but received a {found}")
