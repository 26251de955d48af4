"""Which sort of patch a body is, and which sorts a resource takes.

The content type decides; parameters after `;` don't count. Answers to types that aren't taken
are those of a real server.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jobyard.server.patching.bodies import json_patch_body, merge_patch_body, strategic_body
from jobyard.server.patching.json_patch import json_patched
from jobyard.server.patching.merge_patch import merge_patched
from jobyard.server.patching.strategic import strategic_patched
from jobyard.server.problem import Details, ProblemError
from jobyard.server.resource import JSONSchema, Object, ServedResource

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"


def accepted_types(resource: ServedResource) -> tuple[str, ...]:
    """The content types that a patch of this resource may have, in the order they are told."""
    if resource.is_custom:
        return JSON_PATCH, MERGE_PATCH, APPLY_PATCH
    return JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_PATCH


def unsupported_media_type(resource: ServedResource) -> ProblemError:
    """The answer to a type that isn't taken; for Kubernetes' own kinds the router gives it."""
    reason = "UnsupportedMediaType"
    if not resource.is_custom:
        return ProblemError(415, reason, "415: Unsupported Media Type", Details())
    types = ", ".join(accepted_types(resource))
    text = "the body of the request was in an unknown format - accepted media types include"
    return ProblemError(415, reason, f"{text}: {types}")


def patched(
    old: Object,
    patch: bytes,
    content_type: str,
    resource: ServedResource,
    resolve: Callable[[JSONSchema], JSONSchema],
) -> Object:
    """The object that the patch makes of `old`; raises ProblemError."""
    sort = content_type.partition(";")[0]
    if sort not in accepted_types(resource):
        raise unsupported_media_type(resource)
    match sort:
        case "application/json-patch+json":
            return json_patched(old, json_patch_body(patch))
        case "application/merge-patch+json":
            return merge_patched(old, merge_patch_body(patch))
        case "application/strategic-merge-patch+json":
            return strategic_patched(old, strategic_body(patch), resource, resolve)
    # An apply patch has no old object to be put on; see `managed_fields.applied`.
    raise unsupported_media_type(resource)
