"""What a patch makes of an object: JSON patch, merge patch, strategic merge patch.

`patched` is pure: it never changes the object it is given, and the result shares what the patch
didn't touch, which is what makes tracking cheap. Server-side apply is in `managed_fields`.
Whether the result is a valid object is for the strategy of its kind to say.
"""

from __future__ import annotations

from jobyard.server.patching.dispatch import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    accepted_types,
    patched,
    unsupported_media_type,
)

__all__ = [
    "APPLY_PATCH",
    "JSON_PATCH",
    "MERGE_PATCH",
    "STRATEGIC_MERGE_PATCH",
    "accepted_types",
    "patched",
    "unsupported_media_type",
]
